/*
 * Opening blocks of the grid formats. A row's block is looked up into bytes along the columns, 32 at a
 * time; eight rows of those are then brought into lanes as bytes of a file are (panel_load16). Looking
 * up straight into lanes would take a gather for each word, which is slower than these loads.
 */
#ifndef ENGINE_KERNELS_CPU_X86_PANEL_GRID_H
#define ENGINE_KERNELS_CPU_X86_PANEL_GRID_H

#include "engine/kernels/cpu/x86/panel_k.h"
#include "engine/quant/grid.h"

enum panel_grid_codes {
    PANEL_GRID_SIGNED,  /* grid_codes: CODES_I8 */
    PANEL_GRID_LOW,     /* grid_codes of at most 15, plus 15: CODES_U5 */
    PANEL_GRID_EIGHTHS, /* grid_codes_iq1, plus 9: CODES_U5 */
};

struct panel_grid_row {
    uint8_t q[PANEL_COLS];
    uint8_t sc[PANEL_COLS / 16];
};

/* All ones in the bytes whose bit of the word is set. */
VEC_INLINE __m256i panel_sign_mask(uint32_t signs)
{
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                          2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i select = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)signs), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(spread, select), select);
}

VEC_INLINE __m256i panel_grid_group(const struct grid_group *g, enum panel_grid_codes codes)
{
    __m256i entry = _mm256_setr_epi64x((long long)g->entry[0], (long long)g->entry[1],
                                       (long long)g->entry[2], (long long)g->entry[3]);
    __m256i mask = panel_sign_mask(g->signs);
    if (codes == PANEL_GRID_EIGHTHS)
        return _mm256_add_epi8(entry, _mm256_andnot_si256(mask, _mm256_set1_epi8(2)));
    __m256i q = _mm256_sub_epi8(_mm256_xor_si256(entry, mask), mask);
    return codes == PANEL_GRID_LOW ? _mm256_add_epi8(q, _mm256_set1_epi8(15)) : q;
}

/* A super-block of each row: all but d. */
VEC_INLINE void panel_grid(const uint8_t *const *row, grid_open_fn *open_group,
                           enum panel_grid_codes codes, struct opened *o)
{
    struct panel_grid_row rows[VEC_LANES];
    const uint8_t *expanded[VEC_LANES];
    vec sc[4];
    for (int lane = 0; lane < VEC_LANES; lane++) {
        struct panel_grid_row *r = &rows[lane];
        expanded[lane] = (const uint8_t *)r;
        for (int i = 0; i < 8; i++) {
            struct grid_group g;
            open_group(row[lane], i, &g);
            _mm256_storeu_si256((__m256i *)(r->q + 32 * i), panel_grid_group(&g, codes));
            memcpy(r->sc + 2 * i, g.sc, sizeof(g.sc));
        }
    }
    vec_load16(expanded, offsetof(struct panel_grid_row, sc), sc);
    panel_scales_16(sc, false, o);
    for (int i = 0; i < 16; i++) {
        vec q[4];
        vec_load16(expanded, 16 * (size_t)i, q);
        panel_put(o, i, q);
    }
}

#endif
