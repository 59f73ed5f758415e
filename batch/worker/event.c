/* What the engine says, turned into what is saved. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "batch/database.h"
#include "batch/worker/parts.h"
#include "jobs/response.h"

/* Steps that fail in a row before the run ends: a disk or memory that stays broken. */
#define FAILED_STEPS_MAX 3
/* Reads of one file of the model, successes between or not. */
#define FILE_FAILURES_MAX 3
/* How often a fault that is not known to pass may return a job before it is the job's answer. */
#define STRANGE_RETRIES_MAX 3

static struct running *find(struct worker *w, uint64_t tag)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        if (w->run[i].used && (uint64_t)w->run[i].claim->job == tag)
            return &w->run[i];
    }
    return NULL;
}

/* ---- The end of a job ------------------------------------------------------------------------- */

static void set_end(struct running *r, enum queue_end_kind kind, const char *finish, int http)
{
    snprintf(r->finish, sizeof(r->finish), "%s", finish);
    r->end = (struct queue_end){.job = r->claim->job,
                                .attempt = r->claim->attempt,
                                .kind = kind,
                                .json = buf_str(&r->json),
                                .finish = str_of(r->finish),
                                .http = http};
    r->ended = true;
}

static enum queue_end_kind judge(const struct running *r, const struct error *failure)
{
    const struct error_info *info = error_describe(failure->code);
    if (info->fault == ERROR_FAULT_JOB)
        return QUEUE_END_FAILED;
    bool strange = !info->retry && r->claim->retries >= STRANGE_RETRIES_MAX;
    return strange ? QUEUE_END_FAILED : QUEUE_END_RETRY;
}

int worker_fail(struct worker *w, struct running *r, const struct error *failure,
                const struct job_refusal *why, struct error *e)
{
    const struct job_kind *kind = job_kind_find(str_of(r->claim->endpoint));
    buf_clear(&r->json);
    r->failure = *failure;
    int rc = job_error_json(&r->json, kind ? kind : job_kind_at(0), failure, why, e);
    if (rc)
        return rc;
    char finish[32];
    snprintf(finish, sizeof(finish), "%s", error_describe(failure->code)->name);
    for (char *c = finish; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
    set_end(r, judge(r, failure), finish, job_error_status(failure));
    if (r->end.kind == QUEUE_END_RETRY)
        report_say(&w->report, LOG_WARN, "'%s' goes back to the queue: %s", r->claim->custom_id,
                   failure->text);
    return 0;
}

static int finish(struct worker *w, struct running *r, const struct engine_event *event,
                  struct error *e)
{
    char id[37], ids_hex[65];
    uint8_t ids[32];
    sha256_end(&r->ids, ids);
    sha256_hex(ids, ids_hex);
    struct job_answer answer = {
        .id = str_of(database_id_text(r->claim->request, id)),
        .tokens_sha256 = str_of(ids_hex),
        .created_s = clock_wall_us() / 1000000,
        .model = str_of(w->model),
        .fingerprint = str_of(w->info.fingerprint),
        .text = event->text,
        .reasoning = event->reasoning,
        .in_thought = event->in_thought,
        .seed = r->seed,
        .finish = event->finish,
        .detail = event->detail,
        .usage = event->usage,
        .timing = {.queued_ms = r->queued_ms,
                   .load_ms = r->load_ms,
                   .attempts = r->claim->attempt,
                   .peak_bytes = ledger_total_peak(w->ledger)},
    };
    buf_clear(&r->json);
    int rc = job_answer_json(&r->json, r->kind, &answer, e);
    if (rc)
        return rc;
    set_end(r, QUEUE_END_DONE, event->finish == ENGINE_FINISH_LENGTH ? "length" : "stop", 200);
    r->empty = job_answer_empty(&answer);
    r->end.empty = str_of(r->empty);
    return 0;
}

/* ---- Events ----------------------------------------------------------------------------------- */

static int take_token(struct worker *w, struct running *r, const struct engine_event *event,
                      struct error *e)
{
    buf_append(&r->tokens, &event->token, sizeof(event->token));
    sha256_add(&r->ids, &event->token, sizeof(event->token));
    buf_append_str(&r->text, event->text);
    if (!r->begun)
        w->next_save_us = 0; /* the first of an attempt is saved at once */
    r->n_decoded++;
    w->report.decode_tokens++;
    int rc = buf_check(&r->tokens, "tokens", e);
    return rc ? rc : buf_check(&r->text, "text", e);
}

static int take_event(struct worker *w, const struct engine_event *event, struct error *e)
{
    struct running *r = find(w, event->tag);
    if (!r)
        return 0;
    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        return take_token(w, r, event, e);
    case ENGINE_EVENT_PREFILL:
        if (event->prefilled > r->prefilled) {
            w->report.prompt_tokens += event->prefilled - r->prefilled;
            r->prefilled = event->prefilled;
        }
        return 0;
    case ENGINE_EVENT_DONE:
    case ENGINE_EVENT_FAILED:
        break;
    }
    r->usage = event->usage;
    w->offer = true;
    w->next_save_us = 0;
    return event->kind == ENGINE_EVENT_DONE ? finish(w, r, event, e)
                                            : worker_fail(w, r, &event->error, NULL, e);
}

/* A step that failed took every sequence with it; their jobs go back as they are. */
static int step_failed(struct worker *w, struct error *why, struct error *e)
{
    report_say(&w->report, LOG_WARN, "a step failed, its jobs go back to the queue: %s", why->text);
    worker_note_text(w, "step_failed", why->text);
    int rc = worker_give_back(w, e);
    if (rc)
        return rc;
    struct engine_counters counters;
    engine_counters(w->engine, &counters);
    if (counters.worst_file_failures >= FILE_FAILURES_MAX) {
        *e = *why;
        return error_wrap(e, "a file of the model failed %u times", counters.worst_file_failures);
    }
    if (++w->n_failed_steps >= FAILED_STEPS_MAX) {
        *e = *why;
        return error_wrap(e, "%d steps in a row failed", FAILED_STEPS_MAX);
    }
    return 0;
}

int worker_step(struct worker *w, struct error *e)
{
    struct engine_event event;
    struct error why = {0};
    w->slice_since_us = w->layer_since_us = clock_mono_us();
    int n = engine_poll(w->engine, &event, &why);
    worker_moved(w);
    if (n == -ERROR_INTERRUPTED)
        return 0; /* suspended: the next call goes on, or a stop keeps it */
    if (n < 0)
        return step_failed(w, &why, e);
    if (n > 0) {
        w->n_failed_steps = 0;
        return take_event(w, &event, e);
    }
    return 0;
}

int worker_take_events(struct worker *w, struct error *e)
{
    struct engine_event event;
    int rc = 0;
    while (rc == 0 && w->engine && engine_has_event(w->engine)) {
        rc = engine_poll(w->engine, &event, e);
        if (rc > 0)
            rc = take_event(w, &event, e);
    }
    return rc;
}
