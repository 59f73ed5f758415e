#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "queue/internal.h"

#define FIND_TEXT_MAX_BYTES 4096

/* ---- pause ---- */

int queue_pause(struct queue *q, struct str reason, struct error *e)
{
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&q->db, "INSERT OR REPLACE INTO control VALUES ('pause', ?)",
                SQL_ARGS(sql_text(reason.ptr ? reason : str_of(""))), e);
    char *why = NULL;
    if (rc == 0 && reason.len > 0)
        rc = event_reason(reason, &why, e);
    if (rc == 0)
        rc = event_add(q, "paused", (struct event_about){0}, why, e);
    mem_free(why);
    return db_end(&q->db, rc, e);
}

int queue_resume(struct queue *q, struct error *e)
{
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&q->db, "DELETE FROM control WHERE key IN ('pause', 'killed')", SQL_NONE, e);
    if (rc == 0 && db_changes(&q->db) > 0)
        rc = event_add(q, "resumed", (struct event_about){0}, NULL, e);
    return db_end(&q->db, rc, e);
}

int queue_paused(struct queue *q, bool *ret_paused, struct buf *reason, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db, "SELECT value FROM control WHERE key = 'pause'", SQL_NONE, &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc < 0)
        return rc;
    *ret_paused = rc == 1;
    if (rc == 0)
        return 0;
    if (reason)
        buf_append_str(reason, col_str(stmt, 0));
    db_done(stmt);
    return reason ? buf_check(reason, "reason of the pause", e) : 0;
}

int queue_paused_by_kill(struct queue *q, bool *ret, struct error *e)
{
    int64_t n = 0;
    int rc =
        db_number(&q->db, "SELECT count(*) FROM control WHERE key = 'killed'", SQL_NONE, &n, e);
    *ret = n > 0;
    return rc < 0 ? rc : 0;
}

/* ---- find ---- */

/* 1 and the UUID in the first column, or 0. */
static int find_uid(struct queue *q, const char *sql, struct sql_args args, enum queue_kind kind,
                    struct queue_target *ret, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db, sql, args, &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc == 1) {
        ret->kind = kind;
        col_bytes(stmt, 0, ret->id.bytes, sizeof(ret->id.bytes));
        db_done(stmt);
    }
    return rc;
}

static int find_uuid(struct queue *q, const char *text, struct queue_target *ret, struct error *e)
{
    uint8_t uid[16];
    if (clock_uuid_parse(text, uid) != 0)
        return 0;
    int rc = find_uid(q, "SELECT uid FROM batch WHERE uid = ? AND published_us IS NOT NULL",
                      SQL_ARGS(sql_blob(uid, sizeof(uid))), QUEUE_KIND_BATCH, ret, e);
    if (rc != 0)
        return rc;
    return find_uid(q,
                    "SELECT request.uid FROM request JOIN batch ON batch.id = batch_id"
                    " WHERE request.uid = ? AND published_us IS NOT NULL",
                    SQL_ARGS(sql_blob(uid, sizeof(uid))), QUEUE_KIND_REQUEST, ret, e);
}

static int find_name(struct queue *q, const char *text, const struct queue_id *batch,
                     struct queue_target *ret, struct error *e)
{
    if (batch)
        return find_uid(q,
                        "SELECT request.uid FROM request JOIN batch ON batch.id = batch_id"
                        " WHERE batch.uid = ? AND custom_id = ? AND published_us IS NOT NULL",
                        SQL_ARGS(sql_blob(batch->bytes, sizeof(batch->bytes)), sql_c(text)),
                        QUEUE_KIND_REQUEST, ret, e);
    int rc = find_uid(q,
                      "SELECT uid FROM batch WHERE name = ? AND published_us IS NOT NULL"
                      " ORDER BY id DESC LIMIT 1",
                      SQL_ARGS(sql_c(text)), QUEUE_KIND_BATCH, ret, e);
    if (rc != 0)
        return rc;
    /* CROSS JOIN keeps the order of the loops: newest batch first, one look into each. */
    return find_uid(q,
                    "SELECT request.uid FROM batch CROSS JOIN request ON batch_id = batch.id"
                    " WHERE custom_id = ? AND published_us IS NOT NULL"
                    " ORDER BY batch.id DESC LIMIT 1",
                    SQL_ARGS(sql_c(text)), QUEUE_KIND_REQUEST, ret, e);
}

