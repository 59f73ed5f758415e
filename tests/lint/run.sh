#!/bin/sh
# The lint: each stage prints its findings and one line with its seconds. Called by `make lint`,
# which passes the compiler's flags in LINT_CFLAGS. Arguments name the stages to run; all without.
set -u
cd "$(dirname "$0")/../.." || exit 1
mkdir -p build/lint
failed=0
wanted=" $* "

folders=
for folder in base engine queue jobs batch tests bench tools; do
    [ ! -d "$folder" ] || folders="$folders $folder"
done
all=$(find $folders -name '*.[ch]' | LC_ALL=C sort)
sources=$(find $folders -name '*.c' | LC_ALL=C sort)
headers=$(find $folders -name '*.h' | LC_ALL=C sort)
tables=$(find $folders -name '*.def' | LC_ALL=C sort)

stage() {
    name=$1
    shift
    case $wanted in
    '  ' | *" $name "*) ;;
    *) return ;;
    esac
    start=$(date +%s)
    if "$@"; then result=ok; else result=FAIL failed=1; fi
    printf '%-10s %-4s %4d s\n' "$name" "$result" $(($(date +%s) - start))
}

rule() {
    rule=$1
    shift
    python3 tests/lint/check.py "$rule" "$@"
}

header_alone() {
    printf '%s\n' $headers | xargs -P 2 -I{} sh -c '
        isa=$(sh tests/lint/isa.sh {})
        case $isa in
        --target*) CC=clang ;;
        esac
        ${CC:-cc} $LINT_CFLAGS -Werror $isa -Ibuild/release -fsyntax-only -include {} -x c /dev/null'
}

format() {
    clang-format --dry-run -Werror $all 2>&1 | awk -F: '
        / error: / && !seen[$1]++ { print $1 ": not as clang-format lays it out" }
        END { exit length(seen) > 0 }'
}

tidy() {
    printf '%s\n' $sources | xargs -P 2 -n 1 sh tests/lint/tidy.sh
}

# readdir is safe: no two threads share a DIR. invalidPointerCast: rows of bytes are floats in some
# formats; -fno-strict-aliasing holds.
check() {
    cppcheck -q -j 2 --std=c11 --library=posix --library=gnu --enable=warning,performance,portability \
        --inline-suppr --error-exitcode=1 --suppress=missingInclude --suppress=unknownMacro --suppress=readdirCalled \
        --suppress=invalidPointerCast \
        --cppcheck-build-dir=build/lint -D__x86_64__ -D_GNU_SOURCE -I. -Ibuild/release $sources
}

shell() {
    for script in $(find tools tests packaging .ci -name '*.sh' 2>/dev/null); do
        sh -n "$script" || return 1
    done
}

stage shell shell
stage layers rule layers $all
stage banned rule banned $all
stage functions rule functions $all
stage files rule files $all
stage text rule text $all
stage state rule state $sources
stage rows rule rows $all $tables
stage grids python3 tools/make-grids.py --check
stage headers header_alone
stage format format
stage tidy tidy
stage cppcheck check
exit $failed
