#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8 *out)
{
    const struct block_mxfp4 *b = (const struct block_mxfp4 *)row + block;
    out->d = block_scale_mxfp4(b->e);
    out->m = 0;
    codes_fp4(b->qs, out->q);
}

void generic_matmul_mxfp4(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8(m, first, last, open_block);
}
