/*
 * What the parts of the queue share: the handle, and small steps that several of them take.
 *
 * The parts: open (handle), schema, submit, scan, claim, progress, finish, worker, beat, suspects,
 * orders (pause, cancel, retry ...), read and show (lists), space (reserve), watch; all over sqlite.h.
 * Not for the outside: that is queue/queue.h.
 */
#ifndef QUEUE_INTERNAL_H
#define QUEUE_INTERNAL_H

#include "queue/queue.h"
#include "queue/sqlite.h"

#define QUEUE_APPLICATION_ID 0x6e6f6374 /* "noct" */
#define QUEUE_NO_DEADLINE INT64_MAX
#define QUEUE_SCAN_ROWS 1000 /* jobs that one transaction of a scan changes at most */

struct queue {
    struct db db;
    uint64_t reserve_bytes;
    char *reserve_path;
};

/* What an event is about; 0 and {} where nothing. */
struct event_about {
    int64_t batch, request, job, attempt;
};
/* In the caller's transaction. detail: an object as text, or NULL. */
int event_add(struct queue *q, const char *kind, struct event_about about, const char *detail,
              struct error *e);
/* {"reason":"..."} with the text escaped; *ret is the caller's. */
int event_reason(struct str text, char **ret, struct error *e);

/* Row numbers of a UUID, or ERROR_NOTFOUND naming it. */
int batch_key(struct queue *q, struct queue_id id, int64_t *ret, struct error *e);
int request_key(struct queue *q, struct queue_id id, int64_t *ret, struct error *e);

/* Deletes the batch of a dead or aborted submitter, 1,000 requests a transaction. */
int batch_delete(struct queue *q, int64_t batch, struct error *e);
/* Deletes the unpublished batches whose submitters are gone. */
int batch_delete_orphans(struct queue *q, struct error *e);
/* Moves on with promoting one batch: *ret_more when jobs are left. */
int batch_promote(struct queue *q, int64_t batch, bool *ret_more, struct error *e);
/* Cancels up to QUEUE_SCAN_ROWS open jobs of a batch in one transaction. */
int batch_cancel_some(struct queue *q, int64_t batch, uint64_t *ret_n, struct error *e);

#define OPEN_STATES "state IN ('held', 'queued', 'running')"

#endif
