/* The record of runs, read: the runs themselves, and what attempts of a part of one add up to. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "queue/read.h"
#include "queue/worker.h"

/* ---- Runs ------------------------------------------------------------------------------------- */

/* How a run without an end of its own ended, if it did; and until when anything is known of it. */
static void find_end(struct queue_run *r, sqlite3_stmt *stmt, struct str *ret_why)
{
    const bool told = !col_null(stmt, 2), ended = !col_null(stmt, 5);
    const struct str end = col_str(stmt, 6);
    char boot[37];
    clock_boot_id(boot);
    r->known_us = MAX_OF(r->started_us, MAX_OF(col_int(stmt, 9), col_int(stmt, 10)));
    r->known_us = MAX_OF(r->known_us, col_int(stmt, 17));
    if (told) {
        *ret_why = col_str(stmt, 3);
        r->known_us = col_int(stmt, 2);
    } else if (ended) {
        *ret_why = end;
        if (!str_equal_c(end, "died") && !str_equal_c(end, "superseded"))
            r->known_us = col_int(stmt, 5);
    } else {
        const char *lock = (const char *)sqlite3_column_text(stmt, 7);
        r->running = str_equal_c(col_str(stmt, 8), boot) && lock && lock_is_held(lock);
        *ret_why = str_of(r->running ? NULL : "died");
    }
}

static int copy_run(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                    struct error *e)
{
    struct queue_run *r = element;
    struct str why;
    char **const text[] = {&r->error,     &r->machine_json, &r->model_json, &r->configuration_json,
                           &r->plan_json, &r->totals_json};
    int rc = 0;
    (void)q;
    r->key = col_int(stmt, 0);
    r->started_us = col_int(stmt, 1);
    r->status = col_null(stmt, 4) ? -1 : (int)col_int(stmt, 4);
    find_end(r, stmt, &why);
    if (why.ptr) {
        r->why = mem_strndup(why.ptr, why.len);
        if (!r->why)
            return error_set(e, ERROR_NOMEM, "no memory for a run");
    }
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(text); i++)
        rc = copy_text(stmt, 11 + (int)i, text[i], bytes, e);
    return rc;
}

void queue_run_release(struct queue_run *r)
{
    mem_free(r->why);
    mem_free(r->error);
    mem_free(r->machine_json);
    mem_free(r->model_json);
    mem_free(r->configuration_json);
    mem_free(r->plan_json);
    mem_free(r->totals_json);
    memset(r, 0, sizeof(*r));
}

static void release_run(void *element)
{
    queue_run_release(element);
}

static const struct row_type run_type = {sizeof(struct queue_run), copy_run, release_run};

int queue_runs(struct queue *q, int64_t before_key, size_t limit, struct queue_runs *ret,
               struct error *e)
{
    struct rows rows;
    int rc = read_list(
        q, &run_type,
        "SELECT run.id, run.started_us, run.ended_us, run.why, run.status, worker.ended_us,"
        " worker.end, worker.lock_path, worker.boot_id,"
        " (SELECT at_us FROM run_sample WHERE run_id = run.id ORDER BY elapsed_us DESC LIMIT 1),"
        " (SELECT at_us FROM run_note WHERE run_id = run.id ORDER BY seq DESC LIMIT 1),"
        " run.error, machine, model, configuration, plan, totals,"
        " CASE WHEN run.ended_us IS NULL THEN (SELECT max(ended_us) FROM attempt"
        "   WHERE worker_id = run.worker_id AND end <> 'died') END"
        " FROM run JOIN worker ON worker.id = run.worker_id"
        " WHERE ?1 = 0 OR run.id < ?1 ORDER BY run.id DESC",
        SQL_ARGS(sql_int(before_key)), limit, &rows, e);
    if (rc != 0)
        return rc;
    *ret = (struct queue_runs){.item = rows.item, .n = rows.n};
    ret->next_key = rows.more ? ret->item[ret->n - 1].key : 0;
    return 0;
}

void queue_runs_release(struct queue_runs *r)
{
    release_list(&run_type, r->item, r->n);
    memset(r, 0, sizeof(*r));
}

/* ---- Attempts of a span ----------------------------------------------------------------------- */

