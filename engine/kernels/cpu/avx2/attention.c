/*
 * One page of attention: f16 keys and values, f32 arithmetic.
 *
 * Order: a score's lane l of 8 sums the dimensions l mod 8 by FMA, lanes as lanes_sum4 says; weights
 * are summed in 8 lanes of keys mod 8, then lanes_sum; values are added in ascending order of keys.
 */
#include <math.h>

#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/exp.h"
#include "engine/kernels/cpu/avx2/lanes.h"

#define ATTENTION_INLINE static inline __attribute__((always_inline))

ATTENTION_INLINE __m256 load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

/* n < 8 numbers, then zeros */
ATTENTION_INLINE __m256 load_f16_tail(const uint16_t *p, size_t n)
{
    uint16_t part[8] = {0};
    memcpy(part, p, n * sizeof(*p));
    return load_f16(part);
}

/* Sums of four vectors: ((0+1) + (2+3)) + ((4+5) + (6+7)) of each. */
ATTENTION_INLINE __m128 lanes_sum4(const __m256 x[4])
{
    __m256 a = _mm256_hadd_ps(x[0], x[1]);
    __m256 b = _mm256_hadd_ps(x[2], x[3]);
    __m256 c = _mm256_hadd_ps(a, b);
    return _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
}

/* q * k of keys j .. j + 4; keys beyond the last repeat it. */
static inline __m128 four_scores(const struct attention_page *a, size_t j)
{
    const uint16_t *k[4];
    __m256 acc[4];
    for (size_t i = 0; i < 4; i++) {
        size_t key = MIN_OF(j + i, a->n_keys - 1);
        k[i] = (const uint16_t *)((const char *)a->k + key * a->k_stride_bytes);
        acc[i] = _mm256_setzero_ps();
    }
    size_t c = 0;
    for (; c + 8 <= a->k_dim; c += 8) {
        __m256 q = _mm256_loadu_ps(a->q + c);
        for (size_t i = 0; i < 4; i++)
            acc[i] = _mm256_fmadd_ps(q, load_f16(k[i] + c), acc[i]);
    }
    if (c < a->k_dim) {
        __m256 q = lanes_load(a->q + c, a->k_dim - c);
        for (size_t i = 0; i < 4; i++)
            acc[i] = _mm256_fmadd_ps(q, load_f16_tail(k[i] + c, a->k_dim - c), acc[i]);
    }
    return lanes_sum4(acc);
}

/* score [KV_PAGE] becomes exp(score - max); returns their sum. Rows beyond n_keys become 0. */
static float weigh(const struct attention_page *a, float score[KV_PAGE], float *ret_max)
{
    const __m128 scale = _mm_set1_ps(a->scale);
    for (size_t j = 0; j < a->n_keys; j += 4)
        _mm_storeu_ps(score + j, _mm_mul_ps(four_scores(a, j), scale));
    for (size_t j = a->n_keys; j < KV_PAGE; j++)
        score[j] = -INFINITY;
    __m256 max = _mm256_loadu_ps(score);
    for (size_t j = 8; j < a->n_keys; j += 8)
        max = _mm256_max_ps(max, _mm256_loadu_ps(score + j));
    *ret_max = lanes_max(max);
    const __m256 top = _mm256_set1_ps(*ret_max);
    __m256 sum = _mm256_setzero_ps();
    for (size_t j = 0; j < a->n_keys; j += 8) {
        __m256 w = exp_ps(_mm256_sub_ps(_mm256_loadu_ps(score + j), top));
        _mm256_storeu_ps(score + j, w);
        sum = _mm256_add_ps(sum, w);
    }
    return lanes_sum(sum);
}

/* acc of 8 n dimensions from c */
ATTENTION_INLINE void add_values(const struct attention_page *a, const float *weight, size_t c,
                                 float *acc, int n)
{
    __m256 sum[8];
    for (int i = 0; i < n; i++)
        sum[i] = _mm256_setzero_ps();
    const char *v = (const char *)a->v;
    for (size_t j = 0; j < a->n_keys; j++, v += a->v_stride_bytes) {
        __m256 w = _mm256_broadcast_ss(weight + j);
        for (int i = 0; i < n; i++)
            sum[i] = _mm256_fmadd_ps(w, load_f16((const uint16_t *)v + c + 8 * i), sum[i]);
    }
    for (int i = 0; i < n; i++)
        _mm256_storeu_ps(acc + c + 8 * i, sum[i]);
}

static void add_values_tail(const struct attention_page *a, const float *weight, size_t c,
                            float *acc)
{
    __m256 sum = _mm256_setzero_ps();
    const char *v = (const char *)a->v;
    for (size_t j = 0; j < a->n_keys; j++, v += a->v_stride_bytes) {
        __m256 value = load_f16_tail((const uint16_t *)v + c, a->v_dim - c);
        sum = _mm256_fmadd_ps(_mm256_broadcast_ss(weight + j), value, sum);
    }
    lanes_store(acc + c, sum, a->v_dim - c);
}

void avx2_attention_page(const struct attention_page *a, float *ret_max, float *ret_sum, float *acc)
{
    float weight[KV_PAGE];
    *ret_sum = weigh(a, weight, ret_max);
    size_t c = 0;
    for (; c + 64 <= a->v_dim; c += 64)
        add_values(a, weight, c, acc, 8);
    for (; c + 8 <= a->v_dim; c += 8)
        add_values(a, weight, c, acc, 1);
    if (c < a->v_dim)
        add_values_tail(a, weight, c, acc);
}
