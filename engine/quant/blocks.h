/*
 * The blocks of every format, byte for byte as they stand in a file (engine-spec 5.2 to 5.5).
 *
 * Stays true: members are bytes and 16-bit words only, so a block needs no more than 2-byte alignment,
 * which every row of a tensor has (rows of mxfp4 and nvfp4 may have none: their members are bytes).
 * d, dmin and m are binary16. Bit 0 is the least significant.
 */
#ifndef ENGINE_QUANT_BLOCKS_H
#define ENGINE_QUANT_BLOCKS_H

#include <stdint.h>
#include <string.h>

/* Elements j and j + 16 share byte j: low and high nibble. x = d * (q - 8) */
struct block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* x = d * q + m */
struct block_q4_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
};

/* The fifth bit of element e is bit e % 8 of qh[e / 8]. x = d * (q - 16) */
struct block_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
};

/* x = d * q + m */
struct block_q5_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
};

/* x = d * q */
struct block_q8_0 {
    uint16_t d;
    int8_t qs[32];
};

/*
 * Super-blocks of 256 elements. In q2_k, q3_k and q6_k sixteen groups of 16 elements have a scale
 * each, in q4_k and q5_k eight groups of 32.
 */

/* Group g: scale in the low nibble of scales[g], minimum in the high one. x = d*sc*q - dmin*mn */
struct block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64]; /* element 128n + 32j + l: bits 2j, 2j+1 of qs[32n + l] */
    uint16_t d;
    uint16_t dmin;
};

/* x = d * sc * q, q in -4..3, sc in -32..31 */
struct block_q3_k {
    uint8_t hmask[32]; /* element 128n + 32j + l: bit 4n + j of hmask[l], clear: subtract 4 */
    uint8_t qs[64];    /* as in q2_k */
    uint8_t scales[12];
    uint16_t d;
};

/* x = d*sc*q - dmin*mn with 6-bit sc and mn (block_scales_k4) */
struct block_q4_k {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qs[128]; /* group 2p: low nibbles of qs[32p..], group 2p + 1: high nibbles */
};

struct block_q5_k {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32]; /* the fifth bit of element l of group g is bit g of qh[l] */
    uint8_t qs[128];
};

/* x = d * sc * (q - 32) */
struct block_q6_k {
    uint8_t ql[128]; /* four low bits */
    uint8_t qh[64];  /* two high bits */
    int8_t scales[16];
    uint16_t d;
};

/*
 * Grid formats: indices into tables of eight elements (iq3: four), signs, scales of 3 or 4 bits that
 * stand for 2 * s + 1 (grid.h takes them apart).
 */

/* Four indices, then 4 * 7 bits of signs and the scale. x = d / 8 * sc * (+-grid) */
struct block_iq2_xxs {
    uint16_t d;
    uint8_t groups[8][8];
};

struct block_iq2_xs {
    uint16_t d;
    uint16_t qs[32];   /* nine bits of index, seven of signs */
    uint8_t scales[8]; /* a group's two halves, the first in the low nibble */
};

struct block_iq2_s {
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8]; /* bits 2i, 2i+1: the high ones of the group's index i */
    uint8_t scales[8];
};

/* x = d / 4 * sc * (+-grid) */
struct block_iq3_xxs {
    uint16_t d;
    uint8_t qs[64];
    uint8_t words[32]; /* a group's 4 * 7 bits of signs and its scale */
};

/* x = d * sc * (+-grid) */
struct block_iq3_s {
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8]; /* bit i: the high one of the group's index i */
    uint8_t signs[32];
    uint8_t scales[4]; /* group 2i in the low nibble of byte i */
};

/* x = d * sc * (grid +- 1/8), grid -1, 0, 1 */
struct block_iq1_s {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8]; /* three high bits of each index, three of scale, the sign of 1/8 */
};

/* The same with a scale for 16 elements and a sign for 8; d is in the top four bits of each scale. */
struct block_iq1_m {
    uint8_t qs[32];
    uint8_t qh[16]; /* a nibble an index: three high bits, and the sign of 1/8 */
    uint16_t scales[4];
};

/* Nibbles as in q4_0, but a table gives their values: x = d * codes_iq4[nibble] */
struct block_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
};

/* Groups of 32 as in iq4_nl: x = d * sc * codes_iq4[nibble] (block_scales_iq4_xs) */
struct block_iq4_xs {
    uint16_t d;
    uint16_t scales_h;   /* two high bits of each group's scale */
    uint8_t scales_l[4]; /* four low ones, group 2i in the low nibble of byte i */
    uint8_t qs[128];
};

