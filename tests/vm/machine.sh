# What both suites of tests/vm are made of: a kernel, a first file system, a disk, and the machine that is emulated.
# Read by cgroup.sh and systemd.sh, which say `set -eu` and have $here.
#
# Nothing needs root, loop devices or a network card, and nothing of the host can be changed from inside. What
# is fetched is kept below $cache; the disk lives in $scratch and goes with it.

root=$(cd "$here/../.." && pwd)
build=$root/build/release
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nocturne/vm
modules='drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_modern_dev
    drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci drivers/block/virtio_blk'

# Ends the suite without a verdict: what it needs cannot be had here.
skip_all() {
    echo "SKIPPED all: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

need_tools() { # PROGRAM...
    [ "$(uname -m)" = x86_64 ] || skip_all 'the machine inside would be of another architecture than the programs'
    for program; do
        command -v "$program" >/dev/null || skip_all "there is no $program (tools/install-deps.sh vm)"
    done
}

# The newest kernel of linux-image-cloud-amd64, unpacked and not installed: its folder in $kernel. One that
# was fetched before will do where apt has nothing newer, or nothing at all.
need_kernel() {
    package=$(LC_ALL=C apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: //p' | head -1)
    [ -n "$package" ] || package=$(ls -t "$cache" 2>/dev/null | grep '^linux-image-' | head -1)
    [ -n "$package" ] || skip_all 'apt knows no linux-image-cloud-amd64 (apt-get update?)'
    kernel=$cache/$package
    [ -d "$kernel" ] || fetch_kernel || skip_all "the kernel $package cannot be fetched"
}

fetch_kernel() {
    echo "fetching $package"
    rm -rf "$kernel.$$"
    mkdir -p "$kernel.$$/all"
    (cd "$kernel.$$" && apt-get -q download "$package" && dpkg-deb -x ./*.deb all) >"$scratch/fetch.log" 2>&1 ||
        { cat "$scratch/fetch.log" && return 1; }
    mkdir "$kernel.$$/modules"
    for module in $modules; do
        cp "$kernel.$$"/all/lib/modules/*/kernel/"$module.ko" "$kernel.$$/modules/"
    done
    cp "$kernel.$$"/all/boot/vmlinuz-* "$kernel.$$/vmlinuz"
    rm -rf "$kernel.$$/all" "$kernel.$$"/*.deb
    mv "$kernel.$$" "$kernel"
}

# The first file system: it loads what the disk needs and hands over to the program that the disk starts with.
make_initramfs() { # OUT
    folder=$scratch/initramfs
    mkdir -p "$folder/bin" "$folder/modules" "$folder/proc" "$folder/dev" "$folder/disk"
    cp "$(command -v busybox)" "$folder/bin/busybox"
    cp "$kernel"/modules/*.ko "$folder/modules/"
    for module in $modules; do
        basename "$module"
    done >"$folder/modules/order"
    cp "$root/tests/vm/first.sh" "$folder/init"
    chmod 755 "$folder/init"
    (cd "$folder" && find . | cpio -o -H newc --quiet) >"$1"
}

# The libraries that programs are linked with, each where it is on this machine, unless the disk has its own.
copy_libraries() { # FOLDER PROGRAM...
    into=$1
    shift
    ldd "$@" | sed -nE 's/^[^/]*(\/[^ :]+) \(.*/\1/p' | sort -u | while read -r library; do
        [ ! -e "$into$library" ] && [ ! -L "$into$library" ] || continue # one could lead out of the folder
        mkdir -p "$into$(dirname "$library")"
        cp -L "$library" "$into$library"
    done
}

# The programs that are tested, as in the tree: the test runner finds its way from its own place.
copy_programs() { # FOLDER
    mkdir -p "$1/src/build/release/tests" "$1/src/build/release/tools"
    for program in nocturne tests/run tools/mkmodel; do
        strip -o "$1/src/build/release/$program" "$build/$program"
    done
    copy_libraries "$1" "$build/nocturne" "$build/tests/run" "$build/tools/mkmodel"
    cp -L "$(gcc -print-file-name=libgcc_s.so.1)" "$1/lib/" # glibc loads it when a thread of a pool ends
}

copy_cases() { # FOLDER SUITE SUBSTRING
    mkdir -p "$1/vm/cases"
    cp "$here/lib.sh" "$here/service.sh" "$here/run.sh" "$1/vm/"
    cp "$here/$2"/*"$3"*.sh "$1/vm/cases/"
}

# Random weights: a small model, and one with experts that is larger than the groups it has to live in.
make_models() { # FOLDER
    "$build/tools/mkmodel" --arch llama --layers 2 --embd 64 --heads 4 --ff 128 --ctx 512 --vocab 512 \
        -o "$1/vm/small.gguf" >"$scratch/mkmodel.log"
    "$build/tools/mkmodel" --arch qwen3moe --layers 4 --experts 96 --used 4 --expert-ff 384 --embd 256 --type F16 \
        --ctx 512 --vocab 600 -o "$1/vm/experts.gguf" >"$scratch/mkmodel.log"
}

make_disk() { # OUT FOLDER SIZE
    mkfs.ext4 -q -E root_owner=0:0 -d "$2" "$1" "$3" >"$scratch/mkfs.log" 2>&1 || { cat "$scratch/mkfs.log" && return 1; }
}

# Boots the disk. What the cases report comes on the second serial line and is shown as it comes; the first
# one is the console, kept in $scratch/console. A panic ends the machine, and no end means no "end" line.
boot() { # SECONDS DISK WORDS FOR THE KERNEL
    make_initramfs "$scratch/initramfs.cpio"
    timeout -k 5 "$1" qemu-system-x86_64 -M pc -accel tcg,thread=multi -cpu max -smp 2 -m 2G -no-reboot -nodefaults \
        -display none -kernel "$kernel/vmlinuz" -initrd "$scratch/initramfs.cpio" \
        -append "console=ttyS0 quiet loglevel=1 panic=-1 psi=1 $3" \
        -drive "file=$2,format=raw,if=virtio,cache=unsafe" \
        -serial "file:$scratch/console" -serial stdio </dev/null 2>"$scratch/qemu.log" |
        tr -d '\r' | tee "$scratch/report" | sed -u '/^end$/d'
}

# Counts what was reported, and fails unless all is well and the end was reached.
verdict() {
    passed=$(grep -c '^passed ' "$scratch/report") || :
    failed=$(grep -c '^FAILED ' "$scratch/report") || :
    skipped=$(grep -c '^skipped ' "$scratch/report") || :
    if ! grep -qx end "$scratch/report"; then
        echo "FAILED the machine: it did not come to its end in time; the end of its console:"
        cat "$scratch/qemu.log"
        tail -n 40 "$scratch/console" 2>/dev/null || :
        failed=$((failed + 1))
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ] && [ "$passed" != 0 ]
}
