/* Element-wise operations. Tails go through the body's arithmetic in a vector padded with zeros. */
#include <math.h>

#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/exp.h"
#include "engine/kernels/cpu/avx2/lanes.h"

float avx2_exp(float x)
{
    return _mm256_cvtss_f32(exp_ps(_mm256_set1_ps(x)));
}

/* Order: lane l of 4 sums the squares of elements l mod 4, in two accumulators for i mod 8. */
static double sum_of_squares(const float *x, size_t n)
{
    __m256d low = _mm256_setzero_pd();
    __m256d high = _mm256_setzero_pd();
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = n - i >= 8 ? _mm256_loadu_ps(x + i) : lanes_load(x + i, n - i);
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        low = _mm256_fmadd_pd(a, a, low);
        high = _mm256_fmadd_pd(b, b, high);
    }
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(low, high));
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

void avx2_rms_norm(const float *x, const float *w, float *out, size_t n, float eps)
{
    float scale = (float)(1.0 / sqrt(sum_of_squares(x, n) / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        out[i] = w ? x[i] * scale * w[i] : x[i] * scale;
}

static inline __m256 swiglu_ps(__m256 gate, __m256 up)
{
    __m256 one = _mm256_set1_ps(1.0f);
    __m256 e = exp_ps(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(one, e)), up);
}

void avx2_swiglu(const float *gate, const float *up, float *out, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, swiglu_ps(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n)
        lanes_store(out + i, swiglu_ps(lanes_load(gate + i, n - i), lanes_load(up + i, n - i)),
                    n - i);
}

static inline __m256 tanh_ps(__m256 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
    __m256 z = _mm256_mul_ps(x, x), p = _mm256_set1_ps(TANH_C4);
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C3));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C2));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C1));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(TANH_C0));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, z), x, x);
    __m256 size = _mm256_andnot_ps(sign, x);
    __m256 e = exp_ps(_mm256_add_ps(size, size));
    __m256 far = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), _mm256_add_ps(e, one)));
    far = _mm256_or_ps(far, _mm256_and_ps(x, sign));
    return _mm256_blendv_ps(p, far, _mm256_cmp_ps(size, _mm256_set1_ps(TANH_SMALL), _CMP_GE_OQ));
}

struct situ {
    __m256 beta, inverse, linear_beta, linear_inverse;
    bool linear;
};

static inline __m256 situ_ps(__m256 gate, __m256 up, const struct situ *s)
{
    __m256 e = exp_ps(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)));
    __m256 capped = _mm256_mul_ps(s->beta, tanh_ps(_mm256_mul_ps(gate, s->inverse)));
    capped = _mm256_div_ps(capped, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
    if (s->linear)
        up = _mm256_mul_ps(s->linear_beta, tanh_ps(_mm256_mul_ps(up, s->linear_inverse)));
    return _mm256_mul_ps(capped, up);
}

void avx2_situ(const float *gate, const float *up, float *out, size_t n, float beta,
               float linear_beta)
{
    const struct situ s = {_mm256_set1_ps(beta), _mm256_set1_ps(1.0f / beta),
                           _mm256_set1_ps(linear_beta), _mm256_set1_ps(1.0f / linear_beta),
                           linear_beta > 0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, situ_ps(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i), &s));
    if (i < n)
        lanes_store(out + i, situ_ps(lanes_load(gate + i, n - i), lanes_load(up + i, n - i), &s),
                    n - i);
}

void avx2_add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

void avx2_to_f16(const float *x, uint16_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    if (i < n) {
        uint16_t part[8];
        _mm_storeu_si128((__m128i *)part,
                         _mm256_cvtps_ph(lanes_load(x + i, n - i), _MM_FROUND_TO_NEAREST_INT));
        memcpy(out + i, part, (n - i) * sizeof(*out));
    }
}

static inline __m256 merge_ps(__m256 acc, __m256 scale_acc, __m256 page, __m256 scale_page)
{
    return _mm256_fmadd_ps(page, scale_page, _mm256_mul_ps(acc, scale_acc));
}

void avx2_merge(float *acc, float scale_acc, const float *page, float scale_page, size_t n)
{
    const __m256 a = _mm256_set1_ps(scale_acc);
    const __m256 p = _mm256_set1_ps(scale_page);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(acc + i,
                         merge_ps(_mm256_loadu_ps(acc + i), a, _mm256_loadu_ps(page + i), p));
    if (i < n)
        lanes_store(acc + i,
                    merge_ps(lanes_load(acc + i, n - i), a, lanes_load(page + i, n - i), p), n - i);
}
