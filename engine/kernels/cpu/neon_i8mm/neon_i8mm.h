/* The functions of the table with i8mm that are not NEON's. Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_NEON_I8MM_NEON_I8MM_H
#define ENGINE_KERNELS_CPU_NEON_I8MM_NEON_I8MM_H

#include "engine/kernels/kernels.h"

#define QUANT(ident, id, elems, bytes, partner)                                                    \
    void neon_i8mm_matmul_##ident(const struct matmul *m, size_t first, size_t last);
#include "engine/quant/quants.def"
#undef QUANT

#endif
