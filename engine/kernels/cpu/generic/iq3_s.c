#include "engine/kernels/cpu/generic/generic.h"
#include "engine/kernels/cpu/generic/grid.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_iq3_s *b = (const struct block_iq3_s *)row + block;
    out->d = quant_f16_to_f32(b->d);
    open_grid(grid_iq3_s_open, grid_codes, b, out);
}

void generic_matmul_iq3_s(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
