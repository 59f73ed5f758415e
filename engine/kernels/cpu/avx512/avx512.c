/*
 * The table of AVX-512 (F, BW, VL, DQ) with VNNI. What is no matrix product takes little of a step and is
 * AVX2's. Processors that have AVX-512 without VNNI take the AVX2 table: eight lanes of 16-bit sums are
 * what they would do here too.
 */
#include "engine/kernels/cpu/avx512/avx512.h"

#include "engine/kernels/cpu/avx2/avx2.h"

static int supported(const struct cpu *c)
{
    return c->avx2 && c->fma && c->f16c && c->avx512f && c->avx512bw && c->avx512vl &&
           c->avx512dq && c->avx512vnni;
}

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .supported = supported,
    AVX2_BUT_PRODUCTS,
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = avx512_matmul_##ident,
#include "engine/quant/quants.def"
#undef QUANT
        },
};
