#include "batch/stop.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* timeout(1) and some shells send one order twice, to the process and to its group. */
#define SAME_ORDER_US 300000

static void signal_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

static void *wait_for_signals(void *arg)
{
    struct stop *s = arg;
    sigset_t set;
    signal_set(&set);
    for (;;) {
        int number = 0;
        if (sigwait(&set, &number) != 0)
            continue;
        if (atomic_load(&s->signal) && stop_age_us(s) < SAME_ORDER_US)
            continue;
        if (atomic_load(&s->signal))
            _exit(128 + number);
        atomic_store(&s->since_us, clock_mono_us());
        atomic_store(&s->signal, number);
    }
    return NULL;
}

int stop_open(struct stop *s, struct error *e)
{
    memset(s, 0, sizeof(*s));
    sigset_t set;
    signal_set(&set);
    int sys = pthread_sigmask(SIG_BLOCK, &set, &s->before);
    if (sys == 0)
        sys = pthread_create(&s->thread, NULL, wait_for_signals, s);
    s->running = sys == 0;
    return sys ? error_sys(e, ERROR_NOMEM, sys, "no thread to receive signals") : 0;
}

void stop_close(struct stop *s)
{
    if (!s->running)
        return;
    pthread_cancel(s->thread);
    pthread_join(s->thread, NULL);
    pthread_sigmask(SIG_SETMASK, &s->before, NULL);
    s->running = false;
}

bool stop_asked(const struct stop *s)
{
    return atomic_load(&s->signal) != 0 || atomic_load(&s->fenced);
}

int stop_signal(const struct stop *s)
{
    return atomic_load(&s->signal);
}

void stop_fence(void *stop)
{
    struct stop *s = stop;
    atomic_store(&s->fenced, true);
}

int64_t stop_age_us(const struct stop *s)
{
    return atomic_load(&s->signal) ? clock_mono_us() - atomic_load(&s->since_us) : 0;
}
