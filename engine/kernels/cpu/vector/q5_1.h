/* The product of q5_1, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q5_1_H
#define ENGINE_KERNELS_CPU_VECTOR_Q5_1_H

#include "engine/kernels/cpu/vector/panel.h"

VEC_INLINE void open_q5_1(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b * sizeof(struct block_q5_1);
    vec_halves(vec_gather4(row, at), &o->d, &o->m);
    panel_put_fives(o, row, at + offsetof(struct block_q5_1, qh));
}

PANEL_MATMUL(q5_1, ACT_Q8, .codes = CODES_U5, .has_min = true)

#endif
