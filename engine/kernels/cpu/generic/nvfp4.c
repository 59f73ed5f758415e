#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"
#include "engine/quant/codes.h"

static void open_block(const void *row, size_t block, struct codes_q8 *out)
{
    const struct block_nvfp4 *b = (const struct block_nvfp4 *)row + block / 2;
    const size_t part = block % 2;
    out->d = block_scale_nvfp4(b->d[2 * part]);
    out->d_high = block_scale_nvfp4(b->d[2 * part + 1]);
    codes_nvfp4(b, part, out->q);
}

void generic_matmul_nvfp4(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8_by(m, first, last, open_block, dot_q8_halves);
}
