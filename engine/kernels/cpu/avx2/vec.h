/* Vectors of eight lanes of 32 bits: what vector/vec.h cannot say for both widths. */
#ifndef ENGINE_KERNELS_CPU_AVX2_VEC_H
#define ENGINE_KERNELS_CPU_AVX2_VEC_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/lanes.h"

typedef __m256i vec;
typedef __m256 vecf;

#define VEC_LANES 8
#define VEC_NAME(name) avx2_##name
#define VEC_OP(op) _mm256_##op
#define VEC_INLINE static inline __attribute__((always_inline))

#include "engine/kernels/cpu/vector/ops_x86.h"

/* 16 bytes from there, in each 128 bits. */
VEC_INLINE vec vec_repeat16(const void *at)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)at));
}

/* 1 in the bytes that are n or more, unsigned. */
VEC_INLINE vec vec_at_least8(vec x, int n)
{
    vec least = _mm256_set1_epi8((char)n);
    return _mm256_cmpeq_epi8(_mm256_max_epu8(x, least), x) & _mm256_set1_epi8(1);
}

/* That value in the bytes of `bits` that have all bits of `select`, else 0. */
VEC_INLINE vec vec_where8(vec bits, vec select, char value)
{
    return _mm256_cmpeq_epi8(bits & select, select) & _mm256_set1_epi8(value);
}

/* The low 16 bits of each lane as a binary16, and the high ones. */
VEC_INLINE void vec_halves(vec words, vecf *low, vecf *high)
{
    vec l = words & _mm256_set1_epi32(0xffff);
    vec h = _mm256_srli_epi32(words, 16);
    vec both = _mm256_permute4x64_epi64(_mm256_packus_epi32(l, h), 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(both));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1));
}

/* Binary16 numbers. */
VEC_INLINE vecf vecf_halves(const uint64_t x[2])
{
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)x[1], (long long)x[0]));
}

/* Lane i: the 32-bit word at `at` of row i. */
VEC_INLINE vec vec_gather4(const uint8_t *const *row, size_t at)
{
    int w[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        memcpy(&w[i], row[i] + at, sizeof(w[i]));
    return _mm256_setr_epi32(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]);
}

/* 16 bytes at `at` of rows i and 4 + i, one after the other. */
VEC_INLINE vec vec_pieces(const uint8_t *const *row, int i, size_t at)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(row[i] + at));
    __m128i high = _mm_loadu_si128((const __m128i *)(row[i + 4] + at));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

VEC_INLINE vecf vecf_load_f16(const uint16_t *x)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x));
}

/* 16-bit numbers, a lane each. */
VEC_INLINE vec vec_load_u16(const uint16_t *x)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
}

/* ((0+4) + (2+6)) + ((1+5) + (3+7)) */
VEC_INLINE float vecf_sum(vecf x)
{
    return lanes_sum(x);
}

/* The sums of x[0]'s 128-bit parts, lane by lane, then those of the others. */
VEC_INLINE vec vec_sum_quarters(const vec x[2])
{
    vec low = _mm256_permute2x128_si256(x[0], x[1], 0x20);
    return _mm256_add_epi32(low, _mm256_permute2x128_si256(x[0], x[1], 0x31));
}

#endif
