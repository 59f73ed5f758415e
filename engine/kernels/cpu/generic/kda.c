/*
 * Delta attention in plain C.
 *
 * Order: a value's prediction and output are summed over the keys in ascending order, here in f64; the
 * decay gate is f64 as well (this table is also the yardstick's).
 */
#include "base/numeric.h"
#include "engine/kernels/cpu/generic/generic.h"

#define COLUMNS 64 /* values whose sums are held at once */

void generic_sigmoid_gate(float *x, const float *gate, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] / (1.0f + generic_exp(-gate[i]));
}

static double softplus(double z)
{
    return z > 20.0 ? z : numeric_log(1.0 + numeric_exp(z));
}

void generic_kda_decay(float *z, const struct kda_gate *gate, float *decay, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double x = (double)(z[i] + gate->bias[i]);
        double g = gate->bounded ? (double)gate->bound / (1.0 + numeric_exp((double)gate->rate * x))
                                 : (double)gate->rate * softplus(x);
        z[i] = (float)g;
        decay[i] = (float)numeric_exp(g);
    }
}

/* One token through n values of the state from column j. */
static void advance(const struct kda_scan *s, size_t token, size_t j, size_t n)
{
    const size_t row = token * s->stride;
    const float *q = s->q + row, *k = s->k + row, *decay = s->decay + row;
    const float beta = s->beta[token * s->beta_stride];
    double sum[COLUMNS] = {0};
    float error[COLUMNS];
    for (size_t i = 0; i < s->dim; i++) {
        float *state = s->state + i * s->dim + j;
        for (size_t c = 0; c < n; c++) {
            state[c] *= decay[i];
            sum[c] += (double)state[c] * (double)k[i];
        }
    }
    for (size_t c = 0; c < n; c++) {
        error[c] = (s->v[row + j + c] - (float)sum[c]) * beta;
        sum[c] = 0;
    }
    for (size_t i = 0; i < s->dim; i++) {
        float *state = s->state + i * s->dim + j;
        for (size_t c = 0; c < n; c++) {
            state[c] += k[i] * error[c];
            sum[c] += (double)state[c] * (double)q[i];
        }
    }
    for (size_t c = 0; c < n; c++)
        s->out[row + j + c] = (float)sum[c] * s->scale;
}

void generic_kda_scan(const struct kda_scan *s)
{
    for (size_t j = 0; j < s->dim; j += COLUMNS) {
        for (size_t token = 0; token < s->n_tokens; token++)
            advance(s, token, j, MIN_OF(s->dim - j, (size_t)COLUMNS));
    }
}
