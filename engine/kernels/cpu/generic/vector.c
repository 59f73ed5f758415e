/* Element-wise operations in plain C. */
#include <math.h>
#include <string.h>

#include "engine/kernels/cpu/generic/generic.h"
#include "engine/kernels/cpu/limits.h"

/* 2^n for n in the range of normal numbers */
static float power_of_two(int n)
{
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

float generic_exp(float x)
{
    if (!(x >= EXP_LOWEST))
        return x < EXP_LOWEST ? 0.0f : x; /* a NaN stays one */
    if (x > EXP_HIGHEST)
        return INFINITY;
    float n = (x * EXP_LOG2E + 12582912.0f) - 12582912.0f; /* rint */
    float r = (x - n * EXP_LN2_HIGH) - n * EXP_LN2_LOW;
    float p = EXP_C6;
    p = p * r + EXP_C5;
    p = p * r + EXP_C4;
    p = p * r + EXP_C3;
    p = p * r + EXP_C2;
    p = p * (r * r) + r;
    /* In two steps: the result may be subnormal, or 2^n above the largest number. */
    int half = (int)n / 2;
    float scale = power_of_two(half);
    return (p * scale + scale) * power_of_two((int)n - half);
}

void generic_rms_norm(const float *x, const float *w, float *out, size_t n, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float scale = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        out[i] = w ? x[i] * scale * w[i] : x[i] * scale;
}

void generic_swiglu(const float *gate, const float *up, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = gate[i] / (1.0f + generic_exp(-gate[i])) * up[i];
}

static float tanh1(float x)
{
    if (!(fabsf(x) >= TANH_SMALL)) { /* a NaN stays one */
        float z = x * x, p = TANH_C4;
        p = p * z + TANH_C3;
        p = p * z + TANH_C2;
        p = p * z + TANH_C1;
        p = p * z + TANH_C0;
        return p * z * x + x;
    }
    return copysignf(1.0f - 2.0f / (generic_exp(2.0f * fabsf(x)) + 1.0f), x);
}

void generic_situ(const float *gate, const float *up, float *out, size_t n, float beta,
                  float linear_beta)
{
    float inverse = 1.0f / beta, linear_inverse = 1.0f / linear_beta;
    for (size_t i = 0; i < n; i++) {
        float capped = beta * tanh1(gate[i] * inverse) / (1.0f + generic_exp(-gate[i]));
        out[i] = capped * (linear_beta > 0 ? linear_beta * tanh1(up[i] * linear_inverse) : up[i]);
    }
}

void generic_add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

void generic_to_f16(const float *x, uint16_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = quant_f32_to_f16(x[i]);
}

void generic_merge(float *acc, float scale_acc, const float *page, float scale_page, size_t n)
{
    for (size_t i = 0; i < n; i++)
        acc[i] = acc[i] * scale_acc + page[i] * scale_page;
}
