/*
 * Dot products of block formats in plain C: a format gives a function that takes one block apart, the
 * loops around it are here. Internal to this folder.
 *
 * Stays true: the order of kernels.h. A weight block is taken apart once for up to BLOCKS_ROWS
 * activation rows.
 */
#ifndef ENGINE_KERNELS_CPU_GENERIC_BLOCKS_H
#define ENGINE_KERNELS_CPU_GENERIC_BLOCKS_H

#include "engine/kernels/kernels.h"

#define BLOCKS_ROWS 64

/* x = d * q + m; where scales are for 16, d_high is that of the second half and m is none. */
struct codes_q8 {
    float d;
    float d_high;
    float m;
    int8_t q[32];
};

/* x = d * sc * q - dmin * mn, a scale and a minimum for each 16 elements */
struct codes_q8k {
    float d;
    float dmin;
    int16_t sc[16];
    int16_t mn[16];
    int8_t q[256];
};

typedef void open_q8_fn(const void *row, size_t block, struct codes_q8 *out);
typedef float dot_q8_fn(const struct codes_q8 *w, const struct act_q8 *x);
typedef void open_q8k_fn(const void *row, size_t block, struct codes_q8k *out);

static inline int32_t dot_i8(const int8_t *a, const int8_t *b, int n)
{
    int32_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static inline float dot_q8(const struct codes_q8 *w, const struct act_q8 *x)
{
    return x->d * (w->d * (float)dot_i8(w->q, x->q, 32) + w->m * x->qsum);
}

static inline float dot_q8_halves(const struct codes_q8 *w, const struct act_q8 *x)
{
    float low = w->d * (float)dot_i8(w->q, x->q, 16);
    return x->d * (low + w->d_high * (float)dot_i8(w->q + 16, x->q + 16, 16));
}

static inline float dot_q8k(const struct codes_q8k *w, const struct act_q8k *x)
{
    int32_t sum = 0;
    int32_t mins = 0;
    for (int g = 0; g < 16; g++) {
        sum += w->sc[g] * dot_i8(w->q + 16 * g, x->q + 16 * g, 16);
        mins += w->mn[g] * x->bsums[g];
    }
    return x->d * (w->d * (float)sum - w->dmin * (float)mins);
}

static inline const void *blocks_x(const struct matmul *m, size_t row)
{
    return (const char *)m->x + row * m->x_row_bytes;
}

static inline const void *blocks_w(const struct matmul *m, size_t row)
{
    return (const char *)m->w + row * m->w_row_bytes;
}

static inline void matmul_q8_by(const struct matmul *m, size_t first, size_t last,
                                open_q8_fn *open_block, dot_q8_fn *dot)
{
    struct codes_q8 w;
    for (size_t r0 = 0; r0 < m->n_rows; r0 += BLOCKS_ROWS) {
        size_t n = MIN_OF(m->n_rows - r0, (size_t)BLOCKS_ROWS);
        for (size_t i = first; i < last; i++) {
            float acc[BLOCKS_ROWS] = {0};
            for (size_t b = 0; b < m->n_cols / 32; b++) {
                open_block(blocks_w(m, i), b, &w);
                for (size_t r = 0; r < n; r++)
                    acc[r] += dot(&w, (const struct act_q8 *)blocks_x(m, r0 + r) + b);
            }
            for (size_t r = 0; r < n; r++)
                m->y[(r0 + r) * m->y_stride + i] = acc[r];
        }
    }
}

static inline void matmul_q8(const struct matmul *m, size_t first, size_t last,
                             open_q8_fn *open_block)
{
    matmul_q8_by(m, first, last, open_block, dot_q8);
}

static inline void matmul_q8k(const struct matmul *m, size_t first, size_t last,
                              open_q8k_fn *open_block)
{
    struct codes_q8k w;
    for (size_t r0 = 0; r0 < m->n_rows; r0 += BLOCKS_ROWS) {
        size_t n = MIN_OF(m->n_rows - r0, (size_t)BLOCKS_ROWS);
        for (size_t i = first; i < last; i++) {
            float acc[BLOCKS_ROWS] = {0};
            for (size_t b = 0; b < m->n_cols / 256; b++) {
                open_block(blocks_w(m, i), b, &w);
                for (size_t r = 0; r < n; r++)
                    acc[r] += dot_q8k(&w, (const struct act_q8k *)blocks_x(m, r0 + r) + b);
            }
            for (size_t r = 0; r < n; r++)
                m->y[(r0 + r) * m->y_stride + i] = acc[r];
        }
    }
}

#endif
