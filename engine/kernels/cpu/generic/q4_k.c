#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_q4_k *b = (const struct block_q4_k *)row + block;
    uint8_t sc[8];
    uint8_t mn[8];
    block_scales_k4(b->scales, sc, mn);
    out->d = quant_f16_to_f32(b->d);
    out->dmin = quant_f16_to_f32(b->dmin);
    for (int g = 0; g < 16; g++) {
        out->sc[g] = sc[g / 2];
        out->mn[g] = mn[g / 2];
    }
    codes_q4_k(b->qs, out->q);
}

void generic_matmul_q4_k(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
