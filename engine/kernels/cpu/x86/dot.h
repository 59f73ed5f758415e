/* Dot products at the width that a file is compiled for (x86/vec.h). Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_X86_DOT_H
#define ENGINE_KERNELS_CPU_X86_DOT_H

#ifdef __AVX512VNNI__
#include "engine/kernels/cpu/avx512/dot.h"
#else
#include "engine/kernels/cpu/avx2/dot.h"
#endif

#endif
