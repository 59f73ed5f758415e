#include "base/clock.h"
#include "base/rng.h"
#include "queue/internal.h"

#define BACKOFF_FIRST_US 1000000LL
#define BACKOFF_MOST_US (600 * 1000000LL)
#define BACKOFF_DOUBLINGS 10

/* 1 s, 2 s, 4 s ... 10 min, each with up to half as much at random on top. */
static int64_t backoff_us(int64_t retries)
{
    int64_t wait_us = BACKOFF_FIRST_US << MIN_OF(retries, (int64_t)BACKOFF_DOUBLINGS);
    wait_us = MIN_OF(wait_us, BACKOFF_MOST_US);
    return wait_us + (int64_t)(rng_unit(rng_entropy(), 0) * (double)wait_us / 2);
}

static const char *end_word(enum queue_end_kind kind)
{
    switch (kind) {
    case QUEUE_END_DONE:
        return "done";
    case QUEUE_END_FAILED:
        return "failed";
    case QUEUE_END_RETRY:
        return "retry";
    case QUEUE_END_RELEASE:
        return "released";
    }
    return "";
}

static int end_attempt(struct queue *q, const struct queue_end *end, struct error *e)
{
    const struct queue_timing *t = &end->timing;
    struct str error = end->kind == QUEUE_END_DONE ? str_of(NULL) : end->json;
    return db_run(
        &q->db,
        "UPDATE attempt SET ended_us = ?, end = ?, load_ms = ?, prefill_tokens = ?, prefill_ms = ?,"
        " decode_tokens = ?, decode_ms = ?, resumed_tokens = ?, read_bytes = ?, expert_hits = ?,"
        " expert_misses = ?, major_faults = ?, pressure_some_us = ?, pressure_full_us = ?,"
        " refaults = ?, throttled_us = ?, limit_hits = ?, peak_resident_bytes = ?,"
        " peak = ?, error = ? WHERE job_id = ? AND attempt = ?",
        SQL_ARGS(sql_int(clock_wall_us()), sql_c(end_word(end->kind)), sql_int(t->load_ms),
                 sql_int(t->prefill_tokens), sql_int(t->prefill_ms), sql_int(t->decode_tokens),
                 sql_int(t->decode_ms), sql_int(t->resumed_tokens), sql_int(t->read_bytes),
                 sql_int(t->expert_hits), sql_int(t->expert_misses), sql_int(t->major_faults),
                 sql_int(t->pressure_some_us), sql_int(t->pressure_full_us), sql_int(t->refaults),
                 sql_int(t->throttled_us), sql_int(t->limit_hits), sql_int(t->peak_resident_bytes),
                 t->peak_json.len ? sql_text(t->peak_json) : sql_c(NULL),
                 error.len ? sql_text(error) : sql_c(NULL), sql_int(end->job),
                 sql_int(end->attempt)),
        e);
}

/* done or failed: the state and the answer change together. */
static int settle(struct queue *q, const struct queue_end *end, const char *state, struct error *e)
{
    struct str empty = end->kind == QUEUE_END_DONE ? end->empty : str_of(NULL);
    int rc = db_run(&q->db, "INSERT OR REPLACE INTO result VALUES (?, ?)",
                    SQL_ARGS(sql_int(end->job), sql_text(end->json)), e);
    if (rc == 0)
        rc = db_run(&q->db,
                    "UPDATE job SET state = ?, suspect = NULL, http = ?, finish = ?, empty = ?,"
                    " changed_us = ? WHERE id = ?",
                    SQL_ARGS(sql_c(state), sql_int(end->http), sql_text(end->finish),
                             empty.len ? sql_text(empty) : sql_c(NULL), sql_int(clock_wall_us()),
                             sql_int(end->job)),
                    e);
    return rc;
}

static int come_back_later(struct queue *q, const struct queue_end *end, struct error *e)
{
    int64_t retries = 0;
    int64_t now_us = clock_wall_us();
    int rc = db_number(&q->db, "SELECT retries FROM job WHERE id = ?", SQL_ARGS(sql_int(end->job)),
                       &retries, e);
    if (rc < 0)
        return rc;
    return db_run(&q->db,
                  "UPDATE job SET state = 'held', hold = ?, not_before_us = ?, suspect = NULL,"
                  " retries = retries + 1, queued_us = ?4, changed_us = ?4 WHERE id = ?3",
                  SQL_ARGS(sql_int(QUEUE_HOLD_NOT_BEFORE), sql_int(now_us + backoff_us(retries)),
                           sql_int(end->job), sql_int(now_us)),
                  e);
}

static int give_back(struct queue *q, const struct queue_end *end, struct error *e)
{
    return db_run(&q->db,
                  "UPDATE job SET state = 'queued', queued_us = ?1, changed_us = ?1 WHERE id = ?2",
                  SQL_ARGS(sql_int(clock_wall_us()), sql_int(end->job)), e);
}

static int end_job(struct queue *q, const struct queue_end *end, struct error *e)
{
    switch (end->kind) {
    case QUEUE_END_DONE:
        return settle(q, end, "done", e);
    case QUEUE_END_FAILED:
        return settle(q, end, "failed", e);
    case QUEUE_END_RETRY:
        return come_back_later(q, end, e);
    case QUEUE_END_RELEASE:
        return give_back(q, end, e);
    }
    return 0;
}

static int end_one(struct queue *q, struct queue_end *end, struct error *e)
{
    int64_t one;
    int rc =
        db_number(&q->db, "SELECT 1 FROM job WHERE id = ? AND attempt = ? AND state = 'running'",
                  SQL_ARGS(sql_int(end->job), sql_int(end->attempt)), &one, e);
    end->refused = rc == 0;
    if (rc <= 0)
        return rc;
    rc = end_attempt(q, end, e);
    if (rc == 0)
        rc = end_job(q, end, e);
    return rc;
}

int queue_end(struct queue *q, struct queue_end *item, size_t n, struct error *e)
{
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = end_one(q, &item[i], e);
    return db_end(&q->db, rc, e);
}
