/*
 * What a request answers: completion objects, error objects and lines of the output file.
 *
 * Owns nothing; appends JSON without line feeds to the caller's buffer. Stays true: valid UTF-8
 * comes out whatever came in (a bad byte becomes U+FFFD), keys stand in OpenAI's order, numbers are
 * finite. Any thread.
 */
#ifndef JOBS_RESPONSE_H
#define JOBS_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"
#include "jobs/kind.h"
#include "jobs/refusal.h"

/* What the attempt that answered cost, beside the engine's own counts. */
struct job_timing {
    int64_t queued_ms;
    int64_t load_ms;
    int64_t attempts;
    uint64_t peak_bytes;
};

struct job_answer {
    struct str id;            /* the request's UUID as text */
    int64_t created_s;        /* Unix seconds */
    struct str model;         /* what ran */
    struct str fingerprint;   /* engine_info.fingerprint */
    struct str tokens_sha256; /* hex, of the ids written as 32 bits each; empty: not shown */
    struct str text;
    struct str reasoning; /* what it thought; shown when any token was spent on it */
    bool in_thought;      /* it ended before the answer began */
    uint64_t seed;
    enum engine_finish finish;
    enum engine_finish_detail detail;
    struct engine_usage usage;
    struct job_timing timing;
};

/*
 * Why an answer that has no text but white space is empty, in a word; NULL: it is not.
 *   tokens_spent_on_thought  max_tokens or the context ended while it thought, or right after
 *   ended_in_thought         the model ended without leaving its thought
 *   nothing_said             it answered nothing
 */
const char *job_answer_empty(const struct job_answer *a);
/*
 * Appends the chat.completion or text_completion object. Beside OpenAI's keys: `timings` as
 * llama.cpp gives them (of this attempt: prompt_n counts resumed tokens too, predicted_n does not),
 * `x_timing`, `x_tokens_sha256`, `x_seed`, and in the choice `reasoning_content` in the message, `x_finish_detail`, and
 * `empty_answer` where job_answer_empty has a word.
 */
int job_answer_json(struct buf *out, const struct job_kind *kind, const struct job_answer *a,
                    struct error *e);

/*
 * Appends {"error":{"message","type","param","code"}} for a failed request. `why` may be NULL:
 * param is then null (or the input field when the context is too short) and code follows from the
 * error.
 */
int job_error_json(struct buf *out, const struct job_kind *kind, const struct error *failure,
                   const struct job_refusal *why, struct error *e);

/* The status of the response line for that error: error.def's. */
int job_error_status(const struct error *failure);

/* One line of an output or error file, without its line feed. */
struct job_line {
    struct str id; /* the request's UUID as text */
    struct str custom_id;
    int status;             /* 200 exactly for a success */
    struct str body;        /* JSON of the response; empty: it never ran, and: */
    const char *error_code; /* "batch_cancelled", "batch_expired", "worker_crashed" */
    const char *error_message;
    struct str timing; /* an object for "x_timing"; empty: no such key */
};

/* Keys: id, custom_id, response, error, in this order; then x_timing when given. */
int job_line_json(struct buf *out, const struct job_line *l, struct error *e);

#endif
