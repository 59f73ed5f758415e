#include <string.h>

#include "base/alloc.h"
#include "queue/internal.h"

/* 1 while the attempt is the job's running one, and the fingerprint of what is saved. */
static int still_mine(struct queue *q, int64_t job, int64_t attempt, bool *ret_saved,
                      uint8_t fingerprint[QUEUE_FINGERPRINT_BYTES], struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT fingerprint FROM job WHERE id = ? AND attempt = ?"
                      " AND state = 'running'",
                      SQL_ARGS(sql_int(job), sql_int(attempt)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc != 1)
        return rc;
    *ret_saved = !col_null(stmt, 0);
    col_bytes(stmt, 0, fingerprint, QUEUE_FINGERPRINT_BYTES);
    db_done(stmt);
    return 1;
}

static int insert_piece(struct queue *q, int64_t job, int64_t attempt, struct sql_arg bytes,
                        struct error *e)
{
    return db_run(&q->db,
                  "INSERT INTO progress (job_id, seq, attempt, bytes) VALUES (?1,"
                  " 1 + coalesce((SELECT max(seq) FROM progress WHERE job_id = ?1), 0), ?2, ?3)",
                  SQL_ARGS(sql_int(job), sql_int(attempt), bytes), e);
}

static int append_one(struct queue *q, struct queue_progress *p, struct error *e)
{
    bool saved = false;
    uint8_t there[QUEUE_FINGERPRINT_BYTES];
    int rc = still_mine(q, p->job, p->attempt, &saved, there, e);
    p->refused = rc == 0;
    if (rc <= 0)
        return rc;
    if (saved && memcmp(there, p->fingerprint, sizeof(there)) != 0)
        return error_set(e, ERROR_CONFLICT,
                         "job %lld: progress with another fingerprint is there; discard it first",
                         (long long)p->job);
    struct str bytes = p->bytes.ptr ? p->bytes : str_of("");
    rc = insert_piece(q, p->job, p->attempt, sql_blob(bytes.ptr, bytes.len), e);
    /* New progress clears a suspect. */
    if (rc == 0)
        rc =
            db_run(&q->db,
                   "UPDATE job SET fingerprint = ?1, suspect = NULL, lone_deaths = 0"
                   " WHERE id = ?2 AND (fingerprint IS NULL OR suspect IS NOT NULL"
                   " OR lone_deaths > 0)",
                   SQL_ARGS(sql_blob(p->fingerprint, QUEUE_FINGERPRINT_BYTES), sql_int(p->job)), e);
    return rc;
}

int queue_progress_append(struct queue *q, struct queue_progress *item, size_t n, struct error *e)
{
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = append_one(q, &item[i], e);
    return db_end(&q->db, rc, e);
}

static int discard(struct queue *q, int64_t job, int64_t attempt, const char *why,
                   bool *ret_refused, struct error *e)
{
    bool saved = false;
    uint8_t there[QUEUE_FINGERPRINT_BYTES];
    int rc = still_mine(q, job, attempt, &saved, there, e);
    *ret_refused = rc == 0;
    if (rc <= 0)
        return rc;
    /* The marker keeps seq going on, so that whoever follows the job sees that it starts over. */
    rc = insert_piece(q, job, attempt, sql_blob(NULL, 0), e);
    if (rc == 0)
        rc = db_run(&q->db,
                    "DELETE FROM progress WHERE job_id = ?1"
                    " AND seq < (SELECT max(seq) FROM progress WHERE job_id = ?1)",
                    SQL_ARGS(sql_int(job)), e);
    if (rc == 0)
        rc = db_run(&q->db, "UPDATE job SET fingerprint = NULL WHERE id = ?",
                    SQL_ARGS(sql_int(job)), e);
    if (rc == 0)
        rc = event_add(q, "progress_discarded",
                       (struct event_about){.job = job, .attempt = attempt}, why, e);
    return rc;
}

int queue_progress_discard(struct queue *q, int64_t job, int64_t attempt, struct str why,
                           bool *ret_refused, struct error *e)
{
    char *detail;
    bool refused = false;
    int rc = event_reason(why, &detail, e);
    if (rc != 0)
        return rc;
    rc = db_begin(&q->db, e);
    if (rc == 0)
        rc = db_end(&q->db, discard(q, job, attempt, detail, &refused, e), e);
    mem_free(detail);
    if (rc == 0)
        *ret_refused = refused;
    return rc;
}

int queue_check_attempts(struct queue *q, struct queue_progress *item, size_t n, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        bool saved;
        uint8_t there[QUEUE_FINGERPRINT_BYTES];
        int rc = still_mine(q, item[i].job, item[i].attempt, &saved, there, e);
        if (rc < 0)
            return rc;
        item[i].refused = rc == 0;
    }
    return 0;
}

int queue_job_open(struct queue *q, int64_t job, bool *ret, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT 1 FROM job WHERE id = ? AND state IN ('held', 'queued', 'running')",
                      SQL_ARGS(sql_int(job)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    *ret = rc == 1;
    if (rc == 1)
        db_done(stmt);
    return rc < 0 ? rc : 0;
}
