/* The functions of the AVX-512 table that are not AVX2's. Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_AVX512_AVX512_H
#define ENGINE_KERNELS_CPU_AVX512_AVX512_H

#include "engine/kernels/kernels.h"

#define QUANT(ident, id, elems, bytes, partner)                                                    \
    void avx512_matmul_##ident(const struct matmul *m, size_t first, size_t last);
#include "engine/quant/quants.def"
#undef QUANT

#endif
