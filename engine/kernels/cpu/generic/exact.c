/*
 * The yardstick: weights decoded to f32, activations and caches in f32, sums in f64.
 *
 * Order: lane l of EXACT_LANES sums the columns k = l mod EXACT_LANES in ascending order; then the
 * lanes are summed in ascending order.
 */
#include "engine/kernels/cpu/generic/blocks.h"
#include "engine/kernels/cpu/generic/generic.h"

#define EXACT_LANES 4
#define EXACT_ROWS 4 /* activation rows that share a converted weight */

static void add_products(const float *w, const float *const x[EXACT_ROWS], size_t k, size_t n,
                         double acc[EXACT_ROWS][EXACT_LANES])
{
    for (size_t l = 0; l < n; l++) {
        for (size_t r = 0; r < EXACT_ROWS; r++)
            acc[r][l] += (double)w[k + l] * (double)x[r][k + l];
    }
}

/* Fewer than EXACT_ROWS rows are padded by the caller with one that is there. */
static void dot_rows(const float *w, const float *const x[EXACT_ROWS], size_t n,
                     double out[EXACT_ROWS])
{
    double acc[EXACT_ROWS][EXACT_LANES] = {{0}};
    size_t whole = n - n % EXACT_LANES;
    for (size_t k = 0; k < whole; k += EXACT_LANES)
        add_products(w, x, k, EXACT_LANES, acc);
    add_products(w, x, whole, n - whole, acc);
    for (size_t r = 0; r < EXACT_ROWS; r++)
        out[r] = ((acc[r][0] + acc[r][1]) + acc[r][2]) + acc[r][3];
}

void matmul_exact(const struct matmul *m, size_t first, size_t last, float *scratch)
{
    for (size_t i = first; i < last; i++) {
        m->quant->decode(blocks_w(m, i), scratch, m->n_cols);
        for (size_t r0 = 0; r0 < m->n_rows; r0 += EXACT_ROWS) {
            size_t n = MIN_OF(m->n_rows - r0, (size_t)EXACT_ROWS);
            const float *x[EXACT_ROWS];
            double out[EXACT_ROWS];
            for (size_t r = 0; r < EXACT_ROWS; r++)
                x[r] = blocks_x(m, r0 + (r < n ? r : 0));
            dot_rows(scratch, x, m->n_cols, out);
            for (size_t r = 0; r < n; r++)
                m->y[(r0 + r) * m->y_stride + i] = (float)out[r];
        }
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
    return ((lane[0] + lane[1]) + lane[2]) + lane[3];
}

void attention_page_exact(const struct attention_page *a, float *ret_max, float *ret_sum,
                          float *acc)
{
    float weight[KV_PAGE];
    float max = 0;
    for (size_t j = 0; j < a->n_keys; j++) {
        const char *k = (const char *)a->k + j * a->k_stride_bytes;
        weight[j] = (float)((double)a->scale * dot_f64(a->q, (const float *)k, a->k_dim));
        max = j == 0 || weight[j] > max ? weight[j] : max;
    }
    double sum = 0;
    for (size_t j = 0; j < a->n_keys; j++) {
        weight[j] = generic_exp(weight[j] - max);
        sum += (double)weight[j];
    }
    for (size_t i = 0; i < a->v_dim; i++) {
        double value = 0;
        for (size_t j = 0; j < a->n_keys; j++) {
            const char *v = (const char *)a->v + j * a->v_stride_bytes;
            value += (double)weight[j] * (double)((const float *)v)[i];
        }
        acc[i] = (float)value;
    }
    *ret_max = max;
    *ret_sum = (float)sum;
}
