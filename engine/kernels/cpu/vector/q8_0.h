/* The product of q8_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q8_0_H
#define ENGINE_KERNELS_CPU_VECTOR_Q8_0_H

#include "engine/kernels/cpu/vector/panel.h"

VEC_INLINE void open_q8_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b * sizeof(struct block_q8_0);
    panel_put_d(o, row, at);
    for (int h = 0; h < 2; h++) {
        vec q[4];
        panel_load_half(o, row, at + offsetof(struct block_q8_0, qs) + 16 * (size_t)h, q);
        panel_put_half(o, h, q);
    }
}

PANEL_MATMUL(q8_0, ACT_Q8, .codes = CODES_I8, .pieces = true)

#endif
