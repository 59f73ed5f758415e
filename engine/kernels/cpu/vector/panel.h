/*
 * The small matrix product that all block formats share. Internal to cpu.
 *
 * The lanes of a vector are weight rows. For one activation row a format's codes go from the block
 * straight into the sums; for several, up to 256 columns of codes are kept as a panel (in the first-level
 * cache), which then serves up to PANEL_ROWS activation rows. Bytes are brought from rows into lanes by
 * transposing 16-byte pieces as 32-bit words, so nothing is repacked in memory and rows may stand
 * anywhere.
 *
 * Stays true: the order of kernels.h, an accumulator a lane: lanes never meet, and a tile of one
 * activation row does what a tile of four does. Integer parts are exact (dot.h).
 *
 * Tried and dropped: lanes along the columns, as in ggml (a conversion and a multiplication for each
 * 32 products of each output, three times slower for many rows).
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_PANEL_H
#define ENGINE_KERNELS_CPU_VECTOR_PANEL_H

#include "engine/kernels/cpu/vector/dot.h"
#include "engine/kernels/kernels.h"
#include "engine/quant/blocks.h"

#define PANEL_COLS 256
#define PANEL_AHEAD 18432 /* bytes beyond a group of rows that are fetched before their turn */
#define PANEL_ROWS 64     /* activation rows served by a panel: their 256 columns take 20 KiB */

/* Codes of several columns are words: byte i of lane l of word c is row l's code of column 4c + i (dot_store). */
struct panel {
    vec q[PANEL_COLS / 4];
    /* Formats with a partner of 32: of each block. Of 256: only [0]. */
    vecf d[8];
    vecf m[8];
    /* Partner of 256: scales of 16 columns (dot_scale); minima of groups 2i and 2i + 1, 16 bits each. */
    vec sc[16];
    vec mn[8];
};

/*
 * What is fetched while a step's weights are used. Rows read side by side look like no stream to the
 * hardware's prefetcher: without this, memory gives a quarter of what it can. So what follows is fetched
 * as one stream, in the order in which it stands: first from memory into the second-level cache, which can
 * wait for more lines at once than the first; half a group of rows before its turn into the first. A little
 * with each 16 columns or row: bursts make readers wait. What lies beyond the range of a call is not asked
 * for: it is another thread's.
 */
struct panel_ahead {
    const uint8_t *near;
    const uint8_t *far; /* what memory is asked for */
    size_t n_bytes;     /* of the step, of all rows */
};

/* A block as its format's function opens it: of 32 columns, or a super-block. */
struct opened {
    enum codes codes;
    bool wide;   /* scales are for 32 columns */
    bool pieces; /* partner of 32, one activation row: bytes stay as they lie (panel_load_half) */
    vecf d;
    vecf m;
    vec *sc; /* [16] */
    vec *mn; /* [8] */
    /* Where the codes go: to a panel, or with an activation row into sums. */
    vec *q;
    const int8_t *x;
    const struct act_q8k *super; /* whose codes x are, of super-blocks */
    vec sum;                     /* of the products so far; of super-blocks, times their scales */
    vec mins;                    /* sums: of minima times sums of the activation */
    vec dot[8];                  /* wide: of 32 columns each, without scales */
    struct panel_ahead ahead;
    vec part[4]; /* pieces: dot_piece of rows i, 4 + i .. */
};

/*
 * Block b (of the partner's size) from there in each row: sets d and what else the format has, then puts
 * the codes of 16 columns at a time. Of formats with larger blocks, b counts parts of those.
 */
typedef void panel_open_fn(const uint8_t *const *row, size_t b, struct opened *o);

/* What a format is, as constants that the compiler folds into its instance. */
struct panel_format {
    panel_open_fn *open;
    enum codes codes;
    int offset;   /* q - offset is the code */
    bool has_min; /* partner of 32: m; of 256: dmin and minima */
    bool wide;    /* partner of 256: scales are for 32 columns */
    bool sums;    /* partner of 256: with an activation row, open gives the sums over all columns */
    bool pieces;  /* partner of 32: a code needs no more than the byte at its own place */
    bool halves;  /* partner of 32: m is the scale of the second half; signed codes, no offset */
    size_t block_bytes;
    size_t n_acts; /* the partner's blocks in one of the format's; 0 for 1 */
};

/* The partner's blocks in one of the format's. */
VEC_INLINE size_t panel_acts(struct panel_format f)
{
    return f.n_acts ? f.n_acts : 1;
}

VEC_INLINE int panel_offset(struct panel_format f)
{
    return f.offset + (f.codes == CODES_I8 ? DOT_I8_OFFSET : 0);
}

