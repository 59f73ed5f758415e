/*
 * Activation rows to 8-bit codes. The largest magnitude of a block is found by comparing bit patterns,
 * where a NaN is larger than infinity and infinity larger than all numbers: whatever is not finite ends
 * in the scale, and from there in the result.
 */
#include <string.h>

#include "engine/kernels/cpu/generic/generic.h"
#include "engine/kernels/cpu/limits.h"

void generic_act_f32(const float *x, void *out, size_t n)
{
    memcpy(out, x, n * sizeof(*x));
}

static float largest(const float *x, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        bits &= 0x7fffffff;
        max = bits > max ? bits : max;
    }
    float f;
    memcpy(&f, &max, sizeof(f));
    return f;
}

/* To the nearest integer, ties to even: what adding 1.5 * 2^23 leaves in the low bits. */
static int8_t round_code(float x)
{
    float shifted = x + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    return (int8_t)(bits - 0x4b400000);
}

/* Returns the scale. Codes of a block that is not finite are 0. */
static float quantise(const float *x, int8_t *q, size_t n)
{
    float inverse;
    const float scale = act_scale(largest(x, n), &inverse);
    if (inverse == 0.0f)
        memset(q, 0, n);
    for (size_t i = 0; i < n && inverse != 0.0f; i++)
        q[i] = round_code(x[i] * inverse);
    return scale;
}

static int sum_codes(const int8_t *q, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += q[i];
    return sum;
}

void generic_act_q8(const float *x, void *out, size_t n)
{
    struct act_q8 *b = out;
    for (size_t i = 0; i < n; i += 32, b++) {
        b->d = quantise(x + i, b->q, 32);
        b->qsum = (float)sum_codes(b->q, 32);
    }
}

void generic_act_q8k(const float *x, void *out, size_t n)
{
    struct act_q8k *b = out;
    for (size_t i = 0; i < n; i += 256, b++) {
        b->d = quantise(x + i, b->q, 256);
        for (int g = 0; g < 16; g++)
            b->bsums[g] = (int16_t)sum_codes(b->q + 16 * g, 16);
    }
}
