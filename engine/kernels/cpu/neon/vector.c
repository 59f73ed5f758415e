/* Element-wise operations. Tails go through the body's arithmetic in a vector padded with zeros. */
#include <math.h>

#include "base/compiler.h"
#include "engine/kernels/cpu/limits.h"
#include "engine/kernels/cpu/neon/exp.h"
#include "engine/kernels/cpu/neon/lanes.h"
#include "engine/kernels/cpu/neon/neon.h"

float neon_exp(float x)
{
    return vgetq_lane_f32(exp_ps(vdupq_n_f32(x)), 0);
}

/* sum[0] += squares of lanes 0 and 1, sum[1] += of lanes 2 and 3 */
static inline void add_squares(float32x4_t x, float64x2_t sum[2])
{
    float64x2_t low = vcvt_f64_f32(vget_low_f32(x));
    float64x2_t high = vcvt_high_f64_f32(x);
    sum[0] = vfmaq_f64(sum[0], low, low);
    sum[1] = vfmaq_f64(sum[1], high, high);
}

/* Order: lane l of 4 sums the squares of elements l mod 4, in two accumulators for i mod 8. */
static double sum_of_squares(const float *x, size_t n)
{
    float64x2_t sum[4] = {vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0), vdupq_n_f64(0)};
    for (size_t i = 0; i < n; i += 8) {
        add_squares(lanes_load(x + i, MIN_OF(n - i, (size_t)4)), sum);
        if (n - i > 4)
            add_squares(lanes_load(x + i + 4, MIN_OF(n - i - 4, (size_t)4)), sum + 2);
    }
    float64x2_t low = vaddq_f64(sum[0], sum[2]);
    float64x2_t high = vaddq_f64(sum[1], sum[3]);
    return vpaddd_f64(vaddq_f64(low, high)); /* (0+2) + (1+3) */
}

void neon_rms_norm(const float *x, const float *w, float *out, size_t n, float eps)
{
    float scale = (float)(1.0 / sqrt(sum_of_squares(x, n) / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        out[i] = w ? x[i] * scale * w[i] : x[i] * scale;
}

void neon_swiglu(const float *gate, const float *up, float *out, size_t n)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    for (size_t i = 0; i < n; i += 4) {
        const size_t lanes = MIN_OF(n - i, (size_t)4);
        float32x4_t g = lanes_load(gate + i, lanes);
        float32x4_t silu = vdivq_f32(g, vaddq_f32(one, exp_ps(vnegq_f32(g))));
        lanes_store(out + i, vmulq_f32(silu, lanes_load(up + i, lanes)), lanes);
    }
}

static inline float32x4_t tanh_ps(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    float32x4_t z = vmulq_f32(x, x);
    float32x4_t p = vdupq_n_f32(TANH_C4);
    p = vfmaq_f32(vdupq_n_f32(TANH_C3), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C2), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C1), p, z);
    p = vfmaq_f32(vdupq_n_f32(TANH_C0), p, z);
    p = vfmaq_f32(x, vmulq_f32(p, z), x);
    float32x4_t size = vabsq_f32(x);
    float32x4_t e = exp_ps(vaddq_f32(size, size));
    float32x4_t far = vsubq_f32(one, vdivq_f32(vdupq_n_f32(2.0f), vaddq_f32(e, one)));
    far = vbslq_f32(vdupq_n_u32(0x80000000), x, far); /* the sign is x's */
    return vbslq_f32(vcgeq_f32(size, vdupq_n_f32(TANH_SMALL)), far, p);
}

void neon_situ(const float *gate, const float *up, float *out, size_t n, float beta,
               float linear_beta)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    const float inverse = 1.0f / beta;
    const float linear_inverse = 1.0f / linear_beta;
    for (size_t i = 0; i < n; i += 4) {
        const size_t lanes = MIN_OF(n - i, (size_t)4);
        float32x4_t g = lanes_load(gate + i, lanes);
        float32x4_t u = lanes_load(up + i, lanes);
        float32x4_t capped = vmulq_n_f32(tanh_ps(vmulq_n_f32(g, inverse)), beta);
        capped = vdivq_f32(capped, vaddq_f32(one, exp_ps(vnegq_f32(g))));
        if (linear_beta > 0)
            u = vmulq_n_f32(tanh_ps(vmulq_n_f32(u, linear_inverse)), linear_beta);
        lanes_store(out + i, vmulq_f32(capped, u), lanes);
    }
}

void neon_add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

void neon_to_f16(const float *x, uint16_t *out, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u16(out + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    if (i < n) {
        uint16_t part[4];
        vst1_u16(part, vreinterpret_u16_f16(vcvt_f16_f32(lanes_load(x + i, n - i))));
        memcpy(out + i, part, (n - i) * sizeof(*out));
    }
}

void neon_merge(float *acc, float scale_acc, const float *page, float scale_page, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        const size_t lanes = MIN_OF(n - i, (size_t)4);
        float32x4_t a = vmulq_n_f32(lanes_load(acc + i, lanes), scale_acc);
        float32x4_t p = lanes_load(page + i, lanes);
        lanes_store(acc + i, vfmaq_f32(a, p, vdupq_n_f32(scale_page)), lanes);
    }
}

void neon_sigmoid_gate(float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        const size_t lanes = MIN_OF(n - i, (size_t)4);
        float32x4_t open = exp_sigmoid_ps(lanes_load(gate + i, lanes));
        lanes_store(x + i, vmulq_f32(lanes_load(x + i, lanes), open), lanes);
    }
}
