/*
 * Dot products of sixteen weight rows' codes with VNNI, whose sums of four products have 32 bits. It
 * takes unsigned codes: signed ones are kept with 128 added, which is taken off again from the sums.
 */
#ifndef ENGINE_KERNELS_CPU_AVX512_DOT_H
#define ENGINE_KERNELS_CPU_AVX512_DOT_H

#include "engine/kernels/cpu/x86/codes.h"
#include "engine/kernels/cpu/x86/vec.h"

#define DOT_TILE 8
#define DOT_WORDS 8
#define DOT_I8_OFFSET 128

VEC_INLINE vec dot_keep(enum codes codes, vec w)
{
    if (codes == CODES_I8)
        return w ^ vec_set8(-128);
    return w;
}

/* sum + the products of n words of codes with as many of an activation. */
VEC_INLINE vec dot_words(const vec *w, const int8_t *x, vec sum, int n)
{
    for (int c = 0; c < n; c++)
        sum = _mm512_dpbusd_epi32(sum, w[c], vec_spread(x + 4 * c));
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

/* sum + scale * the sum of n words' products */
VEC_INLINE vec dot_scaled(enum codes codes, const vec *w, const int8_t *x, vec scale, vec sum,
                          int n)
{
    (void)codes;
    return vec_add32(sum, vec_mul32(dot_words(w, x, vec_set32(0), n), scale));
}

/* Byte i (0..3) of each lane's word as a scale. */
VEC_INLINE vec dot_scale(vec words, int i)
{
    return vec_srl32(vec_sll32(words, 24 - 8 * i), 24);
}

VEC_INLINE vec dot_scale_signed(vec words, int i)
{
    return _mm512_srai_epi32(vec_sll32(words, 24 - 8 * i), 24);
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
