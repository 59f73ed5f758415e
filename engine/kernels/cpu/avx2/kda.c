/*
 * Delta attention. A lane is a value of the state, so no sum crosses lanes.
 *
 * Order: a value's prediction and output are summed over the keys in ascending order by FMA. Values are
 * independent of each other: a block of columns stays in the first-level cache while all tokens pass.
 */
#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/exp.h"
#include "engine/kernels/cpu/avx2/lanes.h"

#define KDA_INLINE static inline __attribute__((always_inline))

#define COLUMNS 4 /* vectors of values held at once */

/* n of the 8 lanes; what is beyond them must not be touched. */
KDA_INLINE __m256 load(const float *x, size_t n)
{
    return n == 8 ? _mm256_loadu_ps(x) : lanes_load(x, n);
}

KDA_INLINE void store(float *out, __m256 x, size_t n)
{
    if (n == 8)
        _mm256_storeu_ps(out, x);
    else
        lanes_store(out, x, n);
}

/* 1 / (1 + exp(-x)) */
KDA_INLINE __m256 sigmoid_ps(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 e = exp_ps(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(one, _mm256_add_ps(one, e));
}

/*
 * ln(1 + t), t >= 0: u = 1 + t = 2^n m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s) with
 * s = (m - 1) / (m + 1), |s| < 0.172; what the addition rounded away from t is put back by t's
 * derivative.
 */
KDA_INLINE __m256 log1p_ps(__m256 t)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 u = _mm256_add_ps(one, t);
    __m256 lost = _mm256_div_ps(_mm256_sub_ps(t, _mm256_sub_ps(u, one)), u);
    /* 0x3f3504f3 is sqrt(1/2): n counts how often m's range fits below u */
    __m256i above = _mm256_sub_epi32(_mm256_castps_si256(u), _mm256_set1_epi32(0x3f3504f3));
    __m256i n = _mm256_srai_epi32(above, 23);
    __m256 m =
        _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(u), _mm256_slli_epi32(n, 23)));
    __m256 s = _mm256_div_ps(_mm256_sub_ps(m, one), _mm256_add_ps(m, one));
    __m256 z = _mm256_mul_ps(s, s);
    __m256 p = _mm256_set1_ps(2.0f / 9);
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2.0f / 7));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2.0f / 5));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(2.0f / 3));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, z), s, _mm256_add_ps(s, s));
    p = _mm256_fmadd_ps(_mm256_cvtepi32_ps(n), _mm256_set1_ps(0.693147181f), p);
    return _mm256_add_ps(p, lost);
}

KDA_INLINE __m256 softplus_ps(__m256 z)
{
    const __m256 top = _mm256_set1_ps(20.0f);
    __m256 soft = log1p_ps(exp_ps(_mm256_min_ps(z, top)));
    return _mm256_blendv_ps(soft, z, _mm256_cmp_ps(z, top, _CMP_GT_OQ));
}

void avx2_sigmoid_gate(float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        size_t lanes = MIN_OF(n - i, (size_t)8);
        __m256 open = sigmoid_ps(load(gate + i, lanes));
        store(x + i, _mm256_mul_ps(load(x + i, lanes), open), lanes);
    }
}

void avx2_kda_decay(float *z, const struct kda_gate *gate, float *decay, size_t n)
{
    const __m256 rate = _mm256_set1_ps(gate->rate);
    for (size_t i = 0; i < n; i += 8) {
        size_t lanes = MIN_OF(n - i, (size_t)8);
        __m256 x = _mm256_add_ps(load(z + i, lanes), load(gate->bias + i, lanes));
        __m256 g;
        if (gate->bounded) {
            __m256 share = sigmoid_ps(_mm256_xor_ps(_mm256_mul_ps(x, rate), _mm256_set1_ps(-0.0f)));
            g = _mm256_mul_ps(share, _mm256_set1_ps(gate->bound));
        } else {
            g = _mm256_mul_ps(softplus_ps(x), rate);
        }
        store(z + i, g, lanes);
        store(decay + i, exp_ps(g), lanes);
    }
}

/* One token through n_vectors vectors of values from column j; the last has `lanes` lanes. */
KDA_INLINE void advance(const struct kda_scan *s, size_t token, size_t j, int n_vectors,
                        size_t lanes)
{
    const size_t row = token * s->stride;
    const float *q = s->q + row, *k = s->k + row, *decay = s->decay + row;
    const __m256 beta = _mm256_set1_ps(s->beta[token * s->beta_stride]);
    __m256 sum[COLUMNS], error[COLUMNS];
    for (int c = 0; c < n_vectors; c++)
        sum[c] = _mm256_setzero_ps();
    for (size_t i = 0; i < s->dim; i++) {
        const float *state = s->state + i * s->dim + j;
        const __m256 fade = _mm256_broadcast_ss(decay + i), key = _mm256_broadcast_ss(k + i);
        for (int c = 0; c < n_vectors; c++)
            sum[c] = _mm256_fmadd_ps(_mm256_mul_ps(load(state + 8 * c, lanes), fade), key, sum[c]);
    }
    for (int c = 0; c < n_vectors; c++) {
        __m256 value = load(s->v + row + j + 8 * (size_t)c, lanes);
        error[c] = _mm256_mul_ps(_mm256_sub_ps(value, sum[c]), beta);
        sum[c] = _mm256_setzero_ps();
    }
    for (size_t i = 0; i < s->dim; i++) {
        float *state = s->state + i * s->dim + j;
        const __m256 fade = _mm256_broadcast_ss(decay + i), key = _mm256_broadcast_ss(k + i);
        const __m256 query = _mm256_broadcast_ss(q + i);
        for (int c = 0; c < n_vectors; c++) {
            __m256 x = _mm256_mul_ps(load(state + 8 * c, lanes), fade);
            x = _mm256_fmadd_ps(key, error[c], x);
            store(state + 8 * c, x, lanes);
            sum[c] = _mm256_fmadd_ps(x, query, sum[c]);
        }
    }
    for (int c = 0; c < n_vectors; c++)
        store(s->out + row + j + 8 * (size_t)c, _mm256_mul_ps(sum[c], _mm256_set1_ps(s->scale)),
              lanes);
}

void avx2_kda_scan(const struct kda_scan *s)
{
    size_t j = 0;
    for (; j + 8 * COLUMNS <= s->dim; j += 8 * COLUMNS) {
        for (size_t token = 0; token < s->n_tokens; token++)
            advance(s, token, j, COLUMNS, 8);
    }
    for (; j + 8 <= s->dim; j += 8) {
        for (size_t token = 0; token < s->n_tokens; token++)
            advance(s, token, j, 1, 8);
    }
    for (size_t token = 0; j < s->dim && token < s->n_tokens; token++)
        advance(s, token, j, 1, s->dim - j);
}
