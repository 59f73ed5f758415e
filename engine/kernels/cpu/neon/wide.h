/*
 * What dense.h takes a step of columns at: two vectors, as many lanes as AVX2 has. So one activation row
 * has enough sums under way, and the order, with it the bits, is AVX2's. Internal to cpu.
 */
#ifndef ENGINE_KERNELS_CPU_NEON_WIDE_H
#define ENGINE_KERNELS_CPU_NEON_WIDE_H

#include "engine/kernels/cpu/neon/lanes.h"
#include "engine/kernels/cpu/vector/vec.h"

typedef struct wide {
    float32x4_t low, high;
} wide;

#define WIDE_LANES 8
#define WIDE_TILE 2 /* activation rows: their sums take half of the registers */

VEC_INLINE wide wide_zero(void)
{
    return (wide){vdupq_n_f32(0), vdupq_n_f32(0)};
}

VEC_INLINE wide wide_load(const float *x)
{
    return (wide){vld1q_f32(x), vld1q_f32(x + 4)};
}

VEC_INLINE wide wide_load_f16(const uint16_t *x)
{
    return (wide){vecf_load_f16(x), vecf_load_f16(x + 4)};
}

VEC_INLINE wide wide_load_bf16(const uint16_t *x)
{
    uint32x4_t low = vshll_n_u16(vld1_u16(x), 16);
    uint32x4_t high = vshll_n_u16(vld1_u16(x + 4), 16);
    return (wide){vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)};
}

/* a * b + c */
VEC_INLINE wide wide_fma(wide a, wide b, wide c)
{
    return (wide){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}

VEC_INLINE float wide_sum(wide x)
{
    return lanes_sum8(x.low, x.high);
}

#endif
