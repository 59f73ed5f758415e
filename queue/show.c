#include <string.h>

#include "base/alloc.h"
#include "queue/read.h"

#define ATTEMPTS_SHOWN 100

/* ---- attempts ---- */

static int copy_attempt(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                        struct error *e)
{
    struct queue_attempt_info *a = element;
    (void)q;
    a->attempt = col_int(stmt, 0);
    a->claimed_us = col_int(stmt, 1);
    a->ended_us = col_int(stmt, 2);
    a->wait_us = col_int(stmt, 3);
    a->timing = (struct queue_timing){
        .load_ms = col_int(stmt, 7),
        .prefill_tokens = col_int(stmt, 8),
        .prefill_ms = col_int(stmt, 9),
        .decode_tokens = col_int(stmt, 10),
        .decode_ms = col_int(stmt, 11),
        .resumed_tokens = col_int(stmt, 12),
        .read_bytes = col_int(stmt, 13),
        .expert_hits = col_int(stmt, 14),
        .expert_misses = col_int(stmt, 15),
        .major_faults = col_int(stmt, 16),
        .pressure_some_us = col_int(stmt, 17),
        .pressure_full_us = col_int(stmt, 18),
        .refaults = col_int(stmt, 19),
        .throttled_us = col_int(stmt, 20),
        .limit_hits = col_int(stmt, 21),
        .peak_resident_bytes = col_int(stmt, 22),
    };
    int rc = copy_text(stmt, 4, &a->end, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 5, &a->error_json, bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 6, &a->peak_json, bytes, e);
    return rc;
}

static void release_attempt(void *element)
{
    struct queue_attempt_info *a = element;
    mem_free(a->end);
    mem_free(a->error_json);
    mem_free(a->peak_json);
}

static const struct row_type attempt_type = {sizeof(struct queue_attempt_info), copy_attempt,
                                             release_attempt};

static int read_attempts(struct queue *q, struct queue_job_info *job, struct error *e)
{
    struct rows rows;
    int rc =
        read_list(q, &attempt_type,
                  "SELECT attempt, claimed_us, ended_us, wait_us, end, error,"
                  " coalesce(peak, '{}'), load_ms, prefill_tokens, prefill_ms, decode_tokens,"
                  " decode_ms, resumed_tokens, read_bytes, expert_hits, expert_misses,"
                  " major_faults, pressure_some_us, pressure_full_us, refaults, throttled_us,"
                  " limit_hits, peak_resident_bytes FROM attempt"
                  " WHERE job_id = ?1 AND attempt >"
                  " (SELECT max(attempt) FROM attempt WHERE job_id = ?1) - ?2"
                  " ORDER BY attempt",
                  SQL_ARGS(sql_int(job->job), sql_int(ATTEMPTS_SHOWN)), ATTEMPTS_SHOWN, &rows, e);
    if (rc == 0) {
        job->attempt = rows.item;
        job->n_attempts = rows.n;
    }
    return rc;
}

/* ---- jobs ---- */

static int copy_job(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                    struct error *e)
{
    struct queue_job_info *j = element;
    (void)q;
    j->job = col_int(stmt, 0);
    int state = queue_state_parse((const char *)sqlite3_column_text(stmt, 2));
    j->state = state < 0 ? QUEUE_FAILED : (enum queue_state)state;
    j->hold = (unsigned)col_int(stmt, 3);
    j->priority = (int)col_int(stmt, 4);
    j->retries = (int)col_int(stmt, 5);
    j->lone_deaths = (int)col_int(stmt, 6);
    j->suspect = !col_null(stmt, 7);
    j->not_before_us = col_int(stmt, 8);
    j->deadline_us = col_int(stmt, 9) == QUEUE_NO_DEADLINE ? 0 : col_int(stmt, 9);
    return copy_text(stmt, 1, &j->role, bytes, e);
}

static void release_job(void *element)
{
    struct queue_job_info *j = element;
    mem_free(j->role);
    release_list(&attempt_type, j->attempt, j->n_attempts);
}

static const struct row_type job_type = {sizeof(struct queue_job_info), copy_job, release_job};

