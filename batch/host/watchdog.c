#include "batch/host/watchdog.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"

#define LOOKS 4

/* Sleeps until the next look; true: that was the last one. */
static bool wait_for_look(struct watchdog *w)
{
    const int64_t until_us = clock_mono_us() + w->look_us;
    const struct timespec until = {.tv_sec = until_us / 1000000,
                                   .tv_nsec = until_us % 1000000 * 1000};
    int sys = 0;
    while (!w->ending && sys != ETIMEDOUT)
        sys = pthread_cond_clockwait(&w->end, &w->lock, CLOCK_MONOTONIC, &until);
    return w->ending;
}

static void *look(void *context)
{
    struct watchdog *w = context;
    uint64_t pinged_at = atomic_load(w->moved);
    pthread_mutex_lock(&w->lock);
    while (!wait_for_look(w)) {
        const uint64_t moved = atomic_load(w->moved);
        if (moved != pinged_at)
            notify_send(w->notify, "WATCHDOG=1");
        pinged_at = moved;
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int watchdog_open(struct watchdog *w, const struct notify *n, int64_t interval_us,
                  const _Atomic uint64_t *moved, struct error *e)
{
    *w = (struct watchdog){.notify = n, .moved = moved};
    w->look_us = interval_us / LOOKS;
    if (w->look_us <= 0 || n->fd < 0)
        return 0;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->end, NULL);
    int sys = pthread_create(&w->thread, NULL, look, w);
    w->running = sys == 0;
    return sys ? error_sys(e, ERROR_NOMEM, sys, "no thread for the watchdog") : 0;
}

void watchdog_close(struct watchdog *w)
{
    if (!w->running)
        return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_cond_signal(&w->end);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->end);
    pthread_mutex_destroy(&w->lock);
    w->running = false;
}
