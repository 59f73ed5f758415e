/* The product of mxfp4, compiled by each width. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_MXFP4_H
#define ENGINE_KERNELS_CPU_VECTOR_MXFP4_H

#include "engine/kernels/cpu/vector/panel.h"

/* Twice an E2M1 number, plus 12. */
static const int8_t mxfp4_above_12[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                          12, 11, 10, 9,  8,  6,  4,  0};

/* 2^(e - 128) of the lowest byte of each lane (block_scale_mxfp4), as two factors: it may be subnormal. */
VEC_INLINE vecf mxfp4_scales(vec words)
{
    vec e = words & vec_set32(255);
    vec half = vec_srl32(e, 1);
    vec rest = vec_sub32(e, half);
    vecf a = (vecf)vec_sll32(vec_add32(half, vec_set32(63)), 23);
    return vecf_mul(a, (vecf)vec_sll32(vec_add32(rest, vec_set32(63)), 23));
}

VEC_INLINE void open_mxfp4(const uint8_t *const *row, size_t b, struct opened *o)
{
    const size_t at = b * sizeof(struct block_mxfp4);
    vec bytes[4];
    o->d = mxfp4_scales(vec_gather4(row, at));
    panel_load_half(o, row, at + offsetof(struct block_mxfp4, qs), bytes);
    panel_put_nibbles(o, bytes, mxfp4_above_12);
}

PANEL_MATMUL(mxfp4, ACT_Q8, .codes = CODES_U5, .pieces = true, .offset = 12)

#endif
