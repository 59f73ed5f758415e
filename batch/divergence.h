/*
 * How well a model predicts a text, and how far its predictions are from another's: sums over tokens.
 *
 * Perplexity is the exponential of the mean of -ln p(token). The divergence is the mean over tokens of
 * KL(reference || model) in nats over the whole vocabulary; the agreement is how often both think the
 * same token the likeliest. Every figure comes with the standard error of its mean, as if tokens were
 * independent of each other.
 *
 * Stays true: everything is computed in double, in the vocabulary's order, so the same logits give the
 * same bits; a model against itself gives exactly 0 and 1. Owns nothing; one thread.
 */
#ifndef BATCH_DIVERGENCE_H
#define BATCH_DIVERGENCE_H

#include <stdint.h>

#include "base/error.h"

struct divergence {
    uint64_t n;       /* tokens */
    uint64_t n_same;  /* where the likeliest token is the same */
    double nll, nll2; /* of the model: sums of -ln p(token), and of its square */
    double reference_nll, reference_nll2;
    double ratio, ratio2; /* ln of reference's probability over the model's */
    double kl, kl2;
};

/* One more token; reference NULL: there is none. ERROR_NUMERIC when a row has no finite sum. */
int divergence_add(struct divergence *d, const float *logits, const float *reference,
                   uint32_t n_vocab, int32_t token, struct error *e);

struct figure {
    double mean, error; /* the error is 0 with fewer than two tokens */
};
struct figure divergence_perplexity(const struct divergence *d);
struct figure divergence_reference_perplexity(const struct divergence *d);
struct figure divergence_ratio(const struct divergence *d); /* ln of perplexity over reference's */
struct figure divergence_kl(const struct divergence *d);
struct figure divergence_agreement(const struct divergence *d);

#endif
