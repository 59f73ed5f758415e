/* Activation rows to 8-bit codes: the codes and scales of the generic table, bit for bit. */
#include <string.h>

#include "engine/kernels/cpu/limits.h"
#include "engine/kernels/cpu/neon/lanes.h"
#include "engine/kernels/cpu/neon/neon.h"

void neon_act_f32(const float *x, void *out, size_t n)
{
    memcpy(out, x, n * sizeof(*x));
}

/* The largest magnitude, as bit patterns compare: a NaN above infinity above all numbers. */
static inline float largest(const float *x, size_t n)
{
    uint32x4_t max = vdupq_n_u32(0);
    for (size_t i = 0; i < n; i += 4) {
        uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + i));
        max = vmaxq_u32(max, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
    }
    return vget_lane_f32(vreinterpret_f32_u32(vdup_n_u32(vmaxvq_u32(max))), 0);
}

static inline int16x8_t codes_of_8(const float *x, float inverse)
{
    int32x4_t low = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inverse));
    int32x4_t high = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4), inverse));
    return vcombine_s16(vmovn_s32(low), vmovn_s32(high));
}

/* Writes the codes of 16 numbers and returns their sum. */
static inline int put_16(const float *x, float inverse, int8_t *q)
{
    int8x16_t codes = vdupq_n_s8(0);
    if (inverse != 0.0f)
        codes =
            vcombine_s8(vmovn_s16(codes_of_8(x, inverse)), vmovn_s16(codes_of_8(x + 8, inverse)));
    vst1q_s8(q, codes);
    return vaddlvq_s8(codes);
}

void neon_act_q8(const float *x, void *out, size_t n)
{
    struct act_q8 *b = out;
    for (size_t i = 0; i < n; i += 32, b++) {
        float inverse;
        b->d = act_scale(largest(x + i, 32), &inverse);
        int low = put_16(x + i, inverse, b->q);
        int high = put_16(x + i + 16, inverse, b->q + 16);
        b->qsum = (float)(low + high);
    }
}

void neon_act_q8k(const float *x, void *out, size_t n)
{
    struct act_q8k *b = out;
    for (size_t i = 0; i < n; i += 256, b++) {
        float inverse;
        b->d = act_scale(largest(x + i, 256), &inverse);
        for (int g = 0; g < 16; g++)
            b->bsums[g] = (int16_t)put_16(x + i + 16 * g, inverse, b->q + 16 * g);
    }
}
