/*
 * Being asked to stop: SIGTERM, SIGINT and SIGHUP, received by a thread of their own, or a time that
 * has come.
 *
 * Owns the thread. Stays true: the first signal only takes a note, which the worker reads between the
 * layers of a step; the second ends the process at once with 128 + its number, whatever the worker is
 * doing. The signals are blocked in the thread that calls stop_open and in all that it starts
 * afterwards, so nothing else is ever interrupted. No global state.
 *
 * Threads: stop_open and stop_close from one thread before and after all others; the rest from any.
 */
#ifndef BATCH_STOP_H
#define BATCH_STOP_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct stop {
    pthread_t thread;
    sigset_t before;
    bool running;
    int64_t until_us;      /* wall time to stop at; 0: none */
    atomic_int signal;     /* the first one, 0: none */
    atomic_bool over;      /* that time has come */
    atomic_llong since_us; /* monotonic time of what came */
    atomic_bool fenced;    /* superseded: stop at once and write nothing */
};

int stop_open(struct stop *s, struct error *e);
/* The same, and when the wall clock shows that time (0: never) it is as if a first signal had come. */
int stop_open_until(struct stop *s, int64_t until_us, struct error *e);
void stop_close(struct stop *s); /* a zeroed struct is fine */
/* Whether to come to an end, for any reason. */
bool stop_asked(const struct stop *s);
/* The signal, or 0. */
int stop_signal(const struct stop *s);
void stop_fence(void *stop);
/* Whether the time has come. */
bool stop_over(const struct stop *s);
/* How long ago the signal or the time came, in microseconds; 0 without one. */
int64_t stop_age_us(const struct stop *s);

#endif