/* Nibbles as in q4_0, twice an E2M1 number each: x = 2^(e - 128) * codes_fp4[nibble] */
struct block_mxfp4 {
    uint8_t e;
    uint8_t qs[16];
};

/* 64 elements, a scale for 16 (block_scale_nvfp4): element 16s + j and 16s + 8 + j share qs[8s + j] */
struct block_nvfp4 {
    uint8_t d[4];
    uint8_t qs[32];
};

/*
 * Ternary: x = d * (q - 1). A byte of tq1_0 holds five base-3 digits (four in qh) as a fraction: times
 * 3^n modulo 256, then times 3 above the eighth bit, is digit n. Digit n of a run of bytes are
 * consecutive elements: qs[0..31] elements 0.., qs[32..47] 160.., qh 240...
 */
struct block_tq1_0 {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
};

struct block_tq2_0 {
    uint8_t qs[64]; /* as in q2_k */
    uint16_t d;
};

/* 128 elements, bit e % 8 of byte e / 8: x = d where it is set, else -d */
struct block_q1_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* 64 elements, bits 2 * (e % 4).. of byte e / 4: x = d * (q - 1) */
struct block_q2_0 {
    uint16_t d;
    uint8_t qs[16];
};

/* The eight 6-bit scales and minima of q4_k and q5_k. */
static inline void block_scales_k4(const uint8_t s[12], uint8_t sc[8], uint8_t mn[8])
{
    for (int g = 0; g < 4; g++) {
        sc[g] = s[g] & 63;
        mn[g] = s[g + 4] & 63;
        sc[g + 4] = (uint8_t)((s[g + 8] & 15) | (s[g] >> 6) << 4);
        mn[g + 4] = (uint8_t)((s[g + 8] >> 4) | (s[g + 4] >> 6) << 4);
    }
}

/* The 256 values of a q4_k or q5_k block from its codes. */
static inline void block_values_k4(const int8_t q[256], const uint8_t scales[12], float d,
                                   float dmin, float *out)
{
    uint8_t sc[8];
    uint8_t mn[8];
    block_scales_k4(scales, sc, mn);
    for (int g = 0; g < 8; g++) {
        float scale = d * (float)sc[g];
        float min = dmin * (float)mn[g];
        for (int j = 32 * g; j < 32 * g + 32; j++)
            out[j] = scale * (float)q[j] - min;
    }
}

/* The sixteen 6-bit scales of q3_k, less 32. */
static inline void block_scales_q3_k(const uint8_t s[12], int8_t sc[16])
{
    for (int g = 0; g < 16; g++) {
        int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
        int high = s[8 + g % 4] >> 2 * (g / 4) & 3;
        sc[g] = (int8_t)((low | high << 4) - 32);
    }
}

/* The eight 6-bit scales of iq4_xs, less 32. */
static inline void block_scales_iq4_xs(const struct block_iq4_xs *b, int8_t sc[8])
{
    for (int g = 0; g < 8; g++) {
        int low = b->scales_l[g / 2] >> 4 * (g % 2) & 15;
        int high = b->scales_h >> 2 * g & 3;
        sc[g] = (int8_t)((low | high << 4) - 32);
    }
}

/* The scale of iq1_m, a binary16. */
static inline uint16_t block_scale_iq1_m(const struct block_iq1_m *b)
{
    return (uint16_t)(b->scales[0] >> 12 | (b->scales[1] >> 8 & 0x00f0) |
                      (b->scales[2] >> 4 & 0x0f00) | (b->scales[3] & 0xf000));
}

/* The scale of mxfp4: 2^(e - 128), of which the first two are subnormal. */
static inline float block_scale_mxfp4(uint8_t e)
{
    uint32_t bits = e < 2 ? (uint32_t)0x00200000 << e : (uint32_t)(e - 1) << 23;
    float d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

/*
 * Half of an unsigned E4M3 number, as codes_fp4 are twice theirs. Its bits, as those of an f32, are worth
 * 2^-120 of it, subnormal ones too; 0x7f is no number and counts as 0.
 */
static inline float block_scale_nvfp4(uint8_t d)
{
    uint32_t bits = (d & 0x7f) == 0x7f ? 0 : (uint32_t)(d & 0x7f) << 20;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return f * 0x1p119f;
}

#endif