VEC_INLINE vec panel_low_nibbles(vec bytes)
{
    return bytes & vec_set8(15);
}

VEC_INLINE vec panel_high_nibbles(vec bytes)
{
    return vec_srl16(bytes, 4) & vec_set8(15);
}

/* Table value i of each byte i of 0..15. */
VEC_INLINE vec panel_look_up(const int8_t table[16], vec bytes)
{
    return vec_shuffle8(vec_repeat16(table), bytes);
}

VEC_INLINE uint64_t panel_half(const uint8_t *at)
{
    uint16_t bits;
    memcpy(&bits, at, sizeof(bits));
    return bits;
}

/* The 16 bits at that offset as d. They are joined as integers: vectors have enough to do. */
VEC_INLINE void panel_put_d(struct opened *o, const uint8_t *const *row, size_t at)
{
    uint64_t four[VEC_LANES / 4];
    for (int i = 0; i < VEC_LANES / 4; i++)
        four[i] = panel_half(row[4 * i] + at) | panel_half(row[4 * i + 1] + at) << 16 |
                  panel_half(row[4 * i + 2] + at) << 32 | panel_half(row[4 * i + 3] + at) << 48;
    o->d = vecf_halves(four);
}

/* Part `part` of n_parts of a step's. */
VEC_INLINE void panel_fetch(const struct panel_ahead *a, size_t part, size_t n_parts)
{
    const size_t n_lines = (a->n_bytes + 63) / 64;
    for (size_t i = n_lines * part / n_parts; i < n_lines * (part + 1) / n_parts; i++) {
        __builtin_prefetch(a->far + 64 * i, 0, 2);
        __builtin_prefetch(a->near + 64 * i, 0, 3);
    }
}

/* The codes of columns 16g .. 16g + 15 of a super-block. */
VEC_INLINE void panel_put(struct opened *o, int g, const vec w[4])
{
    vec kept[4];
    for (int c = 0; c < 4; c++)
        kept[c] = dot_keep(o->codes, w[c]);
    panel_fetch(&o->ahead, (size_t)g, 16);
    if (o->q)
        dot_store(kept, o->q + 4 * g);
    else if (o->wide && DOT_WORDS == 8)
        o->dot[g / 2] = dot_16(o->codes, kept, o->x + 16 * g, o->dot[g / 2]);
    else
        o->sum = dot_scaled(o->codes, kept, o->x + 16 * g, o->sc[g], o->sum, 4);
}

/*
 * 16 bytes of each row of which the codes of half a block, or by nibbles of a block, are made: in lanes;
 * or as they lie, several rows to a vector, where one activation row is all and sums are fewer than bytes.
 */
VEC_INLINE void panel_load_half(const struct opened *o, const uint8_t *const *row, size_t at,
                                vec out[4])
{
    if (o->q || !o->pieces) {
        vec_load16(row, at, out);
        return;
    }
    for (int i = 0; i < 4; i++)
        out[i] = vec_pieces(row, i, at);
}

/* The codes of half h of a block of 32. */
VEC_INLINE void panel_put_half(struct opened *o, int h, const vec w[4])
{
    vec kept[4];
    for (int c = 0; c < 4; c++)
        kept[c] = dot_keep(o->codes, w[c]);
    if (o->q)
        dot_store(kept, o->q + 4 * h);
    else if (o->pieces)
        for (int i = 0; i < 4; i++)
            o->part[i] = dot_piece(o->codes, kept[i], vec_repeat16(o->x + 16 * h), o->part[i]);
    else if (h == 0)
        o->sum = dot_first(o->codes, kept, o->x);
    else
        o->sum = dot_second(o->codes, o->sum, kept, o->x + 16);
}

/* Low nibbles are the first half, high ones the second; or what a table has for them. */
VEC_INLINE void panel_put_nibbles(struct opened *o, const vec bytes[4], const int8_t *table)
{
    vec low[4];
    vec high[4];
    for (int c = 0; c < 4; c++) {
        low[c] = panel_low_nibbles(bytes[c]);
        high[c] = panel_high_nibbles(bytes[c]);
        if (table) {
            low[c] = panel_look_up(table, low[c]);
            high[c] = panel_look_up(table, high[c]);
        }
    }
    panel_put_half(o, 0, low);
    panel_put_half(o, 1, high);
}

