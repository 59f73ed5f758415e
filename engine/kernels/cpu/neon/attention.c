/* One page of attention: f16 keys and values, f32 sums by FMA. Weights: 8 lanes of keys mod 8, lanes_sum8. */
#include "engine/kernels/cpu/attention.h"

#include <math.h>

#include "engine/kernels/cpu/neon/exp.h"
#include "engine/kernels/cpu/neon/lanes.h"
#include "engine/kernels/cpu/neon/neon.h"

#define ATTENTION_INLINE static inline __attribute__((always_inline))

/* n halves, of which more than 4 are not taken; then zeros */
ATTENTION_INLINE float32x4_t load_halves(const uint16_t *p, size_t n)
{
    uint16_t part[4] = {0};
    if (n >= 4)
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
    memcpy(part, p, n * sizeof(*p));
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(part)));
}

/* Up to 4 dimensions of 4 keys, transposed. */
ATTENTION_INLINE void load_4_keys(const uint16_t *const key[4], size_t n_dims, attention_block *out,
                                  size_t j)
{
    float32x4x2_t a = vtrnq_f32(load_halves(key[0], n_dims), load_halves(key[1], n_dims));
    float32x4x2_t b = vtrnq_f32(load_halves(key[2], n_dims), load_halves(key[3], n_dims));
    vst1q_f32(out[0] + j, vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0])));
    vst1q_f32(out[1] + j, vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1])));
    vst1q_f32(out[2] + j, vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0])));
    vst1q_f32(out[3] + j, vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1])));
}

/* Beyond n_keys, up to 16, the last is repeated. */
static void load_keys(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                      attention_block *b)
{
    for (size_t j = 0; j < ATTENTION_PADDED(n_keys); j += 4) {
        for (size_t i = 0; i < n_dims; i += 4) {
            const uint16_t *key[4];
            for (size_t l = 0; l < 4; l++)
                key[l] = (const uint16_t *)((const char *)a->k +
                                            MIN_OF(j + l, n_keys - 1) * a->k_stride_bytes) +
                         c + i;
            load_4_keys(key, n_dims - i, b + i, j);
        }
    }
}

static void load_values(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                        attention_block *b)
{
    for (size_t j = 0; j < n_keys; j++) {
        const uint16_t *v = (const uint16_t *)((const char *)a->v + j * a->v_stride_bytes) + c;
        for (size_t i = 0; i < ATTENTION_PADDED(n_dims); i += 4)
            vst1q_f32(b[j] + i, i < n_dims ? load_halves(v + i, n_dims - i) : vdupq_n_f32(0));
    }
}

#define TILE_ROWS 4
#define TILE_SUMS 16

/* Columns [j, j + 4 n_vectors) of n rows, over steps [first, last). */
ATTENTION_INLINE void multiply_tile(const struct attention_row *rows, size_t n, size_t n_vectors,
                                    size_t first, size_t last, size_t j, attention_block *b)
{
    float32x4_t sum[TILE_SUMS];
    for (size_t r = 0; r < n; r++) {
        for (size_t v = 0; v < n_vectors; v++)
            sum[r * n_vectors + v] = vld1q_f32(rows[r].c + j + 4 * v);
    }
    for (size_t s = first; s < last; s++) {
        float32x4_t a[TILE_ROWS];
        for (size_t r = 0; r < n; r++)
            a[r] = vld1q_dup_f32(rows[r].a + s);
        for (size_t v = 0; v < n_vectors; v++) {
            float32x4_t x = vld1q_f32(b[s] + j + 4 * v);
            for (size_t r = 0; r < n; r++)
                sum[r * n_vectors + v] = vfmaq_f32(sum[r * n_vectors + v], a[r], x);
        }
    }
    for (size_t r = 0; r < n; r++) {
        for (size_t v = 0; v < n_vectors; v++)
            vst1q_f32(rows[r].c + j + 4 * v, sum[r * n_vectors + v]);
    }
}

ATTENTION_INLINE void multiply_rows(const struct attention_row *rows, size_t n, size_t n_vectors,
                                    size_t first, size_t last, size_t n_cols, attention_block *b)
{
    size_t j = 0;
    for (; j + 4 * n_vectors <= n_cols; j += 4 * n_vectors)
        multiply_tile(rows, n, n_vectors, first, last, j, b);
    for (; j < n_cols; j += 16)
        multiply_tile(rows, n, 4, first, last, j, b);
}

/* The columns in the widest tiles that n rows leave accumulators for. */
static void multiply(const struct attention_row *rows, size_t n, size_t first, size_t last,
                     size_t n_cols, attention_block *b)
{
    switch (n) {
    case 1:
        multiply_rows(rows, 1, 16, first, last, n_cols, b);
        break;
    case 2:
        multiply_rows(rows, 2, 8, first, last, n_cols, b);
        break;
    case 3:
        multiply_rows(rows, 3, 4, first, last, n_cols, b);
        break;
    default:
        multiply_rows(rows, TILE_ROWS, 4, first, last, n_cols, b);
        break;
    }
}

static float weigh(float *score, size_t n_keys, float scale, float *ret_max)
{
    float32x4_t max = vdupq_n_f32(-INFINITY);
    for (size_t j = 0; j < n_keys; j += 4)
        vst1q_f32(score + j, vmulq_n_f32(vld1q_f32(score + j), scale));
    for (size_t j = n_keys; j % 8 != 0; j++)
        score[j] = -INFINITY;
    for (size_t j = 0; j < n_keys; j += 4)
        max = vmaxq_f32(max, vld1q_f32(score + j));
    *ret_max = vmaxvq_f32(max);
    const float32x4_t top = vdupq_n_f32(*ret_max);
    float32x4_t sum[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
    for (size_t j = 0; j < n_keys; j += 8) {
        for (size_t h = 0; h < 2; h++) {
            float32x4_t w = exp_ps(vsubq_f32(vld1q_f32(score + j + 4 * h), top));
            vst1q_f32(score + j + 4 * h, w);
            sum[h] = vaddq_f32(sum[h], w);
        }
    }
    return lanes_sum8(sum[0], sum[1]);
}

void neon_attention_page(const struct attention_page *a)
{
    static const struct attention_parts parts = {.tile_rows = TILE_ROWS,
                                                 .load_keys = load_keys,
                                                 .load_values = load_values,
                                                 .multiply = multiply,
                                                 .weigh = weigh};
    attention_run(a, &parts);
}
