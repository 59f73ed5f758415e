/* The product of q5_k, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q5_K_H
#define ENGINE_KERNELS_CPU_VECTOR_Q5_K_H

#include "engine/kernels/cpu/vector/panel_k.h"
#if DOT_BY_ROW
#include "engine/kernels/cpu/avx512/row_k4.h"
#endif

VEC_INLINE void open_q5_k(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b;      /* a super-block fills the panel */
    vec front[4]; /* d and dmin, scales */
    vec_load16(row, 0, front);
    vec_halves(front[0], &o->d, &o->m);
#if DOT_BY_ROW
    if (!o->q) {
        panel_open_k4(row, front + 1, offsetof(struct block_q5_k, qs),
                      offsetof(struct block_q5_k, qh), o);
        return;
    }
#endif
    panel_scales_k4(front + 1, o);
    for (int h = 0; h < 2; h++) { /* columns 16h.. of each group */
        vec fifth[4];
        vec_load16(row, offsetof(struct block_q5_k, qh) + 16 * (size_t)h, fifth);
        for (int i = 0; i < 4; i++) {
            const size_t at = offsetof(struct block_q5_k, qs) + 32 * (size_t)i + 16 * (size_t)h;
            vec bytes[4];
            vec low[4];
            vec high[4];
            vec_load16(row, at, bytes);
            for (int c = 0; c < 4; c++) {
                low[c] = panel_low_nibbles(bytes[c]) | panel_move_bits(fifth[c], 2 * i, 1, 4);
                high[c] = panel_high_nibbles(bytes[c]) | panel_move_bits(fifth[c], 2 * i + 1, 1, 4);
            }
            panel_put(o, 4 * i + h, low);
            panel_put(o, 4 * i + h + 2, high);
        }
    }
}

PANEL_MATMUL(q5_k, ACT_Q8K, .codes = CODES_U5, .has_min = true, .wide = true, .sums = DOT_BY_ROW)

#endif
