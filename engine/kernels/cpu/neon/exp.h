/* exp of four numbers (cpu/limits.h has the method). Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_NEON_EXP_H
#define ENGINE_KERNELS_CPU_NEON_EXP_H

#include <arm_neon.h>
#include <math.h>

#include "engine/kernels/cpu/limits.h"

static inline float32x4_t exp_power_of_two(int32x4_t n)
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

static inline float32x4_t exp_ps(float32x4_t x)
{
    float32x4_t n = vrndnq_f32(vmulq_n_f32(x, EXP_LOG2E));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(EXP_LN2_HIGH));
    r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LOW));
    float32x4_t p = vdupq_n_f32(EXP_C6);
    p = vfmaq_f32(vdupq_n_f32(EXP_C5), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
    p = vfmaq_f32(vdupq_n_f32(EXP_C2), p, r);
    p = vfmaq_f32(r, p, vmulq_f32(r, r));
    /* In two steps: the result may be subnormal, or 2^n above the largest number. */
    int32x4_t whole = vcvtnq_s32_f32(n);
    int32x4_t half = vshrq_n_s32(whole, 1);
    float32x4_t scale = exp_power_of_two(half);
    float32x4_t y = vfmaq_f32(scale, p, scale);
    y = vmulq_f32(y, exp_power_of_two(vsubq_s32(whole, half)));
    y = vbslq_f32(vcgtq_f32(x, vdupq_n_f32(EXP_HIGHEST)), vdupq_n_f32(INFINITY), y);
    return vbslq_f32(vcltq_f32(x, vdupq_n_f32(EXP_LOWEST)), vdupq_n_f32(0.0f), y);
}

/* 1 / (1 + exp(-x)) */
static inline float32x4_t exp_sigmoid_ps(float32x4_t x)
{
    const float32x4_t one = vdupq_n_f32(1.0f);
    return vdivq_f32(one, vaddq_f32(one, exp_ps(vnegq_f32(x))));
}

#endif
