/* One page of attention: f16 keys and values, f32 sums by FMA. Weights: 8 lanes of keys mod 8, lanes_sum. */
#include "engine/kernels/cpu/attention.h"

#include <math.h>

#include "engine/kernels/cpu/avx2/attention.h"
#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/exp.h"
#include "engine/kernels/cpu/avx2/lanes.h"

/* 16 keys x up to 8 dimensions. */
ATTENTION_INLINE void store_strip(const uint16_t *const key[STRIP_KEYS], size_t c, size_t n_dims,
                                  attention_block *out, size_t j)
{
    __m256i halves[8];
    transpose_strip(key, c, n_dims, halves);
    for (size_t i = 0; i < 8; i++) {
        _mm256_store_ps(out[i] + j, low_floats(halves[i]));
        _mm256_store_ps(out[i] + j + 8, high_floats(halves[i]));
    }
}

static void load_keys(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                      attention_block *b)
{
    for (size_t j = 0; j < n_keys; j += STRIP_KEYS) {
        const uint16_t *key[STRIP_KEYS];
        size_t i = 0;
        find_strip(a, n_keys, j, c, key);
        for (; i + 8 <= n_dims; i += 8)
            store_strip(key, i, 8, b + i, j);
        if (i < n_dims)
            store_strip(key, i, n_dims - i, b + i, j);
    }
}

static void load_values(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                        attention_block *b)
{
    for (size_t j = 0; j < n_keys; j++) {
        const uint16_t *v = (const uint16_t *)((const char *)a->v + j * a->v_stride_bytes) + c;
        size_t i = 0;
        for (; i + 8 <= n_dims; i += 8)
            _mm256_store_ps(b[j] + i, _mm256_cvtph_ps(load_halves(v + i, 8)));
        if (i < n_dims)
            _mm256_store_ps(b[j] + i, _mm256_cvtph_ps(load_halves(v + i, n_dims - i)));
        if (n_dims % 16 != 0 && n_dims % 16 <= 8)
            _mm256_store_ps(b[j] + ATTENTION_PADDED(n_dims) - 8, _mm256_setzero_ps());
    }
}

#define TILE_ROWS 6
#define TILE_SUMS 12
#define TILE_HELD 3

/*
 * Step s of a tile. What is fewer, rows or vectors, is held in registers; of the other one is at a
 * time, so that 12 accumulators, three of the one and one of the other fill all 16.
 */
ATTENTION_INLINE void multiply_step(const struct attention_row *rows, size_t n, size_t n_vectors,
                                    size_t s, const float *column, __m256 sum[TILE_SUMS])
{
    if (n_vectors < n) {
        __m256 x[TILE_HELD];
        for (size_t v = 0; v < n_vectors; v++)
            x[v] = _mm256_load_ps(column + 8 * v);
        for (size_t r = 0; r < n; r++) {
            __m256 a = _mm256_broadcast_ss(rows[r].a + s);
            for (size_t v = 0; v < n_vectors; v++)
                sum[r * n_vectors + v] = _mm256_fmadd_ps(a, x[v], sum[r * n_vectors + v]);
        }
        return;
    }
    __m256 a[TILE_HELD];
    for (size_t r = 0; r < n; r++)
        a[r] = _mm256_broadcast_ss(rows[r].a + s);
    for (size_t v = 0; v < n_vectors; v++) {
        __m256 x = _mm256_load_ps(column + 8 * v);
        for (size_t r = 0; r < n; r++)
            sum[r * n_vectors + v] = _mm256_fmadd_ps(a[r], x, sum[r * n_vectors + v]);
    }
}

/* Columns [j, j + 8 n_vectors) of n rows, over steps [first, last). */
ATTENTION_INLINE void multiply_tile(const struct attention_row *rows, size_t n, size_t n_vectors,
                                    size_t first, size_t last, size_t j, attention_block *b)
{
    __m256 sum[TILE_SUMS];
    for (size_t r = 0; r < n; r++) {
        for (size_t v = 0; v < n_vectors; v++)
            sum[r * n_vectors + v] = _mm256_loadu_ps(rows[r].c + j + 8 * v);
    }
    for (size_t s = first; s < last; s++)
        multiply_step(rows, n, n_vectors, s, b[s] + j, sum);
    for (size_t r = 0; r < n; r++) {
        for (size_t v = 0; v < n_vectors; v++)
            _mm256_storeu_ps(rows[r].c + j + 8 * v, sum[r * n_vectors + v]);
    }
}

ATTENTION_INLINE void multiply_rows(const struct attention_row *rows, size_t n, size_t n_vectors,
                                    size_t first, size_t last, size_t n_cols, attention_block *b)
{
    size_t j = 0;
    for (; j + 8 * n_vectors <= n_cols; j += 8 * n_vectors)
        multiply_tile(rows, n, n_vectors, first, last, j, b);
    for (; j < n_cols; j += 16)
        multiply_tile(rows, n, 2, first, last, j, b);
}

/* The columns in the widest tiles that n rows leave accumulators for. */
static void multiply(const struct attention_row *rows, size_t n, size_t first, size_t last,
                     size_t n_cols, attention_block *b)
{
    switch (n) {
    case 1:
        multiply_rows(rows, 1, 8, first, last, n_cols, b);
        break;
    case 2:
        multiply_rows(rows, 2, 4, first, last, n_cols, b);
        break;
    case 3:
        multiply_rows(rows, 3, 4, first, last, n_cols, b);
        break;
    case 4:
        multiply_rows(rows, 4, 2, first, last, n_cols, b);
        break;
    case 5:
        multiply_rows(rows, 5, 2, first, last, n_cols, b);
        break;
    default:
        multiply_rows(rows, TILE_ROWS, 2, first, last, n_cols, b);
        break;
    }
}

float avx2_weigh(float *score, size_t n_keys, float scale, float *ret_max)
{
    __m256 max = _mm256_set1_ps(-INFINITY);
    for (size_t j = 0; j < n_keys; j += 8)
        _mm256_store_ps(score + j, _mm256_mul_ps(_mm256_load_ps(score + j), _mm256_set1_ps(scale)));
    for (size_t j = n_keys; j % 8 != 0; j++)
        score[j] = -INFINITY;
    for (size_t j = 0; j < n_keys; j += 8)
        max = _mm256_max_ps(max, _mm256_load_ps(score + j));
    *ret_max = lanes_max(max);
    const __m256 top = _mm256_set1_ps(*ret_max);
    __m256 sum = _mm256_setzero_ps();
    for (size_t j = 0; j < n_keys; j += 8) {
        __m256 w = exp_ps(_mm256_sub_ps(_mm256_load_ps(score + j), top));
        _mm256_store_ps(score + j, w);
        sum = _mm256_add_ps(sum, w);
    }
    return lanes_sum(sum);
}

void avx2_attention_page(const struct attention_page *a)
{
    static const struct attention_parts parts = {.tile_rows = TILE_ROWS,
                                                 .load_keys = load_keys,
                                                 .load_values = load_values,
                                                 .multiply = multiply,
                                                 .weigh = avx2_weigh};
    if (!avx2_attend_few(a))
        attention_run(a, &parts);
}
