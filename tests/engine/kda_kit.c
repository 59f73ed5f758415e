#include "tests/engine/kda_kit.h"

#include <math.h>

#include "base/alloc.h"
#include "tests/test.h"

#define CHUNK 16

/* What a chunk is worked out from: tokens [first, first + n), decays since its start, errors. */
struct chunk {
    const struct kda_sequence *s;
    size_t first, n;
    double *passed; /* [CHUNK][d] sums of log decays */
    double *error;  /* [CHUNK][d] */
    double *state;
};

/* Product of x with token `source`'s key as it has faded by token t. */
static double faded_product(const struct chunk *c, const double *x, size_t t, size_t source)
{
    const size_t d = c->s->d;
    const double *k = c->s->k + (c->first + source) * d;
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += x[i] * exp(c->passed[t * d + i] - c->passed[source * d + i]) * k[i];
    return sum;
}

/* out[j] += factor * x (faded start state)[j] */
static void add_start(const struct chunk *c, const double *x, size_t t, double factor, double *out)
{
    const size_t d = c->s->d;
    for (size_t i = 0; i < d; i++) {
        const double weight = factor * x[i] * exp(c->passed[t * d + i]);
        for (size_t j = 0; j < d; j++)
            out[j] += weight * c->state[i * d + j];
    }
}

static void add_scaled(double *out, double factor, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += factor * x[i];
}

/* Row t of the triangular system, solved with the rows above it; then the token's output. */
static void solve_token(const struct chunk *c, size_t t, double *out)
{
    const struct kda_sequence *s = c->s;
    const size_t d = s->d, at = (c->first + t) * d;
    double *error = c->error + t * d;
    for (size_t i = 0; i < d; i++) {
        c->passed[t * d + i] = (t ? c->passed[(t - 1) * d + i] : 0) + s->log_decay[at + i];
        error[i] = s->v[at + i];
        out[i] = 0;
    }
    add_start(c, s->k + at, t, -1, error);
    for (size_t source = 0; source < t; source++)
        add_scaled(error, -faded_product(c, s->k + at, t, source), c->error + source * d, d);
    for (size_t i = 0; i < d; i++)
        error[i] *= s->beta[c->first + t];
    add_start(c, s->q + at, t, 1, out);
    for (size_t source = 0; source <= t; source++)
        add_scaled(out, faded_product(c, s->q + at, t, source), c->error + source * d, d);
}

static void next_state(const struct chunk *c)
{
    const size_t d = c->s->d;
    const double *end = c->passed + (c->n - 1) * d;
    for (size_t i = 0; i < d; i++) {
        double *row = c->state + i * d;
        for (size_t j = 0; j < d; j++)
            row[j] *= exp(end[i]);
        for (size_t t = 0; t < c->n; t++)
            add_scaled(row, exp(end[i] - c->passed[t * d + i]) * c->s->k[(c->first + t) * d + i],
                       c->error + t * d, d);
    }
}

void kda_chunked(const struct kda_sequence *s, double *state, double *out)
{
    struct chunk c = {.s = s, .state = state};
    c.passed = mem_array(CHUNK * s->d, sizeof(double));
    c.error = mem_array(CHUNK * s->d, sizeof(double));
    CHECK(c.passed && c.error);
    for (c.first = 0; c.first < s->n; c.first += CHUNK) {
        c.n = s->n - c.first < CHUNK ? s->n - c.first : CHUNK;
        for (size_t t = 0; t < c.n; t++)
            solve_token(&c, t, out + (c.first + t) * s->d);
        next_state(&c);
    }
    mem_free(c.passed);
    mem_free(c.error);
}
