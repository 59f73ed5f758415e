/* The product of q2_k, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q2_K_H
#define ENGINE_KERNELS_CPU_VECTOR_Q2_K_H

#include "engine/kernels/cpu/vector/panel_k.h"

VEC_INLINE void open_q2_k(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    vec scales[4];
    vec nibbles[4];
    vec_halves(vec_gather4(row, offsetof(struct block_q2_k, d)), &o->d, &o->m);
    vec_load16(row, offsetof(struct block_q2_k, scales), scales);
    for (int i = 0; i < 4; i++)
        nibbles[i] = panel_low_nibbles(scales[i]);
    panel_scales_16(nibbles, false, o);
    for (int i = 0; i < 8; i++)
        o->mn[i] = vec_widen(panel_high_nibbles(scales[i / 2]), 2 * i % 4, 2 * i % 4 + 1);
    panel_put_twos(o, row, offsetof(struct block_q2_k, qs));
}

PANEL_MATMUL(q2_k, ACT_Q8K, .codes = CODES_U4, .has_min = true)

#endif
