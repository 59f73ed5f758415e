#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "batch/command.h"
#include "batch/database.h"
#include "batch/view.h"

/* Seconds until everything that may run has run; negative: nobody can tell. */
static double seconds_left(const struct queue_status *s)
{
    uint64_t left = view_unfinished(&s->counts);
    bool working = s->worker.alive && !s->paused && s->rates.requests_per_s > 0;
    return left == 0 ? 0 : working ? (double)left / s->rates.requests_per_s : -1;
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
    double left = seconds_left(s);
    if (left >= 0)
        cJSON_AddNumberToObject(o, "seconds_left", (double)(int64_t)left);
    else
        cJSON_AddNullToObject(o, "seconds_left");
    view_add_time(o, "next_not_before", s->next_not_before_us);
    cJSON_AddItemToObject(o, "worker", worker_json(&s->worker));
    return output_json(c->out, o, true, e);
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
    cJSON *status = w->present && w->alive && w->status_json ? cJSON_Parse(w->status_json) : NULL;
    const char *state = cJSON_GetStringValue(cJSON_GetObjectItem(status, "state"));
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItem(status, "model"));
    if (state)
        output_put(out, "        %s%s%s\n", state, model ? ", " : "", model ? model : "");
    cJSON_Delete(status);
}

static void print_rates(struct output *out, const struct queue_status *s)
{
    if (s->rates.n_attempts)
        output_put(out, "rate    %.1f requests/min, %.1f tokens/s written, %.1f tokens/s read\n",
                   s->rates.requests_per_s * 60, s->rates.decode_tokens_per_s,
                   s->rates.prefill_tokens_per_s);
    double left = seconds_left(s);
    char duration[24], at[32];
    if (left > 0)
        output_put(out, "left    about %s, done around %s\n",
                   str_format_duration((int64_t)left, duration),
                   view_time(clock_wall_us() + (int64_t)(left * 1e6), at));
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
    .details = "Without a batch, of everything. Rates are those of the last hour.",
    .examples = "nocturne status\nwatch nocturne status nightly",
    .run = run,
};
