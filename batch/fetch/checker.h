/*
 * Reads one file back and hashes it, on a thread of its own: connections that nobody serves meanwhile
 * would be closed by their servers.
 *
 * Owns the thread. Threads: all functions from the one that owns the checker; the thread only calls
 * `wake` when it is through.
 */
#ifndef BATCH_FETCH_CHECKER_H
#define BATCH_FETCH_CHECKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "batch/fetch/digest.h"

struct checker {
    pthread_t thread;
    bool running;
    atomic_bool finished, stop;
    atomic_ullong done_bytes;
    const char *path;
    void (*wake)(void *context);
    void *context;
    int rc;
    struct digest digest;
    struct error error;
};

/* path: the caller's, until checker_take or checker_stop. */
int checker_start(struct checker *c, const char *path, void (*wake)(void *context), void *context,
                  struct error *e);
/* Whether it is through: then *ret_rc is what digest_file returned, and the rest is as it left it. */
bool checker_take(struct checker *c, int *ret_rc);
/* Ends it early; without one running a no-op. */
void checker_stop(struct checker *c);

#endif
