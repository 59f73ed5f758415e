#!/bin/busybox sh
# The first process of the emulated machine: finds the disk and hands over to its /sbin/init.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do
    /bin/busybox insmod "/modules/$module.ko"
done </modules/order
/bin/busybox mount -t ext4 /dev/vda /disk
/bin/busybox umount /proc
/bin/busybox mount --move /dev /disk/dev
exec /bin/busybox switch_root /disk /sbin/init
