/* The product of q4_k, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q4_K_H
#define ENGINE_KERNELS_CPU_VECTOR_Q4_K_H

#include "engine/kernels/cpu/vector/panel_k.h"
#if DOT_BY_ROW
#include "engine/kernels/cpu/avx512/row_k4.h"
#endif

VEC_INLINE void open_q4_k(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b;      /* a super-block fills the panel */
    vec front[4]; /* d and dmin, scales */
    vec_load16(row, 0, front);
    vec_halves(front[0], &o->d, &o->m);
#if DOT_BY_ROW
    if (!o->q) {
        panel_open_k4(row, front + 1, offsetof(struct block_q4_k, qs), 0, o);
        return;
    }
#endif
    panel_scales_k4(front + 1, o);
    for (int i = 0; i < 8; i++) { /* bytes 16i.. of qs: columns 16 * (i % 2).. of two groups */
        vec bytes[4];
        vec low[4];
        vec high[4];
        vec_load16(row, offsetof(struct block_q4_k, qs) + 16 * (size_t)i, bytes);
        for (int c = 0; c < 4; c++) {
            low[c] = panel_low_nibbles(bytes[c]);
            high[c] = panel_high_nibbles(bytes[c]);
        }
        panel_put(o, 4 * (i / 2) + i % 2, low);
        panel_put(o, 4 * (i / 2) + i % 2 + 2, high);
    }
}

PANEL_MATMUL(q4_k, ACT_Q8K, .codes = CODES_U4, .has_min = true, .wide = true, .sums = DOT_BY_ROW)

#endif
