/*
 * A super-block of q4_k or q5_k with one activation row, weight row by weight row: codes along the columns,
 * as they lie. Bringing them into lanes, as a panel has them, takes as long as multiplying them; here only
 * each row's scales and sums are brought across. Internal to cpu.
 */
#ifndef ENGINE_KERNELS_CPU_AVX512_ROW_K4_H
#define ENGINE_KERNELS_CPU_AVX512_ROW_K4_H

#include "engine/kernels/cpu/vector/panel_k.h"

/*
 * 64 bytes of codes hold four groups of 32: vector j's low nibbles are 4j and 4j + 2, its high ones 4j + 1
 * and 4j + 3.
 */
#define K4_VECS 2

/* An activation's codes in that order, and the sums of its groups in two parts. */
struct k4_act {
    vec low[K4_VECS];
    vec high[K4_VECS];
    int8_t sums[2][16]; /* of 8 groups: less than 64, and what is above, in 64ths */
};

/* 32 bytes from there, and 32 from `step` bytes further. */
VEC_INLINE vec k4_load(const void *at, size_t step)
{
    const char *next = (const char *)at + step;
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)at)),
                              _mm256_loadu_si256((const __m256i *)next), 1);
}

VEC_INLINE void k4_act_open(const struct act_q8k *x, struct k4_act *a)
{
    for (int j = 0; j < K4_VECS; j++) {
        a->low[j] = k4_load(x->q + 128 * j, 64);
        a->high[j] = k4_load(x->q + 128 * j + 32, 64);
    }
    memset(a->sums, 0, sizeof(a->sums));
    for (int g = 0; g < 8; g++) {
        int sum = x->bsums[2 * g] + x->bsums[2 * g + 1];
        a->sums[0][g] = (int8_t)(sum & 63);
        a->sums[1][g] = (int8_t)((sum - (sum & 63)) / 64);
    }
}

/* The sums of minima times sums of the activation. */
VEC_INLINE vec k4_mins(const vec mn[2], const struct k4_act *a)
{
    vec low = dot_words(mn, a->sums[0], vec_set32(0), 2);
    vec high = dot_words(mn, a->sums[1], vec_set32(0), 2);
    return vec_add32(low, vec_sll32(high, 6));
}

/* Of the codes of groups g and g + 2 their fifth bits, whose 32 bytes are in both halves of qh. */
VEC_INLINE vec k4_fifth(vec qh, int g)
{
    const __m256i select = _mm256_set1_epi8((char)(1 << g));
    const __m256i next = _mm256_set1_epi8((char)(4 << g));
    return vec_where8(qh, _mm512_inserti64x4(_mm512_castsi256_si512(select), next, 1), 16);
}

/* Lane by lane the sums of scale * code * x of vector j; four products of a group have 16 bits. */
VEC_INLINE vec k4_dot(vec low, vec high, const struct k4_act *a, vec scales, int j, vec sum)
{
    static const uint16_t group[32] = {
        0x8000, 0x8000, 0x8000, 0x8000, 0x8001, 0x8001, 0x8001, 0x8001, 0x8000, 0x8000, 0x8000,
        0x8000, 0x8001, 0x8001, 0x8001, 0x8001, 0x8002, 0x8002, 0x8002, 0x8002, 0x8003, 0x8003,
        0x8003, 0x8003, 0x8002, 0x8002, 0x8002, 0x8002, 0x8003, 0x8003, 0x8003, 0x8003};
    const vec index = vec_add16(_mm512_loadu_si512(group), vec_set16(4 * j));
    vec dots = _mm512_packs_epi32(_mm512_dpbusd_epi32(vec_set32(0), low, a->low[j]),
                                  _mm512_dpbusd_epi32(vec_set32(0), high, a->high[j]));
    return _mm512_dpwssd_epi32(sum, dots, vec_shuffle8(scales, index));
}

/*
 * Lanes whose total is that of one row. qh is NULL where codes have four bits; the eight scales, a byte
 * each, are in every 64 bits.
 */
VEC_INLINE vec k4_row(const uint8_t *qs, const uint8_t *qh, vec scales, const struct k4_act *a)
{
    vec sum = vec_set32(0);
    for (int j = 0; j < K4_VECS; j++) {
        vec bytes = _mm512_loadu_si512(qs + 64 * j);
        vec low = panel_low_nibbles(bytes);
        vec high = panel_high_nibbles(bytes);
        if (qh) {
            low |= k4_fifth(k4_load(qh, 0), 4 * j);
            high |= k4_fifth(k4_load(qh, 0), 4 * j + 1);
        }
        sum = k4_dot(low, high, a, scales, j, sum);
    }
    return sum;
}

/* All of a super-block but d and m; qh_byte is 0 where there is none. */
VEC_INLINE void panel_open_k4(const uint8_t *const *row, const vec scales[3], size_t qs_byte,
                              size_t qh_byte, struct opened *o)
{
    struct k4_act a;
    vec sc[2];
    vec mn[2];
    vec sums[VEC_LANES];
    uint64_t bytes[2][VEC_LANES / 2]; /* scales of rows 4i and 4i + 1; of rows 4i + 2 and 4i + 3 */
    k4_act_open(o->super, &a);
    panel_unpack_k4(scales, sc, mn);
    _mm512_storeu_si512(bytes[0], vec_low32(sc[0], sc[1]));
    _mm512_storeu_si512(bytes[1], vec_high32(sc[0], sc[1]));
    o->mins = k4_mins(mn, &a);
#pragma GCC unroll 16
    for (int i = 0; i < VEC_LANES; i++) {
        panel_fetch(&o->ahead, (size_t)i, VEC_LANES);
        __asm__ volatile("" ::: "memory"); /* or the compiler makes one burst of all parts */
        vec eight = _mm512_set1_epi64((long long)bytes[i / 2 % 2][i / 4 * 2 + i % 2]);
        sums[i] = k4_row(row[i] + qs_byte, qh_byte ? row[i] + qh_byte : NULL, eight, &a);
    }
    o->sum = vec_sum_each(sums);
}

#endif
