/* Rows that are no multiple of four, and sums across lanes. Internal to this folder. */
#ifndef ENGINE_KERNELS_CPU_NEON_LANES_H
#define ENGINE_KERNELS_CPU_NEON_LANES_H

#include <arm_neon.h>
#include <stddef.h>
#include <string.h>

/* n <= 4 floats, the rest 0. */
static inline float32x4_t lanes_load(const float *x, size_t n)
{
    if (n == 4)
        return vld1q_f32(x);
    float part[4] = {0};
    memcpy(part, x, n * sizeof(*x));
    return vld1q_f32(part);
}

static inline void lanes_store(float *out, float32x4_t x, size_t n)
{
    if (n == 4) {
        vst1q_f32(out, x);
        return;
    }
    float part[4];
    vst1q_f32(part, x);
    memcpy(out, part, n * sizeof(*out));
}

/* Lanes 0..3 and 4..7: ((0+4) + (2+6)) + ((1+5) + (3+7)) */
static inline float lanes_sum8(float32x4_t low, float32x4_t high)
{
    float32x4_t four = vaddq_f32(low, high);
    return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}

#endif
