/*
 * A request body (JSON) checked and turned into what the engine takes.
 *
 * Owns the parsed tree; every string of `engine` points into it (or into blocks beside it), so a
 * job_request is moved never and released once. engine_submit copies what it needs.
 *
 * Stays true:
 *  - What would change the answer and is not supported is refused with its name, and so is a field
 *    nobody knows; what changes nothing (user, metadata, store ...) is accepted. fields.def is the
 *    list. A field that is null counts as absent.
 *  - Refused too: a field twice, NUL characters, invalid UTF-8, anything but strict JSON, integers
 *    of 2^53 and more anywhere (doubles would round them), more than JOB_BODY_MAX_BYTES.
 *
 * Defaults differ from OpenAI's in one: temperature is 0 when absent (greedy), because a batch that
 * runs unseen should give the same answer twice. top_p 1, top_k 0 (all), min_p 0, repeat_penalty 1,
 * repeat_last_n 64, max_tokens 0 (the engine's default, cut to the context), no stop strings.
 * Of several token limits max_completion_tokens wins over max_tokens over n_predict.
 * Text parts of one message are joined with a line feed, as llama.cpp and vLLM do.
 *
 * One thread at a time parses (json.h); a parsed struct may be read from any.
 */
#ifndef JOBS_REQUEST_H
#define JOBS_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/engine.h"
#include "jobs/kind.h"
#include "jobs/refusal.h"

#define JOB_BODY_MAX_BYTES (32u << 20)
#define JOB_STOP_MAX 16u
#define JOB_INTEGER_MAX 9007199254740991 /* 2^53 - 1 */
#define JOB_SEED_MASK ((UINT64_C(1) << 53) - 1)

struct cJSON;

/* What one field says about thinking; zero: nothing. */
struct job_thought {
    enum engine_reasoning reasoning;
    struct str effort;
};

struct job_budget {
    bool said;
    int32_t tokens; /* -1: no limit */
};

struct job_request {
    const struct job_kind *kind;
    struct str model; /* as named in the body; empty: none */
    bool has_seed;
    struct engine_request engine; /* tag, submitted_us and resume are left to the caller */
    /* Private from here. */
    struct cJSON *tree;
    struct engine_message *message; /* [engine.n_messages] */
    char **joined;                  /* [engine.n_messages] contents made of parts, or NULL */
    struct str stop[JOB_STOP_MAX];
    uint32_t max_tokens[3];        /* by precedence: max_completion_tokens, max_tokens, n_predict */
    struct job_thought thought[3]; /* reasoning, reasoning_effort, chat_template_kwargs */
    struct job_budget reasoning_budget[2]; /* reasoning_budget, thinking_budget_tokens */
};

/*
 * Parses and checks. On failure `r` needs no release, the error's sentence begins with the field,
 * and `why` (may be NULL) has field and code apart. ERROR_NOMEM is nobody's fault and has no field.
 */
int job_request_parse(struct job_request *r, const struct job_kind *kind, struct str body,
                      struct job_refusal *why, struct error *e);
/* The same for a tree of json_parse, which belongs to the request from then on, also on failure. */
int job_request_adopt(struct job_request *r, const struct job_kind *kind, struct cJSON *tree,
                      struct job_refusal *why, struct error *e);
void job_request_release(struct job_request *r); /* a zeroed struct is fine */

#endif
