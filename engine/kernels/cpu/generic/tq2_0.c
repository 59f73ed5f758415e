#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_tq2_0 *b = (const struct block_tq2_0 *)row + block;
    out->d = quant_f16_to_f32(b->d);
    out->dmin = 0;
    for (int g = 0; g < 16; g++) {
        out->sc[g] = 1;
        out->mn[g] = 0;
    }
    codes_tq2_0(b, out->q);
}

void generic_matmul_tq2_0(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
