/*
 * The yardstick: weights decoded to f32, activations and caches in f32, sums in f64.
 *
 * Order: lane l of EXACT_LANES sums the columns k = l mod EXACT_LANES in ascending order; then the
 * lanes are summed in ascending order.
 */
#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"

#define EXACT_LANES 8
#define EXACT_CHUNK 512 /* columns that are f64 at a time, a multiple of the lanes */

/* Adds w * x to the lanes. Only the last columns of a row may be no multiple of the lanes. */
static void add_products(const double *restrict w, const float *restrict x, size_t n,
                         double lane[restrict EXACT_LANES])
{
    double sum[EXACT_LANES];
    size_t k = 0;
    for (size_t l = 0; l < EXACT_LANES; l++)
        sum[l] = lane[l];
    for (; k + EXACT_LANES <= n; k += EXACT_LANES) {
        for (size_t l = 0; l < EXACT_LANES; l++)
            sum[l] += w[k + l] * (double)x[k + l];
    }
    for (size_t l = 0; k + l < n; l++)
        sum[l] += w[k + l] * (double)x[k + l];
    for (size_t l = 0; l < EXACT_LANES; l++)
        lane[l] = sum[l];
}

static double sum_lanes(const double lane[EXACT_LANES])
{
    double sum = 0;
    for (size_t l = 0; l < EXACT_LANES; l++)
        sum += lane[l];
    return sum;
}

/* Weight row w [n_cols] with activation rows r0 .. r0 + n, into y. */
static void serve_rows(const struct matmul *m, const float *w, size_t i, size_t r0, size_t n)
{
    double chunk[EXACT_CHUNK];
    double lanes[BLOCKS_ROWS][EXACT_LANES] = {{0}};
    for (size_t k = 0; k < m->n_cols; k += EXACT_CHUNK) {
        size_t n_chunk = MIN_OF(m->n_cols - k, (size_t)EXACT_CHUNK);
        for (size_t j = 0; j < n_chunk; j++)
            chunk[j] = (double)w[k + j];
        for (size_t r = 0; r < n; r++)
            add_products(chunk, (const float *)blocks_x(m, r0 + r) + k, n_chunk, lanes[r]);
    }
    for (size_t r = 0; r < n; r++)
        m->y[(r0 + r) * m->y_stride + i] = (float)sum_lanes(lanes[r]);
}

void matmul_exact(const struct matmul *m, size_t first, size_t last, float *scratch)
{
    for (size_t i = first; i < last; i++) {
        m->quant->decode(blocks_w(m, i), scratch, m->n_cols);
        for (size_t r0 = 0; r0 < m->n_rows; r0 += BLOCKS_ROWS)
            serve_rows(m, scratch, i, r0, MIN_OF(m->n_rows - r0, (size_t)BLOCKS_ROWS));
    }
}

static double dot_f64(const float *a, const float *b, size_t n)
{
    double lane[EXACT_LANES] = {0};
    size_t whole = n - n % EXACT_LANES;
    for (size_t k = 0; k < whole; k += EXACT_LANES) {
        for (size_t l = 0; l < EXACT_LANES; l++)
            lane[l] += (double)a[k + l] * (double)b[k + l];
    }
    for (size_t k = whole; k < n; k++)
        lane[k - whole] += (double)a[k] * (double)b[k];
    return sum_lanes(lane);
}

static void attend_exact(const struct attention_page *a, struct attention_query *query)
{
    float weight[KV_PAGE];
    float max = 0;
    for (size_t j = 0; j < query->n_keys; j++) {
        const char *k = (const char *)a->k + j * a->k_stride_bytes;
        weight[j] = (float)((double)a->scale * dot_f64(query->q, (const float *)k, a->k_dim));
        max = j == 0 || weight[j] > max ? weight[j] : max;
    }
    double sum = 0;
    for (size_t j = 0; j < query->n_keys; j++) {
        weight[j] = generic_exp(weight[j] - max);
        sum += (double)weight[j];
    }
    for (size_t i = 0; i < a->v_dim; i++) {
        double value = 0;
        for (size_t j = 0; j < query->n_keys; j++) {
            const char *v = (const char *)a->v + j * a->v_stride_bytes;
            value += (double)weight[j] * (double)((const float *)v)[i];
        }
        query->acc[i] = (float)value;
    }
    query->max = max;
    query->sum = (float)sum;
}

void attention_page_exact(const struct attention_page *a)
{
    for (size_t i = 0; i < a->n_queries; i++)
        attend_exact(a, &a->queries[i]);
}
