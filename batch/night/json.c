/* A night for programs: everything, samples included. */
#include "base/compiler.h"
#include "batch/database.h"
#include "batch/night/parts.h"
#include "batch/view.h"

struct figure {
    const char *name;
    int64_t value;
};

static void add_figures(cJSON *o, const struct figure *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        view_add_count(o, f[i].name, f[i].value);
}

static void add_sums(cJSON *o, const struct queue_run_sums *s)
{
    const struct figure figures[] = {
        {"attempts", s->attempts},
        {"done", s->done},
        {"empty_answers", s->empty},
        {"failed", s->failed},
        {"retried", s->retried},
        {"released", s->released},
        {"died", s->died},
        {"cancelled", s->cancelled},
        {"running", s->running},
        {"prefill_tokens", s->prefill_tokens},
        {"prefill_ms", s->prefill_ms},
        {"decode_tokens", s->decode_tokens},
        {"decode_ms", s->decode_ms},
        {"resumed_tokens", s->resumed_tokens},
        {"load_ms", s->load_ms},
        {"read_bytes", s->read_bytes},
        {"expert_hits", s->expert_hits},
        {"expert_misses", s->expert_misses},
        {"peak_resident_bytes", s->peak_resident_bytes},
    };
    add_figures(o, figures, ARRAY_LEN(figures));
}

static void add_course(cJSON *o, const struct night_course *c)
{
    const struct figure figures[] = {
        {"busy_ms", c->busy_us / 1000},
        {"held_ms", c->held_us / 1000},
        {"idle_ms", c->idle_us / 1000},
        {"prompt_tokens", c->prompt_tokens},
        {"decode_tokens", c->decode_tokens},
        {"read_bytes", c->read_bytes},
        {"pressure_some_us", c->pressure_some_us},
        {"pressure_full_us", c->pressure_full_us},
        {"major_faults", c->major_faults},
        {"refaults", c->refaults},
        {"throttled_us", c->throttled_us},
        {"limit_hits", c->limit_hits},
        {"peak_ledger_bytes", c->peak_ledger_bytes},
        {"peak_resident_bytes", c->peak_resident_bytes},
    };
    add_figures(o, figures, ARRAY_LEN(figures));
}

static cJSON *sample_json(const struct queue_sample *s)
{
    const struct figure figures[] = {
        {"elapsed_ms", s->elapsed_us / 1000},
        {"stand", s->stand},
        {"running", s->running},
        {"ledger_bytes", s->ledger_bytes},
        {"resident_bytes", s->resident_bytes},
        {"available_bytes", s->available_bytes},
        {"done", s->done},
        {"failed", s->failed},
        {"returned", s->returned},
        {"prompt_tokens", s->prompt_tokens},
        {"decode_tokens", s->decode_tokens},
        {"read_bytes", s->read_bytes},
        {"major_faults", s->major_faults},
        {"refaults", s->refaults},
        {"pressure_some_us", s->pressure_some_us},
        {"pressure_full_us", s->pressure_full_us},
        {"throttled_us", s->throttled_us},
        {"limit_hits", s->limit_hits},
    };
    cJSON *o = cJSON_CreateObject();
    view_add_time(o, "at", s->at_us);
    add_figures(o, figures, ARRAY_LEN(figures));
    return o;
}

static void add_tree(cJSON *o, const char *name, const cJSON *tree)
{
    cJSON_AddItemToObject(o, name, tree ? cJSON_Duplicate(tree, true) : cJSON_CreateObject());
}

static cJSON *run_json(const struct night_run *r)
{
    cJSON *o = view_run(&r->run);
    add_tree(o, "machine", r->machine);
    add_tree(o, "model", r->model);
    add_tree(o, "configuration", r->configuration);
    add_tree(o, "plan", r->plan);
    add_tree(o, "totals", r->totals);
    add_sums(cJSON_AddObjectToObject(o, "sums"), &r->sums);
    add_course(cJSON_AddObjectToObject(o, "course"), &r->course);
    cJSON *samples = cJSON_AddArrayToObject(o, "samples");
    for (size_t i = 0; i < r->n_samples; i++)
        cJSON_AddItemToArray(samples, sample_json(&r->sample[i]));
    return o;
}

