#!/bin/sh
# The first process of the cgroup suite's disk: mounts what there is to mount, runs the cases and ends the machine.
export PATH=/src/build/release:/src/build/release/tools:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 group /sys/fs/cgroup
echo '+memory +io +cpu +pids' >/sys/fs/cgroup/cgroup.subtree_control
stty -F /dev/ttyS1 raw
sh /vm/run.sh </dev/null >/dev/ttyS1 2>&1
poweroff -f
