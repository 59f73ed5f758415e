/*
 * The worker's row, its lock file and its beat, shared by worker.c, beat.c, claim.c and suspects.c.
 *
 * Stays true: the lock file is held from before the row exists until after it ended, so a free lock
 * means a dead holder. `fenced` only ever goes from false to true.
 */
#ifndef QUEUE_WORKER_H
#define QUEUE_WORKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "queue/internal.h"

struct beat {
    struct db db; /* the thread's own connection */
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t wake;
    bool stop; /* guarded by mu */
    bool running;
    void (*fenced)(void *ctx);
    void *ctx;
};

struct queue_worker {
    struct queue *q;
    int64_t key;
    int64_t run;         /* its record; 0: none was begun */
    int64_t run_boot_us; /* when it was */
    struct queue_id id;
    char *lock_path;
    int lock_fd;
    int beat_ms, lease_ms;
    size_t room_bytes;  /* of bodies in one claim */
    bool found_crashed; /* taking over ended a request with worker_crashed */
    atomic_bool fenced;
    struct beat beat;
};

/* A row of the worker table as a newcomer sees it. */
struct worker_row {
    int64_t key;
    int64_t beats;
    int pid;
    uint64_t planned_bytes;
    char *boot_id;
    char *lock_path;
    char *stopping;
};

/* Marks the worker as fenced and says so. */
int worker_fence(struct queue_worker *w, struct error *e);

/* 1 when the lock at that path can be taken or is gone (its holder is dead), 0 when it is held. */
int lock_is_free(const char *path, struct error *e);
/* For those who only look: whether somebody holds it. Takes the lock shared for an instant at most. */
bool lock_is_held(const char *path);
int lock_take(const char *path, int *ret_fd, struct error *e);

void beat_stop(struct queue_worker *w);

/*
 * The worker of that row is dead or superseded: its running jobs go back to the queue, by the rules
 * of suspects.c, and the row ends with `end`. In the caller's transaction.
 * explained: no job is to blame. *ret_failed: one was, and has failed with worker_crashed.
 */
int worker_bury(struct queue *q, const struct worker_row *row, bool explained, const char *end,
                bool *ret_failed, struct error *e);

#endif
