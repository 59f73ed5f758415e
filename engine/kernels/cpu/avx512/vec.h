/* Vectors of sixteen lanes of 32 bits: what vector/vec.h cannot say for both widths. */
#ifndef ENGINE_KERNELS_CPU_AVX512_VEC_H
#define ENGINE_KERNELS_CPU_AVX512_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/kernels/cpu/avx2/lanes.h"
#include "engine/kernels/cpu/avx512/avx512.h"

typedef __m512i vec;
typedef __m512 vecf;

#define VEC_LANES 16
#define VEC_NAME(name) avx512_##name
#define VEC_OP(op) _mm512_##op
#define VEC_INLINE static inline __attribute__((always_inline))

#include "engine/kernels/cpu/vector/ops_x86.h"

VEC_INLINE vec vec_repeat16(const void *at)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)at));
}

VEC_INLINE vec vec_at_least8(vec x, int n)
{
    __mmask64 is = _mm512_cmpge_epu8_mask(x, _mm512_set1_epi8((char)n));
    return _mm512_maskz_set1_epi8(is, 1);
}

/* `select` has one bit in each byte. */
VEC_INLINE vec vec_where8(vec bits, vec select, char value)
{
    return _mm512_maskz_set1_epi8(_mm512_test_epi8_mask(bits, select), value);
}

VEC_INLINE void vec_halves(vec words, vecf *low, vecf *high)
{
    *low = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words));
    *high = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(words, 16)));
}

VEC_INLINE vecf vecf_halves(const uint64_t x[4])
{
    return _mm512_cvtph_ps(
        _mm256_setr_epi64x((long long)x[0], (long long)x[1], (long long)x[2], (long long)x[3]));
}

VEC_INLINE vec vec_gather4(const uint8_t *const *row, size_t at)
{
    int w[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        memcpy(&w[i], row[i] + at, sizeof(w[i]));
    return _mm512_setr_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10],
                             w[11], w[12], w[13], w[14], w[15]);
}

/*
 * 16 bytes at `at` of rows i, 4 + i, 8 + i and 12 + i. Two halves of 256 bits first: an insertion from
 * memory into 512 takes the one shuffle that a cycle has.
 */
VEC_INLINE vec vec_pieces(const uint8_t *const *row, int i, size_t at)
{
    __m256i low =
        _mm256_loadu2_m128i((const __m128i *)(row[i + 4] + at), (const __m128i *)(row[i] + at));
    __m256i high = _mm256_loadu2_m128i((const __m128i *)(row[i + 12] + at),
                                       (const __m128i *)(row[i + 8] + at));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

VEC_INLINE vecf vecf_load_f16(const uint16_t *x)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x));
}

VEC_INLINE vec vec_load_u16(const uint16_t *x)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
}

/* i + (8 + i) of each i in 0..7, then as lanes_sum says. */
VEC_INLINE float vecf_sum(vecf x)
{
    return lanes_sum(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1)));
}

/* Parts of 128 bits: 0 + 2 and 1 + 3 of a, then of b. */
VEC_INLINE vec vec_sum_halves(vec a, vec b)
{
    vec low = _mm512_shuffle_i32x4(a, b, 0x44);
    return _mm512_add_epi32(low, _mm512_shuffle_i32x4(a, b, 0xee));
}

/* The sums of x[0]'s 128-bit parts, lane by lane, then those of the others. */
VEC_INLINE vec vec_sum_quarters(const vec x[4])
{
    vec a = vec_sum_halves(x[0], x[1]);
    vec b = vec_sum_halves(x[2], x[3]);
    vec even = _mm512_shuffle_i32x4(a, b, 0x88);
    return _mm512_add_epi32(even, _mm512_shuffle_i32x4(a, b, 0xdd));
}

#endif