/* The same with a fifth bit: 32 of those, then 16 bytes of nibbles. */
VEC_INLINE void panel_put_fives(struct opened *o, const uint8_t *const *row, size_t at)
{
    vec bits = vec_gather4(row, at);
    vec bytes[4];
    vec low[4];
    vec high[4];
    vec_load16(row, at + 4, bytes);
    for (int c = 0; c < 4; c++) {
        low[c] = panel_low_nibbles(bytes[c]) | vec_bits(bits, 4 * c, 16);
        high[c] = panel_high_nibbles(bytes[c]) | vec_bits(bits, 16 + 4 * c, 16);
    }
    panel_put_half(o, 0, low);
    panel_put_half(o, 1, high);
}

/* acc + what a block of 32 adds, its integer product being dot. */
VEC_INLINE vecf panel_add_block(struct panel_format f, vecf d, vecf m, vec dot,
                                const struct act_q8 *x, vecf acc)
{
    vecf qsum = vecf_set(x->qsum);
    vecf product = vecf_of(dot);
    if (panel_offset(f) != 0)
        product = vecf_fnma(vecf_set((float)panel_offset(f)), qsum, product);
    vecf t = f.has_min ? vecf_fma(d, product, vecf_mul(m, qsum)) : vecf_mul(d, product);
    return vecf_fma(vecf_set(x->d), t, acc);
}

/* The same where both halves of a block have scales of their own: one sum a half. */
VEC_INLINE vecf panel_add_halves(struct panel_format f, vecf d, vecf m, const vec *w,
                                 const struct act_q8 *x, vecf acc)
{
    vec half[2];
    for (int h = 0; h < 2; h++) {
        half[h] = dot_stored(f.codes, w + 4 * h, x->q + 16 * h);
        if (panel_offset(f) != 0) {
            vec ones[4] = {vec_set8(1), vec_set8(1), vec_set8(1), vec_set8(1)};
            vec qsum = dot_stored(CODES_U4, ones, x->q + 16 * h);
            half[h] = vec_sub32(half[h], vec_mul32(qsum, vec_set32(panel_offset(f))));
        }
    }
    vecf t = vecf_fma(m, vecf_of(half[1]), vecf_mul(d, vecf_of(half[0])));
    return vecf_fma(vecf_set(x->d), t, acc);
}

/* acc + what a super-block adds, whose products' and minima's sums are these. */
VEC_INLINE vecf panel_add_sums(struct panel_format f, vecf d, vecf m, vec mins, vec sum,
                               const struct act_q8k *x, vecf acc)
{
    vecf t = vecf_mul(d, vecf_of(sum));
    if (f.has_min)
        t = vecf_fnma(m, vecf_of(mins), t);
    return vecf_fma(vecf_set(x->d), t, acc);
}

/* The same, from minima and, where there is an offset, sums that have it. */
VEC_INLINE vecf panel_add_super(struct panel_format f, vecf d, vecf m, const vec mn[8], vec sum,
                                const struct act_q8k *x, vecf acc)
{
    vec mins = vec_set32(0);
    for (int i = 0; i < 8 && (f.has_min || panel_offset(f) != 0); i++)
        mins = vec_add32(mins, vec_madd16(vec_spread(x->bsums + 2 * i), mn[i]));
    if (panel_offset(f) != 0)
        sum = vec_sub32(sum, vec_mul32(mins, vec_set32(panel_offset(f))));
    return panel_add_sums(f, d, m, mins, sum, x, acc);
}

/* A tile of n activation rows whose blocks (of the panel's columns) start at x[0 .. n). */
VEC_INLINE void panel_tile_q8(struct panel_format f, const struct panel *p, size_t n_blocks,
                              const struct act_q8 *const *x, vecf *acc, int n)
{
    vecf a[DOT_TILE];
    vec sum[DOT_TILE];
    for (int r = 0; r < n; r++)
        a[r] = acc[r];
    for (size_t b = 0; b < n_blocks; b++) {
        const vec *w = p->q + 8 * b;
        if (!f.halves)
            dot_tile_q8(f.codes, w, x, b, sum, n);
        for (int r = 0; r < n; r++)
            a[r] = f.halves ? panel_add_halves(f, p->d[b], p->m[b], w, x[r] + b, a[r])
                            : panel_add_block(f, p->d[b], p->m[b], sum[r], x[r] + b, a[r]);
    }
    for (int r = 0; r < n; r++)
        acc[r] = a[r];
}

VEC_INLINE void panel_tile_q8k(struct panel_format f, const struct panel *p,
                               const struct act_q8k *const *x, vecf *acc, int n)
{
    const int n_words = f.wide ? DOT_WORDS : 4;
    vec sum[DOT_TILE];
    for (int r = 0; r < n; r++)
        sum[r] = vec_set32(0);
    for (int c = 0; c < PANEL_COLS / 4; c += n_words)
        dot_tile_q8k(f.codes, p->q, x, (struct dot_part){c, n_words}, p->sc[c / 4], sum, n);
    for (int r = 0; r < n; r++)
        acc[r] = panel_add_super(f, p->d[0], p->m[0], p->mn, sum[r], x[r], acc[r]);
}

