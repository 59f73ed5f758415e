#include "engine/kernels/cpu/generic/generic.h"
#include "engine/kernels/cpu/generic/grid.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_iq3_xxs *b = (const struct block_iq3_xxs *)row + block;
    out->d = 0.25f * quant_f16_to_f32(b->d);
    open_grid(grid_iq3_xxs_open, grid_codes, b, out);
}

void generic_matmul_iq3_xxs(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
