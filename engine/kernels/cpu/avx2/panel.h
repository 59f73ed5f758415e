/*
 * The small matrix product that all block formats share. Internal to this folder.
 *
 * Eight weight rows are one vector's lanes. A format takes up to 256 columns of eight rows apart into
 * a panel (4 KiB, in the first-level cache); the panel then serves up to PANEL_ROWS activation rows.
 * Bytes are brought from rows into lanes by transposing 16-byte pieces as 32-bit words, so nothing is
 * repacked in memory and rows may stand anywhere.
 *
 * Stays true: the order of kernels.h, an accumulator a lane: lanes never meet, and a tile of one
 * activation row does what a tile of four does. Integer parts are exact: pairs of products are summed
 * to 16 bits only as far as the largest codes allow (activation codes are -127..127):
 *   codes <= 15: 8 pairs, 30480;   <= 31: 4 pairs, 31496;   <= 63: 2 pairs, 32004;   int8: 1, 32512
 *
 * Tried and dropped: lanes along the columns, as in ggml (a conversion and a multiplication for each
 * 32 products of each output, three times slower for many rows).
 */
#ifndef ENGINE_KERNELS_CPU_AVX2_PANEL_H
#define ENGINE_KERNELS_CPU_AVX2_PANEL_H

#include <immintrin.h>
#include <string.h>

#include "engine/kernels/kernels.h"
#include "engine/quant/blocks.h"

#define PANEL_INLINE static inline __attribute__((always_inline))

#define PANEL_LANES 8
#define PANEL_COLS 256
#define PANEL_AHEAD 8192 /* bytes of weights that are fetched before their turn, at least */
#define PANEL_ROWS 64    /* activation rows served by a panel: their 256 columns take 20 KiB */

enum panel_codes {
    PANEL_U4, /* unsigned, <= 15 */
    PANEL_U5, /* <= 31 */
    PANEL_U6, /* <= 63 */
    PANEL_I8, /* signed */
};

struct panel {
    __m256i q[PANEL_COLS / 4]; /* byte 4 * lane + i of q[c]: code of column 4c + i */
    /* Formats with a partner of 32: of each block. Of 256: only [0]. */
    __m256 d[8];
    __m256 m[8];
    /* Partner of 256: a group's scale, twice in each lane; minima of groups 2i and 2i + 1. */
    __m256i sc[16];
    __m256i mn[8];
};

/* The rows of eight lanes, at the panel's first column. */
struct panel_source {
    const uint8_t *row[PANEL_LANES];
};

/* n_blocks are the partner's; of formats with larger blocks, a multiple of those. */
typedef void panel_open_fn(const struct panel_source *s, size_t n_blocks, struct panel *p);

/* What a format is, as constants that the compiler folds into its instance. */
struct panel_format {
    panel_open_fn *open;
    enum panel_codes codes;
    int offset;   /* q - offset is the code */
    bool has_min; /* partner of 32: m; of 256: dmin and minima */
    bool
        halves; /* partner of 32: m is the scale of a block's second half; signed codes, no offset */
    size_t block_bytes;
    size_t n_acts; /* the partner's blocks in one of the format's; 0 for 1 */
};

/* Bytes [at, at + 16) of each row: out[i] has their i-th 32-bit word, a row a lane. */
PANEL_INLINE void panel_load16(const struct panel_source *s, size_t at, __m256i out[4])
{
    __m256i pair[4];
    for (int i = 0; i < 4; i++) {
        __m128i low = _mm_loadu_si128((const __m128i *)(s->row[i] + at));
        __m128i high = _mm_loadu_si128((const __m128i *)(s->row[i + 4] + at));
        pair[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    __m256i a = _mm256_unpacklo_epi32(pair[0], pair[1]);
    __m256i b = _mm256_unpackhi_epi32(pair[0], pair[1]);
    __m256i c = _mm256_unpacklo_epi32(pair[2], pair[3]);
    __m256i d = _mm256_unpackhi_epi32(pair[2], pair[3]);
    out[0] = _mm256_unpacklo_epi64(a, c);
    out[1] = _mm256_unpackhi_epi64(a, c);
    out[2] = _mm256_unpacklo_epi64(b, d);
    out[3] = _mm256_unpackhi_epi64(b, d);
}

PANEL_INLINE int panel_word(const uint8_t *at)
{
    int word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* The 32-bit word at that offset of each row. */
PANEL_INLINE __m256i panel_load4(const struct panel_source *s, size_t at)
{
    return _mm256_setr_epi32(panel_word(s->row[0] + at), panel_word(s->row[1] + at),
                             panel_word(s->row[2] + at), panel_word(s->row[3] + at),
                             panel_word(s->row[4] + at), panel_word(s->row[5] + at),
                             panel_word(s->row[6] + at), panel_word(s->row[7] + at));
}

/* Two binary16 numbers in each lane: the low ones, and the high ones. */
PANEL_INLINE void panel_halves(__m256i words, __m256 *low, __m256 *high)
{
    __m256i l = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    __m256i h = _mm256_srli_epi32(words, 16);
    __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(l, h), 0xd8);
    *low = _mm256_cvtph_ps(_mm256_castsi256_si128(both));
    *high = _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1));
}

