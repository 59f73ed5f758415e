/*
 * Whether the worker before died for lack of memory, found out by who comes after it.
 *
 * A process that the kernel kills can say nothing. So each worker writes into its row, with its status,
 * what its control groups have counted of such deaths until then; who finds the row with its holder gone
 * looks at what they have counted since. That blames no job, and pauses the queue with a sentence: what
 * did not fit last night will not fit in half a minute either.
 *
 * Owns nothing. Any thread that owns the queue.
 */
#ifndef BATCH_WORKER_DEATH_H
#define BATCH_WORKER_DEATH_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "queue/queue.h"

/* Adds it to a status. */
void death_note(cJSON *status);
/* How many of such deaths these groups have counted. Who sees it grow was not the one. */
uint64_t death_count(void);
/*
 * *ret_killed: there was a worker, it is dead, and it was that; the queue is paused. The group that it left
 * behind goes either way. told: somebody knows that it was that (the manager of a service).
 */
int death_explain(struct queue *q, bool told, bool *ret_killed, struct error *e);

#endif
