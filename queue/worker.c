#include "queue/worker.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"

#define BEAT_MS 2000
#define LEASE_MS 12000
#define ROOM_BYTES (64u << 20)
#define BEATS_PER_LEASE 4
#define US_PER_MS 1000

static void row_release(struct worker_row *row)
{
    mem_free(row->boot_id);
    mem_free(row->lock_path);
    mem_free(row->stopping);
    memset(row, 0, sizeof(*row));
}

/* 1 and the live row (release it), or 0. */
static int row_read(struct queue *q, struct worker_row *ret, struct error *e)
{
    struct worker_row row = {0};
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db,
                      "SELECT id, beats, pid, planned_bytes, boot_id, lock_path, stopping"
                      " FROM worker WHERE ended_us IS NULL",
                      SQL_NONE, &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc;
    row.key = col_int(stmt, 0);
    row.beats = col_int(stmt, 1);
    row.pid = (int)col_int(stmt, 2);
    row.planned_bytes = (uint64_t)col_int(stmt, 3);
    rc = col_copy(stmt, 4, &row.boot_id, e);
    if (rc == 0)
        rc = col_copy(stmt, 5, &row.lock_path, e);
    if (rc == 0)
        rc = col_copy(stmt, 6, &row.stopping, e);
    db_done(stmt);
    if (rc != 0) {
        row_release(&row);
        return rc;
    }
    *ret = row;
    return 1;
}

static bool same_boot(const struct worker_row *row)
{
    char here[37];
    clock_boot_id(here);
    return row->boot_id && strcmp(row->boot_id, here) == 0;
}

static int insert_row(struct queue_worker *w, const struct queue_worker_options *opt,
                      struct error *e)
{
    char boot[37];
    struct db *db = &w->q->db;
    clock_boot_id(boot);
    int rc = db_run(db,
                    "INSERT INTO worker (uid, pid, start_ticks, boot_id, lock_path, planned_bytes,"
                    " beat_us, started_us, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    SQL_ARGS(sql_blob(w->id.bytes, sizeof(w->id.bytes)), sql_int(getpid()),
                             sql_int((int64_t)clock_process_start(getpid())), sql_c(boot),
                             sql_c(w->lock_path), sql_int((int64_t)opt->planned_bytes),
                             sql_int(clock_boot_us()), sql_int(clock_wall_us()),
                             sql_text(opt->status_json.len ? opt->status_json : str_of("{}"))),
                    e);
    w->key = db_last_id(db);
    if (rc == 0)
        rc = event_add(w->q, "worker_started", (struct event_about){0}, NULL, e);
    return rc;
}

/* Superseding leaves the old process where it is: both must fit. */
static int check_room(const struct worker_row *old, const struct queue_worker_options *opt,
                      struct error *e)
{
    char need[24];
    char taken[24];
    char room[24];
    if (opt->available_bytes == 0 ||
        opt->planned_bytes + old->planned_bytes <= opt->available_bytes)
        return 0;
    return error_set(e, ERROR_BUSY,
                     "process %d stopped responding but still holds %s; with this worker's %s that"
                     " is more than the %s there is: end it (kill -9 %d) and start again",
                     old->pid, str_format_size(old->planned_bytes, taken),
                     str_format_size(opt->planned_bytes, need),
                     str_format_size(opt->available_bytes, room), old->pid);
}

enum take { TAKE_DONE, TAKE_HELD };

/*
 * One try to become the worker. `watched` is the row whose beat stood still for a lease, or NULL.
 * *ret says whether it worked; when not, *ret_row is the holder's row (release it).
 */
static int take_in_transaction(struct queue_worker *w, const struct queue_worker_options *opt,
                               const struct worker_row *watched, enum take *ret,
                               struct worker_row *ret_row, struct error *e)
{
    struct worker_row row = {0};
    int rc = row_read(w->q, &row, e);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        int dead = !same_boot(&row) ? 1 : lock_is_free(row.lock_path, e);
        bool stuck = dead == 0 && watched && watched->key == row.key && watched->beats == row.beats;
        bool explained = !same_boot(&row) || row.stopping || opt->explained.len > 0;
        if (dead == 0 && !stuck) {
            *ret = TAKE_HELD;
            *ret_row = row;
            return 0;
        }
        rc = dead < 0 ? dead : 0;
        if (rc == 0 && stuck)
            rc = check_room(&row, opt, e);
        if (rc == 0)
            rc = worker_bury(w->q, &row, explained, stuck ? "superseded" : "died",
                             &w->found_crashed, e);
        if (rc == 0 && !stuck && row.lock_path)
            unlink(row.lock_path);
    }
    row_release(&row);
    if (rc == 0)
        rc = insert_row(w, opt, e);
    if (rc == 0)
        *ret = TAKE_DONE;
    return rc;
}

