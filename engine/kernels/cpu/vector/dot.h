/* Dot products with what a file is compiled for (vector/vec.h). Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_DOT_H
#define ENGINE_KERNELS_CPU_VECTOR_DOT_H

#if defined(__ARM_FEATURE_MATMUL_INT8)
#include "engine/kernels/cpu/neon_i8mm/dot.h"
#elif defined(__aarch64__)
#include "engine/kernels/cpu/neon/dot.h"
#elif defined(__AVX512VNNI__)
#include "engine/kernels/cpu/avx512/dot.h"
#else
#include "engine/kernels/cpu/avx2/dot.h"
#endif

#endif