#define MOMENT                                                                                     \
    "CASE WHEN attempt.ended_us IS NULL OR attempt.end = 'died' THEN attempt.claimed_us"           \
    " ELSE attempt.ended_us END"
/* Their columns and those of job; ?1 to ?3 are the span. */
#define ATTEMPTS_OF_SPAN                                                                           \
    " FROM run JOIN attempt ON attempt.worker_id = run.worker_id"                                  \
    " JOIN job ON job.id = attempt.job_id"                                                         \
    " WHERE run.id = ?1 AND " MOMENT " >= ?2 AND " MOMENT " < ?3"
#define SPAN_ARGS(s) sql_int((s)->run), sql_int((s)->from_us), sql_int((s)->until_us)

#define ENDED(word) "total(attempt.end = '" word "')"
#define SUM(column) "total(max(attempt." column ", 0))"
#define EMPTY                                                                                      \
    "total(attempt.end = 'done' AND job.empty IS NOT NULL AND job.attempt = attempt.attempt)"
/* The members of struct queue_run_sums, and what each is of the attempts. */
#define SUMS(SUM_OF)                                                                               \
    SUM_OF(attempts, "count(*)")                                                                   \
    SUM_OF(done, ENDED("done"))                                                                    \
    SUM_OF(failed, ENDED("failed"))                                                                \
    SUM_OF(retried, ENDED("retry"))                                                                \
    SUM_OF(released, ENDED("released"))                                                            \
    SUM_OF(died, ENDED("died"))                                                                    \
    SUM_OF(cancelled, ENDED("cancelled"))                                                          \
    SUM_OF(running, "total(attempt.ended_us IS NULL)")                                             \
    SUM_OF(empty, EMPTY)                                                                           \
    SUM_OF(prefill_tokens, SUM("prefill_tokens"))                                                  \
    SUM_OF(prefill_ms, SUM("prefill_ms"))                                                          \
    SUM_OF(decode_tokens, SUM("decode_tokens"))                                                    \
    SUM_OF(decode_ms, SUM("decode_ms"))                                                            \
    SUM_OF(resumed_tokens, SUM("resumed_tokens"))                                                  \
    SUM_OF(load_ms, SUM("load_ms"))                                                                \
    SUM_OF(read_bytes, SUM("read_bytes"))                                                          \
    SUM_OF(expert_hits, SUM("expert_hits"))                                                        \
    SUM_OF(expert_misses, SUM("expert_misses"))                                                    \
    SUM_OF(peak_resident_bytes, "max(attempt.peak_resident_bytes)")
#define EXPRESSION(member, sql) sql ", "
#define ADDRESS(member, sql) &sums.member,