static int take(struct queue_worker *w, const struct queue_worker_options *opt,
                const struct worker_row *watched, enum take *ret, struct worker_row *ret_row,
                struct error *e)
{
    int rc = db_begin(&w->q->db, e);
    if (rc != 0)
        return rc;
    rc = take_in_transaction(w, opt, watched, ret, ret_row, e);
    return db_end(&w->q->db, rc, e);
}

static int refuse(const struct queue_worker *w, const struct worker_row *row, struct error *e)
{
    return error_set(e, ERROR_LOCKED, "database %s: process %d is its worker", w->q->db.path,
                     row->pid);
}

struct patience {
    bool (*stop)(void *ctx);
    void *ctx;
};

/*
 * Watches the holder for one lease of this process's own time. Only short steps of CLOCK_MONOTONIC
 * count, so neither a jump of the clock nor a suspended machine makes a live holder look dead.
 * 0: the beat stood still, the lock came free or the row changed (try again); else ERROR_LOCKED.
 */
static int watch(struct queue_worker *w, const struct worker_row *row, struct patience p,
                 struct error *e)
{
    const int64_t step_us = (int64_t)w->beat_ms * US_PER_MS / 4;
    int64_t watched_us = 0;
    while (watched_us < (int64_t)w->lease_ms * US_PER_MS) {
        struct worker_row now = {0};
        if (p.stop && p.stop(p.ctx))
            return error_set(e, ERROR_INTERRUPTED, "stopped while process %d held the queue",
                             row->pid);
        int64_t before_us = clock_mono_us();
        clock_sleep_us(step_us);
        watched_us += MIN_OF(clock_mono_us() - before_us, 2 * step_us);
        int rc = row_read(w->q, &now, e);
        bool same = rc == 1 && now.key == row->key;
        bool moved = same && now.beats != row->beats;
        row_release(&now);
        if (rc < 0)
            return rc;
        if (moved)
            return refuse(w, row, e);
        int is_free = same ? lock_is_free(row->lock_path, e) : 1;
        if (is_free != 0)
            return is_free < 0 ? is_free : 0;
    }
    return 0;
}

static int become_worker(struct queue_worker *w, const struct queue_worker_options *opt,
                         struct patience p, struct error *e)
{
    struct worker_row watched = {0};
    int rc;
    for (;;) {
        enum take outcome = TAKE_HELD;
        struct worker_row row = {0};
        rc = take(w, opt, watched.key ? &watched : NULL, &outcome, &row, e);
        row_release(&watched);
        if (rc != 0 || outcome == TAKE_DONE) {
            row_release(&row);
            break;
        }
        watched = row;
        rc = watch(w, &watched, p, e);
        if (rc != 0)
            break;
    }
    row_release(&watched);
    return rc;
}

static int make_lock(struct queue_worker *w, struct error *e)
{
    char text[37];
    struct buf name;
    buf_init(&name, 1u << 16);
    buf_printf(&name, "%s.worker-%s", w->q->db.path, clock_uuid_text(w->id.bytes, text));
    int rc = buf_check(&name, "name of the lock file", e);
    if (rc == 0) {
        w->lock_path = buf_take(&name);
        rc = lock_take(w->lock_path, &w->lock_fd, e);
    }
    buf_release(&name);
    return rc;
}

static void worker_free(struct queue_worker *w)
{
    if (w->lock_fd >= 0) {
        unlink(w->lock_path);
        close(w->lock_fd);
    }
    mem_free(w->lock_path);
    mem_free(w);
}

