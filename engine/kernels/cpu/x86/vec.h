/*
 * Vectors of the width that a file is compiled for: eight lanes of 32 bits with AVX2, sixteen with
 * AVX-512. The formats and loops of this folder are written once in these words; the folders avx2 and
 * avx512 compile them. &, | and ^ of vec are the compiler's own.
 */
#ifndef ENGINE_KERNELS_CPU_X86_VEC_H
#define ENGINE_KERNELS_CPU_X86_VEC_H

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

/* Four consecutive bytes, in every lane. */
VEC_INLINE vec vec_spread(const void *at)
{
    int word;
    memcpy(&word, at, sizeof(word));
    return vec_set32(word);
}

VEC_INLINE vecf vecf_set(float x)
{
    return VEC_OP(set1_ps)(x);
}

VEC_INLINE vecf vecf_load(const float *x)
{
    return VEC_OP(loadu_ps)(x);
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

/* Bytes [at, at + 16) of each row: out[i] has their i-th 32-bit word, a row a lane. */
VEC_INLINE void vec_load16(const uint8_t *const *row, size_t at, vec out[4])
{
    vec p[4];
    for (int i = 0; i < 4; i++)
        p[i] = vec_pieces(row, i, at);
    vec a = vec_low32(p[0], p[1]);
    vec b = vec_high32(p[0], p[1]);
    vec c = vec_low32(p[2], p[3]);
    vec d = vec_high32(p[2], p[3]);
    out[0] = vec_low64(a, c);
    out[1] = vec_high64(a, c);
    out[2] = vec_low64(b, d);
    out[3] = vec_high64(b, d);
}

/* Lane i of four vectors: the sum of the lanes of vector i that are in the same 128 bits. */
VEC_INLINE vec vec_sum4(const vec x[4])
{
    vec a = vec_add32(vec_low32(x[0], x[1]), vec_high32(x[0], x[1]));
    vec b = vec_add32(vec_low32(x[2], x[3]), vec_high32(x[2], x[3]));
    return vec_add32(vec_low64(a, b), vec_high64(a, b));
}

/* Lane i: the sum of the lanes of x[i]. */
VEC_INLINE vec vec_sum_each(const vec x[VEC_LANES])
{
    vec four[VEC_LANES / 4];
    for (int i = 0; i < VEC_LANES / 4; i++)
        four[i] = vec_sum4(x + 4 * i);
    return vec_sum_quarters(four);
}

/* Bytes i and k (0..3) of each lane's word, widened to its low and high half. */
VEC_INLINE vec vec_widen(vec words, int i, int k)
{
    static const uint32_t lane[4] = {0x80008000, 0x80048004, 0x80088008, 0x800c800c};
    return vec_shuffle8(words, vec_add8(vec_repeat16(lane), vec_set32(i | k << 16)));
}

/* Bits [first, first + 4) of each lane as its four bytes: that value where set, else 0. */
VEC_INLINE vec vec_bits(vec words, int first, char value)
{
    static const int8_t byte[16] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12};
    vec spread = vec_shuffle8(vec_srl32(words, first), vec_repeat16(byte));
    return vec_where8(spread, vec_set32(0x08040201), value);
}

#endif
