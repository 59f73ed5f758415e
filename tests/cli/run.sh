#!/bin/sh
# run.sh [--bless] [SUBSTRING]: command-line transcripts.
#
# Each case NAME.sh runs in an empty folder with the program on its PATH and lib.sh read first; what it
# prints (ids, times and durations replaced by words) must be NAME.expected. --bless writes that file.
set -u
bless=
if [ "${1:-}" = --bless ]; then
    bless=1
    shift
fi
wanted=${1:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
flavour=${FLAVOUR:-release}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

mkdir "$scratch/bin"
ln -s "$root/build/$flavour/nocturne" "$scratch/bin/nocturne"
ln -s "$root/build/$flavour/tools/mkmodel" "$scratch/bin/mkmodel"

# Everything that differs from run to run, or from machine to machine.
plain() {
    sed -E -e 's/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/ID/g' \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}Z?/TIME/g' \
        -e "s#$scratch/case#.#g" -e 's/pid [0-9]+/pid PID/g; s/process [0-9]+/process PID/g' \
        -e 's/ in [0-9]+s; / in TIME; /; s/\([0-9.]+\/s\)/(RATE)/; s/ loaded in [0-9.]+ s: .*/ loaded/' \
        -e 's/\.[0-9a-f]{16}\.tmp/.RANDOM.tmp/; s/^rate .*/rate    RATES/; s/ experts: .* read at .*/ experts: COST/'
}

run_case() {
    rm -rf "$scratch/case"
    mkdir "$scratch/case"
    (
        cd "$scratch/case" || exit 1
        env -i PATH="$scratch/bin:$PATH" HOME="$scratch/case" LC_ALL=C TZ=UTC NO_COLOR=1 \
            NOCTURNE_THREADS=1 NOCTURNE_CONFINE=off sh -c ". '$here/lib.sh'; . '$1'"
    ) 2>&1 | plain
}

for case in "$here"/*.sh; do
    name=$(basename "$case" .sh)
    case $name in run | lib) continue ;; *"$wanted"*) ;; *) continue ;; esac
    if [ -n "$bless" ]; then
        run_case "$case" > "$here/$name.expected"
        continue
    fi
    if run_case "$case" | diff -u "$here/$name.expected" - > "$scratch/diff"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        cat "$scratch/diff"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ -n "$bless" -o "$passed" != 0 ]
