/* What dense.h takes a step of columns at, on x86: one vector. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_VECTOR_WIDE_H
#define ENGINE_KERNELS_CPU_VECTOR_WIDE_H

#include "engine/kernels/cpu/vector/vec.h"

typedef vecf wide;

#define WIDE_LANES VEC_LANES
#define WIDE_TILE (VEC_LANES == 8 ? 3 : 6) /* activation rows: accumulators in most registers */

VEC_INLINE wide wide_zero(void)
{
    return vecf_set(0);
}

VEC_INLINE wide wide_load(const float *x)
{
    return vecf_load(x);
}

VEC_INLINE wide wide_load_f16(const uint16_t *x)
{
    return vecf_load_f16(x);
}

VEC_INLINE wide wide_load_bf16(const uint16_t *x)
{
    return (vecf)vec_sll32(vec_load_u16(x), 16);
}

/* a * b + c */
VEC_INLINE wide wide_fma(wide a, wide b, wide c)
{
    return vecf_fma(a, b, c);
}

VEC_INLINE float wide_sum(wide x)
{
    return vecf_sum(x);
}

#endif
