#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_q2_k *b = (const struct block_q2_k *)row + block;
    out->d = quant_f16_to_f32(b->d);
    out->dmin = quant_f16_to_f32(b->dmin);
    for (int g = 0; g < 16; g++) {
        out->sc[g] = b->scales[g] & 15;
        out->mn[g] = b->scales[g] >> 4;
    }
    codes_q2_k(b, out->q);
}

void generic_matmul_q2_k(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