int queue_worker_open(struct queue *q, const struct queue_worker_options *opt,
                      bool (*stop)(void *ctx), void *stop_ctx, struct queue_worker **ret,
                      struct error *e)
{
    struct queue_worker *w = mem_zalloc(sizeof(*w));
    if (!w)
        return error_set(e, ERROR_NOMEM, "no memory for a worker");
    w->q = q;
    w->lock_fd = -1;
    w->beat_ms = opt->beat_ms > 0 ? opt->beat_ms : BEAT_MS;
    w->room_bytes = ROOM_BYTES;
    w->lease_ms =
        MAX_OF(opt->lease_ms > 0 ? opt->lease_ms : LEASE_MS, BEATS_PER_LEASE * w->beat_ms);
    clock_uuid7(w->id.bytes);
    int rc = make_lock(w, e);
    if (rc == 0)
        rc = become_worker(w, opt, (struct patience){stop, stop_ctx}, e);
    if (rc != 0) {
        worker_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

bool queue_worker_found_crashed(const struct queue_worker *w)
{
    return w->found_crashed;
}

int worker_fence(struct queue_worker *w, struct error *e)
{
    atomic_store(&w->fenced, true);
    return error_set(e, ERROR_FENCED, "database %s: another worker took over from this one",
                     w->q->db.path);
}

bool queue_worker_fenced(const struct queue_worker *w)
{
    return atomic_load(&w->fenced);
}

static int update_row(struct queue_worker *w, const char *sql, struct sql_arg value,
                      struct error *e)
{
    int rc = db_begin(&w->q->db, e);
    if (rc != 0)
        return rc;
    rc = db_run(&w->q->db, sql, SQL_ARGS(value, sql_int(w->key)), e);
    if (rc == 0 && db_changes(&w->q->db) != 1)
        rc = worker_fence(w, e);
    return db_end(&w->q->db, rc, e);
}

int queue_worker_status(struct queue_worker *w, struct str status_json, struct error *e)
{
    return update_row(w, "UPDATE worker SET status = ? WHERE id = ? AND ended_us IS NULL",
                      sql_text(status_json), e);
}

int queue_worker_stopping(struct queue_worker *w, struct str reason, struct error *e)
{
    return update_row(w, "UPDATE worker SET stopping = ? WHERE id = ? AND ended_us IS NULL",
                      sql_text(reason.ptr ? reason : str_of("stopping")), e);
}

static int mark_killed(struct queue *q, const struct worker_row *row, struct str why,
                       struct error *e)
{
    char *detail = NULL;
    int rc = event_reason(why, &detail, e);
    if (rc == 0)
        rc = db_run(&q->db, "UPDATE worker SET stopping = ? WHERE id = ?",
                    SQL_ARGS(sql_text(why), sql_int(row->key)), e);
    if (rc == 0)
        rc = db_run(&q->db, "INSERT OR REPLACE INTO control VALUES ('pause', ?), ('killed', '')",
                    SQL_ARGS(sql_text(why)), e);
    if (rc == 0)
        rc = event_add(q, "paused", (struct event_about){0}, detail, e);
    mem_free(detail);
    return rc;
}

int queue_worker_killed(struct queue *q, struct str why, bool *ret, struct error *e)
{
    struct worker_row row = {0};
    *ret = false;
    int rc = db_begin(&q->db, e);
    if (rc != 0)
        return rc;
    int found = row_read(q, &row, e);
    if (found == 1)
        found = same_boot(&row) ? lock_is_free(row.lock_path, e) : 0;
    rc = found < 0 ? found : 0;
    if (found == 1)
        rc = mark_killed(q, &row, why, e);
    row_release(&row);
    rc = db_end(&q->db, rc, e);
    *ret = rc == 0 && found == 1;
    return rc;
}

static int end_row(struct queue_worker *w, struct str reason, struct error *e)
{
    int64_t now_us = clock_wall_us();
    struct db *db = &w->q->db;
    int rc = db_run(db, "UPDATE worker SET ended_us = ?, end = ? WHERE id = ? AND ended_us IS NULL",
                    SQL_ARGS(sql_int(now_us), sql_text(reason.ptr ? reason : str_of("closed")),
                             sql_int(w->key)),
                    e);
    if (rc != 0 || db_changes(db) == 0)
        return rc; /* superseded: its jobs are somebody else's */
    return db_run(db,
                  "UPDATE job SET state = 'queued', queued_us = ?1, changed_us = ?1"
                  " WHERE worker_id = ?2 AND state = 'running'",
                  SQL_ARGS(sql_int(now_us), sql_int(w->key)), e);
}

void queue_worker_close(struct queue_worker *w, struct str reason)
{
    if (!w)
        return;
    beat_stop(w);
    /* Where this fails the row stays, and the free lock tells the next worker the same. */
    if (db_begin(&w->q->db, NULL) == 0)
        db_end(&w->q->db, end_row(w, reason, NULL), NULL);
    worker_free(w);
}
