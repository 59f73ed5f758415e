/*
 * How rows of the queue are shown, as JSON and for people. Every command uses these, so that the same
 * thing looks the same everywhere. Owns nothing; trees are the caller's. One thread.
 */
#ifndef BATCH_VIEW_H
#define BATCH_VIEW_H

#include <cjson/cJSON.h>

#include "batch/output.h"
#include "queue/queue.h"

cJSON *view_counts(const struct queue_counts *c);
cJSON *view_batch(const struct queue_batch *b);
cJSON *view_request(const struct queue_request *r);
/* What a run was, but for what it did. */
cJSON *view_run(const struct queue_run *r);
/* Adds an ISO time, or null for 0. */
void view_add_time(cJSON *o, const char *name, int64_t wall_us);
/* null for less than 0, which is what nobody knows. */
void view_add_count(cJSON *o, const char *name, int64_t n);
/* "2026-11-30 22:00:00" in local time; "-" for 0. */
const char *view_time(int64_t wall_us, char out[32]);
/* What to show as the state of a request: "held (not before)". */
const char *view_state(enum queue_state state, unsigned hold, char out[64]);
/* Requests that are not final. */
uint64_t view_unfinished(const struct queue_counts *c);
/* Final requests that are not done. */
uint64_t view_unsuccessful(const struct queue_counts *c);
/* "id  name  12 requests: 3 done, 1 failed, 8 queued" without its line feed. */
void view_put_counts(struct output *out, const struct queue_counts *c);
/*
 * Stored JSON as a tree, NULL if it is none. A NUL in a text, which a model may well write, becomes U+FFFD:
 * a string of cJSON ends at it, and the rest of the answer would be lost.
 */
cJSON *view_parse(const char *json);
/* The sentence of a stored error, with or without {"error":...} around it; or NULL. */
const char *view_error_text(const cJSON *error);
/* What was thought before a stored answer, or NULL. */
const char *view_reasoning(const cJSON *answer);
/* The text of a stored answer, or of an error; or NULL. */
const char *view_answer_text(const cJSON *answer);

#endif
