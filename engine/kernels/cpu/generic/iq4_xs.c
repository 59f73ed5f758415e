#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_iq4_xs *b = (const struct block_iq4_xs *)row + block;
    int8_t sc[8];
    block_scales_iq4_xs(b, sc);
    out->d = quant_f16_to_f32(b->d);
    out->dmin = 0;
    for (int g = 0; g < 16; g++) {
        out->sc[g] = sc[g / 2];
        out->mn[g] = 0;
    }
    for (int g = 0; g < 8; g++)
        codes_iq4(b->qs + 16 * g, out->q + 32 * g);
}

void generic_matmul_iq4_xs(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