int queue_find(struct queue *q, struct str text, const struct queue_id *batch,
               struct queue_target *ret, struct error *e)
{
    if (text.len == 0 || text.len > FIND_TEXT_MAX_BYTES)
        return error_set(e, ERROR_NOTFOUND, "an id of %zu bytes names nothing", text.len);
    char *copy = mem_strndup(text.ptr, text.len);
    if (!copy)
        return error_set(e, ERROR_NOMEM, "no memory to look for an id");
    int rc = find_uuid(q, copy, ret, e);
    if (rc == 0)
        rc = find_name(q, copy, batch, ret, e);
    if (rc == 0)
        rc = error_set(e, ERROR_NOTFOUND, "no batch or request '%s' in %s", copy, q->db.path);
    mem_free(copy);
    return rc < 0 ? rc : 0;
}

/* ---- cancel ---- */

int batch_cancel_some(struct queue *q, int64_t batch, uint64_t *ret_n, struct error *e)
{
    int64_t now_us = clock_wall_us();
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&q->db,
                "UPDATE batch SET cancelled_us = ? WHERE id = ? AND cancelled_us IS NULL"
                " AND finished_us IS NULL",
                SQL_ARGS(sql_int(now_us), sql_int(batch)), e);
    if (rc == 0)
        rc = db_run(&q->db,
                    "UPDATE job SET state = 'cancelled', hold = 0, suspect = NULL,"
                    " finish = 'batch_cancelled', changed_us = ?1 WHERE id IN"
                    " (SELECT id FROM job WHERE batch_id = ?2 AND " OPEN_STATES
                    " ORDER BY id LIMIT 1000)",
                    SQL_ARGS(sql_int(now_us), sql_int(batch)), e);
    if (rc == 0)
        *ret_n = (uint64_t)db_changes(&q->db);
    return db_end(&q->db, rc, e);
}

static int cancel_batch(struct queue *q, struct queue_id id, uint64_t *ret_n, struct error *e)
{
    int64_t key;
    uint64_t total = 0;
    int rc = batch_key(q, id, &key, e);
    for (uint64_t n = 1; rc == 0 && n > 0; total += n)
        rc = batch_cancel_some(q, key, &n, e);
    if (rc == 0)
        *ret_n = total;
    return rc;
}

static int cancel_request(struct queue *q, struct queue_id id, uint64_t *ret_n, struct error *e)
{
    int64_t key;
    int rc = request_key(q, id, &key, e);
    if (rc == 0)
        rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&q->db,
                "UPDATE job SET state = 'cancelled', hold = 0, suspect = NULL,"
                " finish = 'batch_cancelled', changed_us = ? WHERE request_id = ? AND " OPEN_STATES,
                SQL_ARGS(sql_int(clock_wall_us()), sql_int(key)), e);
    uint64_t n = db_changes(&q->db) > 0;
    rc = db_end(&q->db, rc, e);
    if (rc == 0)
        *ret_n = n;
    return rc;
}

int queue_cancel(struct queue *q, struct queue_target t, uint64_t *ret_n, struct error *e)
{
    return t.kind == QUEUE_KIND_BATCH ? cancel_batch(q, t.id, ret_n, e)
                                      : cancel_request(q, t.id, ret_n, e);
}

/* ---- retry ---- */

/* Another job like the last one; the deadline, which may have passed, is not taken along. */
static int insert_retry(struct queue *q, int64_t request, int64_t body, struct error *e)
{
    return db_run(&q->db,
                  "INSERT INTO job (request_id, batch_id, role, body_id, state, hold, priority,"
                  " deadline_us, queued_us, changed_us)"
                  " SELECT request_id, batch_id, role, CASE ?2 WHEN 0 THEN body_id ELSE ?2 END,"
                  " 'queued', 0, priority, ?3, ?4, ?4 FROM job WHERE request_id = ?1"
                  " ORDER BY id DESC LIMIT 1",
                  SQL_ARGS(sql_int(request), sql_int(body), sql_int(QUEUE_NO_DEADLINE),
                           sql_int(clock_wall_us())),
                  e);
}

static int retry_in_transaction(struct queue *q, int64_t request, struct str body, struct error *e)
{
    int64_t open_job = 0;
    int64_t new_body = 0;
    struct db *db = &q->db;
    int rc = db_number(db, "SELECT id FROM job WHERE request_id = ? AND " OPEN_STATES,
                       SQL_ARGS(sql_int(request)), &open_job, e);
    if (rc == 1)
        return error_set(e, ERROR_CONFLICT, "the request is not finished yet: job %lld is open",
                         (long long)open_job);
    if (rc == 0 && body.len > 0) {
        rc = db_run(db, "INSERT INTO body (bytes) VALUES (?)",
                    SQL_ARGS(sql_blob(body.ptr, body.len)), e);
        new_body = db_last_id(db);
    }
    if (rc == 0)
        rc = insert_retry(q, request, new_body, e);
    int64_t job = db_last_id(db);
    if (rc == 0)
        rc = db_run(db,
                    "UPDATE batch SET cancelled_us = NULL WHERE cancelled_us IS NOT NULL"
                    " AND id = (SELECT batch_id FROM request WHERE id = ?)",
                    SQL_ARGS(sql_int(request)), e);
    if (rc == 0)
        rc = event_add(q, "retried", (struct event_about){.request = request, .job = job}, NULL, e);
    return rc;
}

