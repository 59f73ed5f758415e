/* Rows that are no multiple of eight, and sums across lanes. Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_AVX2_LANES_H
#define ENGINE_KERNELS_CPU_AVX2_LANES_H

#include <immintrin.h>
#include <stddef.h>
#include <string.h>

/* n < 8 floats, the rest 0. */
static inline __m256 lanes_load(const float *x, size_t n)
{
    float part[8] = {0};
    memcpy(part, x, n * sizeof(*x));
    return _mm256_loadu_ps(part);
}

static inline void lanes_store(float *out, __m256 x, size_t n)
{
    float part[8];
    _mm256_storeu_ps(part, x);
    memcpy(out, part, n * sizeof(*out));
}

/* ((0+4) + (2+6)) + ((1+5) + (3+7)) */
static inline float lanes_sum(__m256 x)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float lanes_max(__m256 x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

#endif