PANEL_INLINE __m256i panel_low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
}

PANEL_INLINE __m256i panel_high_nibbles(__m256i bytes)
{
    return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi8(15));
}

/* Table value i of each byte i of 0..15. */
PANEL_INLINE __m256i panel_look_up(const int8_t table[16], __m256i bytes)
{
    __m128i values = _mm_loadu_si128((const __m128i *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), bytes);
}

/* Bits [first, first + 4) of each lane's word as its four bytes: that value where set, else 0. */
PANEL_INLINE __m256i panel_bits(__m256i words, int first, char value)
{
    const __m256i select = _mm256_set1_epi32(0x08040201);
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0,
                                          0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    __m256i spread = _mm256_shuffle_epi8(_mm256_srli_epi32(words, first), byte);
    __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, select), select);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(value));
}

/* Four consecutive bytes, in every lane. */
PANEL_INLINE __m256i panel_spread(const void *at)
{
    int word;
    memcpy(&word, at, sizeof(word));
    return _mm256_set1_epi32(word);
}

/*
 * Four words of codes with an activation's 16: products summed within each lane's pairs to 16 bits.
 * Four words stay in registers while several activation rows pass; eight would not.
 */
PANEL_INLINE __m256i panel_pairs(const __m256i *w, const int8_t *x)
{
    __m256i sum = _mm256_maddubs_epi16(w[0], panel_spread(x));
    for (int c = 1; c < 4; c++)
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w[c], panel_spread(x + 4 * c)));
    return sum;
}

/* The same products, times a scale (16 bits, twice a lane), summed to 32 bits. */
PANEL_INLINE __m256i panel_dot(enum panel_codes codes, const __m256i *w, const int8_t *x,
                               __m256i scale)
{
    if (codes == PANEL_U4 || codes == PANEL_U5)
        return _mm256_madd_epi16(panel_pairs(w, x), scale);
    __m256i part[4];
    for (int c = 0; c < 4; c++) {
        __m256i xc = panel_spread(x + 4 * c);
        part[c] = codes == PANEL_I8
                      ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[c]), _mm256_sign_epi8(xc, w[c]))
                      : _mm256_maddubs_epi16(w[c], xc);
    }
    if (codes == PANEL_U6) {
        __m256i low = _mm256_add_epi16(part[0], part[1]);
        __m256i high = _mm256_add_epi16(part[2], part[3]);
        return _mm256_add_epi32(_mm256_madd_epi16(low, scale), _mm256_madd_epi16(high, scale));
    }
    for (int c = 0; c < 4; c++)
        part[c] = _mm256_madd_epi16(part[c], scale);
    return _mm256_add_epi32(_mm256_add_epi32(part[0], part[1]), _mm256_add_epi32(part[2], part[3]));
}

/* The 32 codes of a block with n activation rows' blocks. */
PANEL_INLINE void panel_dot_block(enum panel_codes codes, const __m256i *w,
                                  const struct act_q8 *const *x, size_t b, __m256i *dot, int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    for (int r = 0; r < n; r++)
        dot[r] =
            codes == PANEL_U4 ? panel_pairs(w, x[r][b].q) : panel_dot(codes, w, x[r][b].q, ones);
    for (int r = 0; r < n; r++) {
        const int8_t *high = x[r][b].q + 16;
        if (codes == PANEL_U4)
            dot[r] = _mm256_madd_epi16(_mm256_add_epi16(dot[r], panel_pairs(w + 4, high)), ones);
        else
            dot[r] = _mm256_add_epi32(dot[r], panel_dot(codes, w + 4, high, ones));
    }
}

