/*
 * The table of NEON with dot products (ARMv8.2). All of it adds in AVX2's order and gives AVX2's bits
 * (tests/engine/identity.c): one set of known results holds for both.
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
