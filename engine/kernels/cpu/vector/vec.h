/*
 * Vectors as a file's flags allow: eight lanes of 32 bits with AVX2, sixteen with AVX-512, four with
 * NEON. The formats and loops of this folder are written once in these words; the folders of the
 * instruction sets compile them. &, | and ^ of vec are the compiler's own.
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_VEC_H
#define ENGINE_KERNELS_CPU_VECTOR_VEC_H

#if defined(__aarch64__)
#include "engine/kernels/cpu/neon/vec.h"
#elif defined(__AVX512VNNI__)
#include "engine/kernels/cpu/avx512/vec.h"
#else
#include "engine/kernels/cpu/avx2/vec.h"
#endif

/* Four consecutive bytes, in every lane. */
VEC_INLINE vec vec_spread(const void *at)
{
    int word;
    memcpy(&word, at, sizeof(word));
    return vec_set32(word);
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