/* A tile of n activation rows whose blocks (of the panel's columns) start at x[0 .. n). */
PANEL_INLINE void panel_tile_q8(struct panel_format f, const struct panel *p, size_t n_blocks,
                                const struct act_q8 *const *x, __m256 *acc, int n)
{
    const __m256 offset = _mm256_set1_ps((float)f.offset);
    __m256 a[4];
    __m256i sum[4];
    for (int r = 0; r < n; r++)
        a[r] = acc[r];
    for (size_t b = 0; b < n_blocks; b++) {
        panel_dot_block(f.codes, p->q + 8 * b, x, b, sum, n);
        for (int r = 0; r < n; r++) {
            const struct act_q8 *xb = x[r] + b;
            __m256 dot = _mm256_cvtepi32_ps(sum[r]);
            if (f.offset != 0)
                dot = _mm256_fnmadd_ps(offset, _mm256_set1_ps(xb->qsum), dot);
            __m256 t =
                f.has_min ? _mm256_mul_ps(p->m[b], _mm256_set1_ps(xb->qsum)) : _mm256_setzero_ps();
            t = f.has_min ? _mm256_fmadd_ps(p->d[b], dot, t) : _mm256_mul_ps(p->d[b], dot);
            a[r] = _mm256_fmadd_ps(_mm256_set1_ps(xb->d), t, a[r]);
        }
    }
    for (int r = 0; r < n; r++)
        acc[r] = a[r];
}

/* The same where both halves of a block have scales of their own. */
PANEL_INLINE void panel_tile_halves(struct panel_format f, const struct panel *p, size_t n_blocks,
                                    const struct act_q8 *const *x, __m256 *acc, int n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    for (size_t b = 0; b < n_blocks; b++) {
        const __m256i *w = p->q + 8 * b;
        for (int r = 0; r < n; r++) {
            const struct act_q8 *xb = x[r] + b;
            __m256 low = _mm256_cvtepi32_ps(panel_dot(f.codes, w, xb->q, ones));
            __m256 high = _mm256_cvtepi32_ps(panel_dot(f.codes, w + 4, xb->q + 16, ones));
            __m256 t = _mm256_fmadd_ps(p->m[b], high, _mm256_mul_ps(p->d[b], low));
            acc[r] = _mm256_fmadd_ps(_mm256_set1_ps(xb->d), t, acc[r]);
        }
    }
}

/* The same for a super-block. */
PANEL_INLINE void panel_tile_q8k(struct panel_format f, const struct panel *p,
                                 const struct act_q8k *const *x, __m256 *acc, int n)
{
    __m256i sum[4];
    __m256i mins[4];
    for (int r = 0; r < n; r++)
        sum[r] = mins[r] = _mm256_setzero_si256();
    for (int g = 0; g < 16; g++) {
        for (int r = 0; r < n; r++) {
            __m256i dot = panel_dot(f.codes, p->q + 4 * g, x[r]->q + 16 * g, p->sc[g]);
            sum[r] = _mm256_add_epi32(sum[r], dot);
        }
    }
    for (int i = 0; i < 8 && (f.has_min || f.offset != 0); i++) {
        for (int r = 0; r < n; r++) {
            __m256i product = _mm256_madd_epi16(panel_spread(x[r]->bsums + 2 * i), p->mn[i]);
            mins[r] = _mm256_add_epi32(mins[r], product);
        }
    }
    for (int r = 0; r < n; r++) {
        if (f.offset != 0)
            sum[r] =
                _mm256_sub_epi32(sum[r], _mm256_mullo_epi32(mins[r], _mm256_set1_epi32(f.offset)));
        __m256 t = _mm256_mul_ps(p->d[0], _mm256_cvtepi32_ps(sum[r]));
        if (f.has_min)
            t = _mm256_fnmadd_ps(p->m[0], _mm256_cvtepi32_ps(mins[r]), t);
        acc[r] = _mm256_fmadd_ps(_mm256_set1_ps(x[r]->d), t, acc[r]);
    }
}

/* The activation rows of one call that a panel serves, at the panel's first block. */
struct panel_rows {
    const char *x;
    size_t stride_bytes;
    size_t n;
};

PANEL_INLINE void panel_tile(struct panel_format f, enum act_kind act, const struct panel *p,
                             size_t n_blocks, const struct panel_rows *rows, size_t r, __m256 *acc,
                             int n)
{
    const void *x[4];
    for (int i = 0; i < n; i++)
        x[i] = rows->x + (r + (size_t)i) * rows->stride_bytes;
    if (f.halves)
        panel_tile_halves(f, p, n_blocks, (const struct act_q8 *const *)x, acc + r, n);
    else if (act == ACT_Q8)
        panel_tile_q8(f, p, n_blocks, (const struct act_q8 *const *)x, acc + r, n);
    else
        panel_tile_q8k(f, p, (const struct act_q8k *const *)x, acc + r, n);
}

