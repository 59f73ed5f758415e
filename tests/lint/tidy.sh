#!/bin/sh
# clang-tidy on one file, unless the same text passed before: the key is the preprocessed source with
# the rules. LINT_CFLAGS come from the Makefile.
set -u
file=$1
isa=$(sh tests/lint/isa.sh "$file")
case $isa in
--target*) CC=clang ;;
esac
case $file in
base/alloc.c | base/error.c | tests/base/alloc.c | tests/base/error.c) seen= ;; # what it replaces
*) seen='-include tests/lint/analyzer.h' ;;
esac
# The tests get the quick checks only: their macros make the analyzer slow, and they run under the
# sanitizers.
case $file in
tests/*) checks='--checks=-clang-analyzer-*' ;;
*) checks= ;;
esac
flags="$LINT_CFLAGS $isa $seen -Ibuild/release"
key=$({
    cat .clang-tidy engine/kernels/.clang-tidy 2>/dev/null
    ${CC:-cc} $flags -E "$file"
} | sha256sum | cut -d' ' -f1)
[ ! -e "build/lint/$key" ] || exit 0
clang-tidy --quiet $checks "$file" -- $flags -Wno-unknown-warning-option 2>"build/lint/$key.err" || {
    grep -v 'warnings\? generated\|^Suppressed\|^Use -header-filter' "build/lint/$key.err"
    rm -f "build/lint/$key.err"
    exit 1
}
mv "build/lint/$key.err" "build/lint/$key"
