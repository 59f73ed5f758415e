/* The product of q3_k, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q3_K_H
#define ENGINE_KERNELS_CPU_VECTOR_Q3_K_H

#include "engine/kernels/cpu/vector/panel_k.h"

/* Six-bit scales, less 32; the offset of 4 needs them as minima too. */
VEC_INLINE void q3_k_scales(const uint8_t *const *row, struct opened *o)
{
    const size_t at = offsetof(struct block_q3_k, scales);
    const vec two = vec_set8(0x30);
    vec low = vec_gather4(row, at);
    vec high = vec_gather4(row, at + 4);
    vec top = vec_gather4(row, at + 8);
    vec sc[4];
    sc[0] = panel_low_nibbles(low) | (vec_sll16(top, 4) & two);
    sc[1] = panel_low_nibbles(high) | (vec_sll16(top, 2) & two);
    sc[2] = panel_high_nibbles(low) | (top & two);
    sc[3] = panel_high_nibbles(high) | (vec_srl16(top, 2) & two);
    panel_scales_16(sc, false, o);
    for (int g = 0; g < 16; g++)
        o->sc[g] = dot_scale_less(o->sc[g], 32);
    for (int i = 0; i < 8; i++)
        o->mn[i] = vec_sub16(o->mn[i], vec_set16(32));
}

VEC_INLINE void open_q3_k(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    panel_put_last_d(o, row, offsetof(struct block_q3_k, d));
    q3_k_scales(row, o);
    for (int i = 0; i < 4; i++) { /* half n of the block, columns 16h.. of each 32 */
        const int n = i / 2;
        const int h = i % 2;
        vec mask[4];
        vec bytes[4];
        vec_load16(row, offsetof(struct block_q3_k, hmask) + 16 * (size_t)h, mask);
        vec_load16(row, offsetof(struct block_q3_k, qs) + 16 * (size_t)i, bytes);
        for (int j = 0; j < 4; j++) {
            vec q[4];
            for (int c = 0; c < 4; c++)
                q[c] = panel_move_bits(bytes[c], 2 * j, 2, 0) |
                       panel_move_bits(mask[c], 4 * n + j, 1, 2);
            panel_put(o, 8 * n + 2 * j + h, q);
        }
    }
}

PANEL_MATMUL(q3_k, ACT_Q8K, .codes = CODES_U4, .offset = 4)

#endif
