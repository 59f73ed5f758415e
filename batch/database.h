/*
 * The database that the settings name, and the ids that people write.
 *
 * Owns nothing. Ids are accepted whole, as the beginning of exactly one id, as a batch's name or as a
 * custom_id. One thread.
 */
#ifndef BATCH_DATABASE_H
#define BATCH_DATABASE_H

#include "base/buf.h"
#include "base/error.h"
#include "batch/options.h"
#include "queue/queue.h"

/* --db, else $XDG_DATA_HOME/nocturne/queue.db, else under $HOME. */
int database_path(const struct options *o, struct buf *out, struct error *e);
/* create: a missing database is made; otherwise it is an empty queue's ERROR_NOTFOUND. */
int database_open(const struct options *o, bool create, struct queue **ret, struct error *e);

int database_find(struct queue *q, const char *text, const struct queue_id *batch,
                  struct queue_target *ret, struct error *e);
int database_find_batch(struct queue *q, const char *text, struct queue_id *ret, struct error *e);
int database_find_request(struct queue *q, const char *text, const struct queue_id *batch,
                          struct queue_id *ret, struct error *e);
/* The batch of --batch into *id: *ret points to it, or is NULL when the option is not there. */
int database_batch_option(struct queue *q, const struct options *o, struct queue_id *id,
                          const struct queue_id **ret, struct error *e);

const char *database_id_text(struct queue_id id, char out[37]);

#endif
