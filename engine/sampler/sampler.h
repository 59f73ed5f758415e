/*
 * From logits to the next token, and when to stop.
 *
 * Owns nothing: the history a repeat penalty looks at is the sequence's own tokens, the scratch is
 * the caller's (one is enough for any number of sequences, one after the other).
 *
 * Stays true: the choice for output index i is a pure function of (logits, tokens so far, sampling
 * values, seed, i): a restart that feeds the earlier tokens back continues identically. Candidates are
 * ranked by logit, ties go to the lowest id. Order: repeat penalty; temperature 0: the first of the
 * ranking; else top-k, top-p, min-p on the temperature-free distribution, then temperature, then one
 * draw by rng_unit(seed, i). Any thread.
 */
#ifndef ENGINE_SAMPLER_SAMPLER_H
#define ENGINE_SAMPLER_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"

struct sampler_candidate {
    float logit;
    int32_t id;
};

struct sampler_input {
    const struct engine_sampling *sampling;
    uint64_t index;         /* of this token in the answer */
    const int32_t *history; /* [n_history]: prompt and answer so far */
    size_t n_history;
    const float *logits; /* [n_vocab] */
    uint32_t n_vocab;
    struct sampler_candidate *scratch; /* [n_vocab] */
};

/* ERROR_INVALID naming the value that is out of range. */
int sampler_check(const struct engine_sampling *s, struct error *e);
/* ERROR_NUMERIC when a logit is not finite. Values are those that sampler_check accepts. */
int sampler_choose(const struct sampler_input *in, int32_t *ret, struct error *e);

/*
 * Stop strings over a growing answer: bytes that could begin a stop string are held back.
 * Of several stop strings the one that is complete first counts, of those that end together the
 * longest; so the result does not depend on how the answer was cut into pieces.
 */
struct stop_rules;
/* Empty strings are refused; n_stop may be 0. */
int stop_rules_new(struct stop_rules **ret, const struct str *stop, size_t n_stop, struct error *e);
void stop_rules_free(struct stop_rules *r);
/*
 * The answer grew from new_from bytes to answer.len. True when a stop string is complete: the answer
 * ends at *ret_safe, before it. Otherwise *ret_safe is how many bytes of the answer are certain.
 */
bool stop_rules_check(const struct stop_rules *r, struct str answer, size_t new_from,
                      size_t *ret_safe);

#endif
