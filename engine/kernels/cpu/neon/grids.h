/*
 * Products of the grid formats. A row's block is looked up into bytes along the columns, which are then
 * brought into lanes as bytes of a file are (vec_load16).
 */
#ifndef ENGINE_KERNELS_CPU_NEON_GRIDS_H
#define ENGINE_KERNELS_CPU_NEON_GRIDS_H

#include "engine/kernels/cpu/vector/panel_k.h"
#include "engine/quant/grid.h"

struct grids_row {
    int8_t q[PANEL_COLS];
    uint8_t sc[PANEL_COLS / 16];
};

/* All ones in the bytes whose bit of the 16 is set. */
VEC_INLINE uint8x16_t grids_sign_mask(uint32_t signs)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vcombine_u8(vdup_n_u8((uint8_t)signs), vdup_n_u8((uint8_t)(signs >> 8)));
    return vtstq_u8(bits, vld1q_u8(bit));
}

/* The codes of a group, a byte each: grid_codes, or eighths as grid_codes_iq1. */
VEC_INLINE void grids_codes(const struct grid_group *g, bool eighths, int8_t out[32])
{
    for (int h = 0; h < 2; h++) {
        int8x16_t entry = vreinterpretq_s8_u64(vld1q_u64(g->entry + 2 * h));
        int8x16_t mask = vreinterpretq_s8_u8(grids_sign_mask(g->signs >> 16 * h));
        int8x16_t q = vsubq_s8(veorq_s8(entry, mask), mask);
        if (eighths) /* entry - 8 - 1 where the bit is set, else + 1 */
            q = vsubq_s8(entry, vbslq_s8(vreinterpretq_u8_s8(mask), vdupq_n_s8(9), vdupq_n_s8(7)));
        vst1q_s8(out + 16 * h, q);
    }
}

/* A super-block of each row, of a format of which grid.h takes a group apart: all but d. */
VEC_INLINE void grids_put(grid_open_fn *open_group, bool eighths, const uint8_t *const *row,
                          struct opened *o)
{
    struct grids_row rows[VEC_LANES];
    const uint8_t *expanded[VEC_LANES];
    vec sc[4];
    for (int lane = 0; lane < VEC_LANES; lane++) {
        struct grids_row *r = &rows[lane];
        expanded[lane] = (const uint8_t *)r;
        for (int i = 0; i < 8; i++) {
            struct grid_group g;
            open_group(row[lane], i, &g);
            grids_codes(&g, eighths, r->q + 32 * i);
            memcpy(r->sc + 2 * i, g.sc, sizeof(g.sc));
        }
    }
    vec_load16(expanded, offsetof(struct grids_row, sc), sc);
    panel_scales_16(sc, false, o);
    for (int i = 0; i < 16; i++) {
        vec q[4];
        vec_load16(expanded, 16 * (size_t)i, q);
        panel_put(o, i, q);
    }
}

/* The product of a format that begins with d. */
#define GRIDS_MATMUL(ident, eighths, factor)                                                       \
    VEC_INLINE void open_##ident(const uint8_t *const *row, size_t b, struct opened *o)            \
    {                                                                                              \
        (void)b; /* a super-block fills the panel */                                               \
        panel_put_d(o, row, 0);                                                                    \
        o->d = vecf_mul(o->d, vecf_set(factor));                                                   \
        grids_put(grid_##ident##_open, eighths, row, o);                                           \
    }                                                                                              \
    PANEL_MATMUL(ident, ACT_Q8K, .codes = CODES_I8)

GRIDS_MATMUL(iq1_s, true, 0.125f)
GRIDS_MATMUL(iq2_s, false, 0.125f)
GRIDS_MATMUL(iq2_xs, false, 0.125f)
GRIDS_MATMUL(iq2_xxs, false, 0.125f)
GRIDS_MATMUL(iq3_s, false, 1.0f)
GRIDS_MATMUL(iq3_xxs, false, 0.25f)

VEC_INLINE void open_iq1_m(const uint8_t *const *row, size_t b, struct opened *o)
{
    uint16_t d[VEC_LANES];
    (void)b; /* a super-block fills the panel */
    for (int lane = 0; lane < VEC_LANES; lane++)
        d[lane] = block_scale_iq1_m((const struct block_iq1_m *)row[lane]);
    o->d = vecf_mul(vecf_load_f16(d), vecf_set(0.125f));
    grids_put(grid_iq1_m_open, true, row, o);
}

PANEL_MATMUL(iq1_m, ACT_Q8K, .codes = CODES_I8)

#endif
