/*
 * Operations that AVX2 and AVX-512 have under the same names but for the width (VEC_OP). Included by
 * either's vec.h. Internal to cpu.
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_OPS_X86_H
#define ENGINE_KERNELS_CPU_VECTOR_OPS_X86_H

#ifdef __AVX512VNNI__
#include "engine/kernels/cpu/avx512/vec.h"
#else
#include "engine/kernels/cpu/avx2/vec.h"
#endif

#define VEC_BINARY(name, op)                                                                       \
    VEC_INLINE vec vec_##name(vec a, vec b)                                                        \
    {                                                                                              \
        return VEC_OP(op)(a, b);                                                                   \
    }

#define VEC_SHIFT(name, op)                                                                        \
    VEC_INLINE vec vec_##name(vec x, int n)                                                        \
    {                                                                                              \
        return VEC_OP(op)(x, n);                                                                   \
    }

VEC_BINARY(add8, add_epi8)
VEC_BINARY(add16, add_epi16)
VEC_BINARY(sub16, sub_epi16)
VEC_BINARY(mul16, mullo_epi16)
VEC_BINARY(add32, add_epi32)
VEC_BINARY(sub32, sub_epi32)
VEC_BINARY(mul32, mullo_epi32)
VEC_BINARY(madd16, madd_epi16)     /* products of 16 bits, summed by pairs */
VEC_BINARY(shuffle8, shuffle_epi8) /* within 128 bits; 0 where the index has its top bit */
VEC_BINARY(low32, unpacklo_epi32)
VEC_BINARY(high32, unpackhi_epi32)
VEC_BINARY(low64, unpacklo_epi64)
VEC_BINARY(high64, unpackhi_epi64)

VEC_SHIFT(srl16, srli_epi16)
VEC_SHIFT(sll16, slli_epi16)
VEC_SHIFT(sra16, srai_epi16)
VEC_SHIFT(srl32, srli_epi32)
VEC_SHIFT(sll32, slli_epi32)

VEC_INLINE vec vec_set8(int x)
{
    return VEC_OP(set1_epi8)((char)x);
}

VEC_INLINE vec vec_set16(int x)
{
    return VEC_OP(set1_epi16)((short)x);
}

VEC_INLINE vec vec_set32(int x)
{
    return VEC_OP(set1_epi32)(x);
}

VEC_INLINE vecf vecf_set(float x)
{
    return VEC_OP(set1_ps)(x);
}

VEC_INLINE vecf vecf_load(const float *x)
{
    return VEC_OP(loadu_ps)(x);
}

VEC_INLINE void vecf_store(float *out, vecf x)
{
    VEC_OP(storeu_ps)(out, x);
}

VEC_INLINE vecf vecf_mul(vecf a, vecf b)
{
    return VEC_OP(mul_ps)(a, b);
}

VEC_INLINE vecf vecf_of(vec x)
{
    return VEC_OP(cvtepi32_ps)(x);
}

/* a * b + c */
VEC_INLINE vecf vecf_fma(vecf a, vecf b, vecf c)
{
    return VEC_OP(fmadd_ps)(a, b, c);
}

/* c - a * b */
VEC_INLINE vecf vecf_fnma(vecf a, vecf b, vecf c)
{
    return VEC_OP(fnmadd_ps)(a, b, c);
}

#endif
