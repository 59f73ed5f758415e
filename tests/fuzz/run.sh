#!/bin/sh
# Usage: run.sh SECONDS [TARGET]: every fuzzer (or the one) first over its committed corpus, then for
# that many seconds on mutations of it. What crashes is left in build/fuzz/crash-*; commit it, made
# small, to tests/fuzz/corpus/TARGET once it is mended.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=$1
limits='-timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256'
passed=0 failed=0
for fuzzer in build/fuzz/fuzz/*; do
    name=$(basename "$fuzzer")
    [ -x "$fuzzer" ] && [ "${2:-$name}" = "$name" ] || continue
    seeds=tests/fuzz/corpus/$name
    grown=build/fuzz/corpus/$name
    mkdir -p "$grown"
    [ -d "$seeds" ] || seeds=
    log=build/fuzz/$name.log
    if "$fuzzer" $limits -runs=0 $seeds >"$log" 2>&1 && "$fuzzer" $limits -max_len=65536 \
        -max_total_time="$seconds" -artifact_prefix=build/fuzz/ "$grown" $seeds >>"$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name: $(grep -o 'Done [0-9]* runs' "$log" | tail -1)"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        tail -40 "$log"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