int queue_run_sums(struct queue *q, const struct queue_span *s, struct queue_run_sums *ret,
                   struct error *e)
{
    struct queue_run_sums sums = {0};
    int64_t *const to[] = {SUMS(ADDRESS)};
    sqlite3_stmt *stmt = NULL;
    int rc = db_query(&q->db, "SELECT " SUMS(EXPRESSION) "0" ATTEMPTS_OF_SPAN,
                      SQL_ARGS(SPAN_ARGS(s)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    for (size_t i = 0; rc == 1 && i < ARRAY_LEN(to); i++)
        *to[i] = col_int(stmt, (int)i);
    db_done(stmt);
    if (rc < 0)
        return rc;
    *ret = sums;
    return 0;
}

static int copy_failure(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                        struct error *e)
{
    struct queue_failure *f = element;
    (void)q;
    f->job = col_int(stmt, 0);
    f->attempt = col_int(stmt, 1);
    f->at_us = col_int(stmt, 2);
    f->final = col_int(stmt, 3) != 0;
    col_bytes(stmt, 4, f->request.bytes, sizeof(f->request.bytes));
    int rc = copy_text(stmt, 5, &f->custom_id, bytes, e);
    return rc ? rc : copy_text(stmt, 6, &f->error_json, bytes, e);
}

static void release_failure(void *element)
{
    struct queue_failure *f = element;
    mem_free(f->custom_id);
    mem_free(f->error_json);
}

static const struct row_type failure_type = {sizeof(struct queue_failure), copy_failure,
                                             release_failure};

int queue_run_failures(struct queue *q, const struct queue_span *s, int64_t after_job,
                       int64_t after_attempt, struct queue_failures *ret, struct error *e)
{
    struct rows rows;
    int rc = read_list(
        q, &failure_type,
        "SELECT attempt.job_id, attempt.attempt, " MOMENT ","
        " job.state = 'failed' AND job.attempt = attempt.attempt,"
        " (SELECT uid FROM request WHERE id = job.request_id),"
        " (SELECT custom_id FROM request WHERE id = job.request_id), attempt.error" ATTEMPTS_OF_SPAN
        " AND attempt.error IS NOT NULL AND attempt.end IN ('failed', 'retry', 'died')"
        " AND (attempt.job_id, attempt.attempt) > (?4, ?5)"
        " ORDER BY attempt.job_id, attempt.attempt",
        SQL_ARGS(SPAN_ARGS(s), sql_int(after_job), sql_int(after_attempt)), 0, &rows, e);
    if (rc == 0)
        *ret = (struct queue_failures){.item = rows.item, .n = rows.n, .more = rows.more};
    return rc;
}

void queue_failures_release(struct queue_failures *f)
{
    release_list(&failure_type, f->item, f->n);
    memset(f, 0, sizeof(*f));
}

static int copy_longest(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                        struct error *e)
{
    struct queue_longest *l = element;
    (void)q;
    col_bytes(stmt, 0, l->request.bytes, sizeof(l->request.bytes));
    const int state = queue_state_parse((const char *)sqlite3_column_text(stmt, 3));
    l->state = state < 0 ? QUEUE_FAILED : (enum queue_state)state;
    l->attempts = col_int(stmt, 4);
    l->held_us = col_int(stmt, 5);
    l->prefill_tokens = col_int(stmt, 6);
    l->decode_tokens = col_int(stmt, 7);
    int rc = copy_text(stmt, 1, &l->custom_id, bytes, e);
    return rc ? rc : copy_text(stmt, 2, &l->batch_name, bytes, e);
}

static void release_longest(void *element)
{
    struct queue_longest *l = element;
    mem_free(l->custom_id);
    mem_free(l->batch_name);
}

static const struct row_type longest_type = {sizeof(struct queue_longest), copy_longest,
                                             release_longest};

int queue_run_longest(struct queue *q, const struct queue_span *s, int64_t known_us, size_t limit,
                      struct queue_longests *ret, struct error *e)
{
    struct rows rows;
    int rc = read_list(
        q, &longest_type,
        "SELECT request.uid, request.custom_id, batch.name, request.state, took.n, took.held_us,"
        " took.prefill, took.decode FROM"
        " (SELECT job.request_id AS id, count(*) AS n, sum(max(CASE attempt.end WHEN 'died' THEN 0"
        " ELSE coalesce(attempt.ended_us, ?4) - attempt.claimed_us END, 0)) AS held_us,"
        " sum(max(attempt.prefill_tokens, 0)) AS prefill,"
        " sum(max(attempt.decode_tokens, 0)) AS decode" ATTEMPTS_OF_SPAN
        " GROUP BY job.request_id ORDER BY held_us DESC, job.request_id LIMIT ?5) AS took"
        " JOIN request ON request.id = took.id JOIN batch ON batch.id = request.batch_id"
        " ORDER BY took.held_us DESC, took.id",
        SQL_ARGS(SPAN_ARGS(s), sql_int(known_us), sql_int((int64_t)limit)), limit, &rows, e);
    if (rc == 0)
        *ret = (struct queue_longests){.item = rows.item, .n = rows.n};
    return rc;
}

void queue_longests_release(struct queue_longests *l)
{
    release_list(&longest_type, l->item, l->n);
    memset(l, 0, sizeof(*l));
}

/* ---- Samples, notes, and what else happened --------------------------------------------------- */

static int copy_sample(struct queue *q, sqlite3_stmt *stmt, void *element, size_t *bytes,
                       struct error *e)
{
    struct queue_sample *s = element;
    int64_t *const to[] = {
        &s->elapsed_us,       &s->at_us,          &s->stand,           &s->running,
        &s->ledger_bytes,     &s->resident_bytes, &s->available_bytes, &s->done,
        &s->failed,           &s->returned,       &s->prompt_tokens,   &s->decode_tokens,
        &s->read_bytes,       &s->major_faults,   &s->refaults,        &s->pressure_some_us,
        &s->pressure_full_us, &s->throttled_us,   &s->limit_hits};
    (void)q;
    (void)e;
    for (size_t i = 0; i < ARRAY_LEN(to); i++)
        *to[i] = col_int(stmt, (int)i);
    *bytes += sizeof(*s);
    return 0;
}

static void release_sample(void *element)
{
    (void)element;
}

static const struct row_type sample_type = {sizeof(struct queue_sample), copy_sample,
                                            release_sample};

int queue_run_samples(struct queue *q, const struct queue_span *s, int64_t after_us,
                      struct queue_samples *ret, struct error *e)
{
    struct rows rows;
    int rc = read_list(q, &sample_type,
                       "SELECT elapsed_us, at_us, stand, running, ledger_bytes, resident_bytes,"
                       " available_bytes, done, failed, returned, prompt_tokens, decode_tokens,"
                       " read_bytes, major_faults, refaults, pressure_some_us, pressure_full_us,"
                       " throttled_us, limit_hits FROM run_sample WHERE run_id = ?1"
                       " AND at_us >= ?2 AND at_us < ?3 AND elapsed_us > ?4 ORDER BY elapsed_us",
                       SQL_ARGS(SPAN_ARGS(s), sql_int(after_us)), 0, &rows, e);
    if (rc == 0)
        *ret = (struct queue_samples){.item = rows.item, .n = rows.n, .more = rows.more};
    return rc;
}

void queue_samples_release(struct queue_samples *s)
{
    release_list(&sample_type, s->item, s->n);
    memset(s, 0, sizeof(*s));
}

static int read_events(struct queue *q, const char *sql, struct sql_args args,
                       struct queue_events *ret, struct error *e)
{
    struct rows rows;
    int rc = read_list(q, &event_type, sql, args, 0, &rows, e);
    if (rc != 0)
        return rc;
    *ret = (struct queue_events){.item = rows.item, .n = rows.n};
    ret->next_key = rows.more ? ret->item[ret->n - 1].key : 0;
    return 0;
}

int queue_run_notes(struct queue *q, const struct queue_span *s, int64_t after_key,
                    struct queue_events *ret, struct error *e)
{
    return read_events(q,
                       "SELECT seq, at_us, kind, NULL, NULL, NULL, NULL, detail FROM run_note"
                       " WHERE run_id = ?1 AND at_us >= ?2 AND at_us < ?3 AND seq > ?4"
                       " ORDER BY seq",
                       SQL_ARGS(SPAN_ARGS(s), sql_int(after_key)), ret, e);
}

int queue_told(struct queue *q, int64_t from_us, int64_t until_us, struct queue_events *ret,
               struct error *e)
{
    return read_events(
        q,
        "SELECT event.id, at_us, event.kind, batch.uid, request.uid, job_id, event.attempt,"
        " detail FROM event LEFT JOIN job ON job.id = job_id"
        " LEFT JOIN request ON request.id = coalesce(event.request_id, job.request_id)"
        " LEFT JOIN batch ON batch.id = coalesce(event.batch_id, request.batch_id)"
        " WHERE kind NOT IN ('final', 'published', 'batch_finished') AND at_us >= ? AND at_us < ?"
        " AND kind IN ('paused', 'resumed', 'crashed') ORDER BY at_us, event.id",
        SQL_ARGS(sql_int(from_us), sql_int(until_us)), ret, e);
}

int queue_lapsed(struct queue *q, int64_t from_us, int64_t until_us, int64_t *ret_expired,
                 int64_t *ret_cancelled, struct error *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_query(&q->db,
                      "SELECT total(state = 'expired'), total(state = 'cancelled') FROM request"
                      " WHERE finished_us >= ? AND finished_us < ?",
                      SQL_ARGS(sql_int(from_us), sql_int(until_us)), &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc == 1) {
        *ret_expired = col_int(stmt, 0);
        *ret_cancelled = col_int(stmt, 1);
    }
    db_done(stmt);
    return MIN_OF(rc, 0);
}
