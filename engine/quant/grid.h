/*
 * The grid formats: an entry of a table gives the magnitudes of eight elements (or two give four each),
 * bits beside it their signs. What decode and the kernels of all tables share.
 *
 * Stays true: the tables are ggml's constants (tools/make-grids.py), expanded to a byte an element and
 * little-endian: element j in bits 8j.., so no kernel expands anything. Every index that a block can
 * hold is inside its table.
 */
#ifndef ENGINE_QUANT_GRID_H
#define ENGINE_QUANT_GRID_H

#include "engine/quant/blocks.h"

extern const uint64_t grid_iq2_xxs[256]; /* bytes 8, 25, 43 */
extern const uint64_t grid_iq2_xs[512];
extern const uint64_t grid_iq2_s[1024];
extern const uint32_t grid_iq3_xxs[256]; /* 4, 12, 20, 28, 36, 44, 52, 62 */
extern const uint32_t grid_iq3_s[512];   /* 1, 3 .. 15 */
extern const uint64_t grid_iq1[2048];    /* 0, 8, 16: eight times -1, 0, 1, plus 8 */

/*
 * 32 elements, taken apart as far as entries and bits. In iq1 a sign is not the element's but that of
 * 1/8 which is added to it.
 */
struct grid_group {
    uint64_t entry[4]; /* byte j of entry i: element 8i + j */
    uint32_t signs;    /* bit e set: element e is negative */
    uint8_t sc[2];     /* scales of elements 0..15 and 16..31 */
};

/* Group 0..7 of a block. */
typedef void grid_open_fn(const void *block, int group, struct grid_group *ret);

/* Four numbers of seven bits, one a byte, each with the eighth bit that makes the set bits even. */
static inline uint32_t grid_even_signs(uint32_t sevens)
{
    uint32_t parity = (sevens ^ sevens >> 4) & 0x0f0f0f0f;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return sevens | (parity & 0x01010101) << 7;
}

/* Bits 0..27 of a word as four such numbers. */
static inline uint32_t grid_packed_signs(uint32_t word)
{
    return grid_even_signs((word & 0x7f) | (word & 0x3f80) << 1 | (word & 0x1fc000) << 2 |
                           (word & 0xfe00000) << 3);
}

static inline uint32_t grid_word(const uint8_t at[4])
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void grid_iq2_xxs_open(const void *block, int group, struct grid_group *ret)
{
    const uint8_t *at = ((const struct block_iq2_xxs *)block)->groups[group];
    uint32_t word = grid_word(at + 4);
    for (int i = 0; i < 4; i++)
        ret->entry[i] = grid_iq2_xxs[at[i]];
    ret->signs = grid_packed_signs(word);
    ret->sc[0] = ret->sc[1] = (uint8_t)(2 * (word >> 28) + 1);
}

static inline void grid_iq2_xs_open(const void *block, int group, struct grid_group *ret)
{
    const struct block_iq2_xs *b = block;
    uint32_t sevens = 0;
    for (int i = 0; i < 4; i++) {
        uint16_t word = b->qs[4 * group + i];
        ret->entry[i] = grid_iq2_xs[word & 511];
        sevens |= (uint32_t)(word >> 9) << 8 * i;
    }
    ret->signs = grid_even_signs(sevens);
    ret->sc[0] = (uint8_t)(2 * (b->scales[group] & 15) + 1);
    ret->sc[1] = (uint8_t)(2 * (b->scales[group] >> 4) + 1);
}

static inline void grid_iq2_s_open(const void *block, int group, struct grid_group *ret)
{
    const struct block_iq2_s *b = block;
    for (int i = 0; i < 4; i++)
        ret->entry[i] = grid_iq2_s[b->qs[4 * group + i] | (b->qh[group] >> 2 * i & 3) << 8];
    ret->signs = grid_word(b->signs + 4 * group);
    ret->sc[0] = (uint8_t)(2 * (b->scales[group] & 15) + 1);
    ret->sc[1] = (uint8_t)(2 * (b->scales[group] >> 4) + 1);
}

