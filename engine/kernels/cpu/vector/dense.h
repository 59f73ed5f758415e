/*
 * Formats without blocks: f32, f16, bf16. Internal to cpu.
 *
 * Order: lane l of WIDE_LANES sums the columns k = l mod WIDE_LANES in ascending order by FMA; then the
 * lanes are summed as wide_sum says. Columns beyond the last are zeros.
 *
 * BF16 dot instructions (AVX512_BF16) are not used: they take activations rounded to eight bits and
 * subnormals as zeros. Products would be off by 2e-3 of their rms, half of what codes of 8 bits cost but ten
 * thousand times what these loops do (tests/engine/kernels.c measures it), and files that keep bf16 are kept
 * for their precision. With one row memory is the limit; with many they could do twice the products a cycle.
 */
#ifndef ENGINE_KERNELS_CPU_VECTOR_DENSE_H
#define ENGINE_KERNELS_CPU_VECTOR_DENSE_H

#if defined(__aarch64__)
#include "engine/kernels/cpu/neon/wide.h"
#else
#include "engine/kernels/cpu/vector/wide.h"
#endif
#include "engine/kernels/kernels.h"

#define TILE_W 4 /* weight rows of a tile */
#define TILE_X WIDE_TILE
#define TILE_X_MAX 6
#define TILE_AHEAD 18432 /* bytes beyond a group of rows that are fetched: panel.h says why */
#define GROUP_X 48       /* activation rows that a weight row serves before the next is fetched */

/* A vector of weights from column k. */
typedef wide load_fn(const void *row, size_t k);

VEC_INLINE wide load_f32(const void *row, size_t k)
{
    return wide_load((const float *)row + k);
}

VEC_INLINE wide load_f16(const void *row, size_t k)
{
    return wide_load_f16((const uint16_t *)row + k);
}

VEC_INLINE wide load_bf16(const void *row, size_t k)
{
    return wide_load_bf16((const uint16_t *)row + k);
}

/* The n < WIDE_LANES weights from column k, then zeros. */
VEC_INLINE wide load_tail(load_fn *load, size_t elem_bytes, const void *row, size_t k, size_t n)
{
    uint32_t part[WIDE_LANES] = {0};
    memcpy(part, (const char *)row + k * elem_bytes, n * elem_bytes);
    return load(part, 0);
}

struct tile {
    const void *w[TILE_W];
    const float *x[TILE_X_MAX];
    size_t n_cols;
    size_t near_bytes, far_bytes; /* from what is used to what is fetched into each cache */
};

VEC_INLINE void multiply(const struct tile *t, load_fn *load, size_t elem_bytes, int n_x,
                         float out[TILE_X_MAX][TILE_W])
{
    wide acc[TILE_W][TILE_X_MAX];
    for (int i = 0; i < TILE_W; i++) {
        for (int r = 0; r < n_x; r++)
            acc[i][r] = wide_zero();
    }
    size_t k = 0;
    for (; k + WIDE_LANES <= t->n_cols; k += WIDE_LANES) {
        const char *next = (const char *)t->w[0] + TILE_W * k * elem_bytes;
        for (size_t at = 0; n_x == 1 && at < TILE_W * WIDE_LANES * elem_bytes; at += 64) {
            __builtin_prefetch(next + t->far_bytes + at, 0, 2);
            __builtin_prefetch(next + t->near_bytes + at, 0, 3);
        }
        for (int i = 0; i < TILE_W; i++) {
            wide w = load(t->w[i], k);
            for (int r = 0; r < n_x; r++)
                acc[i][r] = wide_fma(w, wide_load(t->x[r] + k), acc[i][r]);
        }
    }
    size_t rest = t->n_cols - k;
    for (int i = 0; rest > 0 && i < TILE_W; i++) {
        wide w = load_tail(load, elem_bytes, t->w[i], k, rest);
        for (int r = 0; r < n_x; r++)
            acc[i][r] =
                wide_fma(w, load_tail(load_f32, sizeof(float), t->x[r], k, rest), acc[i][r]);
    }
    for (int i = 0; i < TILE_W; i++) {
        for (int r = 0; r < n_x; r++)
            out[r][i] = wide_sum(acc[i][r]);
    }
}

/* Weight rows i .. i + n_w (at most TILE_W) with activation rows r0 .. r1. */
VEC_INLINE void serve(const struct matmul *m, load_fn *load, size_t elem_bytes, size_t i,
                      size_t n_w, size_t r0, size_t r1)
{
    struct tile t = {.n_cols = m->n_cols,
                     .near_bytes = TILE_W * m->w_row_bytes / 2,
                     .far_bytes = TILE_W * m->w_row_bytes + TILE_AHEAD};
    float out[TILE_X_MAX][TILE_W];
    for (size_t j = 0; j < TILE_W; j++)
        t.w[j] = (const char *)m->w + (i + MIN_OF(j, n_w - 1)) * m->w_row_bytes;
    for (size_t r = r0; r < r1;) {
        size_t n_x = r1 - r >= TILE_X ? TILE_X : 1;
        for (size_t j = 0; j < n_x; j++)
            t.x[j] = (const float *)((const char *)m->x + (r + j) * m->x_row_bytes);
        if (n_x == TILE_X)
            multiply(&t, load, elem_bytes, TILE_X, out);
        else
            multiply(&t, load, elem_bytes, 1, out);
        for (size_t j = 0; j < n_x; j++)
            memcpy(m->y + (r + j) * m->y_stride + i, out[j], n_w * sizeof(float));
        r += n_x;
    }
}

VEC_INLINE void matmul_dense(const struct matmul *m, load_fn *load, size_t elem_bytes, size_t first,
                             size_t last)
{
    for (size_t r = 0; r < m->n_rows; r += GROUP_X) {
        size_t r1 = MIN_OF(r + GROUP_X, m->n_rows);
        for (size_t i = first; i < last; i += TILE_W)
            serve(m, load, elem_bytes, i, MIN_OF(last - i, (size_t)TILE_W), r, r1);
    }
}

void VEC_NAME(matmul_f32)(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, load_f32, sizeof(float), first, last);
}

void VEC_NAME(matmul_f16)(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, load_f16, sizeof(uint16_t), first, last);
}

void VEC_NAME(matmul_bf16)(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, load_bf16, sizeof(uint16_t), first, last);
}

#endif
