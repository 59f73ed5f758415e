#include "engine/kernels/cpu/generic/generic.h"
#include "engine/kernels/cpu/generic/grid.h"

static void open_block(const void *row, size_t block, struct codes_q8k *out)
{
    const struct block_iq1_m *b = (const struct block_iq1_m *)row + block;
    out->d = 0.125f * quant_f16_to_f32(block_scale_iq1_m(b));
    open_grid(grid_iq1_m_open, grid_codes_iq1, b, out);
}

void generic_matmul_iq1_m(const struct matmul *m, size_t first, size_t last)
{
    matmul_q8k(m, first, last, open_block);
}
