/*
 * Formats without blocks: f32, f16, bf16.
 *
 * Order: lane l of 8 sums the columns k = l mod 8 in ascending order; then the lanes are summed
 * pairwise: ((0+4) + (2+6)) + ((1+5) + (3+7)).
 */
#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"

#define LANES 8
#define CHUNK 512 /* columns converted at a time */

typedef void load_fn(const void *row, size_t first, size_t n, float *out);

static void load_f32(const void *row, size_t first, size_t n, float *out)
{
    const float *w = (const float *)row + first;
    for (size_t k = 0; k < n; k++)
        out[k] = w[k];
}

static void load_f16(const void *row, size_t first, size_t n, float *out)
{
    const uint16_t *w = (const uint16_t *)row + first;
    for (size_t k = 0; k < n; k++)
        out[k] = quant_f16_to_f32(w[k]);
}

static void load_bf16(const void *row, size_t first, size_t n, float *out)
{
    const uint16_t *w = (const uint16_t *)row + first;
    for (size_t k = 0; k < n; k++)
        out[k] = quant_bf16_to_f32(w[k]);
}

static void dot_chunk(const float *w, const float *x, size_t n, float lane[LANES])
{
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        for (size_t l = 0; l < LANES; l++)
            lane[l] += w[k + l] * x[k + l];
    }
    for (size_t l = 0; k + l < n; l++)
        lane[l] += w[k + l] * x[k + l];
}

static float sum_lanes(const float lane[LANES])
{
    float even = (lane[0] + lane[4]) + (lane[2] + lane[6]);
    float odd = (lane[1] + lane[5]) + (lane[3] + lane[7]);
    return even + odd;
}

static void matmul_dense(const struct matmul *m, size_t first, size_t last, load_fn *load)
{
    float w[CHUNK];
    for (size_t r0 = 0; r0 < m->n_rows; r0 += BLOCKS_ROWS) {
        size_t n = MIN_OF(m->n_rows - r0, (size_t)BLOCKS_ROWS);
        for (size_t i = first; i < last; i++) {
            float lanes[BLOCKS_ROWS][LANES] = {{0}};
            for (size_t k = 0; k < m->n_cols; k += CHUNK) {
                size_t n_chunk = MIN_OF(m->n_cols - k, (size_t)CHUNK);
                load(blocks_w(m, i), k, n_chunk, w);
                for (size_t r = 0; r < n; r++)
                    dot_chunk(w, (const float *)blocks_x(m, r0 + r) + k, n_chunk, lanes[r]);
            }
            for (size_t r = 0; r < n; r++)
                m->y[(r0 + r) * m->y_stride + i] = sum_lanes(lanes[r]);
        }
    }
}

void generic_matmul_f32(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, first, last, load_f32);
}

void generic_matmul_f16(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, first, last, load_f16);
}

void generic_matmul_bf16(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, first, last, load_bf16);
}
