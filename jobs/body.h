/*
 * Bodies as text: made from a prompt or document, changed, given a seed.
 *
 * Owns nothing. Stays true: what these functions append is accepted by job_request_parse when the
 * input was, is one line, and depends on nothing but the arguments. Any thread.
 *
 * Order at submit: job_body_make or a line's body, job_body_change, job_identity_add,
 * job_body_seed, queue_submit_add.
 */
#ifndef JOBS_BODY_H
#define JOBS_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "jobs/kind.h"

/* What the command line may say about requests. Zero means: not said. */
struct job_parameters {
    struct str model;
    struct str system; /* a system message before the text; chat only */
    bool has_max_tokens, has_temperature, has_top_p, has_seed;
    bool has_top_k, has_min_p, has_repeat_penalty;
    int64_t max_tokens;
    double temperature;
    double top_p;
    int64_t seed;
    int64_t top_k;
    double min_p;
    double repeat_penalty;
    struct str reasoning; /* "on", "off", "auto" */
    bool has_reasoning_budget;
    int64_t reasoning_budget; /* -1: none */
    const struct str *stop;   /* [n_stop] strings that end the answer */
    size_t n_stop;
};

/*
 * A body of that kind that asks `text`. ERROR_INVALID for bad values, ERROR_UNSUPPORTED for `system`
 * with a kind that has no messages.
 */
int job_body_make(struct buf *out, const struct job_kind *kind, const struct job_parameters *p,
                  struct str text, struct error *e);
/*
 * The same body with what `p` says put in the place of what it said; everything else stays. A
 * system message is refused (ERROR_USAGE): the body has its own. *ret_changed (may be NULL):
 * whether any value is another than before.
 */
int job_body_change(struct buf *out, const struct job_kind *kind, const struct job_parameters *p,
                    struct str body, bool *ret_changed, struct error *e);
/*
 * The same body with a "seed" where it had none (or null); as it was otherwise. Bits above 53 are
 * dropped. The caller brings the entropy: rng_entropy().
 */
int job_body_seed(struct buf *out, struct str body, uint64_t seed, struct error *e);

#endif
