/*
 * The worker as a part of the machine: the service manager hears how it goes and that it lives, and the
 * machine does not go to sleep under it.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "batch/worker/parts.h"

/* A queue that is empty for a moment lets nobody fall asleep. */
#define AWAKE_US INT64_C(30000000)

int worker_service_open(struct worker *w, struct error *e)
{
    if (notify_open(&w->notify, w->o->notify_socket, e) != 0) {
        report_say(&w->report, LOG_WARN, "the service manager is not told anything: %s",
                   e ? e->text : "");
        error_clear(e);
    }
    return watchdog_open(&w->watchdog, &w->notify, w->o->watchdog_us, &w->moved, e);
}

void worker_service_close(struct worker *w)
{
    inhibit_release(&w->inhibit);
    watchdog_close(&w->watchdog);
    notify_close(&w->notify);
}

void worker_moved(struct worker *w)
{
    atomic_fetch_add(&w->moved, 1);
}

void worker_stay_awake(struct worker *w)
{
    const int64_t now_us = clock_mono_us();
    const bool works = w->loading || (w->engine && w->n_used > 0);
    if (works)
        w->worked_us = now_us;
    if (works || (w->gate.stand < GATE_HOLD && w->inhibit.pid && now_us - w->worked_us < AWAKE_US))
        inhibit_hold(&w->inhibit, "works on its queue");
    else
        inhibit_release(&w->inhibit);
}
