#!/bin/sh
# Prints the flags, beside LINT_CFLAGS, with which a file of the kernels is to be read (by clang, as it
# knows every target).
x86='-mavx2 -mfma -mf16c'
arm='--target=aarch64-linux-gnu -march=armv8.2-a+dotprod'
case $1 in
engine/kernels/cpu/avx2/* | engine/kernels/cpu/vector/*) echo "$x86" ;;
engine/kernels/cpu/avx512/*) echo "$x86 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni" ;;
engine/kernels/cpu/neon/*) echo "$arm" ;;
engine/kernels/cpu/neon_i8mm/*) echo "$arm+i8mm" ;;
esac
