/*
 * The service manager's watchdog: a ping for as long as something moves.
 *
 * Owns a thread that looks at a counter and sends WATCHDOG=1 if it has grown since the last ping, four
 * times in the manager's interval. Whoever works counts: a layer, a read that came back, bytes of the
 * load, a token, a look at a queue that has nothing. A worker that waits for a read that never comes back,
 * or for a lock that nobody opens, counts nothing, is not pinged for, and the manager ends it.
 */
#ifndef BATCH_HOST_WATCHDOG_H
#define BATCH_HOST_WATCHDOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "batch/host/notify.h"

struct watchdog {
    const struct notify *notify;
    const _Atomic uint64_t *moved;
    int64_t look_us;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t end;
    bool running, ending;
};

/* interval_us is $WATCHDOG_USEC; 0: there is none, and nothing is done. `w` stays where it is. */
int watchdog_open(struct watchdog *w, const struct notify *n, int64_t interval_us,
                  const _Atomic uint64_t *moved, struct error *e);
void watchdog_close(struct watchdog *w); /* a zeroed one is fine */

#endif
