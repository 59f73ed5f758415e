#!/bin/sh
# Usage: install-deps.sh [build] [demo] [lint] [aarch64] [vm]
#
# Installs the distribution's packages that are missing, and nothing else; asks for nothing when all
# are there. Without a group: build, which is what `make` and `make test` need.
#   demo   what fetches the demonstration's model
#   lint   what `make lint` and `make fuzz` need
#   aarch64  what `make ARCH=aarch64` and `make test-aarch64` need on another machine: the cross
#            compiler, an emulator, and the libraries of that architecture beside the machine's own
#   vm     what `make vm-test` needs: an emulated machine and what its disk is made with
# NO_INSTALL=1 forbids installing: what is missing is named and the exit status is 1.
set -eu

# group  Debian 12            Ubuntu 24.04 (untested)
packages='
build   gcc                   gcc
build   libc6-dev             libc6-dev
build   make                  make
build   libsqlite3-dev        libsqlite3-dev
build   libcjson-dev          libcjson-dev
build   uuid-dev              uuid-dev
build   libpcre2-dev          libpcre2-dev
build   libmd-dev             libmd-dev
build   libcurl4-openssl-dev  libcurl4-openssl-dev
build   liburing-dev          liburing-dev
demo    python3               python3
demo    python3-venv          python3-venv
demo    ca-certificates       ca-certificates
lint    clang-format          clang-format
lint    clang-tidy            clang-tidy
lint    cppcheck              cppcheck
lint    python3               python3
lint    clang                 clang
lint    libclang-rt-14-dev    libclang-rt-18-dev
aarch64 make                  make
aarch64 gcc-aarch64-linux-gnu gcc-aarch64-linux-gnu
aarch64 qemu-user             qemu-user
aarch64 libgomp1:arm64        libgomp1:arm64
aarch64 libsqlite3-dev:arm64  libsqlite3-dev:arm64
aarch64 libcjson-dev:arm64    libcjson-dev:arm64
aarch64 uuid-dev:arm64        uuid-dev:arm64
aarch64 libpcre2-dev:arm64    libpcre2-dev:arm64
aarch64 libmd-dev:arm64       libmd-dev:arm64
aarch64 libcurl4-openssl-dev:arm64 libcurl4-openssl-dev:arm64
aarch64 liburing-dev:arm64    liburing-dev:arm64
vm      qemu-system-x86       qemu-system-x86
vm      busybox-static        busybox-static
vm      binutils              binutils
vm      cpio                  cpio
vm      e2fsprogs             e2fsprogs
vm      mmdebstrap            mmdebstrap
vm      fakeroot              fakeroot
'

[ $# -gt 0 ] || set -- build
for group; do
    case $group in
    build | demo | lint | aarch64 | vm) ;;
    *)
        echo "install-deps.sh: unknown group '$group' (build, demo, lint, aarch64, vm)" >&2
        exit 2
        ;;
    esac
done

column=2
if [ -r /etc/os-release ] && grep -q '^ID=ubuntu' /etc/os-release; then
    column=3
fi
wanted=$(for group; do
    printf '%s' "$packages" | awk -v g="$group" -v c="$column" '$1 == g { print $c }'
done | sort -u)

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    echo "install-deps.sh: no apt here; under Debian 12's names these are needed:" $wanted >&2
    exit 0
fi

# A library may be there for several architectures: without a name the machine's own is meant.
native=$(dpkg --print-architecture)
is_installed() {
    case $1 in
    *:*) of=${1#*:} ;;
    *) of=$native ;;
    esac
    dpkg-query -W -f='${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null |
        grep -qxE "($of|all) installed"
}

missing=
for package in $wanted; do
    is_installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "${NO_INSTALL:-0}" != 0 ]; then
    echo "install-deps.sh: missing, and NO_INSTALL is set:$missing" >&2
    exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "install-deps.sh: missing, and neither root nor sudo to install:$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "installing:$missing" >&2
case $missing in
*:arm64*) $as_root dpkg --add-architecture arm64 ;;
esac
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y update >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $missing >&2
