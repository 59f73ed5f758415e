/* Activation rows to 8-bit codes: the codes and scales of the generic table, bit for bit. */
#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/lanes.h"
#include "engine/kernels/cpu/limits.h"

void avx2_act_f32(const float *x, void *out, size_t n)
{
    memcpy(out, x, n * sizeof(*x));
}

/* The largest magnitude, as bit patterns compare: a NaN above infinity above all numbers. */
static inline float largest(const float *x, size_t n)
{
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i max = _mm256_setzero_si256();
    for (size_t i = 0; i < n; i += 8) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(x + i));
        max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
    }
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(four));
}

static inline __m256i codes_of_8(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

static inline __m256i codes_of_32(const float *x, float inverse)
{
    if (inverse == 0.0f)
        return _mm256_setzero_si256();
    const __m256 v = _mm256_set1_ps(inverse);
    __m256i a = _mm256_packs_epi32(codes_of_8(x, v), codes_of_8(x + 8, v));
    __m256i b = _mm256_packs_epi32(codes_of_8(x + 16, v), codes_of_8(x + 24, v));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
}

/* Sums of codes 0..15 and of 16..31. */
static inline void sums_of_16(__m256i codes, int *low, int *high)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
    *low = _mm256_extract_epi32(fours, 0);
    *high = _mm256_extract_epi32(fours, 4);
}

void avx2_act_q8(const float *x, void *out, size_t n)
{
    struct act_q8 *b = out;
    for (size_t i = 0; i < n; i += 32, b++) {
        float inverse;
        int low;
        int high;
        b->d = act_scale(largest(x + i, 32), &inverse);
        __m256i codes = codes_of_32(x + i, inverse);
        _mm256_storeu_si256((__m256i *)b->q, codes);
        sums_of_16(codes, &low, &high);
        b->qsum = (float)(low + high);
    }
}

void avx2_act_q8k(const float *x, void *out, size_t n)
{
    struct act_q8k *b = out;
    for (size_t i = 0; i < n; i += 256, b++) {
        float inverse;
        b->d = act_scale(largest(x + i, 256), &inverse);
        for (int j = 0; j < 8; j++) {
            int low;
            int high;
            __m256i codes = codes_of_32(x + i + 32 * j, inverse);
            _mm256_storeu_si256((__m256i *)(b->q + 32 * j), codes);
            sums_of_16(codes, &low, &high);
            b->bsums[2 * j] = (int16_t)low;
            b->bsums[2 * j + 1] = (int16_t)high;
        }
    }
}
