/*
 * One row's super-block of a grid format taken apart: what grid.h does element by element, eight groups
 * at once. Internal to cpu.
 *
 * Bits that belong to several indices lie in one number; a product by powers of two brings each index's
 * to the same place.
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_GRID_ROW_X86_H
#define ENGINE_KERNELS_CPU_VECTOR_GRID_ROW_X86_H

#include <immintrin.h>

#include "engine/quant/grid.h"

#define GRID_INLINE static inline __attribute__((always_inline))

struct grid_row {
    uint16_t index[64]; /* 32 of eight elements, or 64 of four */
    uint32_t signs[8];  /* bit e of each 32 elements: it is negative; eighths: 1/8 is added */
    __m128i sc;         /* byte i: the scale of elements 16i.. */
};

typedef void grid_row_fn(const void *block, struct grid_row *r);

enum grid_codes {
    GRID_SIGNED,  /* grid_codes: up to 62 */
    GRID_LOW,     /* grid_codes of at most 15: a panel has them plus 15 */
    GRID_EIGHTHS, /* grid_codes_iq1: plus 9 */
};

/* A format: how a row is taken apart, and its table, of which one is there. */
struct grid_format {
    grid_row_fn *open;
    enum grid_codes codes;
    float factor;                              /* of d */
    uint16_t (*scale_bits)(const void *block); /* d, where it is not what the block begins with */
    const uint64_t *eights;
    const uint32_t *fours;
};

GRID_INLINE __m256i grid_load(const void *at)
{
    return _mm256_loadu_si256((const __m256i *)at);
}

/* Eight bytes. */
GRID_INLINE __m128i grid_load8(const void *at)
{
    return _mm_loadl_epi64((const __m128i *)at);
}

/* Sixteen bytes, widened. */
GRID_INLINE __m256i grid_widen(const void *at)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)at));
}

GRID_INLINE void grid_put_index(struct grid_row *r, int i, __m256i index)
{
    _mm256_storeu_si256((__m256i *)(r->index + 16 * i), index);
}

GRID_INLINE void grid_put_signs(struct grid_row *r, __m256i signs)
{
    _mm256_storeu_si256((__m256i *)r->signs, signs);
}

/* 2 * s + 1 of each byte. */
GRID_INLINE void grid_put_scales(struct grid_row *r, __m128i s)
{
    r->sc = _mm_add_epi8(_mm_add_epi8(s, s), _mm_set1_epi8(1));
}

/* Four 16-bit numbers, each four times over. */
GRID_INLINE __m256i grid_four_times(__m128i words)
{
    const __m256i each = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4,
                                          5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
    return _mm256_shuffle_epi8(_mm256_broadcastq_epi64(words), each);
}

/* Bits 3i .. 3i + 2 of four numbers, for i in 0..3: bits 9 to 11 of sixteen. */
GRID_INLINE __m256i grid_threes(__m128i words)
{
    const __m256i factor = _mm256_set1_epi64x(0x0001000800400200);
    return _mm256_mullo_epi16(grid_four_times(words), factor);
}

/* The eighth bit that makes the set bits of each byte's seven even (grid_even_signs). */
GRID_INLINE __m256i grid_even(__m256i sevens)
{
    const __m256i one = _mm256_set1_epi8(1);
    __m256i parity = _mm256_xor_si256(sevens, _mm256_srli_epi16(sevens, 4));
    parity = _mm256_xor_si256(parity, _mm256_srli_epi16(parity, 2));
    parity = _mm256_xor_si256(parity, _mm256_srli_epi16(parity, 1));
    return _mm256_or_si256(sevens, _mm256_slli_epi16(_mm256_and_si256(parity, one), 7));
}

