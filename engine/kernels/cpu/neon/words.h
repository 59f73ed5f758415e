/* Dot products of four weight rows' codes, a row a lane, by the instructions of four bytes a lane. */
#ifndef ENGINE_KERNELS_CPU_NEON_WORDS_H
#define ENGINE_KERNELS_CPU_NEON_WORDS_H

#include "engine/kernels/cpu/vector/codes.h"
#include "engine/kernels/cpu/vector/vec.h"
#include "engine/kernels/kernels.h"

#define DOT_TILE 4
#define DOT_WORDS 8
#define DOT_BY_ROW 0    /* no row_k4.h */
#define DOT_I8_OFFSET 0 /* both factors are signed */

VEC_INLINE vec dot_keep(enum codes codes, vec w)
{
    (void)codes;
    return w;
}

/* sum + the products of n words (a multiple of 4) of codes with as many of an activation. */
VEC_INLINE vec dot_words(const vec *w, const int8_t *x, vec sum, int n)
{
    for (int c = 0; c < n; c += 4) {
        int8x16_t four = vld1q_s8(x + 4 * c);
        sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(w[c]), four, 0);
        sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(w[c + 1]), four, 1);
        sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(w[c + 2]), four, 2);
        sum = vdotq_laneq_s32(sum, vreinterpretq_s8_s32(w[c + 3]), four, 3);
    }
    return sum;
}

VEC_INLINE vec dot_16(enum codes codes, const vec *w, const int8_t *x, vec sum)
{
    (void)codes;
    return dot_words(w, x, sum, 4);
}

VEC_INLINE vec dot_first(enum codes codes, const vec *w, const int8_t *x)
{
    return dot_16(codes, w, x, vec_set32(0));
}

VEC_INLINE vec dot_second(enum codes codes, vec first, const vec *w, const int8_t *x)
{
    return dot_16(codes, w, x, first);
}

/* 16 bytes of a row: sum + the products with an activation's 16 codes. */
VEC_INLINE vec dot_piece(enum codes codes, vec w, vec x, vec sum)
{
    (void)codes;
    return vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x));
}

/* Row by row the sums of the pieces of a block. */
VEC_INLINE vec dot_sum4(enum codes codes, const vec part[4])
{
    (void)codes;
    return vec_sum4(part);
}

/* sum + scale * the sum of n words' products */
VEC_INLINE vec dot_scaled(enum codes codes, const vec *w, const int8_t *x, vec scale, vec sum,
                          int n)
{
    (void)codes;
    return vmlaq_s32(sum, dot_words(w, x, vec_set32(0), n), scale);
}

/* Byte i (0..3) of each lane's word as a scale. */
VEC_INLINE vec dot_scale(vec words, int i)
{
    return vec_srl32(vec_sll32(words, 24 - 8 * i), 24);
}

VEC_INLINE vec dot_scale_signed(vec words, int i)
{
    return vec_sll32(words, 24 - 8 * i) >> 24;
}

VEC_INLINE vec dot_scale_less(vec scale, int n)
{
    return vec_sub32(scale, vec_set32(n));
}

VEC_INLINE vec dot_scale_of(vec lanes)
{
    return lanes;
}

#endif
