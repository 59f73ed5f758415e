/* What finished work says about how fast a machine is. */
#include <stdio.h>

#include "base/str.h"
#include "queue/read.h"

/* More would say nothing new, and a list of them is not kept anyway. */
#define ATTEMPTS_MEASURED 10000

/* Attempts come in the order of their claims: time that several share counts once. */
static void add_attempt(struct queue_measure *m, sqlite3_stmt *stmt, int64_t *busy_until_us)
{
    const int64_t claimed_us = col_int(stmt, 0);
    const int64_t ended_us = col_int(stmt, 1);
    const int64_t from_us = MAX_OF(claimed_us, *busy_until_us);
    if (m->n_attempts == 0)
        m->first_us = claimed_us;
    m->n_attempts++;
    m->tokens += (uint64_t)col_int(stmt, 2);
    m->decode_ms += col_int(stmt, 3);
    m->prefill_ms += col_int(stmt, 4);
    m->held_us += MAX_OF(ended_us - claimed_us, 0);
    m->busy_us += MAX_OF(ended_us - from_us, 0);
    m->last_us = MAX_OF(m->last_us, ended_us);
    *busy_until_us = MAX_OF(*busy_until_us, ended_us);
}

/* The model of the worker that finished something last: rates of several would mean nothing. */
static int read_model(struct queue *q, char *out, size_t size, struct error *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_query(&q->db,
                      "SELECT coalesce(json_extract(worker.status, '$.model'), '') FROM attempt"
                      " JOIN worker ON worker.id = attempt.worker_id"
                      " WHERE attempt.ended_us IS NOT NULL AND attempt.end = 'done'"
                      " AND attempt.decode_tokens > 0 ORDER BY attempt.ended_us DESC LIMIT 1",
                      SQL_NONE, &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    out[0] = '\0';
    if (rc == 1) {
        const struct str name = col_str(stmt, 0);
        snprintf(out, size, "%.*s",
                 (int)str_utf8_whole(str_slice(name.ptr, MIN_OF(name.len, size - 1))), name.ptr);
        rc = 0;
    }
    db_done(stmt);
    return rc;
}

int queue_measured(struct queue *q, struct queue_measure *ret, struct error *e)
{
    struct queue_measure m = {0};
    sqlite3_stmt *stmt = NULL;
    int64_t busy_until_us = 0;
    int rc = read_model(q, m.model, sizeof(m.model), e);
    if (rc == 0)
        rc = db_query(&q->db,
                      "SELECT * FROM (SELECT attempt.claimed_us, attempt.ended_us,"
                      " attempt.decode_tokens, attempt.decode_ms, attempt.prefill_ms FROM attempt"
                      " JOIN worker ON worker.id = attempt.worker_id"
                      " WHERE attempt.ended_us IS NOT NULL AND attempt.end = 'done'"
                      " AND attempt.decode_tokens > 0"
                      " AND coalesce(json_extract(worker.status, '$.model'), '') = ?"
                      " ORDER BY attempt.ended_us DESC LIMIT ?) ORDER BY claimed_us",
                      SQL_ARGS(sql_c(m.model), sql_int(ATTEMPTS_MEASURED)), &stmt, e);
    while (rc == 0 && (rc = db_step(&q->db, stmt, e)) == 1) {
        add_attempt(&m, stmt, &busy_until_us);
        rc = 0;
    }
    db_done(stmt);
    if (rc == 0)
        *ret = m;
    return rc;
}
