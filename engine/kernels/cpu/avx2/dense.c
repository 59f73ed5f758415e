/*
 * Formats without blocks: f32, f16, bf16.
 *
 * Order: lane l of 8 sums the columns k = l mod 8 in ascending order by FMA; then the lanes are summed
 * as lanes_sum says. Columns beyond the last are zeros.
 */
#include "engine/kernels/cpu/avx2/avx2.h"
#include "engine/kernels/cpu/avx2/lanes.h"

#define DENSE_INLINE static inline __attribute__((always_inline))

#define TILE_W 4   /* weight rows of a tile */
#define TILE_X 3   /* activation rows: 12 accumulators */
#define GROUP_X 48 /* activation rows that a weight row serves before the next is fetched */

/* Eight weights from column k. */
typedef __m256 load_fn(const void *row, size_t k);

DENSE_INLINE __m256 load_f32(const void *row, size_t k)
{
    return _mm256_loadu_ps((const float *)row + k);
}

DENSE_INLINE __m256 load_f16(const void *row, size_t k)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)row + k)));
}

DENSE_INLINE __m256 load_bf16(const void *row, size_t k)
{
    __m128i half = _mm_loadu_si128((const __m128i *)((const uint16_t *)row + k));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* The n < 8 weights from column k, then zeros. */
DENSE_INLINE __m256 load_tail(load_fn *load, size_t elem_bytes, const void *row, size_t k, size_t n)
{
    uint32_t part[8] = {0};
    memcpy(part, (const char *)row + k * elem_bytes, n * elem_bytes);
    return load(part, 0);
}

struct tile {
    const void *w[TILE_W];
    const float *x[TILE_X];
    size_t n_cols;
};

DENSE_INLINE void multiply(const struct tile *t, load_fn *load, size_t elem_bytes, int n_x,
                           float out[TILE_X][TILE_W])
{
    __m256 acc[TILE_W][TILE_X];
    for (int i = 0; i < TILE_W; i++) {
        for (int r = 0; r < n_x; r++)
            acc[i][r] = _mm256_setzero_ps();
    }
    size_t k = 0;
    for (; k + 8 <= t->n_cols; k += 8) {
        for (int i = 0; i < TILE_W; i++) {
            __m256 w = load(t->w[i], k);
            for (int r = 0; r < n_x; r++)
                acc[i][r] = _mm256_fmadd_ps(w, _mm256_loadu_ps(t->x[r] + k), acc[i][r]);
        }
    }
    size_t rest = t->n_cols - k;
    for (int i = 0; rest > 0 && i < TILE_W; i++) {
        __m256 w = load_tail(load, elem_bytes, t->w[i], k, rest);
        for (int r = 0; r < n_x; r++)
            acc[i][r] = _mm256_fmadd_ps(w, lanes_load(t->x[r] + k, rest), acc[i][r]);
    }
    for (int i = 0; i < TILE_W; i++) {
        for (int r = 0; r < n_x; r++)
            out[r][i] = lanes_sum(acc[i][r]);
    }
}

/* Weight rows i .. i + n_w (at most TILE_W) with activation rows r0 .. r1. */
DENSE_INLINE void serve(const struct matmul *m, load_fn *load, size_t elem_bytes, size_t i,
                        size_t n_w, size_t r0, size_t r1)
{
    struct tile t = {.n_cols = m->n_cols};
    float out[TILE_X][TILE_W];
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

DENSE_INLINE void matmul_dense(const struct matmul *m, load_fn *load, size_t elem_bytes,
                               size_t first, size_t last)
{
    for (size_t r = 0; r < m->n_rows; r += GROUP_X) {
        size_t r1 = MIN_OF(r + GROUP_X, m->n_rows);
        for (size_t i = first; i < last; i += TILE_W)
            serve(m, load, elem_bytes, i, MIN_OF(last - i, (size_t)TILE_W), r, r1);
    }
}

void avx2_matmul_f32(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, load_f32, sizeof(float), first, last);
}

void avx2_matmul_f16(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, load_f16, sizeof(uint16_t), first, last);
}

void avx2_matmul_bf16(const struct matmul *m, size_t first, size_t last)
{
    matmul_dense(m, load_bf16, sizeof(uint16_t), first, last);
}
