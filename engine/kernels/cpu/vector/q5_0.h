/* The product of q5_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_Q5_0_H
#define ENGINE_KERNELS_CPU_VECTOR_Q5_0_H

#include "engine/kernels/cpu/vector/panel.h"

VEC_INLINE void open_q5_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b * sizeof(struct block_q5_0);
    panel_put_d(o, row, at);
    panel_put_fives(o, row, at + offsetof(struct block_q5_0, qh));
}

PANEL_MATMUL(q5_0, ACT_Q8, .codes = CODES_U5, .offset = 16)

#endif
