/* The product of tq1_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_TQ1_0_H
#define ENGINE_KERNELS_CPU_VECTOR_TQ1_0_H

#include "engine/kernels/cpu/vector/panel_k.h"

/* The first digit of each byte's fraction, which is then moved on to the next. */
VEC_INLINE vec tq1_0_next_digit(vec *fraction)
{
    vec t = *fraction;
    *fraction = vec_add8(t, vec_add8(t, t));
    return vec_add8(vec_at_least8(t, 86), vec_at_least8(t, 171));
}

VEC_INLINE void open_tq1_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    vec q[4];
    panel_put_last_d(o, row, offsetof(struct block_tq1_0, d));
    panel_scales_one(o);
    for (int i = 0; i < 3; i++) { /* bytes 16i.. of qs */
        vec bytes[4];
        vec_load16(row, 16 * (size_t)i, bytes);
        for (int n = 0; n < 5; n++) {
            for (int c = 0; c < 4; c++)
                q[c] = tq1_0_next_digit(&bytes[c]);
            panel_put(o, i < 2 ? 2 * n + i : 10 + n, q);
        }
    }
    vec last = vec_gather4(row, offsetof(struct block_tq1_0, qh));
    for (int n = 0; n < 4; n++)
        q[n] = tq1_0_next_digit(&last);
    panel_put(o, 15, q);
}

PANEL_MATMUL(tq1_0, ACT_Q8K, .codes = CODES_U4, .offset = 1)

#endif