int queue_retry(struct queue *q, struct queue_id request, struct str body, struct error *e)
{
    int64_t key;
    int rc = request_key(q, request, &key, e);
    if (rc == 0)
        rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    return db_end(&q->db, retry_in_transaction(q, key, body, e), e);
}

/* ---- hold and priority: the same walk over a batch's or a request's open jobs ---- */

/* ?1 the batch or request, ?2 and ?3 a span of jobs, ?4 now, ?5 a value. */
struct change {
    const char *of_batch;
    const char *of_request;
};

#define HOLD_SQL                                                                                   \
    "UPDATE job SET state = 'held', hold = hold | 8, changed_us = ?4"                              \
    " WHERE id > ?2 AND id <= ?3 AND state IN ('held', 'queued') AND (hold & 8) = 0 AND ?5"        \
    " AND " OPEN_STATES " AND "
#define UNHOLD_SQL                                                                                 \
    "UPDATE job SET state = CASE hold & ~8 WHEN 0 THEN 'queued' ELSE 'held' END,"                  \
    " hold = hold & ~8, queued_us = ?4, changed_us = ?4"                                           \
    " WHERE id > ?2 AND id <= ?3 AND (hold & 8) <> 0 AND NOT ?5 AND " OPEN_STATES " AND "
#define PRIORITY_SQL                                                                               \
    "UPDATE job SET priority = ?5, changed_us = ?4"                                                \
    " WHERE id > ?2 AND id <= ?3 AND " OPEN_STATES " AND "
#define OF_BATCH "batch_id = ?1"
#define OF_REQUEST "request_id = ?1"

static const struct change hold_change = {HOLD_SQL OF_BATCH, HOLD_SQL OF_REQUEST};
static const struct change unhold_change = {UNHOLD_SQL OF_BATCH, UNHOLD_SQL OF_REQUEST};
static const struct change priority_change = {PRIORITY_SQL OF_BATCH, PRIORITY_SQL OF_REQUEST};

/* The last job of the next span after a job: 1, or 0 when there is none. */
static int span_end(struct queue *q, enum queue_kind kind, int64_t key, int64_t *io_last,
                    struct error *e)
{
    static const char of_batch[] =
        "SELECT max(id) FROM (SELECT id FROM job WHERE batch_id = ? AND id > ?"
        " AND " OPEN_STATES " ORDER BY id LIMIT 1000)";
    static const char of_request[] =
        "SELECT max(id) FROM job WHERE request_id = ? AND id > ? AND " OPEN_STATES;
    return db_number(&q->db, kind == QUEUE_KIND_BATCH ? of_batch : of_request,
                     SQL_ARGS(sql_int(key), sql_int(*io_last)), io_last, e);
}

static int change_span(struct queue *q, const char *sql, struct sql_args args, uint64_t *io_n,
                       struct error *e)
{
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&q->db, sql, args, e);
    if (rc == 0)
        *io_n += (uint64_t)db_changes(&q->db);
    return db_end(&q->db, rc, e);
}

static int change_open_jobs(struct queue *q, struct queue_target t, const struct change *change,
                            int64_t value, uint64_t *ret_n, struct error *e)
{
    int64_t key = 0;
    int64_t after = 0;
    int64_t last = 0;
    uint64_t n = 0;
    bool is_batch = t.kind == QUEUE_KIND_BATCH;
    int rc = is_batch ? batch_key(q, t.id, &key, e) : request_key(q, t.id, &key, e);
    if (rc != 0)
        return rc;
    while ((rc = span_end(q, t.kind, key, &last, e)) == 1) {
        rc = change_span(q, is_batch ? change->of_batch : change->of_request,
                         SQL_ARGS(sql_int(key), sql_int(after), sql_int(last),
                                  sql_int(clock_wall_us()), sql_int(value)),
                         &n, e);
        if (rc != 0)
            return rc;
        after = last;
    }
    if (rc == 0)
        *ret_n = n;
    return rc;
}

int queue_hold(struct queue *q, struct queue_target t, bool on, uint64_t *ret_n, struct error *e)
{
    return change_open_jobs(q, t, on ? &hold_change : &unhold_change, on, ret_n, e);
}

int queue_set_priority(struct queue *q, struct queue_target t, int priority, uint64_t *ret_n,
                       struct error *e)
{
    return change_open_jobs(q, t, &priority_change, priority, ret_n, e);
}