/* Words of four times seven bits of signs, above them four bits of scale. */
GRID_INLINE void grid_put_words(struct grid_row *r, __m256i words)
{
    __m256i sevens = _mm256_and_si256(words, _mm256_set1_epi32(0x7f));
    for (int i = 1; i < 4; i++) {
        __m256i field = _mm256_and_si256(words, _mm256_set1_epi32(0x7f << 7 * i));
        sevens = _mm256_or_si256(sevens, _mm256_slli_epi32(field, i));
    }
    grid_put_signs(r, grid_even(sevens));
    __m256i s = _mm256_srli_epi32(words, 28);
    s = _mm256_or_si256(s, _mm256_slli_epi32(s, 8));
    grid_put_scales(r, _mm_packus_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
}

/* Eight bytes of scales, a nibble each. */
GRID_INLINE void grid_put_nibbles(struct grid_row *r, const uint8_t *scales)
{
    const __m128i low = _mm_set1_epi8(15);
    __m128i s = grid_load8(scales);
    __m128i high = _mm_and_si128(_mm_srli_epi16(s, 4), low);
    grid_put_scales(r, _mm_unpacklo_epi8(_mm_and_si128(s, low), high));
}

GRID_INLINE void grid_row_iq2_xxs(const void *block, struct grid_row *r)
{
    const struct block_iq2_xxs *b = block;
    __m256 low = _mm256_castsi256_ps(grid_load(b->groups[0]));
    __m256 high = _mm256_castsi256_ps(grid_load(b->groups[4]));
    __m256i index = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88));
    __m256i words = _mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd));
    index = _mm256_permute4x64_epi64(index, 0xd8);
    grid_put_index(r, 0, _mm256_cvtepu8_epi16(_mm256_castsi256_si128(index)));
    grid_put_index(r, 1, _mm256_cvtepu8_epi16(_mm256_extracti128_si256(index, 1)));
    grid_put_words(r, _mm256_permute4x64_epi64(words, 0xd8));
}

GRID_INLINE void grid_row_iq2_xs(const void *block, struct grid_row *r)
{
    const struct block_iq2_xs *b = block;
    __m256i w[2] = {grid_load(b->qs), grid_load(b->qs + 16)};
    for (int i = 0; i < 2; i++)
        grid_put_index(r, i, _mm256_and_si256(w[i], _mm256_set1_epi16(511)));
    __m256i sevens = _mm256_packus_epi16(_mm256_srli_epi16(w[0], 9), _mm256_srli_epi16(w[1], 9));
    grid_put_signs(r, grid_even(_mm256_permute4x64_epi64(sevens, 0xd8)));
    grid_put_nibbles(r, b->scales);
}

GRID_INLINE void grid_row_iq2_s(const void *block, struct grid_row *r)
{
    const struct block_iq2_s *b = block;
    const __m256i factor = _mm256_set1_epi64x(0x0004001000400100);
    __m128i high = _mm_cvtepu8_epi16(grid_load8(b->qh));
    for (int i = 0; i < 2; i++) {
        __m256i bits = _mm256_mullo_epi16(grid_four_times(high), factor);
        bits = _mm256_and_si256(bits, _mm256_set1_epi16(0x300));
        grid_put_index(r, i, _mm256_or_si256(grid_widen(b->qs + 16 * i), bits));
        high = _mm_unpackhi_epi64(high, high);
    }
    grid_put_signs(r, grid_load(b->signs));
    grid_put_nibbles(r, b->scales);
}

GRID_INLINE void grid_row_iq3_xxs(const void *block, struct grid_row *r)
{
    const struct block_iq3_xxs *b = block;
    for (int i = 0; i < 4; i++)
        grid_put_index(r, i, grid_widen(b->qs + 16 * i));
    grid_put_words(r, grid_load(b->words));
}

