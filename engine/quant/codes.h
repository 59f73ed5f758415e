/*
 * The integer codes of a block, one a byte: what decode and the generic dot products share.
 *
 * Stays true: codes already have the format's offset taken off (q4_0: -8..7), so a weight is
 * scale * code (- minimum). Every bit pattern of a block is a valid one.
 */
#ifndef ENGINE_QUANT_CODES_H
#define ENGINE_QUANT_CODES_H

#include <stddef.h>

#include "engine/quant/blocks.h"

static inline void codes_nibbles(const uint8_t qs[16], int offset, int8_t q[32])
{
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)((qs[j] & 15) - offset);
        q[j + 16] = (int8_t)((qs[j] >> 4) - offset);
    }
}

static inline void codes_fives(const uint8_t qs[16], const uint8_t qh[4], int offset, int8_t q[32])
{
    for (int j = 0; j < 16; j++) {
        int low_bit = qh[j / 8] >> j % 8 & 1;
        int high_bit = qh[2 + j / 8] >> j % 8 & 1;
        q[j] = (int8_t)(((qs[j] & 15) | low_bit << 4) - offset);
        q[j + 16] = (int8_t)(((qs[j] >> 4) | high_bit << 4) - offset);
    }
}

static inline void codes_q2_k(const struct block_q2_k *b, int8_t q[256])
{
    for (int e = 0; e < 256; e++)
        q[e] = (int8_t)(b->qs[e / 128 * 32 + e % 32] >> 2 * (e % 128 / 32) & 3);
}

static inline void codes_q3_k(const struct block_q3_k *b, int8_t q[256])
{
    for (int e = 0; e < 256; e++) {
        int low = b->qs[e / 128 * 32 + e % 32] >> 2 * (e % 128 / 32) & 3;
        int high = b->hmask[e % 32] >> (e / 32) & 1;
        q[e] = (int8_t)(low - (high ? 0 : 4));
    }
}

static inline void codes_q4_k(const uint8_t qs[128], int8_t q[256])
{
    for (int p = 0; p < 4; p++) {
        for (int l = 0; l < 32; l++) {
            q[64 * p + l] = (int8_t)(qs[32 * p + l] & 15);
            q[64 * p + 32 + l] = (int8_t)(qs[32 * p + l] >> 4);
        }
    }
}

static inline void codes_q5_k(const struct block_q5_k *b, int8_t q[256])
{
    codes_q4_k(b->qs, q);
    for (int e = 0; e < 256; e++)
        q[e] = (int8_t)(q[e] | (b->qh[e % 32] >> (e / 32) & 1) << 4);
}

static inline void codes_q6_k(const struct block_q6_k *b, int8_t q[256])
{
    for (int n = 0; n < 2; n++) {
        const uint8_t *low = b->ql + 64 * n;
        const uint8_t *high = b->qh + 32 * n;
        for (int l = 0; l < 32; l++) {
            int8_t *out = q + 128 * n + l;
            out[0] = (int8_t)(((low[l] & 15) | (high[l] & 3) << 4) - 32);
            out[32] = (int8_t)(((low[l + 32] & 15) | (high[l] >> 2 & 3) << 4) - 32);
            out[64] = (int8_t)(((low[l] >> 4) | (high[l] >> 4 & 3) << 4) - 32);
            out[96] = (int8_t)(((low[l + 32] >> 4) | (high[l] >> 6) << 4) - 32);
        }
    }
}

/* The values of iq4_nl and iq4_xs, and twice those of E2M1. */
#define CODES_IQ4 -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
#define CODES_FP4 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12

static inline void codes_table(const uint8_t qs[16], const int8_t value[16], int8_t q[32])
{
    for (int j = 0; j < 16; j++) {
        q[j] = value[qs[j] & 15];
        q[j + 16] = value[qs[j] >> 4];
    }
}

static inline void codes_iq4(const uint8_t qs[16], int8_t q[32])
{
    static const int8_t value[16] = {CODES_IQ4};
    codes_table(qs, value, q);
}

static inline void codes_fp4(const uint8_t qs[16], int8_t q[32])
{
    static const int8_t value[16] = {CODES_FP4};
    codes_table(qs, value, q);
}

/* Elements 32 * part .. of a block. */
static inline void codes_nvfp4(const struct block_nvfp4 *b, size_t part, int8_t q[32])
{
    static const int8_t value[16] = {CODES_FP4};
    for (size_t j = 0; j < 16; j++) {
        uint8_t byte = b->qs[16 * part + j];
        int8_t *out = q + 16 * (j / 8) + j % 8;
        out[0] = value[byte & 15];
        out[8] = value[byte >> 4];
    }
}

/* The digits of n bytes, all first ones first. */
static inline void codes_ternary(const uint8_t *bytes, int n, int n_digits, int8_t *q)
{
    for (int digit = 0, power = 1; digit < n_digits; digit++, power *= 3) {
        for (int i = 0; i < n; i++)
            q[n * digit + i] = (int8_t)(((bytes[i] * power & 255) * 3 >> 8) - 1);
    }
}

static inline void codes_tq1_0(const struct block_tq1_0 *b, int8_t q[256])
{
    codes_ternary(b->qs, 32, 5, q);
    codes_ternary(b->qs + 32, 16, 5, q + 160);
    codes_ternary(b->qh, 4, 4, q + 240);
}

static inline void codes_tq2_0(const struct block_tq2_0 *b, int8_t q[256])
{
    for (int e = 0; e < 256; e++)
        q[e] = (int8_t)((b->qs[e / 128 * 32 + e % 32] >> 2 * (e % 128 / 32) & 3) - 1);
}

/* Elements 32 * part .. of a block. */
static inline void codes_q1_0(const struct block_q1_0 *b, size_t part, int8_t q[32])
{
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)((b->qs[4 * part + (size_t)j / 8] >> j % 8 & 1) * 2 - 1);
}

static inline void codes_q2_0(const struct block_q2_0 *b, size_t part, int8_t q[32])
{
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)((b->qs[8 * part + (size_t)j / 4] >> 2 * (j % 4) & 3) - 1);
}

#endif
