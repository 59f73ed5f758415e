#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "queue/worker.h"

#define PROGRESS_BYTES_MAX (64u << 20)
#define CLAIM_MAX 4096

static void claim_release(struct queue_claim *c)
{
    mem_free(c->custom_id);
    mem_free(c->endpoint);
    mem_free(c->role);
    mem_free(c->body);
    mem_free(c->progress);
}

void queue_claims_release(struct queue_claims *c)
{
    for (size_t i = 0; i < c->n; i++)
        claim_release(&c->item[i]);
    mem_free(c->item);
    memset(c, 0, sizeof(*c));
}

static int check_live(struct queue_worker *w, struct error *e)
{
    int64_t one;
    int rc = db_number(&w->q->db, "SELECT 1 FROM worker WHERE id = ? AND ended_us IS NULL",
                       SQL_ARGS(sql_int(w->key)), &one, e);
    return rc == 0 ? worker_fence(w, e) : MIN_OF(rc, 0);
}

/* Numbers of the jobs to claim, in order; their count or a negative error. */
static int choose(struct queue *q, int64_t max, int64_t *out, struct error *e)
{
    static const char first[] = "SELECT id FROM job WHERE state = 'queued'"
                                " ORDER BY priority DESC, deadline_us, id LIMIT ?";
    static const char group[] = "SELECT id FROM job WHERE suspect IS NOT NULL AND suspect = ?2"
                                " AND state = 'queued' ORDER BY id LIMIT ?1";
    int64_t suspects = 0;
    sqlite3_stmt *stmt;
    /* While suspects wait or run uncleared, nobody else may start beside them. */
    int rc = db_number(&q->db,
                       "SELECT min(suspect) FROM job WHERE suspect IS NOT NULL"
                       " AND state IN ('queued', 'running')",
                       SQL_NONE, &suspects, e);
    if (rc < 0)
        return rc;
    if (rc == 1)
        rc = db_query(&q->db, group, SQL_ARGS(sql_int(max), sql_int(suspects)), &stmt, e);
    else
        rc = db_query(&q->db, first, SQL_ARGS(sql_int(max)), &stmt, e);
    int n = 0;
    while (rc == 0 && (rc = db_step(&q->db, stmt, e)) == 1) {
        out[n++] = col_int(stmt, 0);
        rc = 0;
    }
    return rc < 0 ? rc : n;
}

/* Bytes of the job's body, without reading it. */
static int body_size(struct queue *q, int64_t job, size_t *ret, struct error *e)
{
    int64_t n = 0;
    int rc = db_number(
        &q->db, "SELECT length(bytes) FROM body WHERE id = (SELECT body_id FROM job WHERE id = ?)",
        SQL_ARGS(sql_int(job)), &n, e);
    if (rc <= 0)
        return rc < 0 ? rc : error_set(e, ERROR_FORMAT, "job %lld has no body", (long long)job);
    *ret = (size_t)n;
    return 0;
}

