/*
 * Products of the grid formats. A row's block is looked up into bytes along the columns. For a panel the
 * rows' bytes are then brought into lanes as bytes of a file are (vec_load16); for one activation row
 * they are multiplied as they lie, and the sums are brought into lanes. Looking up straight into lanes
 * would take a gather for each word, which is slower than these loads.
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_PANEL_GRID_H
#define ENGINE_KERNELS_CPU_VECTOR_PANEL_GRID_H

#include "engine/kernels/cpu/vector/panel_k.h"

struct panel_grid_row {
    uint8_t q[PANEL_COLS];
    uint8_t sc[PANEL_COLS / 16];
};

/* The codes of group g as a panel has them, plus what the format's offset takes off again. */
VEC_INLINE __m256i panel_grid_codes(struct grid_format f, const struct grid_row *r, int g)
{
    __m256i entry = grid_entries(f, r, g);
    __m256i mask = grid_sign_mask(r->signs[g]);
    if (f.codes == GRID_EIGHTHS)
        return _mm256_add_epi8(entry, _mm256_and_si256(mask, _mm256_set1_epi8(2)));
    __m256i q = _mm256_sub_epi8(_mm256_xor_si256(entry, mask), mask);
    return f.codes == GRID_LOW ? _mm256_add_epi8(q, _mm256_set1_epi8(15)) : q;
}

/* A super-block of each row for a panel: all but d. */
VEC_INLINE void panel_put_grid(struct grid_format f, const uint8_t *const *row, struct opened *o)
{
    struct panel_grid_row rows[VEC_LANES];
    const uint8_t *expanded[VEC_LANES];
    vec sc[4];
    for (int lane = 0; lane < VEC_LANES; lane++) {
        struct grid_row r;
        expanded[lane] = (const uint8_t *)&rows[lane];
        f.open(row[lane], &r);
        for (int g = 0; g < 8; g++)
            _mm256_storeu_si256((__m256i *)(rows[lane].q + 32 * g), panel_grid_codes(f, &r, g));
        _mm_storeu_si128((__m128i *)rows[lane].sc, r.sc);
    }
    vec_load16(expanded, offsetof(struct panel_grid_row, sc), sc);
    panel_scales_16(sc, false, o);
    for (int i = 0; i < 16; i++) {
        vec q[4];
        vec_load16(expanded, 16 * (size_t)i, q);
        panel_put(o, i, q);
    }
}

/*
 * A super-block of each row with one activation row: the sums of scale * code * x, without d. All rows are
 * taken apart before the first is looked up: an index read right after it was written would be waited for.
 */
VEC_INLINE vec panel_grid_sums(struct grid_format f, const uint8_t *const *row,
                               const struct act_q8k *x, const struct panel_ahead *ahead)
{
    vec sum[VEC_LANES];
    struct grid_row r[VEC_LANES];
    for (int lane = 0; lane < VEC_LANES; lane++) {
        panel_fetch(ahead, (size_t)lane, VEC_LANES);
        f.open(row[lane], &r[lane]);
    }
    for (int lane = 0; lane < VEC_LANES; lane++)
        sum[lane] = dot_grid(f, &r[lane], x);
    return vec_sum_each(sum);
}

/* The factors of each row's block. */
VEC_INLINE vecf panel_grid_d(struct grid_format f, const uint8_t *const *row)
{
    struct opened o;
    if (!f.scale_bits) {
        panel_put_d(&o, row, 0);
        return vecf_mul(o.d, vecf_set(f.factor));
    }
    float d[VEC_LANES];
    for (int lane = 0; lane < VEC_LANES; lane++)
        d[lane] = _cvtsh_ss(f.scale_bits(row[lane]));
    return vecf_mul(vecf_load(d), vecf_set(f.factor));
}

VEC_INLINE void panel_open_grid(struct grid_format f, const uint8_t *const *row, struct opened *o)
{
    o->d = panel_grid_d(f, row);
    if (o->q)
        panel_put_grid(f, row, o);
    else
        o->sum = panel_grid_sums(f, row, o->super, &o->ahead);
}

/* The product of a format that grid_row_<ident> takes apart. */
#define PANEL_GRID_MATMUL(ident, grid_codes, panel_offset, ...)                                    \
    VEC_INLINE void open_##ident(const uint8_t *const *row, size_t b, struct opened *o)            \
    {                                                                                              \
        const struct grid_format f = {.open = grid_row_##ident, .codes = grid_codes, __VA_ARGS__}; \
        (void)b; /* a super-block fills the panel */                                               \
        panel_open_grid(f, row, o);                                                                \
    }                                                                                              \
    PANEL_MATMUL(ident, ACT_Q8K, .codes = (grid_codes) == GRID_SIGNED ? CODES_I8 : CODES_U5,       \
                 .offset = panel_offset, .sums = true)

#endif
