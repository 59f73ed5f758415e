/* The product of q1_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q1_0_H
#define ENGINE_KERNELS_CPU_VECTOR_Q1_0_H

#include "engine/kernels/cpu/vector/panel.h"

VEC_INLINE void open_q1_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b / 4 * sizeof(struct block_q1_0); /* b is a quarter of a block */
    vec bits = vec_gather4(row, at + offsetof(struct block_q1_0, qs) + 4 * (b % 4));
    panel_put_d(o, row, at);
    for (int h = 0; h < 2; h++) {
        vec q[4];
        for (int c = 0; c < 4; c++)
            q[c] = vec_bits(bits, 16 * h + 4 * c, 2);
        panel_put_half(o, h, q);
    }
}

PANEL_MATMUL(q1_0, ACT_Q8, .codes = CODES_U4, .offset = 1, .n_acts = 4)

#endif
