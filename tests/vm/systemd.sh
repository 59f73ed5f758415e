#!/bin/sh
# systemd.sh [SUBSTRING]: the service, its timer and scopes under systemd as it is.
#
# As cgroup.sh, but the disk is a small Debian of this machine's release, with systemd as its first process and
# nocturne as `make install` puts it there; the cases are tests/vm/systemd/*.sh. The first run fetches the
# packages, which takes a minute. Making the disk takes fakeroot where the user is not root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/machine.sh"
need_tools qemu-system-x86_64 busybox cpio mkfs.ext4 strip mmdebstrap
need_kernel

# What the disk has beside our own; what the programs are linked with is copied.
need_debian() {
    release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") ||
        skip_all "the programs' libraries are not Debian's"
    debian=$cache/$release-systemd-dbus.tar
    [ -f "$debian" ] || fetch_debian || skip_all "no Debian $release can be made"
}

fetch_debian() {
    echo "fetching Debian $release"
    mkdir -p "$cache"
    mmdebstrap -q --variant=minbase --include=systemd-sysv,dbus --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$release" "$cache/$$.tar" >"$scratch/fetch.log" 2>&1 || { cat "$scratch/fetch.log" && return 1; }
    mv "$cache/$$.tar" "$debian"
}

fill_disk() {
    mkdir "$disk"
    tar -C "$disk" -xf "$debian"
    rm -rf "$disk"/var/cache/apt/* "$disk"/var/lib/apt/lists/*
    # A machine that knows its name and has nothing of its own to do.
    echo 0123456789abcdef0123456789abcdef >"$disk/etc/machine-id"
    rm -f "$disk"/etc/systemd/system/timers.target.wants/*
    make -s -C "$root" install DESTDIR="$disk" PREFIX=/usr
    copy_programs "$disk"
    copy_cases "$disk" systemd "$1"
    make_models "$disk"
    cp "$here/vm-cases.service" "$disk/etc/systemd/system/"
}

if [ "${1:-}" = --fill ]; then # once more, as somebody who may own the disk's files
    disk=$2/disk debian=$3
    fill_disk "$4"
    make_disk "$2/disk.img" "$disk" 1200M
    exit
fi
need_debian
as_root=
[ "$(id -u)" = 0 ] || { need_tools fakeroot && as_root=fakeroot; }
$as_root sh "$0" --fill "$scratch" "$debian" "${1:-}"
boot 800 "$scratch/disk.img" "systemd.unit=vm-cases.service systemd.show_status=0 ${VERBOSE:+systemd.setenv=VERBOSE=1}"
verdict
