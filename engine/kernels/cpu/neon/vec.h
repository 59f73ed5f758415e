/* Vectors of four lanes of 32 bits, for vector/vec.h. Internal to cpu. */
#ifndef ENGINE_KERNELS_CPU_NEON_VEC_H
#define ENGINE_KERNELS_CPU_NEON_VEC_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __ARM_FEATURE_MATMUL_INT8
#include "engine/kernels/cpu/neon_i8mm/neon_i8mm.h"
#define VEC_NAME(name) neon_i8mm_##name
#else
#include "engine/kernels/cpu/neon/neon.h"
#define VEC_NAME(name) neon_##name
#endif

typedef int32x4_t vec;
typedef float32x4_t vecf;

#define VEC_LANES 4
#define VEC_INLINE static inline __attribute__((always_inline))

#define VEC_BINARY(name, type, expression)                                                         \
    VEC_INLINE vec vec_##name(vec x, vec y)                                                        \
    {                                                                                              \
        const type a = (type)x;                                                                    \
        const type b = (type)y;                                                                    \
        return (vec)(expression);                                                                  \
    }

#define VEC_SHIFT(name, type, operator)                                                            \
    VEC_INLINE vec vec_##name(vec x, int n)                                                        \
    {                                                                                              \
        return (vec)((type)x operator n);                                                          \
    }

VEC_BINARY(add8, uint8x16_t, a + b)
VEC_BINARY(add16, uint16x8_t, a + b)
VEC_BINARY(sub16, uint16x8_t, a - b)
VEC_BINARY(add32, uint32x4_t, a + b)
VEC_BINARY(sub32, uint32x4_t, a - b)
VEC_BINARY(mul32, uint32x4_t, a *b)
/* products of 16 bits, summed by pairs */
VEC_BINARY(madd16, int16x8_t,
           vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)))
VEC_BINARY(shuffle8, uint8x16_t, vqtbl1q_u8(a, b)) /* 0 where the index is above 15 */
VEC_BINARY(low32, int32x4_t, vzip1q_s32(a, b))
VEC_BINARY(high32, int32x4_t, vzip2q_s32(a, b))
VEC_BINARY(low64, int64x2_t, vzip1q_s64(a, b))
VEC_BINARY(high64, int64x2_t, vzip2q_s64(a, b))

VEC_SHIFT(srl16, uint16x8_t, >>)
VEC_SHIFT(sll16, uint16x8_t, <<)
VEC_SHIFT(sra16, int16x8_t, >>)
VEC_SHIFT(srl32, uint32x4_t, >>)
VEC_SHIFT(sll32, uint32x4_t, <<)

VEC_INLINE vec vec_set8(int x)
{
    return vreinterpretq_s32_s8(vdupq_n_s8((int8_t)x));
}

VEC_INLINE vec vec_set16(int x)
{
    return vreinterpretq_s32_s16(vdupq_n_s16((int16_t)x));
}

VEC_INLINE vec vec_set32(int x)
{
    return vdupq_n_s32(x);
}

VEC_INLINE vec vec_repeat16(const void *at)
{
    return vreinterpretq_s32_u8(vld1q_u8(at));
}

/* 1 in the bytes that are n or more, unsigned. */
VEC_INLINE vec vec_at_least8(vec x, int n)
{
    uint8x16_t is = vcgeq_u8(vreinterpretq_u8_s32(x), vdupq_n_u8((uint8_t)n));
    return vreinterpretq_s32_u8(vandq_u8(is, vdupq_n_u8(1)));
}

/* `select` has one bit in each byte. */
VEC_INLINE vec vec_where8(vec bits, vec select, char value)
{
    uint8x16_t is = vtstq_u8(vreinterpretq_u8_s32(bits), vreinterpretq_u8_s32(select));
    return vreinterpretq_s32_u8(vandq_u8(is, vdupq_n_u8((uint8_t)value)));
}

/* The low 16 bits of each lane as a binary16, and the high ones. */
VEC_INLINE void vec_halves(vec words, vecf *low, vecf *high)
{
    uint16x8_t halves = vreinterpretq_u16_s32(words);
    *low = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vuzp1q_u16(halves, halves))));
    *high = vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(vuzp2q_u16(halves, halves))));
}

/* Binary16 numbers. */
VEC_INLINE vecf vecf_halves(const uint64_t x[1])
{
    return vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(x[0])));
}

/* Lane i: the 32-bit word at `at` of row i. */
VEC_INLINE vec vec_gather4(const uint8_t *const *row, size_t at)
{
    int32_t w[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        memcpy(&w[i], row[i] + at, sizeof(w[i]));
    return (vec){w[0], w[1], w[2], w[3]};
}

/* 16 bytes at `at` of row i. */
VEC_INLINE vec vec_pieces(const uint8_t *const *row, int i, size_t at)
{
    return vreinterpretq_s32_u8(vld1q_u8(row[i] + at));
}

VEC_INLINE vecf vecf_set(float x)
{
    return vdupq_n_f32(x);
}

VEC_INLINE vecf vecf_load(const float *x)
{
    return vld1q_f32(x);
}

VEC_INLINE void vecf_store(float *out, vecf x)
{
    vst1q_f32(out, x);
}

VEC_INLINE vecf vecf_load_f16(const uint16_t *x)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x)));
}

VEC_INLINE vecf vecf_mul(vecf a, vecf b)
{
    return vmulq_f32(a, b);
}

VEC_INLINE vecf vecf_of(vec x)
{
    return vcvtq_f32_s32(x);
}

/* a * b + c */
VEC_INLINE vecf vecf_fma(vecf a, vecf b, vecf c)
{
    return vfmaq_f32(c, a, b);
}

/* c - a * b */
VEC_INLINE vecf vecf_fnma(vecf a, vecf b, vecf c)
{
    return vfmsq_f32(c, a, b);
}

VEC_INLINE vec vec_sum_quarters(const vec x[1])
{
    return x[0];
}

#endif
