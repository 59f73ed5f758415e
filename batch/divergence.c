#include "batch/divergence.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "base/numeric.h"

/* A row of logits as probabilities: ln p(i) = logits[i] - log_sum. */
struct row {
    const float *logits;
    double log_sum;
    uint32_t likeliest;
};

static int measure(struct row *r, const float *logits, uint32_t n_vocab, struct error *e)
{
    uint32_t likeliest = 0;
    double sum = 0;
    for (uint32_t i = 1; i < n_vocab; i++)
        likeliest = logits[i] > logits[likeliest] ? i : likeliest;
    const double largest = (double)logits[likeliest];
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += numeric_exp((double)logits[i] - largest);
    if (!isfinite(sum) || !isfinite(largest))
        return error_set(e, ERROR_NUMERIC, "the logits of a token are no finite numbers");
    *r = (struct row){
        .logits = logits, .log_sum = largest + numeric_log(sum), .likeliest = likeliest};
    return 0;
}

static double log_probability(const struct row *r, uint32_t i)
{
    return (double)r->logits[i] - r->log_sum;
}

static double kl(const struct row *reference, const struct row *model, uint32_t n_vocab)
{
    double sum = 0;
    for (uint32_t i = 0; i < n_vocab; i++) {
        const double log_p = log_probability(reference, i);
        const double p = numeric_exp(log_p);
        if (p > 0) /* a probability of 0 adds nothing, whatever the model says */
            sum += p * (log_p - log_probability(model, i));
    }
    return sum;
}

int divergence_add(struct divergence *d, const float *logits, const float *reference,
                   uint32_t n_vocab, int32_t token, struct error *e)
{
    struct row model;
    struct row other;
    int rc = measure(&model, logits, n_vocab, e);
    if (rc == 0 && reference)
        rc = measure(&other, reference, n_vocab, e);
    if (rc != 0)
        return rc;
    const double nll = -log_probability(&model, (uint32_t)token);
    d->n++;
    d->nll += nll;
    d->nll2 += nll * nll;
    if (!reference)
        return 0;
    const double other_nll = -log_probability(&other, (uint32_t)token);
    const double distance = kl(&other, &model, n_vocab);
    d->reference_nll += other_nll;
    d->reference_nll2 += other_nll * other_nll;
    d->ratio += nll - other_nll;
    d->ratio2 += (nll - other_nll) * (nll - other_nll);
    d->kl += distance;
    d->kl2 += distance * distance;
    d->n_same += model.likeliest == other.likeliest;
    return 0;
}

static struct figure mean_of(double sum, double sum2, uint64_t n)
{
    struct figure f = {0};
    if (n == 0)
        return f;
    f.mean = sum / (double)n;
    const double variance = sum2 / (double)n - f.mean * f.mean;
    if (n > 1 && variance > 0)
        f.error = sqrt(variance / (double)(n - 1));
    return f;
}

static struct figure exponential(struct figure f)
{
    const double mean = numeric_exp(f.mean);
    return (struct figure){.mean = mean, .error = mean * f.error};
}

struct figure divergence_perplexity(const struct divergence *d)
{
    return exponential(mean_of(d->nll, d->nll2, d->n));
}

struct figure divergence_reference_perplexity(const struct divergence *d)
{
    return exponential(mean_of(d->reference_nll, d->reference_nll2, d->n));
}

struct figure divergence_ratio(const struct divergence *d)
{
    return mean_of(d->ratio, d->ratio2, d->n);
}

struct figure divergence_kl(const struct divergence *d)
{
    return mean_of(d->kl, d->kl2, d->n);
}

struct figure divergence_agreement(const struct divergence *d)
{
    return mean_of((double)d->n_same, (double)d->n_same, d->n);
}