static int read_jobs(struct queue *q, int64_t request, struct queue_show *show, struct error *e)
{
    struct rows rows;
    int rc = read_list(q, &job_type,
                       "SELECT id, role, state, hold, priority, retries, lone_deaths, suspect,"
                       " not_before_us, deadline_us FROM job WHERE request_id = ? ORDER BY id",
                       SQL_ARGS(sql_int(request)), 0, &rows, e);
    if (rc != 0)
        return rc;
    show->job = rows.item;
    show->n_jobs = rows.n;
    for (size_t i = 0; rc == 0 && i < show->n_jobs; i++)
        rc = read_attempts(q, &show->job[i], e);
    return rc;
}

/* ---- the request ---- */

static int read_request(struct queue *q, int64_t key, struct queue_show *show, struct error *e)
{
    size_t bytes = 0;
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT " REQUEST_COLUMNS ", coalesce(request.endpoint, batch.endpoint),"
                      " (SELECT bytes FROM body JOIN job ON body.id = body_id"
                      " WHERE request_id = request.id ORDER BY job.id DESC LIMIT 1),"
                      " (SELECT json FROM result WHERE job_id = answer_job)" REQUEST_TABLES
                      " WHERE request.id = ?",
                      SQL_ARGS(sql_int(key)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc < 0 ? rc : error_set(e, ERROR_NOTFOUND, "the request is gone");
    rc = copy_request(q, stmt, &show->request, &bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 13, &show->endpoint, &bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 14, &show->body, &bytes, e);
    if (rc == 0)
        rc = copy_text(stmt, 15, &show->result_json, &bytes, e);
    show->body_bytes = col_str(stmt, 14).len;
    db_done(stmt);
    return rc;
}

int queue_show(struct queue *q, struct queue_id request, struct queue_show *ret, struct error *e)
{
    struct queue_show show = {0};
    int64_t key;
    int rc = request_key(q, request, &key, e);
    if (rc == 0)
        rc = read_request(q, key, &show, e);
    if (rc == 0)
        rc = read_jobs(q, key, &show, e);
    if (rc != 0) {
        queue_show_release(&show);
        return rc;
    }
    *ret = show;
    return 0;
}

void queue_show_release(struct queue_show *s)
{
    release_request(&s->request);
    mem_free(s->endpoint);
    mem_free(s->body);
    mem_free(s->result_json);
    release_list(&job_type, s->job, s->n_jobs);
    memset(s, 0, sizeof(*s));
}

/* ---- tail ---- */

static int read_tail_state(struct queue *q, int64_t request, struct queue_tail *t, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT request.state, job.id, job.attempt FROM request JOIN job"
                      " ON request_id = request.id WHERE request.id = ?"
                      " ORDER BY job.id DESC LIMIT 1",
                      SQL_ARGS(sql_int(request)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc < 0 ? rc : error_set(e, ERROR_NOTFOUND, "the request is gone");
    int state = queue_state_parse((const char *)sqlite3_column_text(stmt, 0));
    t->state = state < 0 ? QUEUE_FAILED : (enum queue_state)state;
    t->restarted = t->job != 0 && t->job != col_int(stmt, 1);
    t->seq = t->job == col_int(stmt, 1) ? t->seq : 0;
    t->job = col_int(stmt, 1);
    t->attempt = col_int(stmt, 2);
    db_done(stmt);
    return 0;
}

int queue_tail(struct queue *q, struct queue_id request, struct queue_tail *t, struct buf *out,
               struct error *e)
{
    int64_t key;
    sqlite3_stmt *stmt = NULL;
    size_t start = out->len;
    int rc = request_key(q, request, &key, e);
    if (rc == 0)
        rc = read_tail_state(q, key, t, e);
    if (rc == 0)
        rc = db_query(&q->db,
                      "SELECT seq, bytes FROM progress WHERE job_id = ? AND seq > ? ORDER BY seq",
                      SQL_ARGS(sql_int(t->job), sql_int(t->seq)), &stmt, e);
    while (rc == 0 && out->len - start < QUEUE_LIST_BYTES && (rc = db_step(&q->db, stmt, e)) == 1) {
        /* Only the first piece can be a marker: what was before it is gone from the table. */
        t->restarted |= col_null(stmt, 1) && t->seq > 0;
        buf_append_str(out, col_str(stmt, 1));
        t->seq = col_int(stmt, 0);
        rc = 0;
    }
    db_done(stmt);
    return rc != 0 ? rc : buf_check(out, "progress of a request", e);
}