PANEL_INLINE void panel_serve(struct panel_format f, enum act_kind act, const struct panel *p,
                              size_t n_blocks, const struct panel_rows *rows, __m256 *acc)
{
    size_t r = 0;
    for (; r + 4 <= rows->n; r += 4)
        panel_tile(f, act, p, n_blocks, rows, r, acc, 4);
    for (; r < rows->n; r++)
        panel_tile(f, act, p, n_blocks, rows, r, acc, 1);
}

/* Writes lanes [0, n_lanes) of a group's sums to columns i.. of y. */
PANEL_INLINE void panel_store(const struct matmul *m, size_t r0, size_t n_rows, size_t i,
                              size_t n_lanes, const __m256 *acc)
{
    for (size_t r = 0; r < n_rows; r++) {
        float *y = m->y + (r0 + r) * m->y_stride + i;
        if (n_lanes == PANEL_LANES)
            _mm256_storeu_ps(y, acc[r]);
        else
            memcpy(y, &acc[r], n_lanes * sizeof(*y));
    }
}

/*
 * The same columns of rows further down, into the second-level cache (into the first, half as fast: it
 * can wait for fewer lines at once). Eight rows read side by side look like no stream to the hardware's
 * prefetcher: without this, memory gives a third of what it can. Beyond the matrix it is harmless.
 */
PANEL_INLINE void panel_prefetch(const struct panel_source *s, size_t ahead_bytes, size_t n_bytes)
{
    for (size_t lane = 0; lane < PANEL_LANES; lane++) {
        const char *next = (const char *)s->row[lane] + ahead_bytes;
        for (size_t at = 0; at < n_bytes; at += 64)
            _mm_prefetch(next + at, _MM_HINT_T1);
    }
}

/* Weight rows i .. i + n_lanes with activation rows r0 .. r0 + n_rows. Unused lanes repeat the last. */
PANEL_INLINE void panel_group(struct panel_format f, enum act_kind act, const struct matmul *m,
                              size_t i, size_t n_lanes, size_t r0, size_t n_rows)
{
    struct panel p;
    struct panel_source s;
    __m256 acc[PANEL_ROWS];
    const size_t block_elems = act == ACT_Q8 ? 32 : 256;
    const size_t panel_blocks = PANEL_COLS / block_elems;
    const size_t n_acts = f.n_acts ? f.n_acts : 1;
    const size_t x_block_bytes = act == ACT_Q8 ? sizeof(struct act_q8) : sizeof(struct act_q8k);
    struct panel_rows rows = {
        .x = (const char *)m->x + r0 * m->x_row_bytes, .stride_bytes = m->x_row_bytes, .n = n_rows};
    for (size_t lane = 0; lane < PANEL_LANES; lane++)
        s.row[lane] = (const uint8_t *)m->w + (i + MIN_OF(lane, n_lanes - 1)) * m->w_row_bytes;
    for (size_t r = 0; r < n_rows; r++)
        acc[r] = _mm256_setzero_ps();
    /* Whole groups of rows, PANEL_AHEAD bytes or more: time for memory to answer. */
    const size_t group_bytes = PANEL_LANES * m->w_row_bytes;
    const size_t ahead_bytes = (PANEL_AHEAD + group_bytes - 1) / group_bytes * group_bytes;
    size_t n_blocks = m->n_cols / block_elems;
    for (size_t b = 0; b < n_blocks; b += panel_blocks) {
        size_t n = MIN_OF(n_blocks - b, panel_blocks);
        const size_t n_bytes = n / n_acts * f.block_bytes;
        panel_prefetch(&s, ahead_bytes, n_bytes);
        f.open(&s, n, &p);
        panel_serve(f, act, &p, n, &rows, acc);
        rows.x += n * x_block_bytes;
        for (size_t lane = 0; lane < PANEL_LANES; lane++)
            s.row[lane] += n_bytes;
    }
    panel_store(m, r0, n_rows, i, n_lanes, acc);
}

PANEL_INLINE void panel_matmul(struct panel_format f, enum act_kind act, const struct matmul *m,
                               size_t first, size_t last)
{
    for (size_t r0 = 0; r0 < m->n_rows; r0 += PANEL_ROWS) {
        size_t n_rows = MIN_OF(m->n_rows - r0, (size_t)PANEL_ROWS);
        for (size_t i = first; i < last; i += PANEL_LANES)
            panel_group(f, act, m, i, MIN_OF(last - i, (size_t)PANEL_LANES), r0, n_rows);
    }
}

#endif