GRID_INLINE void grid_row_iq3_s(const void *block, struct grid_row *r)
{
    const struct block_iq3_s *b = block;
    const __m128i factor = _mm_setr_epi16(256, 128, 64, 32, 16, 8, 4, 2);
    for (int i = 0; i < 4; i++) {
        __m256i high =
            _mm256_setr_m128i(_mm_set1_epi16(b->qh[2 * i]), _mm_set1_epi16(b->qh[2 * i + 1]));
        high = _mm256_mullo_epi16(high, _mm256_broadcastsi128_si256(factor));
        high = _mm256_and_si256(high, _mm256_set1_epi16(0x100));
        grid_put_index(r, i, _mm256_or_si256(grid_widen(b->qs + 16 * i), high));
    }
    grid_put_signs(r, grid_load(b->signs));
    const __m128i low = _mm_set1_epi8(15);
    __m128i s = _mm_cvtsi32_si128((int)grid_word(b->scales));
    s = _mm_unpacklo_epi8(_mm_and_si128(s, low), _mm_and_si128(_mm_srli_epi16(s, 4), low));
    grid_put_scales(r, _mm_unpacklo_epi8(s, s));
}

GRID_INLINE void grid_row_iq1_s(const void *block, struct grid_row *r)
{
    const struct block_iq1_s *b = block;
    const __m128i qh = _mm_loadu_si128((const __m128i *)b->qh);
    __m128i high = qh;
    for (int i = 0; i < 2; i++) {
        __m256i bits = _mm256_srli_epi16(grid_threes(high), 1);
        bits = _mm256_and_si256(bits, _mm256_set1_epi16(0x700));
        grid_put_index(r, i, _mm256_or_si256(grid_widen(b->qs + 16 * i), bits));
        high = _mm_unpackhi_epi64(high, high);
    }
    grid_put_signs(r, _mm256_cvtepi16_epi32(_mm_cmpgt_epi16(qh, _mm_set1_epi16(-1))));
    __m128i s = _mm_and_si128(_mm_srli_epi16(qh, 12), _mm_set1_epi16(7));
    grid_put_scales(r, _mm_or_si128(s, _mm_slli_epi16(s, 8)));
}

GRID_INLINE void grid_row_iq1_m(const void *block, struct grid_row *r)
{
    const struct block_iq1_m *b = block;
    const __m128i low = _mm_set1_epi8(15);
    const __m256i sign = _mm256_set1_epi8(8);
    __m128i qh = _mm_loadu_si128((const __m128i *)b->qh);
    __m128i odd = _mm_and_si128(_mm_srli_epi16(qh, 4), low);
    qh = _mm_and_si128(qh, low);
    __m128i nibble[2] = {_mm_unpacklo_epi8(qh, odd), _mm_unpackhi_epi8(qh, odd)};
    for (int i = 0; i < 2; i++) {
        __m256i bits = _mm256_slli_epi16(_mm256_cvtepu8_epi16(nibble[i]), 8);
        bits = _mm256_and_si256(bits, _mm256_set1_epi16(0x700));
        grid_put_index(r, i, _mm256_or_si256(grid_widen(b->qs + 16 * i), bits));
    }
    __m256i all = _mm256_setr_m128i(nibble[0], nibble[1]);
    grid_put_signs(r, _mm256_cmpeq_epi8(_mm256_and_si256(all, sign), _mm256_setzero_si256()));
    __m256i s = _mm256_srli_epi16(grid_threes(grid_load8(b->scales)), 9);
    s = _mm256_and_si256(s, _mm256_set1_epi16(7));
    grid_put_scales(r, _mm_packus_epi16(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
}

/* The entries of group g. */
GRID_INLINE __m256i grid_entries(struct grid_format f, const struct grid_row *r, int g)
{
    if (f.fours) {
        const uint16_t *at = r->index + 8 * g;
        return _mm256_setr_epi32((int)f.fours[at[0]], (int)f.fours[at[1]], (int)f.fours[at[2]],
                                 (int)f.fours[at[3]], (int)f.fours[at[4]], (int)f.fours[at[5]],
                                 (int)f.fours[at[6]], (int)f.fours[at[7]]);
    }
    const uint16_t *at = r->index + 4 * g;
    return _mm256_setr_epi64x((long long)f.eights[at[0]], (long long)f.eights[at[1]],
                              (long long)f.eights[at[2]], (long long)f.eights[at[3]]);
}

/* All ones in the bytes whose bit of the word is set. */
GRID_INLINE __m256i grid_sign_mask(uint32_t signs)
{
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i select = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)signs), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, select), select);
}

#endif
