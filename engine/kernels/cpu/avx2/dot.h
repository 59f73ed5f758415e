/*
 * Dot products of eight weight rows' codes with AVX2. Products are summed to 16 bits only as far as the
 * largest codes allow (activation codes are -127..127):
 *   codes <= 15: 8 pairs, 30480;   <= 31: 4 pairs, 31496;   <= 63: 2 pairs, 32004;   int8: 1, 32512
 */
#ifndef ENGINE_KERNELS_CPU_AVX2_DOT_H
#define ENGINE_KERNELS_CPU_AVX2_DOT_H

#include "engine/kernels/cpu/vector/codes.h"
#include "engine/kernels/cpu/vector/grid_row_x86.h"
#include "engine/kernels/cpu/vector/vec.h"
#include "engine/kernels/kernels.h"

#define DOT_TILE 4      /* activation rows that fit the registers with four words of codes */
#define DOT_WORDS 4     /* words of codes that have one scale, at most: eight would not fit */
#define DOT_BY_ROW 0    /* no row_k4.h: it was slower */
#define DOT_I8_OFFSET 0 /* that dot_keep adds to signed codes */

VEC_INLINE vec dot_keep(enum codes codes, vec w)
{
    (void)codes;
    return w;
}

/* Four words of codes with an activation's 16: products summed within each lane's pairs to 16 bits. */
VEC_INLINE vec dot_pairs(const vec *w, const int8_t *x)
{
    vec sum = _mm256_maddubs_epi16(w[0], vec_spread(x));
    for (int c = 1; c < 4; c++)
        sum = vec_add16(sum, _mm256_maddubs_epi16(w[c], vec_spread(x + 4 * c)));
    return sum;
}

/* sum + scale * the sum of n (4) words' products; a scale is 16 bits, twice in each lane. */
VEC_INLINE vec dot_scaled(enum codes codes, const vec *w, const int8_t *x, vec scale, vec sum,
                          int n)
{
    (void)n;
    if (codes == CODES_U4 || codes == CODES_U5)
        return vec_add32(sum, vec_madd16(dot_pairs(w, x), scale));
    vec part[4];
    for (int c = 0; c < 4; c++) {
        vec xc = vec_spread(x + 4 * c);
        part[c] = codes == CODES_I8
                      ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[c]), _mm256_sign_epi8(xc, w[c]))
                      : _mm256_maddubs_epi16(w[c], xc);
    }
    if (codes == CODES_U6) {
        vec low = vec_madd16(vec_add16(part[0], part[1]), scale);
        vec high = vec_madd16(vec_add16(part[2], part[3]), scale);
        return vec_add32(sum, vec_add32(low, high));
    }
    for (int c = 0; c < 4; c++)
        part[c] = vec_madd16(part[c], scale);
    vec low = vec_add32(part[0], part[1]);
    return vec_add32(sum, vec_add32(low, vec_add32(part[2], part[3])));
}

VEC_INLINE vec dot_16(enum codes codes, const vec *w, const int8_t *x, vec sum)
{
    return dot_scaled(codes, w, x, vec_set16(1), sum, 4);
}

/*
 * Pieces of 16 bytes: sum + the products of those in w with an activation's 16 codes, of the smallest
 * codes in 16 bits.
 */
VEC_INLINE vec dot_piece(enum codes codes, vec w, vec x, vec sum)
{
    if (codes == CODES_U4)
        return vec_add16(sum, _mm256_maddubs_epi16(w, x));
    vec pairs = codes == CODES_I8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                                  : _mm256_maddubs_epi16(w, x);
    return vec_add32(sum, vec_madd16(pairs, vec_set16(1)));
}

/* Row by row the sums of the two pieces of a block. */
VEC_INLINE vec dot_sum4(enum codes codes, const vec part[4])
{
    if (codes != CODES_U4)
        return vec_sum4(part);
    vec a = vec_add16(vec_low32(part[0], part[1]), vec_high32(part[0], part[1]));
    vec b = vec_add16(vec_low32(part[2], part[3]), vec_high32(part[2], part[3]));
    return vec_madd16(vec_add16(vec_low64(a, b), vec_high64(a, b)), vec_set16(1));
}

/* The 32 codes of a block by halves: the first, then the sum of both. */
VEC_INLINE vec dot_first(enum codes codes, const vec *w, const int8_t *x)
{
    return codes == CODES_U4 ? dot_pairs(w, x) : dot_16(codes, w, x, vec_set32(0));
}

VEC_INLINE vec dot_second(enum codes codes, vec first, const vec *w, const int8_t *x)
{
    if (codes == CODES_U4)
        return vec_madd16(vec_add16(first, dot_pairs(w, x)), vec_set16(1));
    return dot_16(codes, w, x, first);
}

/* Byte i (0..3) of each lane's word as a scale. */
VEC_INLINE vec dot_scale(vec words, int i)
{
    return vec_widen(words, i, i);
}

VEC_INLINE vec dot_scale_signed(vec words, int i)
{
    return vec_sra16(vec_sll16(vec_widen(words, i, i), 8), 8);
}

VEC_INLINE vec dot_scale_less(vec scale, int n)
{
    return vec_sub16(scale, vec_set16(n));
}

/* Small numbers, 0 or more. */
VEC_INLINE vec dot_scale_of(vec lanes)
{
    return lanes | vec_sll32(lanes, 16);
}

/*
 * A row of a grid format by itself, 32 columns to a vector: sums whose total is that of scale * code * x.
 * Magnitudes are unsigned and take the activation's signs; eighths are entry or entry + 2, less 9. Pairs
 * of products have 16 bits: the largest entry is 62.
 */
VEC_INLINE vec dot_grid(struct grid_format f, const struct grid_row *r, const struct act_q8k *x)
{
    const vec both = _mm256_broadcastsi128_si256(r->sc);
    const vec half =
        _mm256_setr_m128i(_mm_set1_epi16((short)0x8000), _mm_set1_epi16((short)0x8001));
    vec sum = vec_set32(0);
    if (f.codes == GRID_EIGHTHS) {
        vec sc = vec_mul16(_mm256_cvtepu8_epi16(r->sc), vec_set16(-9));
        sum = vec_madd16(sc, _mm256_loadu_si256((const __m256i *)x->bsums));
    }
    for (int g = 0; g < 8; g++) {
        vec scale = vec_shuffle8(both, vec_add8(half, vec_set16(2 * g)));
        vec codes = _mm256_loadu_si256((const __m256i *)(x->q + 32 * g));
        vec mask = grid_sign_mask(r->signs[g]);
        vec entry = grid_entries(f, r, g);
        if (f.codes == GRID_EIGHTHS)
            entry = vec_add8(entry, mask & vec_set8(2));
        else
            codes = _mm256_sub_epi8(codes ^ mask, mask);
        sum = vec_add32(sum, vec_madd16(_mm256_maddubs_epi16(entry, codes), scale));
    }
    return sum;
}

#include "engine/kernels/cpu/vector/dot_tile.h"

#endif
