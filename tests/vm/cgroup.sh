#!/bin/sh
# cgroup.sh [SUBSTRING]: control groups of the second version as they are, with the kernel's figures of pressure.
#
# Boots an emulated machine with Debian's cloud kernel, busybox and the programs of build/release, runs the
# cases tests/vm/cgroup/*.sh in it and ends with "N passed, N failed, N skipped". It takes no rights of root and
# no KVM. Where the emulator or the kernel cannot be had it says so and ends well. VERBOSE=1 shows what all say.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/machine.sh"
need_tools qemu-system-x86_64 busybox cpio mkfs.ext4 strip
need_kernel

disk=$scratch/disk
mkdir -p "$disk/bin" "$disk/sbin" "$disk/proc" "$disk/sys" "$disk/dev" "$disk/tmp"
for program in $(busybox --list); do
    ln -s busybox "$disk/bin/$program"
done
# Busybox's dd cannot let go of page cache, and its shell knows no dd but that.
for program in busybox sh dd; do
    rm "$disk/bin/$program"
    cp -L "$(command -v "$program")" "$disk/bin/"
done
copy_libraries "$disk" "$disk/bin/sh" "$disk/bin/dd"
copy_programs "$disk"
install -m 755 "$here/init.sh" "$disk/sbin/init"
copy_cases "$disk" cgroup "${1:-}"
make_models "$disk"

make_disk "$scratch/disk.img" "$disk" 900M
boot 480 "$scratch/disk.img" "${VERBOSE:+VERBOSE=1}"
verdict
