/*
 * Dot products with i8mm, whose instruction multiplies two rows of eight codes with two of eight
 * activation codes. So a panel keeps codes by pairs of rows: of 16 columns, vector 2k + p has columns
 * 8k .. 8k + 7 of weight row 2p, then of row 2p + 1.
 */
#ifndef ENGINE_KERNELS_CPU_NEON_I8MM_DOT_H
#define ENGINE_KERNELS_CPU_NEON_I8MM_DOT_H

#include "engine/kernels/cpu/neon/words.h"

VEC_INLINE void dot_store(const vec w[4], vec *out)
{
    for (int k = 0; k < 2; k++) {
        out[2 * k] = vec_low32(w[2 * k], w[2 * k + 1]);
        out[2 * k + 1] = vec_high32(w[2 * k], w[2 * k + 1]);
    }
}

/* n words of a panel with one activation row; sums[p] has two parts for each row of pair p. */
VEC_INLINE vec dot_one(const vec *w, const int8_t *x, int n)
{
    int32x4_t sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int k = 0; k < n / 2; k++) {
        int8x8_t eight = vld1_s8(x + 8 * k);
        int8x16_t twice = vcombine_s8(eight, eight);
        for (int p = 0; p < 2; p++)
            sums[p] = vdotq_s32(sums[p], vreinterpretq_s8_s32(w[2 * k + p]), twice);
    }
    return vpaddq_s32(sums[0], sums[1]);
}

/* n words of a panel with two activation rows. */
VEC_INLINE void dot_two(const vec *w, const int8_t *x0, const int8_t *x1, int n, vec ret[2])
{
    int32x4_t sums[2] = {vdupq_n_s32(0), vdupq_n_s32(0)};
    for (int k = 0; k < n / 2; k++) {
        int8x16_t x = vcombine_s8(vld1_s8(x0 + 8 * k), vld1_s8(x1 + 8 * k));
        for (int p = 0; p < 2; p++)
            sums[p] = vmmlaq_s32(sums[p], vreinterpretq_s8_s32(w[2 * k + p]), x);
    }
    ret[0] = vuzp1q_s32(sums[0], sums[1]);
    ret[1] = vuzp2q_s32(sums[0], sums[1]);
}

VEC_INLINE vec dot_stored(enum codes codes, const vec *w, const int8_t *x)
{
    (void)codes;
    return dot_one(w, x, 4);
}

/* n is 1 or a multiple of 2 */
VEC_INLINE void dot_tile_q8(enum codes codes, const vec *w, const struct act_q8 *const *x, size_t b,
                            vec *sum, int n)
{
    (void)codes;
    if (n == 1)
        sum[0] = dot_one(w, x[0][b].q, 8);
    for (int r = 0; r + 1 < n; r += 2)
        dot_two(w, x[r][b].q, x[r + 1][b].q, 8, sum + r);
}

VEC_INLINE void dot_tile_q8k(enum codes codes, const vec *w, const struct act_q8k *const *x,
                             struct dot_part part, vec scale, vec *sum, int n)
{
    (void)codes;
    const vec *const at = w + part.first;
    const int column = 4 * part.first;
    if (n == 1)
        sum[0] = vmlaq_s32(sum[0], dot_one(at, x[0]->q + column, part.n_words), scale);
    for (int r = 0; r + 1 < n; r += 2) {
        vec two[2];
        dot_two(at, x[r]->q + column, x[r + 1]->q + column, part.n_words, two);
        for (int i = 0; i < 2; i++)
            sum[r + i] = vmlaq_s32(sum[r + i], two[i], scale);
    }
}

#endif
