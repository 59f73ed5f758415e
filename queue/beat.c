#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "queue/worker.h"

#define US_PER_MS 1000
#define US_PER_S 1000000

/* 0; -ERROR_FENCED when the row is not the live one any more. */
static int beat_once(struct queue_worker *w, struct error *e)
{
    struct db *db = &w->beat.db;
    int rc = db_begin(db, e);
    if (rc != 0)
        return rc;
    rc = db_run(db,
                "UPDATE worker SET beats = beats + 1, beat_us = ? WHERE id = ? AND uid = ?"
                " AND ended_us IS NULL",
                SQL_ARGS(sql_int(clock_boot_us()), sql_int(w->key),
                         sql_blob(w->id.bytes, sizeof(w->id.bytes))),
                e);
    if (rc == 0 && db_changes(db) != 1)
        rc = error_set(e, ERROR_FENCED, "another worker took over");
    return db_end(db, rc, e);
}

/* Sleeps for one beat, or until the stop. */
static bool wait_or_stop(struct queue_worker *w)
{
    struct beat *b = &w->beat;
    int64_t until_us = clock_mono_us() + (int64_t)w->beat_ms * US_PER_MS;
    const struct timespec until = {.tv_sec = until_us / US_PER_S,
                                   .tv_nsec = until_us % US_PER_S * 1000};
    pthread_mutex_lock(&b->mu);
    int rc = 0;
    while (!b->stop && rc == 0)
        rc = pthread_cond_timedwait(&b->wake, &b->mu, &until);
    bool stop = b->stop;
    pthread_mutex_unlock(&b->mu);
    return stop;
}

/* A beat that fails for another reason (busy, full disk) is simply late: the next one may succeed. */
static void *beat_thread(void *arg)
{
    struct queue_worker *w = arg;
    while (!wait_or_stop(w)) {
        if (beat_once(w, NULL) != -ERROR_FENCED)
            continue;
        atomic_store(&w->fenced, true);
        if (w->beat.fenced)
            w->beat.fenced(w->beat.ctx);
        break;
    }
    return NULL;
}

static int init_wake(struct beat *b)
{
    pthread_condattr_t attr;
    int sys = pthread_condattr_init(&attr);
    if (sys != 0)
        return sys;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    sys = pthread_cond_init(&b->wake, &attr);
    pthread_condattr_destroy(&attr);
    if (sys == 0)
        sys = pthread_mutex_init(&b->mu, NULL);
    return sys;
}

/*
 * A beat lost with the machine is nobody's loss: it goes to the kernel, not to the disk, which may rest
 * while the worker waits. What others commit is flushed with the beats before it, as ever.
 */
static int open_beat(struct queue_worker *w, struct error *e)
{
    struct db *db = &w->beat.db;
    int rc = db_open(db, w->q->db.path, SQLITE_OPEN_READWRITE, w->beat_ms, e);
    if (rc == 0)
        rc = db_configure(db, e);
    if (rc == 0)
        rc = db_exec(db, "PRAGMA synchronous = NORMAL", e);
    if (rc != 0)
        db_close(db);
    return rc;
}

int queue_worker_beat(struct queue_worker *w, void (*fenced)(void *ctx), void *ctx, struct error *e)
{
    struct beat *b = &w->beat;
    b->fenced = fenced;
    b->ctx = ctx;
    b->stop = false;
    int rc = open_beat(w, e);
    if (rc != 0)
        return rc;
    int sys = init_wake(b);
    if (sys == 0)
        sys = pthread_create(&b->thread, NULL, beat_thread, w);
    if (sys != 0) {
        db_close(&b->db);
        return error_sys(e, ERROR_NOMEM, sys, "the worker's beat has no thread");
    }
    b->running = true;
    return 0;
}

void beat_stop(struct queue_worker *w)
{
    struct beat *b = &w->beat;
    if (!b->running)
        return;
    pthread_mutex_lock(&b->mu);
    b->stop = true;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->mu);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->wake);
    pthread_mutex_destroy(&b->mu);
    db_close(&b->db);
    b->running = false;
}
