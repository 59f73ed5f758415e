/* The product of tq2_0, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_TQ2_0_H
#define ENGINE_KERNELS_CPU_VECTOR_TQ2_0_H

#include "engine/kernels/cpu/vector/panel_k.h"

VEC_INLINE void open_tq2_0(const uint8_t *const *row, size_t b, struct opened *o)
{
    (void)b; /* a super-block fills the panel */
    panel_put_last_d(o, row, offsetof(struct block_tq2_0, d));
    panel_scales_one(o);
    panel_put_twos(o, row, offsetof(struct block_tq2_0, qs));
}

PANEL_MATMUL(tq2_0, ACT_Q8K, .codes = CODES_U4, .offset = 1)

#endif
