/*
 * From logits to the next token, and when to stop.
 *
 * Owns the history a repeat penalty looks at. One a sequence.
 * Stays true: the choice for output index i is a pure function of (logits, tokens so far, sampling
 * values, seed, i): a restart that feeds the earlier tokens back continues identically. Ties go to the
 * lowest id. Order: repeat penalty, temperature 0 = argmax; else top-k, top-p, min-p on the
 * temperature-free distribution, then temperature, then one draw by rng_unit(seed, i).
 */
#ifndef ENGINE_SAMPLER_SAMPLER_H
#define ENGINE_SAMPLER_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"

struct sampler;

int sampler_check(const struct engine_sampling *s, struct error *e);
/* prompt ids count as history for the repeat penalty. Capacity: prompt + max_tokens. */
int sampler_new(struct sampler **ret, const struct engine_sampling *s, uint32_t n_vocab,
                const int32_t *prompt, size_t n_prompt, size_t max_tokens, struct error *e);
void sampler_free(struct sampler *s);
/* Chooses token number sampler_count(); logits [n_vocab] may be changed. ERROR_NUMERIC on NaN. */
int sampler_choose(struct sampler *s, float *logits, int32_t *ret, struct error *e);
/* The token was accepted (also each resumed one). */
void sampler_accept(struct sampler *s, int32_t token);
size_t sampler_count(const struct sampler *s);

/*
 * Stop strings over a growing answer: bytes that could begin a stop string are held back.
 * Push appends text; *ret_safe is how many bytes of the answer are certain; true when a stop string is
 * complete (the answer is then cut before it).
 */
struct stop_rules;
int stop_rules_new(struct stop_rules **ret, const struct str *stop, size_t n_stop, struct error *e);
void stop_rules_free(struct stop_rules *r);
bool stop_rules_check(struct stop_rules *r, struct str answer, size_t new_from, size_t *ret_safe);

#endif
