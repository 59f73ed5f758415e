/* exp of eight numbers (cpu/limits.h has the method). Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_AVX2_EXP_H
#define ENGINE_KERNELS_CPU_AVX2_EXP_H

#include <immintrin.h>
#include <math.h>

#include "engine/kernels/cpu/limits.h"

static inline __m256 exp_power_of_two(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static inline __m256 exp_ps(__m256 x)
{
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(EXP_LOG2E)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HIGH), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LOW), r);
    __m256 p = _mm256_set1_ps(EXP_C6);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
    p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    /* In two steps: the result may be subnormal, or 2^n above the largest number. */
    __m256i whole = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    __m256 scale = exp_power_of_two(half);
    __m256 y = _mm256_fmadd_ps(p, scale, scale);
    y = _mm256_mul_ps(y, exp_power_of_two(_mm256_sub_epi32(whole, half)));
    __m256 low = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_LOWEST), _CMP_LT_OQ);
    __m256 high = _mm256_cmp_ps(x, _mm256_set1_ps(EXP_HIGHEST), _CMP_GT_OQ);
    y = _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), high);
    return _mm256_andnot_ps(low, y);
}

#endif