/* with_body false: everything but the body's bytes. */
static int read_claim(struct queue *q, int64_t job, bool with_body, struct queue_claim *c,
                      struct error *e)
{
    sqlite3_stmt *stmt;
    int rc =
        db_query(&q->db,
                 "SELECT job.attempt, request.uid, batch.uid, custom_id,"
                 " coalesce(request.endpoint, batch.endpoint), role, CASE WHEN ?2 THEN bytes END,"
                 " batch.created_us,"
                 " deadline_us, priority, retries, fingerprint"
                 " FROM job JOIN request ON request.id = request_id"
                 " JOIN batch ON batch.id = request.batch_id JOIN body ON body.id = body_id"
                 " WHERE job.id = ?1",
                 SQL_ARGS(sql_int(job), sql_int(with_body)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc < 0 ? rc : error_set(e, ERROR_FORMAT, "job %lld has no body", (long long)job);
    c->job = job;
    c->attempt = col_int(stmt, 0);
    col_bytes(stmt, 1, c->request.bytes, sizeof(c->request.bytes));
    col_bytes(stmt, 2, c->batch.bytes, sizeof(c->batch.bytes));
    c->created_us = col_int(stmt, 7);
    c->deadline_us = col_int(stmt, 8) == QUEUE_NO_DEADLINE ? 0 : col_int(stmt, 8);
    c->priority = (int)col_int(stmt, 9);
    c->retries = (int)col_int(stmt, 10);
    col_bytes(stmt, 11, c->fingerprint, sizeof(c->fingerprint));
    rc = col_copy(stmt, 3, &c->custom_id, e);
    if (rc == 0)
        rc = col_copy(stmt, 4, &c->endpoint, e);
    if (rc == 0)
        rc = col_copy(stmt, 5, &c->role, e);
    if (rc == 0 && with_body)
        rc = col_copy(stmt, 6, &c->body, e);
    db_done(stmt);
    return rc;
}

static int read_progress(struct queue *q, struct queue_claim *c, struct error *e)
{
    struct buf all;
    sqlite3_stmt *stmt;
    buf_init(&all, PROGRESS_BYTES_MAX);
    int rc = db_query(&q->db,
                      "SELECT bytes FROM progress WHERE job_id = ? AND bytes IS NOT NULL"
                      " ORDER BY seq",
                      SQL_ARGS(sql_int(c->job)), &stmt, e);
    while (rc == 0 && (rc = db_step(&q->db, stmt, e)) == 1) {
        buf_append_str(&all, col_str(stmt, 0));
        rc = 0;
    }
    if (rc == 0)
        rc = buf_check(&all, "saved progress of a job", e);
    if (rc == 0) {
        c->progress_bytes = all.len;
        c->progress = all.len ? buf_take(&all) : NULL;
    }
    buf_release(&all);
    return rc;
}

static int start_attempt(struct queue_worker *w, int64_t job, struct error *e)
{
    int64_t now_us = clock_wall_us();
    struct db *db = &w->q->db;
    int rc = db_run(db,
                    "UPDATE job SET state = 'running', attempt = attempt + 1, worker_id = ?,"
                    " changed_us = ? WHERE id = ? AND state = 'queued'",
                    SQL_ARGS(sql_int(w->key), sql_int(now_us), sql_int(job)), e);
    if (rc == 0)
        rc = db_run(db,
                    "INSERT INTO attempt (job_id, attempt, worker_id, claimed_us, wait_us)"
                    " SELECT id, attempt, worker_id, ?1, max(0, ?1 - queued_us)"
                    " FROM job WHERE id = ?2",
                    SQL_ARGS(sql_int(now_us), sql_int(job)), e);
    return rc;
}

static int claim_one(struct queue_worker *w, int64_t job, size_t body_bytes,
                     struct queue_claims *out, struct error *e)
{
    struct queue_claim *c = &out->item[out->n];
    memset(c, 0, sizeof(*c));
    out->n++; /* so that a failure releases what it has */
    int rc = start_attempt(w, job, e);
    if (rc == 0)
        rc = read_claim(w->q, job, body_bytes <= w->room_bytes, c, e);
    c->body_bytes = body_bytes;
    if (rc == 0)
        rc = read_progress(w->q, c, e);
    return rc;
}

static int claim_in_transaction(struct queue_worker *w, size_t max, struct queue_claims *out,
                                struct error *e)
{
    int64_t job[CLAIM_MAX];
    bool paused = false;
    int rc = check_live(w, e);
    if (rc == 0)
        rc = queue_paused(w->q, &paused, NULL, e);
    if (rc != 0 || paused)
        return rc;
    int n = choose(w->q, (int64_t)MIN_OF(max, (size_t)CLAIM_MAX), job, e);
    if (n <= 0)
        return n;
    out->item = mem_array((size_t)n, sizeof(*out->item));
    if (!out->item)
        return error_set(e, ERROR_NOMEM, "no memory for %d claims", n);
    size_t left = w->room_bytes;
    for (int i = 0; rc == 0 && i < n; i++) {
        size_t bytes = 0;
        rc = body_size(w->q, job[i], &bytes, e);
        if (rc != 0 || (i > 0 && bytes > left))
            break;
        rc = claim_one(w, job[i], bytes, out, e);
        left -= MIN_OF(bytes, left);
    }
    return rc;
}

void queue_worker_room(struct queue_worker *w, size_t bytes)
{
    w->room_bytes = bytes;
}

int queue_claim(struct queue_worker *w, size_t max, struct queue_claims *ret, struct error *e)
{
    struct queue_claims got = {0};
    if (atomic_load(&w->fenced))
        return worker_fence(w, e);
    int rc = db_begin(&w->q->db, e);
    if (rc != 0)
        return rc;
    rc = db_end(&w->q->db, claim_in_transaction(w, max, &got, e), e);
    if (rc != 0) {
        queue_claims_release(&got);
        return rc;
    }
    *ret = got;
    return 0;
}