/* The activation rows of one call that a panel serves, at the panel's first block. */
struct panel_rows {
    const char *x;
    size_t stride_bytes;
    size_t n;
};

VEC_INLINE void panel_tile(struct panel_format f, enum act_kind act, const struct panel *p,
                           size_t n_blocks, const struct panel_rows *rows, size_t r, vecf *acc,
                           int n)
{
    const void *x[DOT_TILE];
    for (int i = 0; i < n; i++)
        x[i] = rows->x + (r + (size_t)i) * rows->stride_bytes;
    if (act == ACT_Q8)
        panel_tile_q8(f, p, n_blocks, (const struct act_q8 *const *)x, acc + r, n);
    else
        panel_tile_q8k(f, p, (const struct act_q8k *const *)x, acc + r, n);
}

VEC_INLINE void panel_serve(struct panel_format f, enum act_kind act, const struct panel *p,
                            size_t n_blocks, const struct panel_rows *rows, vecf *acc)
{
    size_t r = 0;
    for (; r + DOT_TILE <= rows->n; r += DOT_TILE)
        panel_tile(f, act, p, n_blocks, rows, r, acc, DOT_TILE);
    for (; DOT_TILE > 4 && r + 4 <= rows->n; r += 4)
        panel_tile(f, act, p, n_blocks, rows, r, acc, 4);
    for (; r < rows->n; r++)
        panel_tile(f, act, p, n_blocks, rows, r, acc, 1);
}

/* n blocks of each row as a panel. */
VEC_INLINE void panel_fill(struct panel_format f, enum act_kind act, const uint8_t *const *row,
                           size_t n, const struct panel_ahead *ahead, struct panel *p)
{
    struct opened o = {.codes = f.codes, .wide = f.wide, .sc = p->sc, .mn = p->mn, .ahead = *ahead};
    for (size_t b = 0; b < n; b++) {
        if (act == ACT_Q8)
            panel_fetch(ahead, b, PANEL_COLS / 32);
        o.q = p->q + 8 * b;
        f.open(row, b, &o);
        p->d[b] = o.d;
        p->m[b] = o.m;
    }
}

/* n blocks of each row with the only activation row. */
VEC_INLINE vecf panel_pass_q8(struct panel_format f, const uint8_t *const *row, size_t n,
                              const struct act_q8 *x, const struct panel_ahead *ahead, vecf acc)
{
    for (size_t b = 0; b < n; b++) {
        panel_fetch(ahead, b, PANEL_COLS / 32);
        struct opened o = {.codes = f.codes, .pieces = f.pieces, .x = x[b].q};
        for (int i = 0; i < 4; i++)
            o.part[i] = vec_set32(0);
        f.open(row, b, &o);
        if (f.pieces)
            o.sum = dot_sum4(f.codes, o.part);
        acc = panel_add_block(f, o.d, o.m, o.sum, x + b, acc);
    }
    return acc;
}

VEC_INLINE vecf panel_pass_q8k(struct panel_format f, const uint8_t *const *row,
                               const struct act_q8k *x, const struct panel_ahead *ahead, vecf acc)
{
    vec sc[16];
    vec mn[8];
    struct opened o = {.codes = f.codes,
                       .wide = f.wide,
                       .sc = sc,
                       .mn = mn,
                       .x = x->q,
                       .super = x,
                       .ahead = *ahead};
    o.sum = o.mins = vec_set32(0);
    for (int g = 0; g < 8; g++)
        o.dot[g] = vec_set32(0);
    f.open(row, 0, &o);
    if (f.sums)
        return panel_add_sums(f, o.d, o.m, o.mins, o.sum, x, acc);
    for (int g = 0; g < 8 && f.wide && DOT_WORDS == 8; g++)
        o.sum = vec_add32(o.sum, vec_mul32(o.dot[g], o.sc[2 * g]));
    return panel_add_super(f, o.d, o.m, o.mn, o.sum, x, acc);
}

/* Writes lanes [0, n_lanes) of a group's sums to columns i.. of y. */
VEC_INLINE void panel_store(const struct matmul *m, size_t r0, size_t n_rows, size_t i,
                            size_t n_lanes, const vecf *acc)
{
    for (size_t r = 0; r < n_rows; r++) {
        float *y = m->y + (r0 + r) * m->y_stride + i;
        if (n_lanes == VEC_LANES)
            vecf_store(y, acc[r]);
        else
            memcpy(y, &acc[r], n_lanes * sizeof(*y));
    }
}

