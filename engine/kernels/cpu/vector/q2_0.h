/* The product of q2_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q2_0_H
#define ENGINE_KERNELS_CPU_VECTOR_Q2_0_H

#include "engine/kernels/cpu/vector/panel.h"

/* The four codes of byte i of each lane's word as its four bytes. */
VEC_INLINE vec q2_0_spread(vec words, int i)
{
    vec x = vec_srl32(words, 8 * i) & vec_set32(255);
    vec low = x | vec_sll32(x, 6);
    return (low | vec_sll32(low, 12)) & vec_set8(3);
}

VEC_INLINE void open_q2_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b / 2 * sizeof(struct block_q2_0); /* b is half a block */
    panel_put_d(o, row, at);
    for (int h = 0; h < 2; h++) {
        const size_t word = 8 * (b % 2) + 4 * (size_t)h;
        vec bytes = vec_gather4(row, at + offsetof(struct block_q2_0, qs) + word);
        vec q[4];
        for (int c = 0; c < 4; c++)
            q[c] = q2_0_spread(bytes, c);
        panel_put_half(o, h, q);
    }
}

PANEL_MATMUL(q2_0, ACT_Q8, .codes = CODES_U4, .offset = 1, .n_acts = 2)

#endif
