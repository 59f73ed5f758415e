/* Steps that the queue's tests share. Everything that fails ends the test. */
#ifndef TESTS_QUEUE_HELP_H
#define TESTS_QUEUE_HELP_H

#include <sys/types.h>

#include "queue/queue.h"
#include "tests/test.h"

#define DB "queue.db"

struct queue *help_open(const char *path);
/* Publishes a batch of n requests "r0", "r1" ... with bodies of `bytes` bytes. */
struct queue_id help_submit(struct queue *q, int n, size_t bytes);
/* A batch of one. */
struct queue_id help_submit_one(struct queue *q, const char *custom_id, int priority);
struct queue_worker *help_worker(struct queue *q);
/* Claims exactly one job, or fails. */
struct queue_claim help_claim_one(struct queue_worker *w);
/* Claims up to max; their number. */
size_t help_claim(struct queue_worker *w, size_t max, struct queue_claims *ret);
/* Ends the attempt; whether that was refused. */
bool help_end(struct queue *q, int64_t job, int64_t attempt, enum queue_end_kind kind);
bool help_progress(struct queue *q, const struct queue_claim *c, const char *bytes);
struct queue_counts help_counts(struct queue *q);
/* What the statement gives first, over a connection of its own that leaves the files as they are. */
int64_t help_number(const char *path, const char *sql);
void help_free_claim(struct queue_claim *c);

/*
 * Runs fn(arg) in a child that opens its own connections; its exit status is what fn returned. A
 * child that is killed leaves everything as a crash would.
 */
pid_t help_fork(int (*fn)(void *arg), void *arg);
int help_wait(pid_t child);
/* The child ran until it wrote a byte with help_tell. */
pid_t help_fork_until(int (*fn)(void *arg, int tell), void *arg);
void help_tell(int tell);
void help_kill(pid_t child);

#endif