/* Weight rows from i, as many as fit before last, with activation rows r0 .. r0 + n_rows. */
VEC_INLINE void panel_group(struct panel_format f, enum act_kind act, const struct matmul *m,
                            size_t i, size_t last, size_t r0, size_t n_rows)
{
    const size_t n_lanes = MIN_OF(last - i, (size_t)VEC_LANES);
    struct panel p;
    const uint8_t *row[VEC_LANES];
    vecf acc[PANEL_ROWS];
    const size_t block_elems = act == ACT_Q8 ? 32 : 256;
    const size_t panel_blocks = PANEL_COLS / block_elems;
    const size_t x_block_bytes = act == ACT_Q8 ? sizeof(struct act_q8) : sizeof(struct act_q8k);
    struct panel_rows rows = {
        .x = (const char *)m->x + r0 * m->x_row_bytes, .stride_bytes = m->x_row_bytes, .n = n_rows};
    for (size_t lane = 0; lane < VEC_LANES; lane++) /* unused ones repeat the last */
        row[lane] = (const uint8_t *)m->w + (i + MIN_OF(lane, n_lanes - 1)) * m->w_row_bytes;
    for (size_t r = 0; r < n_rows; r++)
        acc[r] = vecf_set(0);
    const size_t group_bytes = VEC_LANES * m->w_row_bytes;
    struct panel_ahead ahead = {.n_bytes =
                                    VEC_LANES * panel_blocks / panel_acts(f) * f.block_bytes};
    const uint8_t *at = row[0];
    const uint8_t *stop = (const uint8_t *)m->w + last * m->w_row_bytes - ahead.n_bytes;
    size_t n_blocks = m->n_cols / block_elems;
    for (size_t b = 0; b < n_blocks; b += panel_blocks) {
        size_t n = MIN_OF(n_blocks - b, panel_blocks);
        ahead.near = MIN_OF(at + group_bytes / 2, stop);
        ahead.far = MIN_OF(at + group_bytes + PANEL_AHEAD, stop);
        if (n_rows == 1 && !f.halves && act == ACT_Q8) {
            acc[0] = panel_pass_q8(f, row, n, (const struct act_q8 *)rows.x, &ahead, acc[0]);
        } else if (n_rows == 1 && act == ACT_Q8K) {
            acc[0] = panel_pass_q8k(f, row, (const struct act_q8k *)rows.x, &ahead, acc[0]);
        } else {
            panel_fill(f, act, row, n, &ahead, &p);
            panel_serve(f, act, &p, n, &rows, acc);
        }
        rows.x += n * x_block_bytes;
        at += ahead.n_bytes;
        for (size_t lane = 0; lane < VEC_LANES; lane++)
            row[lane] += n / panel_acts(f) * f.block_bytes;
    }
    panel_store(m, r0, n_rows, i, n_lanes, acc);
}

/* What panel_fetch would have asked memory for before the first rows, had it had rows before them. */
VEC_INLINE void panel_fetch_first(const struct matmul *m, size_t first, size_t last)
{
    const uint8_t *from = (const uint8_t *)m->w + first * m->w_row_bytes;
    const size_t group_bytes = MIN_OF(last - first, (size_t)VEC_LANES) * m->w_row_bytes;
    const size_t n_bytes = MIN_OF(group_bytes + PANEL_AHEAD, (last - first) * m->w_row_bytes);
    for (size_t at = 0; at < n_bytes; at += 64)
        __builtin_prefetch(from + at, 0, 2);
}

VEC_INLINE void panel_matmul(struct panel_format f, enum act_kind act, const struct matmul *m,
                             size_t first, size_t last)
{
    panel_fetch_first(m, first, last);
    for (size_t r0 = 0; r0 < m->n_rows; r0 += PANEL_ROWS) {
        size_t n_rows = MIN_OF(m->n_rows - r0, (size_t)PANEL_ROWS);
        for (size_t i = first; i < last; i += VEC_LANES)
            panel_group(f, act, m, i, last, r0, n_rows);
    }
}

/* The table's product of a format, out of its open_<ident>. */
#define PANEL_MATMUL(ident, partner, ...)                                                          \
    void VEC_NAME(matmul_##ident)(const struct matmul *m, size_t first, size_t last)               \
    {                                                                                              \
        const struct panel_format f = {                                                            \
            .open = open_##ident, .block_bytes = sizeof(struct block_##ident), __VA_ARGS__};       \
        panel_matmul(f, partner, m, first, last);                                                  \
    }

#endif
