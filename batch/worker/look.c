/* What others have done to the queue meanwhile: pauses, cancellations, new work, times come. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "batch/view.h"
#include "batch/worker/parts.h"

#define LOOK_EVERY_US 200000
#define SCAN_EVERY_US 30000000
#define IDLE_SLEEP_US 50000
/* A drain waits for a job that is due this soon: one that was put off after a fault, say. */
#define DRAIN_PATIENCE_US INT64_C(300000000)

static int scan(struct worker *w, struct error *e)
{
    bool more = true;
    int rc = 0;
    while (rc == 0 && more && !stop_asked(w->stop))
        rc = queue_scan(w->queue, &more, e);
    return rc;
}

/* Drops what was cancelled while it had nothing to save. */
static int drop_refused(struct worker *w, struct error *e)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n_slots; i++) {
        struct running *r = &w->run[i];
        if (!r->used)
            continue;
        w->progress[n] =
            (struct queue_progress){.job = r->claim->job, .attempt = r->claim->attempt};
        w->of[n++] = r;
    }
    int rc = n ? queue_check_attempts(w->queue, w->progress, n, e) : 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (w->progress[i].refused)
            worker_drop(w, w->of[i]);
    }
    return rc;
}

int gate_queue(struct worker *w, struct gate_view *ret, struct error *e)
{
    (void)e;
    ret->stand = w->paused ? GATE_SHUT : GATE_OPEN;
    ret->lasting = true;
    snprintf(ret->why, sizeof(ret->why), "paused; 'nocturne resume' goes on");
    return 0;
}

static int look_at_queue(struct worker *w, struct error *e)
{
    const int64_t now_us = clock_mono_us();
    bool changed = false;
    int rc = queue_watch_poll(w->watch, &changed, e);
    if (rc || (!changed && now_us < w->next_scan_us))
        return rc;
    /* Until the scan is through nothing is judged, and a scan that failed is due again. */
    w->next_scan_us = now_us;
    w->fresh = false;
    rc = scan(w, e);
    if (rc == 0) {
        w->next_scan_us = now_us + SCAN_EVERY_US;
        w->fresh = true;
    }
    if (rc == 0)
        rc = drop_refused(w, e);
    if (rc == 0)
        rc = queue_paused(w->queue, &w->paused, NULL, e);
    if (rc)
        w->next_scan_us = 0; /* what has changed has not been seen to */
    else
        worker_hook_look(w);
    return rc;
}

int worker_look(struct worker *w, struct error *e)
{
    const int64_t now_us = clock_mono_us();
    if (now_us < w->next_look_us)
        return 0;
    w->next_look_us = now_us + LOOK_EVERY_US;
    int rc = look_at_queue(w, e);
    if (rc == 0)
        rc = worker_gates(w, e);
    worker_stay_awake(w);
    worker_survived(w);
    return rc;
}

int worker_idle(struct worker *w, bool *ret_drained, struct error *e)
{
    *ret_drained = false;
    worker_moved(w);
    if (!w->fresh) {
        clock_sleep_us(IDLE_SLEEP_US);
        return 0;
    }
    w->fresh = false;
    struct queue_status s = {0};
    int rc = queue_status(w->queue, NULL, &s, e);
    if (rc)
        return rc;
    int64_t due_us = s.next_not_before_us ? s.next_not_before_us - clock_wall_us() : INT64_MAX;
    if (due_us < SCAN_EVERY_US)
        w->next_scan_us = clock_mono_us() + MAX_OF(due_us, (int64_t)0);
    bool left = s.counts.state[QUEUE_QUEUED] || s.counts.state[QUEUE_RUNNING] ||
                s.counts.held_submitting || due_us < DRAIN_PATIENCE_US;
    *ret_drained = w->o->drain && !left;
    if (!left)
        worker_hook_drained(w, &s.counts);
    if (*ret_drained && s.counts.state[QUEUE_HELD])
        report_say(&w->report, LOG_INFO, "%llu requests are held and were left",
                   (unsigned long long)s.counts.state[QUEUE_HELD]);
    queue_status_release(&s);
    return 0;
}

bool worker_work_left(struct worker *w)
{
    struct queue_status s = {0};
    bool left = queue_status(w->queue, NULL, &s, NULL) == 0 && view_unfinished(&s.counts) > 0;
    queue_status_release(&s);
    return left;
}

int worker_report(struct worker *w, struct error *e)
{
    struct queue_status s = {0};
    struct engine_step step;
    char more[64] = "";
    engine_step(w->engine, &step);
    if (step.n_rows > 0) /* a long one, suspended to say so */
        snprintf(more, sizeof(more), ", %u tokens at layer %u of %u", step.n_rows, step.layer,
                 step.n_layers);
    int rc = queue_status(w->queue, NULL, &s, e);
    if (rc == 0) {
        report_progress(&w->report, &s.counts, (unsigned)w->n_used, more);
        notify_send(&w->notify, "STATUS=working: %llu of %llu finished, %u running%s",
                    (unsigned long long)(s.counts.total - view_unfinished(&s.counts)),
                    (unsigned long long)s.counts.total, (unsigned)w->n_used, more);
    }
    queue_status_release(&s);
    return rc;
}
