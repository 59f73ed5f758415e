/*
 * Products of a panel's codes with several activation rows, where an instruction takes one of those at a
 * time. Included by such a dot.h. Internal to cpu.
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_DOT_TILE_H
#define ENGINE_KERNELS_CPU_VECTOR_DOT_TILE_H

#include "engine/kernels/cpu/vector/dot.h"

/* Four words of codes go to a panel as they are. */
VEC_INLINE void dot_store(const vec w[4], vec *out)
{
    for (int c = 0; c < 4; c++)
        out[c] = w[c];
}

/* The 16 codes of such words with an activation's. */
VEC_INLINE vec dot_stored(enum codes codes, const vec *w, const int8_t *x)
{
    return dot_16(codes, w, x, vec_set32(0));
}

/* The 32 codes of a block with block b of n activation rows. */
VEC_INLINE void dot_tile_q8(enum codes codes, const vec *w, const struct act_q8 *const *x, size_t b,
                            vec *sum, int n)
{
    for (int r = 0; r < n; r++)
        sum[r] = dot_first(codes, w, x[r][b].q);
    for (int r = 0; r < n; r++)
        sum[r] = dot_second(codes, sum[r], w + 4, x[r][b].q + 16);
}

/* sum + scale * the products of some words of a super-block with n activation rows */
VEC_INLINE void dot_tile_q8k(enum codes codes, const vec *w, const struct act_q8k *const *x,
                             struct dot_part part, vec scale, vec *sum, int n)
{
    const int c = part.first;
    for (int r = 0; r < n; r++)
        sum[r] = dot_scaled(codes, w + c, x[r]->q + 4 * c, scale, sum[r], part.n_words);
}

#endif
