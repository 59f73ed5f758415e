/*
 * What differs between endpoints: where the input stands in a body, and how an answer is shown.
 *
 * Owns nothing: constant tables, one per row of kinds.def. Any thread.
 * Stays true: names and rules that endpoints share stand in request.c and response.c, once.
 */
#ifndef JOBS_KIND_H
#define JOBS_KIND_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct cJSON;
struct job_answer;
struct job_parameters;
struct job_refusal;
struct job_request;

/* Which endpoint; also the bit of its fields in fields.def. */
enum job_kind_id {
#define KIND(name, endpoint) JOB_KIND_##name,
#include "jobs/kinds.def"
#undef KIND
    JOB_KIND_COUNT
};

struct job_kind {
    enum job_kind_id id;
    const char *object;    /* "chat.completion" */
    const char *id_prefix; /* "chatcmpl-" */
    const char *input;     /* the field that holds the input: "messages" */
    /* Reads the input field (never NULL, maybe JSON null) into the request. */
    int (*take_input)(struct job_request *r, const struct cJSON *value, struct job_refusal *why,
                      struct error *e);
    /* Appends `"messages":[...]` for one text. */
    void (*put_input)(struct buf *out, const struct job_parameters *p, struct str text);
    /* Appends the members of the one choice that differ: message or text. */
    void (*put_choice)(struct buf *out, const struct job_answer *a);
};

#define KIND(name, endpoint) extern const struct job_kind job_kind_##name;
#include "jobs/kinds.def"
#undef KIND

/* NULL beyond the last or for an unknown endpoint. */
const struct job_kind *job_kind_at(size_t i);
const struct job_kind *job_kind_find(struct str endpoint);
/* "/v1/chat/completions" */
const char *job_kind_endpoint(const struct job_kind *kind);

#endif
