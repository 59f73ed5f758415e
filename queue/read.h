/*
 * Reading lists: rows are copied out, at most QUEUE_LIST_ROWS or QUEUE_LIST_BYTES, and the statement
 * is reset before anything is handed over.
 *
 * A list grows through `struct rows`, which the callers' list structs are filled from: read_list runs
 * a query and calls `copy` for each row with a zeroed element. Where that fails every element copied
 * so far, the failed one too, is released with `release`.
 */
#ifndef QUEUE_READ_H
#define QUEUE_READ_H

#include "queue/internal.h"

struct row_type {
    size_t size;
    /* Copies the row into the element; *bytes grows by what it took. */
    int (*copy)(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes, struct error *e);
    void (*release)(void *element);
};

struct rows {
    void *item; /* [n] of the type; the caller's, mem_free */
    size_t n;
    bool more; /* a limit ended the list */
};

/* The query must not have a limit of its own. limit 0 or above QUEUE_LIST_ROWS: that many. */
int read_list(struct queue *q, const struct row_type *type, const char *sql, struct sql_args args,
              size_t limit, struct rows *ret, struct error *e);
void release_list(const struct row_type *type, void *item, size_t n);

int read_counts(struct queue *q, int64_t batch, struct queue_counts *ret, struct error *e);

/* The columns of struct queue_request, from tables request, batch, and job AS answer (outer join). */
#define REQUEST_COLUMNS                                                                            \
    "request.id, request.uid, batch.uid, request.custom_id, request.state, request.hold,"          \
    " (SELECT priority FROM job WHERE request_id = request.id ORDER BY id DESC LIMIT 1),"          \
    " batch.created_us, request.finished_us,"                                                      \
    " (SELECT sum(attempt) FROM job WHERE request_id = request.id), answer.finish, answer.http,"   \
    " CASE request.state WHEN 'done' THEN answer.empty END"
#define REQUEST_TABLES                                                                             \
    " FROM request JOIN batch ON batch.id = request.batch_id"                                      \
    " LEFT JOIN job AS answer ON answer.id = request.answer_job"
int copy_request(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                 struct error *e);
void release_request(void *element);

extern const struct row_type event_type; /* of struct queue_event */

/* col_copy that counts. */
int copy_text(sqlite3_stmt *stmt, int i, char **ret, size_t *bytes, struct error *e);

#endif
