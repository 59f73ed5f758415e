/* The table of AVX2 with FMA and F16C. */
#include "engine/kernels/cpu/avx2/avx2.h"

static int supported(const struct cpu *c)
{
    return c->avx2 && c->fma && c->f16c;
}

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .supported = supported,
    AVX2_BUT_PRODUCTS,
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = avx2_matmul_##ident,
#include "engine/quant/quants.def"
#undef QUANT
        },
};
