#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "queue/read.h"
#include "queue/worker.h"

#define RATE_WINDOW_US (3600 * 1000000LL)
#define US_PER_S 1e6

static void count(struct queue_counts *c, const char *state_word, int64_t hold, int64_t n)
{
    int state = queue_state_parse(state_word);
    if (state < 0)
        return;
    c->total += (uint64_t)n;
    c->state[state] += (uint64_t)n;
    /* One step takes both bits away: what waits for a batch is not being submitted any more. */
    const int64_t submitting = hold & (QUEUE_HOLD_SUBMITTING | QUEUE_HOLD_DEPENDENCY);
    c->held_submitting += submitting == QUEUE_HOLD_SUBMITTING ? (uint64_t)n : 0;
    c->held_not_before += hold & QUEUE_HOLD_NOT_BEFORE ? (uint64_t)n : 0;
    c->held_dependency += hold & QUEUE_HOLD_DEPENDENCY ? (uint64_t)n : 0;
    c->held_user += hold & QUEUE_HOLD_USER ? (uint64_t)n : 0;
}

/* There are few of them, and an index that has nothing else: they are counted when asked for. */
static int read_empty(struct queue *q, int64_t batch, uint64_t *ret, struct error *e)
{
    int64_t n = 0;
    int rc = db_number(&q->db,
                       "SELECT count(*) FROM job JOIN request ON answer_job = job.id"
                       " JOIN batch ON batch.id = job.batch_id WHERE job.empty IS NOT NULL"
                       " AND request.state = 'done' AND published_us IS NOT NULL"
                       " AND (?1 = 0 OR job.batch_id = ?1)",
                       SQL_ARGS(sql_int(batch)), &n, e);
    *ret = (uint64_t)n;
    return rc < 0 ? rc : 0;
}

int read_counts(struct queue *q, int64_t batch, struct queue_counts *ret, struct error *e)
{
    static const char all[] = "SELECT state, hold, sum(n) FROM batch_count JOIN batch"
                              " ON batch.id = batch_id WHERE published_us IS NOT NULL"
                              " GROUP BY state, hold";
    static const char one[] = "SELECT state, hold, n FROM batch_count WHERE batch_id = ?";
    struct queue_counts counts = {0};
    sqlite3_stmt *stmt;
    int rc = batch ? db_query(&q->db, one, SQL_ARGS(sql_int(batch)), &stmt, e)
                   : db_query(&q->db, all, SQL_NONE, &stmt, e);
    while (rc == 0 && (rc = db_step(&q->db, stmt, e)) == 1) {
        count(&counts, (const char *)sqlite3_column_text(stmt, 0), col_int(stmt, 1),
              col_int(stmt, 2));
        rc = 0;
    }
    if (rc == 0)
        rc = read_empty(q, batch, &counts.empty, e);
    if (rc == 0)
        *ret = counts;
    return rc;
}

static int read_rates(struct queue *q, struct queue_rates *ret, struct error *e)
{
    struct queue_rates rates = {0};
    int64_t now_us = clock_wall_us();
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT count(*), total(end = 'done'), total(decode_tokens),"
                      " total(prefill_tokens), min(claimed_us) FROM"
                      " (SELECT end, decode_tokens, prefill_tokens, claimed_us FROM attempt"
                      " WHERE ended_us IS NOT NULL AND ended_us > ? ORDER BY ended_us DESC"
                      " LIMIT 1000)",
                      SQL_ARGS(sql_int(now_us - RATE_WINDOW_US)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc;
    rates.n_attempts = (uint64_t)col_int(stmt, 0);
    double seconds = (double)(now_us - col_int(stmt, 4)) / US_PER_S;
    if (rates.n_attempts > 0 && seconds > 0) {
        rates.requests_per_s = sqlite3_column_double(stmt, 1) / seconds;
        rates.decode_tokens_per_s = sqlite3_column_double(stmt, 2) / seconds;
        rates.prefill_tokens_per_s = sqlite3_column_double(stmt, 3) / seconds;
    }
    db_done(stmt);
    *ret = rates;
    return 0;
}

static int copy_worker(sqlite3_stmt *stmt, struct queue_worker_info *w, struct error *e)
{
    char boot[37];
    clock_boot_id(boot);
    w->present = true;
    col_bytes(stmt, 0, w->id.bytes, sizeof(w->id.bytes));
    w->pid = (int)col_int(stmt, 1);
    w->planned_bytes = (uint64_t)col_int(stmt, 2);
    w->started_us = col_int(stmt, 3);
    w->beat_age_ms = -1;
    if (str_equal_c(col_str(stmt, 5), boot))
        w->beat_age_ms = MAX_OF(clock_boot_us() - col_int(stmt, 4), (int64_t)0) / 1000;
    int rc = col_copy(stmt, 6, &w->status_json, e);
    if (rc == 0)
        rc = col_copy(stmt, 7, &w->stopping, e);
    return rc;
}

static int read_worker(struct queue *q, struct queue_worker_info *w, struct error *e)
{
    char *lock = NULL;
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT uid, pid, planned_bytes, started_us, beat_us, boot_id, status,"
                      " stopping, lock_path FROM worker WHERE ended_us IS NULL",
                      SQL_NONE, &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc;
    rc = copy_worker(stmt, w, e);
    if (rc == 0)
        rc = col_copy(stmt, 8, &lock, e);
    db_done(stmt);
    if (rc == 0)
        w->alive = w->beat_age_ms >= 0 && lock_is_held(lock);
    mem_free(lock);
    return rc;
}

static int read_pause(struct queue *q, struct queue_status *s, struct error *e)
{
    struct buf reason;
    buf_init(&reason, QUEUE_LIST_BYTES);
    int rc = queue_paused(q, &s->paused, &reason, e);
    if (rc == 0)
        s->pause_reason = buf_take(&reason);
    buf_release(&reason);
    return rc;
}

int queue_status(struct queue *q, const struct queue_id *batch, struct queue_status *ret,
                 struct error *e)
{
    struct queue_status s = {0};
    int64_t key = 0;
    int rc = batch ? batch_key(q, *batch, &key, e) : 0;
    if (rc == 0)
        rc = read_counts(q, key, &s.counts, e);
    if (rc == 0)
        rc = read_rates(q, &s.rates, e);
    if (rc == 0)
        rc = read_worker(q, &s.worker, e);
    if (rc == 0)
        rc = read_pause(q, &s, e);
    if (rc == 0)
        rc = db_number(&q->db, "SELECT min(not_before_us) FROM job WHERE (hold & 2) <> 0", SQL_NONE,
                       &s.next_not_before_us, e);
    if (rc < 0) {
        queue_status_release(&s);
        return rc;
    }
    *ret = s;
    return 0;
}

void queue_status_release(struct queue_status *s)
{
    mem_free(s->worker.status_json);
    mem_free(s->worker.stopping);
    mem_free(s->pause_reason);
    memset(s, 0, sizeof(*s));
}
