/* The product of q6_k, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q6_K_H
#define ENGINE_KERNELS_CPU_VECTOR_Q6_K_H

#include "engine/kernels/cpu/vector/panel_k.h"

VEC_INLINE void open_q6_k(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    vec sc[4];
    panel_put_last_d(o, row, offsetof(struct block_q6_k, d));
    vec_load16(row, offsetof(struct block_q6_k, scales), sc);
    panel_scales_16(sc, true, o);
    for (int i = 0; i < 4; i++) { /* half n of the block, columns 16h.. of each 32 */
        const int n = i / 2;
        const int h = i % 2;
        const size_t at = offsetof(struct block_q6_k, ql) + 64 * (size_t)n + 16 * (size_t)h;
        vec bytes[2][4];
        vec top[4];
        vec_load16(row, at, bytes[0]);
        vec_load16(row, at + 32, bytes[1]);
        vec_load16(row, offsetof(struct block_q6_k, qh) + 16 * (size_t)i, top);
        for (int j = 0; j < 4; j++) {
            vec q[4];
            for (int c = 0; c < 4; c++) {
                vec four = j < 2 ? panel_low_nibbles(bytes[j % 2][c])
                                 : panel_high_nibbles(bytes[j % 2][c]);
                q[c] = four | panel_move_bits(top[c], 2 * j, 2, 4);
            }
            panel_put(o, 8 * n + 2 * j + h, q);
        }
    }
}

PANEL_MATMUL(q6_k, ACT_Q8K, .codes = CODES_U6, .offset = 32)

#endif