static inline void grid_iq3_xxs_open(const void *block, int group, struct grid_group *ret)
{
    const struct block_iq3_xxs *b = block;
    const uint8_t *at = b->qs + 8 * group;
    uint32_t word = grid_word(b->words + 4 * group);
    for (int i = 0; i < 4; i++)
        ret->entry[i] = grid_iq3_xxs[at[2 * i]] | (uint64_t)grid_iq3_xxs[at[2 * i + 1]] << 32;
    ret->signs = grid_packed_signs(word);
    ret->sc[0] = ret->sc[1] = (uint8_t)(2 * (word >> 28) + 1);
}

static inline void grid_iq3_s_open(const void *block, int group, struct grid_group *ret)
{
    const struct block_iq3_s *b = block;
    const uint8_t *at = b->qs + 8 * group;
    const int high = b->qh[group];
    for (int i = 0; i < 4; i++) {
        int first = at[2 * i] | (high >> 2 * i & 1) << 8;
        int second = at[2 * i + 1] | (high >> (2 * i + 1) & 1) << 8;
        ret->entry[i] = grid_iq3_s[first] | (uint64_t)grid_iq3_s[second] << 32;
    }
    ret->signs = grid_word(b->signs + 4 * group);
    ret->sc[0] = ret->sc[1] = (uint8_t)(2 * (b->scales[group / 2] >> 4 * (group % 2) & 15) + 1);
}

static inline void grid_iq1_s_open(const void *block, int group, struct grid_group *ret)
{
    const struct block_iq1_s *b = block;
    const int high = b->qh[group];
    for (int i = 0; i < 4; i++)
        ret->entry[i] = grid_iq1[b->qs[4 * group + i] | (high >> 3 * i & 7) << 8];
    ret->signs = high >> 15 ? UINT32_MAX : 0;
    ret->sc[0] = ret->sc[1] = (uint8_t)(2 * (high >> 12 & 7) + 1);
}

static inline void grid_iq1_m_open(const void *block, int group, struct grid_group *ret)
{
    const struct block_iq1_m *b = block;
    const int scales = b->scales[group / 2] >> 6 * (group % 2);
    ret->signs = 0;
    for (int i = 0; i < 4; i++) {
        int high = b->qh[2 * group + i / 2] >> 4 * (i % 2) & 15;
        ret->entry[i] = grid_iq1[b->qs[4 * group + i] | (high & 7) << 8];
        ret->signs |= high & 8 ? (uint32_t)0xff << 8 * i : 0;
    }
    ret->sc[0] = (uint8_t)(2 * (scales & 7) + 1);
    ret->sc[1] = (uint8_t)(2 * (scales >> 3 & 7) + 1);
}

/* The codes of a group: x = d * sc * q, with iq2's and iq1's q eight times what ggml writes. */
static inline void grid_codes(const struct grid_group *g, int8_t q[32])
{
    for (int e = 0; e < 32; e++) {
        int magnitude = g->entry[e / 8] >> 8 * (e % 8) & 255;
        q[e] = (int8_t)(g->signs >> e & 1 ? -magnitude : magnitude);
    }
}

static inline void grid_codes_iq1(const struct grid_group *g, int8_t q[32])
{
    for (int e = 0; e < 32; e++) {
        int eight = (int)(g->entry[e / 8] >> 8 * (e % 8) & 255) - 8;
        q[e] = (int8_t)(g->signs >> e & 1 ? eight - 1 : eight + 1);
    }
}

typedef void grid_codes_fn(const struct grid_group *g, int8_t q[32]);

/* 256 elements; d is the block's scale as grid_codes wants it. */
static inline void grid_decode(grid_open_fn *open_group, grid_codes_fn *codes, const void *block,
                               float d, float out[256])
{
    for (int group = 0; group < 8; group++) {
        struct grid_group g;
        int8_t q[32];
        open_group(block, group, &g);
        codes(&g, q);
        for (int e = 0; e < 32; e++)
            out[32 * group + e] = d * (float)g.sc[e >= 16] * (float)q[e];
    }
}

#endif