static void add_causes(cJSON *o, const struct night *n)
{
    cJSON *list = cJSON_AddArrayToObject(o, "failures");
    for (size_t i = 0; i < n->n_causes; i++) {
        const struct night_cause *c = &n->cause[i];
        char id[37];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "code", c->code);
        cJSON_AddNumberToObject(one, "final", (double)c->n_final);
        cJSON_AddNumberToObject(one, "returned", (double)c->n_returned);
        cJSON_AddStringToObject(one, "example", database_id_text(c->request, id));
        cJSON_AddStringToObject(one, "custom_id", c->custom_id);
        cJSON_AddStringToObject(one, "message", c->text);
        cJSON_AddItemToArray(list, one);
    }
}

static void add_longest(cJSON *o, const struct night *n)
{
    cJSON *list = cJSON_AddArrayToObject(o, "longest");
    for (size_t i = 0; i < n->n_longest; i++) {
        const struct queue_longest *l = &n->longest[i];
        char id[37];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "id", database_id_text(l->request, id));
        cJSON_AddStringToObject(one, "custom_id", l->custom_id);
        cJSON_AddStringToObject(one, "batch", l->batch_name);
        cJSON_AddStringToObject(one, "state", queue_state_name(l->state));
        view_add_count(one, "held_ms", l->held_us / 1000);
        cJSON_AddNumberToObject(one, "attempts", (double)l->attempts);
        cJSON_AddNumberToObject(one, "prefill_tokens", (double)l->prefill_tokens);
        cJSON_AddNumberToObject(one, "decode_tokens", (double)l->decode_tokens);
        cJSON_AddItemToArray(list, one);
    }
}

static void add_events(cJSON *o, const struct night *n)
{
    cJSON *list = cJSON_AddArrayToObject(o, "events");
    for (size_t i = 0; i < n->n_events; i++) {
        const struct night_event *v = &n->event[i];
        cJSON *one = cJSON_CreateObject();
        view_add_time(one, "at", v->at_us);
        if (v->run)
            cJSON_AddNumberToObject(one, "run", (double)v->run);
        cJSON_AddStringToObject(one, "kind", v->kind);
        cJSON_AddStringToObject(one, "text", v->text);
        cJSON_AddItemToArray(list, one);
    }
}

static void add_left(cJSON *o, const struct night *n)
{
    cJSON *left = cJSON_AddObjectToObject(o, "left");
    cJSON_AddItemToObject(left, "requests", view_counts(&n->status.counts));
    cJSON_AddBoolToObject(left, "paused", n->status.paused);
    cJSON_AddNumberToObject(left, "jobs_per_s", n->jobs_per_s);
    view_add_count(left, "work_seconds", n->work_us < 0 ? -1 : n->work_us / 1000000);
    view_add_time(left, "done_at", n->done_us);
    cJSON_AddBoolToObject(left, "windows", n->windowed);
}

cJSON *night_json(const struct night *n)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "title", n->title);
    view_add_time(o, "from", n->from_us);
    view_add_time(o, "until", n->until_us);
    add_sums(cJSON_AddObjectToObject(o, "sums"), &n->sums);
    add_course(cJSON_AddObjectToObject(o, "course"), &n->course);
    cJSON_AddNumberToObject(o, "expired", (double)n->expired);
    cJSON_AddNumberToObject(o, "cancelled", (double)n->cancelled);
    add_left(o, n);
    add_causes(o, n);
    add_longest(o, n);
    add_events(o, n);
    cJSON *runs = cJSON_AddArrayToObject(o, "runs");
    for (size_t i = 0; i < n->n_runs; i++)
        cJSON_AddItemToArray(runs, run_json(&n->run[i]));
    return o;
}
