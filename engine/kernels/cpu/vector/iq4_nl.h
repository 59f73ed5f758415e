/* The product of iq4_nl, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_IQ4_NL_H
#define ENGINE_KERNELS_CPU_VECTOR_IQ4_NL_H

#include "engine/kernels/cpu/vector/panel.h"
#include "engine/quant/codes.h"

VEC_INLINE void open_iq4_nl(const uint8_t *const *row, size_t b, struct opened *o)
{
    static const int8_t value[16] = {CODES_IQ4};
    const size_t at = b * sizeof(struct block_iq4_nl);
    vec bytes[4];
    panel_put_d(o, row, at);
    panel_load_half(o, row, at + offsetof(struct block_iq4_nl, qs), bytes);
    panel_put_nibbles(o, bytes, value);
}

PANEL_MATMUL(iq4_nl, ACT_Q8, .codes = CODES_I8, .pieces = true)

#endif
