/* The product of q4_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q4_0_H
#define ENGINE_KERNELS_CPU_VECTOR_Q4_0_H

#include "engine/kernels/cpu/vector/panel.h"

VEC_INLINE void open_q4_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b * sizeof(struct block_q4_0);
    vec bytes[4];
    panel_put_d(o, row, at);
    panel_load_half(o, row, at + offsetof(struct block_q4_0, qs), bytes);
    panel_put_nibbles(o, bytes, NULL);
}

PANEL_MATMUL(q4_0, ACT_Q8, .codes = CODES_U4, .pieces = true, .offset = 8)

#endif
