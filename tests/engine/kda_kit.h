/*
 * The oracle of delta attention: its chunked form in f64. Per chunk a triangular system gives the errors;
 * outputs and the next state are sums of outer products. It shares no step with the engine, which goes
 * token by token.
 */
#ifndef TESTS_ENGINE_KDA_KIT_H
#define TESTS_ENGINE_KDA_KIT_H

#include <stddef.h>

struct kda_sequence {
    const double *q, *k, *v; /* [n][d]; q and k normalised */
    const double *log_decay; /* [n][d] */
    const double *beta;      /* [n] */
    size_t n, d;
};

/* All tokens in chunks of 16. state [d keys][d values] in and out; out [n][d], not scaled. */
void kda_chunked(const struct kda_sequence *s, double *state, double *out);

#endif
