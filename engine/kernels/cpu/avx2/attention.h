/* What the two ways through a page share: keys transposed while they are halves. Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_AVX2_ATTENTION_H
#define ENGINE_KERNELS_CPU_AVX2_ATTENTION_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "engine/kernels/kernels.h"

#define ATTENTION_INLINE static inline __attribute__((always_inline))
#define STRIP_KEYS 16

/*
 * Scores and values of up to four queries that see as much, without a block of f32 in between: to
 * store and load it costs more than few queries save by it. The same order, so the same bits. False:
 * this call is not of that kind, and nothing was done.
 */
bool avx2_attend_few(const struct attention_page *a);

/* score [KV_PAGE] of n_keys becomes weights: attention_parts' weigh. */
float avx2_weigh(float *score, size_t n_keys, float scale, float *ret_max);

/* n halves, of which more than 8 are not taken; then zeros */
ATTENTION_INLINE __m128i load_halves(const uint16_t *p, size_t n)
{
    if (n >= 8)
        return _mm_loadu_si128((const __m128i *)p);
    uint16_t part[8] = {0};
    memcpy(part, p, n * sizeof(*p));
    return _mm_loadu_si128((const __m128i *)part);
}

/* Keys j .. j + 15 from dimension c; beyond n_keys the last one again. */
ATTENTION_INLINE void find_strip(const struct attention_page *a, size_t n_keys, size_t j, size_t c,
                                 const uint16_t *key[STRIP_KEYS])
{
    for (size_t i = 0; i < STRIP_KEYS; i++)
        key[i] =
            (const uint16_t *)((const char *)a->k + MIN_OF(j + i, n_keys - 1) * a->k_stride_bytes) +
            c;
}

/* out[0..3]: four dimensions; in: words of two neighbouring keys' halves. */
ATTENTION_INLINE void transpose_words(const __m256i x[4], __m256i out[4])
{
    __m256i a = _mm256_unpacklo_epi32(x[0], x[1]);
    __m256i b = _mm256_unpacklo_epi32(x[2], x[3]);
    __m256i c = _mm256_unpackhi_epi32(x[0], x[1]);
    __m256i d = _mm256_unpackhi_epi32(x[2], x[3]);
    out[0] = _mm256_unpacklo_epi64(a, b);
    out[1] = _mm256_unpackhi_epi64(a, b);
    out[2] = _mm256_unpacklo_epi64(c, d);
    out[3] = _mm256_unpackhi_epi64(c, d);
}

/* out[i]: dimension c + i of the 16 keys, for i < 8; n_dims of them are there. */
ATTENTION_INLINE void transpose_strip(const uint16_t *const key[STRIP_KEYS], size_t c,
                                      size_t n_dims, __m256i out[8])
{
    __m256i low[4];
    __m256i high[4];
    for (size_t i = 0; i < 4; i++) {
        __m256i pair[2];
        for (size_t h = 0; h < 2; h++) {
            __m128i first = load_halves(key[2 * i + h] + c, n_dims);
            __m128i second = load_halves(key[2 * i + h + 8] + c, n_dims);
            pair[h] = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
        }
        low[i] = _mm256_unpacklo_epi16(pair[0], pair[1]);
        high[i] = _mm256_unpackhi_epi16(pair[0], pair[1]);
    }
    transpose_words(low, out);
    transpose_words(high, out + 4);
}

ATTENTION_INLINE __m256 low_floats(__m256i halves)
{
    return _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
}

ATTENTION_INLINE __m256 high_floats(__m256i halves)
{
    return _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}

#endif
