/* The product of q4_1, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q4_1_H
#define ENGINE_KERNELS_CPU_VECTOR_Q4_1_H

#include "engine/kernels/cpu/vector/panel.h"

VEC_INLINE void open_q4_1(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b * sizeof(struct block_q4_1);
    vec bytes[4];
    vec_halves(vec_gather4(row, at), &o->d, &o->m);
    panel_load_half(o, row, at + offsetof(struct block_q4_1, qs), bytes);
    panel_put_nibbles(o, bytes, NULL);
}

PANEL_MATMUL(q4_1, ACT_Q8, .codes = CODES_U4, .pieces = true, .has_min = true)

#endif
