/* The record of a run, written. Reading it is record.c's. */
#include "base/clock.h"
#include "queue/worker.h"

/* A record is not worth holding up the work that it is about. */
#define PATIENCE_MS 1000

/* ---- What is kept ------------------------------------------------------------------------------ */

#define NOTES_KEPT 10000 /* of a run */
#define DAYS_KEPT 100    /* samples and notes; runs and attempts stay */
#define KEPT_US (DAYS_KEPT * INT64_C(86400000000))

/* Of runs that began before then; a run that goes on for longer forgets as it writes. */
static int forget_old(struct db *db, int64_t before_us, struct error *e)
{
    int rc = db_run(db,
                    "DELETE FROM run_sample WHERE at_us < ?1"
                    " AND run_id IN (SELECT id FROM run WHERE started_us < ?1)",
                    SQL_ARGS(sql_int(before_us)), e);
    return rc ? rc
              : db_run(db,
                       "DELETE FROM run_note WHERE at_us < ?1"
                       " AND run_id IN (SELECT id FROM run WHERE started_us < ?1)",
                       SQL_ARGS(sql_int(before_us)), e);
}

/* ---- Writing ----------------------------------------------------------------------------------- */

static struct sql_arg object(struct str json)
{
    return sql_text(json.len ? json : str_of("{}"));
}

int queue_run_begin(struct queue_worker *w, const struct queue_run_about *about, struct error *e)
{
    struct db *db = &w->q->db;
    int rc = db_begin(db, e);
    if (rc != 0)
        return rc;
    rc = db_run(db,
                "INSERT INTO run (worker_id, started_us, machine, model, configuration, plan)"
                " SELECT id, started_us, ?, ?, ?, ? FROM worker WHERE id = ? AND ended_us IS NULL",
                SQL_ARGS(object(about->machine_json), object(about->model_json),
                         object(about->configuration_json), object(about->plan_json),
                         sql_int(w->key)),
                e);
    if (rc == 0 && db_changes(db) != 1)
        rc = worker_fence(w, e);
    const int64_t run = db_last_id(db);
    if (rc == 0)
        rc = forget_old(db, clock_wall_us() - KEPT_US, e);
    rc = db_end(db, rc, e);
    if (rc == 0) {
        w->run = run;
        w->run_boot_us = clock_boot_us();
    }
    return rc;
}

/* How a row makes room: rows of this run below a limit go. */
struct forget {
    const char *sql; /* ?1 the run, ?2 the limit; NULL: none goes */
    int64_t below;
};

/* One statement that changes one row, unless the worker is not the worker any more. */
static int write_row(struct queue_worker *w, const char *sql, struct sql_args args,
                     struct forget old, int patience_ms, struct error *e)
{
    struct db *db = &w->q->db;
    const int usual_ms = db->busy_timeout_ms;
    if (w->run == 0)
        return error_set(e, ERROR_NOTFOUND, "database %s: this worker has begun no run", db->path);
    db->busy_timeout_ms = MIN_OF(usual_ms, patience_ms);
    int rc = db_begin(db, e);
    if (rc == 0) {
        rc = db_run(db, sql, args, e);
        if (rc == 0 && db_changes(db) != 1)
            rc = worker_fence(w, e);
        if (rc == 0 && old.sql)
            rc = db_run(db, old.sql, SQL_ARGS(sql_int(w->run), sql_int(old.below)), e);
        rc = db_end(db, rc, e);
    }
    db->busy_timeout_ms = usual_ms;
    return rc;
}

#define LIVE_WORKER " FROM worker WHERE worker.id = ?1 AND worker.ended_us IS NULL"

int queue_run_sample(struct queue_worker *w, const struct queue_sample *s, struct error *e)
{
    const int64_t elapsed_us = clock_boot_us() - w->run_boot_us;
    return write_row(
        w,
        "INSERT OR REPLACE INTO run_sample (run_id, elapsed_us, at_us, stand, running,"
        " ledger_bytes, resident_bytes, available_bytes, done, failed, returned, prompt_tokens,"
        " decode_tokens, read_bytes, major_faults, refaults, pressure_some_us, pressure_full_us,"
        " throttled_us, limit_hits) SELECT ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
        " ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21" LIVE_WORKER,
        SQL_ARGS(sql_int(w->key), sql_int(w->run), sql_int(elapsed_us), sql_int(clock_wall_us()),
                 sql_int(s->stand), sql_int(s->running), sql_int(s->ledger_bytes),
                 sql_int(s->resident_bytes), sql_int(s->available_bytes), sql_int(s->done),
                 sql_int(s->failed), sql_int(s->returned), sql_int(s->prompt_tokens),
                 sql_int(s->decode_tokens), sql_int(s->read_bytes), sql_int(s->major_faults),
                 sql_int(s->refaults), sql_int(s->pressure_some_us), sql_int(s->pressure_full_us),
                 sql_int(s->throttled_us), sql_int(s->limit_hits)),
        (struct forget){"DELETE FROM run_sample WHERE run_id = ?1 AND elapsed_us < ?2",
                        elapsed_us - KEPT_US},
        PATIENCE_MS, e);
}

int queue_run_note(struct queue_worker *w, struct str kind, struct str detail_json, struct error *e)
{
    int64_t n = 0;
    int rc = db_number(&w->q->db, "SELECT max(seq) FROM run_note WHERE run_id = ?",
                       SQL_ARGS(sql_int(w->run)), &n, e);
    if (rc < 0)
        return rc;
    return write_row(
        w,
        "INSERT INTO run_note (run_id, seq, at_us, kind, detail)"
        " SELECT ?2, ?3, ?4, ?5, ?6" LIVE_WORKER,
        SQL_ARGS(sql_int(w->key), sql_int(w->run), sql_int(n + 1), sql_int(clock_wall_us()),
                 sql_text(kind), object(detail_json)),
        (struct forget){"DELETE FROM run_note WHERE run_id = ?1 AND seq < ?2", n + 2 - NOTES_KEPT},
        PATIENCE_MS, e);
}

int queue_run_end(struct queue_worker *w, struct str why, int status, struct str error,
                  struct str totals_json, struct error *e)
{
    return write_row(w,
                     "UPDATE run SET ended_us = ?3, why = ?4, status = ?5, error = ?6, totals = ?7"
                     " WHERE id = ?2 AND EXISTS (SELECT 1" LIVE_WORKER ")",
                     SQL_ARGS(sql_int(w->key), sql_int(w->run), sql_int(clock_wall_us()),
                              sql_text(why), sql_int(status),
                              error.len ? sql_text(error) : sql_c(NULL), object(totals_json)),
                     (struct forget){0}, w->q->db.busy_timeout_ms, e);
}
