#include "batch/stop.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"

/* The wall clock may be set meanwhile: nobody sleeps until then, but looks again and again. */
#define LOOK_US INT64_C(500000)

/* timeout(1) and some shells send one order twice, to the process and to its group. */
#define SAME_ORDER_US 300000

static void signal_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

/* The next signal; 0: none yet. */
static int next_signal(const struct stop *s, const sigset_t *set)
{
    int number = 0;
    if (s->until_us) {
        const int64_t left_us = s->until_us - clock_wall_us();
        const int64_t look_us = left_us > 0 ? MIN_OF(left_us, LOOK_US) : LOOK_US;
        const struct timespec look = {.tv_nsec = look_us * 1000};
        number = sigtimedwait(set, NULL, &look);
    } else if (sigwait(set, &number) != 0)
        number = 0;
    return number > 0 ? number : 0;
}

static void look_at_clock(struct stop *s)
{
    if (!s->until_us || clock_wall_us() < s->until_us || stop_asked(s))
        return;
    atomic_store(&s->since_us, clock_mono_us());
    atomic_store(&s->over, true);
}

static void *wait_for_signals(void *arg)
{
    struct stop *s = arg;
    sigset_t set;
    signal_set(&set);
    for (;;) {
        const int number = next_signal(s, &set);
        look_at_clock(s);
        if (!number || (atomic_load(&s->signal) && stop_age_us(s) < SAME_ORDER_US))
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
    return stop_open_until(s, 0, e);
}

int stop_open_until(struct stop *s, int64_t until_us, struct error *e)
{
    memset(s, 0, sizeof(*s));
    s->until_us = until_us;
    look_at_clock(s); /* one that is over begins nothing */
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
    return atomic_load(&s->signal) != 0 || atomic_load(&s->over) || atomic_load(&s->fenced);
}

int stop_signal(const struct stop *s)
{
    return atomic_load(&s->signal);
}

bool stop_over(const struct stop *s)
{
    return atomic_load(&s->over);
}

void stop_fence(void *stop)
{
    struct stop *s = stop;
    atomic_store(&s->fenced, true);
}

int64_t stop_age_us(const struct stop *s)
{
    const bool came = atomic_load(&s->signal) || atomic_load(&s->over);
    return came ? clock_mono_us() - atomic_load(&s->since_us) : 0;
}
