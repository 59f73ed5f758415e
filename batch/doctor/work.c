/* The queue: what waits, who works on it, and how long it will take. */
#include <stdio.h>

#include "base/clock.h"
#include "batch/doctor/doctor.h"
#include "batch/view.h"

void doctor_queue(struct doctor *d)
{
    const struct queue_counts *c = &d->status.counts;
    const char *reason = d->status.pause_reason ? d->status.pause_reason : "";
    if (!d->queue)
        return;
    if (d->status.paused)
        doctor_say(d, DOCTOR_PROBLEM, "nocturne resume", "paused: no job will start%s%s",
                   *reason ? "; " : "", reason);
    const uint64_t waiting = c->state[QUEUE_QUEUED] + c->state[QUEUE_RUNNING];
    const bool empty = waiting + c->state[QUEUE_HELD] == 0;
    doctor_say(d, empty ? DOCTOR_NOTE : DOCTOR_OK, empty ? "nocturne submit FILE..." : NULL,
               "%llu of %llu requests wait, %llu are held, %llu are done, %llu failed",
               (unsigned long long)waiting, (unsigned long long)c->total,
               (unsigned long long)c->state[QUEUE_HELD], (unsigned long long)c->state[QUEUE_DONE],
               (unsigned long long)c->state[QUEUE_FAILED]);
    doctor_value(d, "waiting", (double)waiting);
    doctor_value(d, "held", (double)c->state[QUEUE_HELD]);
    if (c->held_user)
        doctor_say(d, DOCTOR_NOTE, NULL, "%llu are held by a person and will not run",
                   (unsigned long long)c->held_user);
}

void doctor_worker(struct doctor *d)
{
    const struct queue_worker_info *w = &d->status.worker;
    const int64_t silent_us = w->beat_age_ms * 1000;
    char mend[160], size[24], age[24];
    if (!d->queue)
        return;
    if (!w->present) {
        doctor_say(d, DOCTOR_NOTE, "nocturne run -m MODEL", "none is running");
    } else if (!w->alive) {
        doctor_say(d, DOCTOR_WARNING, "nocturne run -m MODEL: it takes over at once",
                   "pid %d died and nobody has taken over", w->pid);
    } else if (silent_us > 2 * d->lease_us) {
        snprintf(mend, sizeof(mend), "kill -9 %d; the next worker takes over at once", w->pid);
        doctor_say(d, DOCTOR_PROBLEM, mend, "pid %d hangs: it has not moved for %s", w->pid,
                   str_format_duration(silent_us / 1000000, age));
    } else {
        doctor_say(d, DOCTOR_OK, NULL, "pid %d, %s planned%s%s", w->pid,
                   str_format_size(w->planned_bytes, size), w->stopping ? ", stopping: " : "",
                   w->stopping ? w->stopping : "");
        doctor_value(d, "pid", w->pid);
    }
}

/* The length of the window that is open, or of the next one; WINDOW_NEVER: it does not close. */
static int64_t night_us(const struct windows *w, int64_t now_us)
{
    struct window_view v;
    windows_at(w, now_us, &v);
    if (!v.inside && v.change_us != WINDOW_NEVER) {
        now_us = v.change_us;
        windows_at(w, now_us, &v);
    }
    return v.change_us == WINDOW_NEVER ? WINDOW_NEVER : v.change_us - now_us;
}

static void say_end(struct doctor *d, int64_t work_us)
{
    char duration[24], night[24], at[32];
    const int64_t now_us = clock_wall_us();
    const int64_t end_us = windows_after(&d->windows, now_us, work_us);
    const int64_t window_us = night_us(&d->windows, now_us);
    str_format_duration(work_us / 1000000, duration);
    view_time(end_us == WINDOW_NEVER ? 0 : end_us, at);
    if (window_us != WINDOW_NEVER && work_us > window_us)
        doctor_say(d, DOCTOR_WARNING, "submit less, widen --window, or let it go on the next night",
                   "%s of work, more than the %s of the window; done around %s", duration,
                   str_format_duration(window_us / 1000000, night), at);
    else
        doctor_say(d, DOCTOR_OK, NULL, "%s at the rate measured so far; done around %s", duration,
                   at);
    doctor_value(d, "seconds", (double)work_us * 1e-6);
}

void doctor_time_needed(struct doctor *d)
{
    struct queue_measure m = {0};
    if (!d->queue)
        return;
    const uint64_t left = view_unfinished(&d->status.counts) - d->status.counts.held_user;
    if (left == 0)
        return;
    if (queue_measured(d->queue, &m, NULL) != 0 || m.n_attempts == 0 || m.busy_us <= 0)
        doctor_say(d, DOCTOR_NOTE, NULL, "unknown until a first request is done");
    else
        say_end(d, (int64_t)((double)left * (double)m.busy_us / (double)m.n_attempts));
}
