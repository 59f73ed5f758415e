/*
 * What hooks are told of a run. Batches that finished and requests that the queue gave up are read from
 * its log of events, because people and the scan finish some, too. Failures to read it harm nothing.
 */
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "batch/database.h"
#include "batch/hook.h"
#include "batch/view.h"
#include "batch/worker/parts.h"

/* At one look; what is left then waits for the next change. */
#define EVENTS_MAX 20000
#define REASON_MAX_BYTES 4096

static void warn(void *context, const char *text)
{
    struct worker *w = context;
    cJSON *detail = cJSON_CreateObject();
    cJSON_AddStringToObject(detail, "text", text);
    report_say(&w->report, LOG_WARN, "%s", text);
    worker_note(w, "hook_failed", detail);
}

static bool hurried(void *context)
{
    const struct worker *w = context;
    return stop_asked(w->stop);
}

int worker_hook_open(struct worker *w, struct error *e)
{
    if (!w->o->hook || !*w->o->hook)
        return 0;
    const struct hook_options o = {.command = w->o->hook,
                                   .database = queue_path(w->queue),
                                   .model = w->model,
                                   .timeout_us = w->o->hook_timeout_us,
                                   .warn = warn,
                                   .hurried = hurried,
                                   .context = w};
    int rc = hook_open(&w->hook, &o, e);
    return rc ? rc : queue_events_last(w->queue, &w->hook_key, e);
}

void worker_hook_close(struct worker *w)
{
    const bool fenced = atomic_load(&w->stop->fenced);
    /* The last thing that is told has its chance when the one before it hangs. */
    const int64_t most_us = 2 * w->o->hook_timeout_us;
    hook_close(w->hook, fenced ? 0 : most_us);
    w->hook = NULL;
}

/* ---- Requests --------------------------------------------------------------------------------- */

static cJSON *failure(struct queue_id request, struct queue_id batch, const char *custom_id)
{
    char id[37];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", database_id_text(request, id));
    cJSON_AddStringToObject(o, "batch", database_id_text(batch, id));
    cJSON_AddStringToObject(o, "custom_id", custom_id);
    return o;
}

void worker_hook_failed(struct worker *w, const struct running *r)
{
    if (!w->hook)
        return;
    cJSON *o = failure(r->claim->request, r->claim->batch, r->claim->custom_id);
    cJSON_AddStringToObject(o, "code", r->finish);
    cJSON_AddStringToObject(o, "message", r->failure.text);
    hook_tell_failed(w->hook, o);
}

/* It died with the worker once too often, before this one began. */
static void tell_crashed(struct worker *w, const struct queue_event *event)
{
    struct queue_show s = {0};
    if (queue_show(w->queue, event->request, &s, NULL) != 0)
        return;
    cJSON *stored = s.result_json ? view_parse(s.result_json) : NULL;
    const char *text = view_error_text(stored);
    cJSON *o = failure(s.request.id, s.request.batch, s.request.custom_id);
    cJSON_AddStringToObject(o, "code", s.request.finish ? s.request.finish : "worker_crashed");
    cJSON_AddStringToObject(o, "message", text ? text : "");
    hook_tell_failed(w->hook, o);
    cJSON_Delete(stored);
    queue_show_release(&s);
}

/* ---- Batches ---------------------------------------------------------------------------------- */

static void tell_finished(struct worker *w, const struct queue_event *event)
{
    struct queue_batches b = {0};
    if (queue_batch(w->queue, event->batch, &b, NULL) == 0 && b.n == 1 && b.item[0].finished_us) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddItemToObject(o, "batch", view_batch(&b.item[0]));
        hook_tell(w->hook, "finished", o);
    }
    queue_batches_release(&b);
}

void worker_hook_look(struct worker *w)
{
    size_t seen = 0, n = 1;
    while (w->hook && n > 0 && seen < EVENTS_MAX) {
        struct queue_events events = {0};
        if (queue_events(w->queue, w->hook_key, QUEUE_LIST_ROWS, &events, NULL) != 0)
            return;
        for (size_t i = 0; i < events.n; i++) {
            if (strcmp(events.item[i].kind, "batch_finished") == 0)
                tell_finished(w, &events.item[i]);
            else if (strcmp(events.item[i].kind, "crashed") == 0)
                tell_crashed(w, &events.item[i]);
        }
        n = events.n;
        seen += n;
        w->hook_key = events.next_key;
        queue_events_release(&events);
    }
}

void worker_hook_drained(struct worker *w, const struct queue_counts *counts)
{
    if (!w->hook || w->n_ended == w->hook_ended)
        return;
    worker_hook_look(w);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "done", (double)w->report.n_done);
    cJSON_AddNumberToObject(o, "failed", (double)w->report.n_failed);
    cJSON_AddNumberToObject(o, "seconds", (double)(clock_mono_us() - w->report.started_us) / 1e6);
    cJSON_AddItemToObject(o, "requests", view_counts(counts));
    hook_tell(w->hook, "drained", o);
    w->hook_ended = w->n_ended;
}

/* ---- Standing still --------------------------------------------------------------------------- */

/* What the person who paused the queue said. */
static void add_reason(struct worker *w, cJSON *o)
{
    struct buf reason;
    bool paused = false;
    buf_init(&reason, REASON_MAX_BYTES);
    if (queue_paused(w->queue, &paused, &reason, NULL) == 0 && paused && reason.len > 0)
        cJSON_AddStringToObject(o, "reason", reason.ptr);
    buf_release(&reason);
}

void worker_hook_paused(struct worker *w, const char *by, const char *why)
{
    if (!w->hook || w->hook_paused == by)
        return;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "by", by);
    cJSON_AddStringToObject(o, "why", why);
    if (strcmp(by, "queue") == 0)
        add_reason(w, o);
    hook_tell(w->hook, "paused", o);
    w->hook_paused = by;
}

void worker_hook_resumed(struct worker *w)
{
    if (w->hook && w->hook_paused) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "by", w->hook_paused);
        hook_tell(w->hook, "resumed", o);
    }
    w->hook_paused = NULL;
}

/* The end of a window is no surprise to anybody, and while what runs may finish nothing stands still. */
void worker_hook_gate(struct worker *w)
{
    if (w->gate.stand == GATE_OPEN)
        worker_hook_resumed(w);
    else if (w->gate.stand >= GATE_HOLD && strcmp(w->gate.name, "window") != 0)
        worker_hook_paused(w, w->gate.name, w->gate.why);
}
