/*
 * The table of NEON with dot products (ARMv8.2). All but the products of formats without blocks adds in
 * the order of AVX2, and so gives its bits.
 */
#include "engine/kernels/cpu/neon/neon.h"

static int supported(const struct cpu *c)
{
    return c->neon && c->dotprod;
}

const struct kernels kernels_neon = {
    .name = "neon",
    .supported = supported,
    NEON_BUT_PRODUCTS,
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = neon_matmul_##ident,
#include "engine/quant/quants.def"
#undef QUANT
        },
};
