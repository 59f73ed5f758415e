/*
 * Dot products of sixteen weight rows' codes with VNNI, whose sums of four products have 32 bits. It
 * takes unsigned codes: signed ones are kept with 128 added, which is taken off again from the sums.
 */
#ifndef ENGINE_KERNELS_CPU_AVX512_DOT_H
#define ENGINE_KERNELS_CPU_AVX512_DOT_H

#include "engine/kernels/cpu/vector/codes.h"
#include "engine/kernels/cpu/vector/grid_row_x86.h"
#include "engine/kernels/cpu/vector/vec.h"
#include "engine/kernels/kernels.h"

#define DOT_TILE 8
#define DOT_WORDS 8
#define DOT_BY_ROW 1 /* row_k4.h is there */
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
    return vec_add32(first, dot_16(codes, w, x, vec_set32(0)));
}

/* Pieces of 16 bytes: sum + the products of those in w with an activation's 16 codes. */
VEC_INLINE vec dot_piece(enum codes codes, vec w, vec x, vec sum)
{
    (void)codes;
    return _mm512_dpbusd_epi32(sum, w, x);
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

/*
 * A row of a grid format by itself, 64 columns to a vector: sums whose total is that of scale * code * x.
 * Magnitudes are unsigned and take the activation's signs; eighths are entry or entry + 2, less 9.
 */
VEC_INLINE vec dot_grid(struct grid_format f, const struct grid_row *r, const struct act_q8k *x)
{
    const vec scales = _mm512_cvtepu8_epi32(r->sc);
    const vec first = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    vec sum = vec_set32(0);
    if (f.codes == GRID_EIGHTHS) {
        vec sums = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)x->bsums));
        sum = vec_mul32(vec_mul32(scales, vec_set32(-9)), sums);
    }
    for (int i = 0; i < 4; i++) {
        vec scale = _mm512_permutexvar_epi32(vec_add32(first, vec_set32(4 * i)), scales);
        vec codes = _mm512_loadu_si512(x->q + 64 * i);
        vec entry = _mm512_inserti64x4(_mm512_castsi256_si512(grid_entries(f, r, 2 * i)),
                                       grid_entries(f, r, 2 * i + 1), 1);
        __mmask64 signs;
        memcpy(&signs, r->signs + 2 * i, sizeof(signs));
        if (f.codes == GRID_EIGHTHS)
            entry = _mm512_mask_add_epi8(entry, signs, entry, vec_set8(2));
        else
            codes = _mm512_mask_sub_epi8(codes, signs, vec_set32(0), codes);
        vec dot = _mm512_dpbusd_epi32(vec_set32(0), entry, codes);
        sum = vec_add32(sum, vec_mul32(dot, scale));
    }
    return sum;
}

#include "engine/kernels/cpu/vector/dot_tile.h"

#endif
