#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8 *out)
{
    const struct block_iq4_nl *b = (const struct block_iq4_nl *)row + block;
    out->d = quant_f16_to_f32(b->d);
    out->m = 0;
    codes_iq4(b->qs, out->q);
}

void generic_matmul_iq4_nl(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8(m, first, last, open_block);
}
