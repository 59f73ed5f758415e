#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "batch/command.h"
#include "batch/database.h"
#include "batch/view.h"
#include "batch/when.h"
#include "batch/window.h"

/* What the worker says of itself, or NULL. */
static cJSON *worker_status(const struct queue_status *s)
{
    return s->worker.present && s->worker.status_json ? cJSON_Parse(s->worker.status_json) : NULL;
}

/* Seconds of work until everything that may run has run; negative: nobody can tell. */
static double work_left(const struct queue_status *s)
{
    uint64_t left = view_unfinished(&s->counts);
    bool working = s->worker.alive && !s->paused && s->rates.requests_per_s > 0;
    return left == 0 ? 0 : working ? (double)left / s->rates.requests_per_s : -1;
}

/* When so much work is done in the worker's windows, as wall time; or WINDOW_NEVER. */
static int64_t done_at(const struct queue_status *s, double work_s)
{
    cJSON *status = worker_status(s);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(status, "windows"));
    struct windows w = {0};
    if (text && windows_add(&w, text, NULL) != 0)
        w.n = 0;
    cJSON_Delete(status);
    return windows_after(&w, clock_wall_us(), (int64_t)(MIN_OF(work_s, 1e12) * 1e6));
}

static cJSON *worker_json(const struct queue_worker_info *w)
{
    if (!w->present)
        return cJSON_CreateNull();
    cJSON *o = cJSON_CreateObject();
    char id[37];
    cJSON_AddStringToObject(o, "id", database_id_text(w->id, id));
    cJSON_AddNumberToObject(o, "pid", w->pid);
    cJSON_AddBoolToObject(o, "alive", w->alive);
    cJSON_AddNumberToObject(o, "planned_bytes", (double)w->planned_bytes);
    cJSON_AddNumberToObject(o, "beat_age_ms", (double)w->beat_age_ms);
    view_add_time(o, "started_at", w->started_us);
    cJSON *status = w->status_json ? cJSON_Parse(w->status_json) : NULL;
    cJSON_AddItemToObject(o, "status", status ? status : cJSON_CreateObject());
    return o;
}

static int print_json(struct command_context *c, const struct queue_status *s, struct error *e)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddItemToObject(o, "requests", view_counts(&s->counts));
    cJSON_AddBoolToObject(o, "paused", s->paused);
    if (s->paused)
        cJSON_AddStringToObject(o, "pause_reason", s->pause_reason ? s->pause_reason : "");
    cJSON *r = cJSON_AddObjectToObject(o, "rates");
    cJSON_AddNumberToObject(r, "requests_per_s", s->rates.requests_per_s);
    cJSON_AddNumberToObject(r, "prefill_tokens_per_s", s->rates.prefill_tokens_per_s);
    cJSON_AddNumberToObject(r, "decode_tokens_per_s", s->rates.decode_tokens_per_s);
    const double left = work_left(s);
    const int64_t at_us = left >= 0 ? done_at(s, left) : WINDOW_NEVER;
    const int64_t until_s = (at_us - clock_wall_us()) / 1000000;
    if (at_us != WINDOW_NEVER)
        cJSON_AddNumberToObject(o, "seconds_left", (double)until_s);
    else
        cJSON_AddNullToObject(o, "seconds_left");
    view_add_time(o, "next_not_before", s->next_not_before_us);
    cJSON_AddItemToObject(o, "worker", worker_json(&s->worker));
    return output_json(c->out, o, true, e);
}

/* "waiting for the window, Mon 22:00 (in 3h 12m 05s), model" */
static void print_state(struct output *out, const struct queue_status *s)
{
    cJSON *status = worker_status(s);
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItem(status, "state"));
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItem(status, "model"));
    const char *opens = cJSON_GetStringValue(cJSON_GetObjectItem(status, "opens_at"));
    const int64_t now_us = clock_wall_us();
    int64_t at_us = 0;
    char in[40] = "", duration[24];
    if (opens && when_parse(opens, now_us, &at_us, NULL) == 0 && at_us > now_us)
        snprintf(in, sizeof(in), " (in %s)",
                 str_format_duration((at_us - now_us) / 1000000, duration));
    if (state)
        output_put(out, "        %s%s%s%s\n", state, in, model ? ", " : "", model ? model : "");
    cJSON_Delete(status);
}

static void print_worker(struct output *out, const struct queue_status *s)
{
    const struct queue_worker_info *w = &s->worker;
    char size[24];
    if (!w->present)
        output_put(out, "worker  none; start one with 'nocturne run -m MODEL'\n");
    else if (!w->alive)
        output_put(out, "worker  pid %d died; the next one takes over at once\n", w->pid);
    else
        output_put(out, "worker  pid %d, %s planned%s%s\n", w->pid,
                   str_format_size(w->planned_bytes, size), w->stopping ? ", stopping: " : "",
                   w->stopping ? w->stopping : "");
    if (w->present && w->alive)
        print_state(out, s);
}

static void print_rates(struct output *out, const struct queue_status *s)
{
    if (s->rates.n_attempts)
        output_put(out, "rate    %.1f requests/min, %.1f tokens/s written, %.1f tokens/s read\n",
                   s->rates.requests_per_s * 60, s->rates.decode_tokens_per_s,
                   s->rates.prefill_tokens_per_s);
    const double left = work_left(s);
    const int64_t at_us = left > 0 ? done_at(s, left) : WINDOW_NEVER;
    char duration[24], at[32];
    if (at_us != WINDOW_NEVER)
        output_put(out, "left    about %s, done around %s\n",
                   str_format_duration((int64_t)left, duration), view_time(at_us, at));
}

static void print_text(struct command_context *c, const struct queue_status *s)
{
    struct output *out = c->out;
    output_put(out, "queue   ");
    view_put_counts(out, &s->counts);
    output_put(out, "\n");
    char at[32];
    if (s->counts.empty)
        output_put(out, "empty   'nocturne retry --empty' runs those without an answer again\n");
    if (s->counts.state[QUEUE_HELD])
        output_put(out,
                   "held    %llu being submitted, %llu before their time, %llu after another "
                   "batch, %llu by the user\n",
                   (unsigned long long)s->counts.held_submitting,
                   (unsigned long long)s->counts.held_not_before,
                   (unsigned long long)s->counts.held_dependency,
                   (unsigned long long)s->counts.held_user);
    if (s->next_not_before_us)
        output_put(out, "next    at %s\n", view_time(s->next_not_before_us, at));
    if (s->paused)
        output_put(out, "paused  %s\n",
                   s->pause_reason && *s->pause_reason ? s->pause_reason
                                                       : "'nocturne resume' goes on");
    print_rates(out, s);
    print_worker(out, s);
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    int rc = database_open(c->options, false, &q, e);
    struct queue_id id;
    const struct queue_id *batch = NULL;
    if (rc == 0 && c->n_args) {
        rc = database_find_batch(q, c->arg[0], &id, e);
        batch = &id;
    }
    struct queue_status s = {0};
    if (rc == 0)
        rc = queue_status(q, batch, &s, e);
    if (rc == 0 && option_on(c->options, OPTION_JSON))
        rc = print_json(c, &s, e);
    else if (rc == 0)
        print_text(c, &s);
    queue_status_release(&s);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_JSON, OPTION_NONE};

const struct command command_status = {
    .name = "status",
    .arguments = "[BATCH]",
    .max_args = 1,
    .option = options,
    .details =
        "Without a batch, of everything. Rates are those of the last hour. When it will be done\n"
        "counts the hours of the worker's --window only.",
    .examples = "nocturne status\nwatch nocturne status nightly",
    .run = run,
};
