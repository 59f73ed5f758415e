/*
 * The table of NEON with the products of small matrices of bytes (i8mm, an option from ARMv8.2 on): NEON's
 * bits for twice the products an instruction, where there are two activation rows.
 */
#include "engine/kernels/cpu/neon_i8mm/neon_i8mm.h"

#include "engine/kernels/cpu/neon/neon.h"

static int supported(const struct cpu *c)
{
    return c->neon && c->dotprod && c->i8mm;
}

const struct kernels kernels_neon_i8mm = {
    .name = "neon-i8mm",
    .supported = supported,
    NEON_BUT_PRODUCTS,
    .matmul =
        {
#define QUANT(ident, id, elems, bytes, partner) [QUANT_INDEX_##ident] = neon_i8mm_matmul_##ident,
#include "engine/quant/quants.def"
#undef QUANT
        },
};
