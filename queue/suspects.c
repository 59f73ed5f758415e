/*
 * Whose fault was a death? (design: the queue, "attempt is only the fence")
 *
 * An explained end (stop, out of memory, another boot) blames nobody, and neither does a job that
 * made progress in the attempt that died. After an unexplained death the other jobs that ran are
 * suspects: they come back in two groups, one after the other; a group that dies again is halved
 * again. A suspect is cleared by new progress. Only a job that was alone when the worker died, three
 * times in a row, fails.
 *
 * Groups are numbers in job.suspect; queue_claim runs the lowest one by itself. New groups get the
 * highest numbers: a half that dies waits until the other half has been cleared, so the innocent are
 * done first.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "queue/worker.h"

#define LONE_DEATHS_MAX 3

static const char crash_json[] =
    "{\"message\":\"the worker died three times while it ran this request alone\","
    "\"type\":\"server_error\",\"param\":null,\"code\":\"worker_crashed\"}";

struct victim {
    int64_t job, attempt;
    int64_t lone_deaths;
    bool moved; /* made progress in the attempt that died */
};

static int read_victims(struct queue *q, int64_t worker, struct victim *out, size_t n,
                        struct error *e)
{
    sqlite3_stmt *stmt;
    size_t i = 0;
    int rc = db_query(&q->db,
                      "SELECT id, attempt, lone_deaths, EXISTS (SELECT 1 FROM progress"
                      " WHERE job_id = job.id AND attempt = job.attempt AND bytes IS NOT NULL)"
                      " FROM job WHERE worker_id = ? AND state = 'running'"
                      " ORDER BY suspect, id",
                      SQL_ARGS(sql_int(worker)), &stmt, e);
    if (rc != 0)
        return rc;
    while ((rc = db_step(&q->db, stmt, e)) == 1 && i < n) {
        out[i++] = (struct victim){col_int(stmt, 0), col_int(stmt, 1), col_int(stmt, 2),
                                   col_int(stmt, 3) != 0};
    }
    return rc;
}

static int requeue(struct queue *q, const struct victim *v, const char *why, struct error *e)
{
    int64_t now_us = clock_wall_us();
    int rc = db_run(
        &q->db, "UPDATE attempt SET ended_us = ?, end = 'died' WHERE job_id = ? AND attempt = ?",
        SQL_ARGS(sql_int(now_us), sql_int(v->job), sql_int(v->attempt)), e);
    if (rc == 0)
        rc = db_run(&q->db,
                    "UPDATE job SET state = 'queued', queued_us = ?1, changed_us = ?1"
                    " WHERE id = ?2 AND state = 'running'",
                    SQL_ARGS(sql_int(now_us), sql_int(v->job)), e);
    if (rc == 0)
        rc = event_add(q, "requeued", (struct event_about){.job = v->job, .attempt = v->attempt},
                       why, e);
    return rc;
}

static int suspect(struct queue *q, const struct victim *v, int64_t group, bool alone,
                   struct error *e)
{
    int rc = requeue(q, v, "{\"reason\":\"the worker died\",\"suspect\":true}", e);
    if (rc == 0)
        rc =
            db_run(&q->db, "UPDATE job SET suspect = ?, lone_deaths = lone_deaths + ? WHERE id = ?",
                   SQL_ARGS(sql_int(group), sql_int(alone), sql_int(v->job)), e);
    return rc;
}

static int fail_crashed(struct queue *q, const struct victim *v, struct error *e)
{
    int64_t now_us = clock_wall_us();
    int rc = db_run(
        &q->db,
        "UPDATE attempt SET ended_us = ?, end = 'died', error = ?"
        " WHERE job_id = ? AND attempt = ?",
        SQL_ARGS(sql_int(now_us), sql_c(crash_json), sql_int(v->job), sql_int(v->attempt)), e);
    if (rc == 0)
        rc = db_run(&q->db, "INSERT OR REPLACE INTO result VALUES (?, ?)",
                    SQL_ARGS(sql_int(v->job), sql_c(crash_json)), e);
    if (rc == 0)
        rc = db_run(&q->db,
                    "UPDATE job SET state = 'failed', suspect = NULL, http = 500,"
                    " finish = 'worker_crashed', lone_deaths = lone_deaths + 1, changed_us = ?"
                    " WHERE id = ?",
                    SQL_ARGS(sql_int(now_us), sql_int(v->job)), e);
    if (rc == 0)
        rc = event_add(q, "crashed", (struct event_about){.job = v->job, .attempt = v->attempt},
                       NULL, e);
    return rc;
}

/* *ret_failed: whether it was one request's third death alone. */
static int blame(struct queue *q, const struct victim *v, size_t n, bool *ret_failed,
                 struct error *e)
{
    int64_t last_group = 0;
    size_t n_suspects = 0;
    size_t i_suspect = 0;
    int rc = db_number(&q->db, "SELECT max(suspect) FROM job WHERE suspect IS NOT NULL", SQL_NONE,
                       &last_group, e);
    rc = rc < 0 ? rc : 0;
    for (size_t i = 0; i < n; i++)
        n_suspects += !v[i].moved;
    size_t first_half = (n_suspects + 1) / 2;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (v[i].moved) {
            rc = requeue(q, &v[i], "{\"reason\":\"the worker died\"}", e);
            continue;
        }
        bool alone = n == 1;
        int64_t group = last_group + (i_suspect < first_half ? 1 : 2);
        i_suspect++;
        if (alone && v[i].lone_deaths + 1 >= LONE_DEATHS_MAX) {
            rc = fail_crashed(q, &v[i], e);
            *ret_failed = rc == 0;
        } else {
            rc = suspect(q, &v[i], group, alone, e);
        }
    }
    return rc;
}

static int bury_jobs(struct queue *q, const struct worker_row *row, bool explained,
                     bool *ret_failed, struct error *e)
{
    int64_t n = 0;
    int rc = db_number(&q->db, "SELECT count(*) FROM job WHERE worker_id = ? AND state = 'running'",
                       SQL_ARGS(sql_int(row->key)), &n, e);
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : 0;
    struct victim *v = mem_array((size_t)n, sizeof(*v));
    if (!v)
        return error_set(e, ERROR_NOMEM, "no memory for %lld jobs of a dead worker", (long long)n);
    rc = read_victims(q, row->key, v, (size_t)n, e);
    if (rc == 0 && !explained)
        rc = blame(q, v, (size_t)n, ret_failed, e);
    for (int64_t i = 0; rc == 0 && explained && i < n; i++)
        rc = requeue(q, &v[i], "{\"reason\":\"the worker ended\"}", e);
    mem_free(v);
    return rc;
}

int worker_bury(struct queue *q, const struct worker_row *row, bool explained, const char *end,
                bool *ret_failed, struct error *e)
{
    *ret_failed = false;
    int rc = bury_jobs(q, row, explained, ret_failed, e);
    if (rc == 0)
        rc = db_run(&q->db, "UPDATE worker SET ended_us = ?, end = ? WHERE id = ?",
                    SQL_ARGS(sql_int(clock_wall_us()), sql_c(end), sql_int(row->key)), e);
    if (rc == 0)
        rc = event_add(q, "worker_ended", (struct event_about){0}, NULL, e);
    return rc;
}
