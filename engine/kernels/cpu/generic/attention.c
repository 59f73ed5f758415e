/* One page of attention in plain C. A product is rounded, then added; weights are summed as keys ascend. */
#include "engine/kernels/cpu/attention.h"

#include <string.h>

#include "base/compiler.h"
#include "engine/kernels/cpu/generic/generic.h"

#define COLS 16 /* accumulators at a time */

static void load_keys(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                      attention_block *b)
{
    for (size_t j = 0; j < ATTENTION_PADDED(n_keys); j++) {
        size_t key = MIN_OF(j, n_keys - 1);
        const void *row = (const char *)a->k + key * a->k_stride_bytes;
        for (size_t i = 0; i < n_dims; i++)
            b[i][j] = quant_f16_to_f32(((const uint16_t *)row)[c + i]);
    }
}

static void load_values(const struct attention_page *a, size_t n_keys, size_t c, size_t n_dims,
                        attention_block *b)
{
    for (size_t j = 0; j < n_keys; j++) {
        const void *row = (const char *)a->v + j * a->v_stride_bytes;
        for (size_t i = 0; i < n_dims; i++)
            b[j][i] = quant_f16_to_f32(((const uint16_t *)row)[c + i]);
        for (size_t i = n_dims; i < ATTENTION_PADDED(n_dims); i++)
            b[j][i] = 0;
    }
}

static void multiply(const struct attention_row *rows, size_t n, size_t first, size_t last,
                     size_t n_cols, attention_block *b)
{
    for (size_t r = 0; r < n; r++) {
        for (size_t j = 0; j < n_cols; j += COLS) {
            float sum[COLS];
            memcpy(sum, rows[r].c + j, sizeof(sum));
            for (size_t s = first; s < last; s++) {
                for (size_t l = 0; l < COLS; l++)
                    sum[l] += rows[r].a[s] * b[s][j + l];
            }
            memcpy(rows[r].c + j, sum, sizeof(sum));
        }
    }
}

static float weigh(float *score, size_t n_keys, float scale, float *ret_max)
{
    float max = 0;
    float sum = 0;
    for (size_t j = 0; j < n_keys; j++) {
        score[j] *= scale;
        max = j == 0 || score[j] > max ? score[j] : max;
    }
    for (size_t j = 0; j < n_keys; j++) {
        score[j] = generic_exp(score[j] - max);
        sum += score[j];
    }
    *ret_max = max;
    return sum;
}

void generic_attention_page(const struct attention_page *a)
{
    static const struct attention_parts parts = {.tile_rows = 1,
                                                 .load_keys = load_keys,
                                                 .load_values = load_values,
                                                 .multiply = multiply,
                                                 .weigh = weigh};
    attention_run(a, &parts);
}
