/* The engine and the worker's row: planned, opened and closed. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/program.h"
#include "batch/probe.h"
#include "batch/view.h"
#include "batch/worker/death.h"
#include "batch/worker/parts.h"

/* While the model is loaded a pause is looked for this often. */
#define LOAD_LOOK_US 50000
/* A long step is suspended this often, to save, to look about and to tell how far it is; and goes on. */
#define SLICE_US 1000000
/* A stop lets a step finish that is over by then; any longer one is suspended and kept. */
#define STOP_PATIENCE_US 10000000
/* Between two looks at what the groups have counted. */
#define DEATHS_EVERY_US 1000000

/* How long the rest of the step takes, going by the layer that has just been done. */
static int64_t rest_us(struct worker *w)
{
    struct engine_step step;
    const int64_t now_us = clock_mono_us();
    engine_step(w->engine, &step);
    if (step.layer > w->step_layer)
        w->layer_us = now_us - w->layer_since_us;
    w->step_layer = step.layer;
    w->layer_since_us = now_us;
    return w->layer_us * (int64_t)(step.n_layers - step.layer);
}

/*
 * What ends a load that has begun. No other gate: what is loaded is missing from the memory that they would
 * look at, and a GPU's stranger may be gone before it is done.
 */
static bool load_unwanted(struct worker *w)
{
    const int64_t now_us = clock_mono_us();
    if (now_us >= w->next_look_us) {
        w->next_look_us = now_us + LOAD_LOOK_US;
        (void)queue_paused(w->queue, &w->paused, NULL, NULL); /* later, if it cannot be read now */
    }
    return stop_asked(w->stop) || w->paused || worker_window_closed(w);
}

static bool interrupted(void *context)
{
    struct worker *w = context;
    worker_moved(w); /* a layer, or bytes of the load */
    if (w->loading)
        return load_unwanted(w);
    if (atomic_load(&w->stop->fenced))
        return true;
    const int64_t left_us = rest_us(w);
    if (!stop_asked(w->stop))
        return w->layer_since_us - w->slice_since_us > SLICE_US;
    return stop_age_us(w->stop) + left_us >
           MIN_OF(w->o->snapshot_after_us, (int64_t)STOP_PATIENCE_US);
}

static bool stop_watching(void *context)
{
    struct worker *w = context;
    return stop_asked(w->stop);
}

static void loading(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct worker *w = context;
    const int percent = total_bytes ? (int)(100 * done_bytes / total_bytes) : 100;
    hook_poll(w->hook);
    report_loading(&w->report, done_bytes, total_bytes);
    if (percent != w->told_percent)
        notify_send(&w->notify, "STATUS=loading model %d %%", percent);
    w->told_percent = percent;
    worker_record_sample(w, false);
}

static struct engine_options engine_options(struct worker *w, bool headers_only)
{
    const struct worker_options *o = w->o;
    return (struct engine_options){.model_path = o->model_path,
                                   .ledger = w->ledger,
                                   .threads = o->threads,
                                   .ctx = o->ctx,
                                   .slots = o->slots,
                                   .chunk = o->chunk,
                                   .isa = o->isa,
                                   .io = o->io,
                                   .lookahead = o->lookahead,
                                   .expert_policy = o->expert_policy,
                                   .chat_format = o->raw ? NULL : o->chat_format,
                                   .exact = o->exact,
                                   .cache_bytes = WORKER_CACHE_BYTES,
                                   .headers_only = headers_only,
                                   .interrupted = interrupted,
                                   .interrupted_context = w,
                                   .loading = loading,
                                   .loading_context = w,
                                   .n_reads = &w->moved};
}

int worker_budget(const struct worker_options *o, struct report *r, uint64_t *ret, struct error *e)
{
    char warning[MACHINE_WARNING_BYTES], take[24];
    struct machine_budget budget;
    int rc = machine_choose_budget(o->root, o->memory_bytes, &budget, warning, e);
    if (rc)
        return rc;
    if (*warning)
        report_say(r, LOG_WARN, "%s", warning);
    if (*budget.from)
        report_say(r, LOG_INFO, "memory budget %s: %s", str_format_size(budget.bytes, take),
                   budget.from);
    *ret = budget.bytes;
    return 0;
}

/* What the model would take, before anything is loaded and before anybody is superseded. */
static int plan(struct worker *w, struct engine_plan *ret, struct error *e)
{
    struct engine *headers = NULL;
    struct engine_options o = engine_options(w, true);
    int rc = engine_open(&headers, &o, e);
    if (rc)
        return rc;
    engine_plan(headers, ret);
    engine_describe(headers, &w->info);
    snprintf(w->record.architecture, sizeof(w->record.architecture), "%s", w->info.arch);
    engine_forecast(headers, &w->forecast);
    w->uncertain = ret->streamed_layers > 0 || ret->expert_slots < ret->expert_count;
    rc = engine_plan_check(headers, e);
    if (rc == 0 && !w->o->raw && !*w->info.chat_format)
        rc = error_set(e, ERROR_UNSUPPORTED, "%s", w->info.chat_refusal);
    engine_close(headers);
    return rc;
}

/* Before its row goes: what it says of its groups, and the jobs that are not to blame. */
static int learn_of_death(struct worker *w, struct error *e)
{
    bool killed = false;
    int rc = death_explain(w->queue, false, &killed, e);
    if (rc == 0)
        rc = queue_paused_by_kill(w->queue, &w->killed, e);
    return rc;
}

int worker_register(struct worker *w, struct error *e)
{
    int rc = plan(w, &w->plan, e);
    if (rc)
        return rc;
    struct queue_worker_options o = {
        .planned_bytes = w->plan.total_bytes,
        .lease_ms = (int)(w->o->lease_us / 1000),
        .beat_ms = (int)MAX_OF(w->o->lease_us / 6000, 1),
    };
    w->planned_bytes = w->plan.total_bytes;
    (void)machine_available(&o.available_bytes, NULL);
    rc = learn_of_death(w, e);
    if (rc)
        return rc;
    rc = queue_worker_open(w->queue, &o, stop_watching, w, &w->row, e);
    if (rc)
        return rc;
    if (queue_worker_found_crashed(w->row)) {
        w->report.n_failed++;
        report_say(&w->report, LOG_WARN,
                   "a request failed: the worker died three times with it alone");
    }
    rc = queue_worker_beat(w->row, stop_fence, w->stop, e);
    if (rc == 0)
        worker_sweep_states(w);
    return rc;
}

static int allocate_slots(struct worker *w, size_t n, struct error *e)
{
    w->run = mem_array(n, sizeof(*w->run));
    w->progress = mem_array(n, sizeof(*w->progress));
    w->ends = mem_array(n, sizeof(*w->ends));
    w->of = mem_array(n, sizeof(*w->of));
    if (w->run && w->progress && w->ends && w->of)
        w->n_slots = n;
    return w->n_slots ? 0 : error_set(e, ERROR_NOMEM, "out of memory for %zu slots", n);
}

static void tell_loaded(struct worker *w, double load_ms)
{
    struct engine_plan p;
    char used[24], layers[64] = "", experts[96] = "";
    engine_plan(w->engine, &p);
    if (p.streamed_layers > 0)
        snprintf(layers, sizeof(layers), "%u of %u layers read for each step, ", p.streamed_layers,
                 w->info.n_layers);
    if (p.expert_count > 0)
        snprintf(experts, sizeof(experts), "%llu of %llu experts at once, read with %s, ",
                 (unsigned long long)p.expert_slots, (unsigned long long)p.expert_count,
                 w->info.io);
    report_say(&w->report, LOG_INFO,
               "%s loaded in %.1f s: %u slot%s of %u tokens, %s%s%s of memory, %s", w->model,
               load_ms / 1000, w->info.slots, w->info.slots == 1 ? "" : "s", w->info.ctx, layers,
               experts, str_format_size(ledger_total(w->ledger), used), w->info.isa);
    if (p.expert_count > 0 && *w->info.io_notice)
        report_say(&w->report, LOG_INFO, "%s", w->info.io_notice);
}

static void note_loaded(struct worker *w, const struct engine_counters *c)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "seconds", c->load_ms / 1000);
    cJSON_AddNumberToObject(o, "bytes", (double)c->load_bytes);
    worker_note(w, "loaded", o);
    worker_record_soon(w);
}

/* Once, while the budget is free for the buffers; without figures nothing is said. */
static void tell_forecast(struct worker *w)
{
    char read[24], disk[24], memory[24], hits[64] = "";
    const struct engine_forecast *f = &w->forecast;
    struct report *r = &w->report;
    struct probe p = {0};
    double at_most = 0;
    if (!w->uncertain || r->expected_rate > 0 ||
        probe_run(w->o->model_path, w->ledger, &p, NULL) != 0)
        return;
    r->expected_hit_rate = f->hit_rate;
    engine_forecast_rate(f, p.disk_bytes_per_s, p.memory_bytes_per_s, &r->expected_rate, &at_most);
    if (f->slots_per_layer > 0)
        snprintf(hits, sizeof(hits), "%.0f %% of experts in memory, ", 100 * f->hit_rate);
    report_say(
        r, LOG_INFO,
        "expected of one sequence: %s%s read a token; with %s/s from disk and %s/s from memory "
        "%.3g tokens/s, at most %.3g",
        hits, str_format_size(f->read_bytes, read),
        str_format_size((uint64_t)p.disk_bytes_per_s, disk),
        str_format_size((uint64_t)p.memory_bytes_per_s, memory), r->expected_rate, at_most);
}

int worker_load(struct worker *w, struct error *e)
{
    tell_forecast(w);
    struct engine_options o = engine_options(w, false);
    worker_tell(w, "loading");
    w->loading = true;
    w->next_look_us = 0;
    worker_stay_awake(w);
    int rc = engine_open(&w->engine, &o, e);
    w->loading = false;
    if (rc == -ERROR_INTERRUPTED && !stop_asked(w->stop)) {
        const char *why = w->paused ? "paused before the model was loaded"
                                    : "the window closed before the model was loaded";
        report_say(&w->report, LOG_INFO, "%s", why);
        worker_note_text(w, "load_given_up", why);
        error_clear(e);
        w->next_look_us = 0;
        return 0;
    }
    if (rc)
        return rc;
    engine_describe(w->engine, &w->info);
    struct engine_counters counters;
    engine_counters(w->engine, &counters);
    w->load_ms = (int64_t)counters.load_ms;
    w->load_us = (int64_t)(counters.load_ms * 1000);
    rc = allocate_slots(w, w->info.slots, e);
    if (rc)
        return rc;
    tell_loaded(w, counters.load_ms);
    note_loaded(w, &counters);
    worker_tell(w, "working");
    program_fetch();
    machine_reads(w->o->root, &w->reads);
    return 0;
}

/* Since the model was loaded; a group that had read nothing then may not have been listed. */
static void add_reads(int64_t *sum, int64_t before, int64_t now)
{
    *sum = now < 0 || *sum < 0 ? -1 : *sum + now - MAX_OF(before, 0);
}

/* What the experts cost goes with the engine; the summary comes after it. */
static void keep_counts(struct worker *w)
{
    struct engine_counters c;
    struct machine_reads now;
    engine_counters(w->engine, &c);
    machine_reads(w->o->root, &now);
    add_reads(&w->report.process_read_bytes, w->reads.process_bytes, now.process_bytes);
    add_reads(&w->report.group_read_bytes, w->reads.group_bytes, now.group_bytes);
    w->report.read_bytes += c.bytes_read;
    w->report.layer_bytes += c.layer_bytes;
    w->report.layers_wait_ms += c.layers_wait_ms;
    w->report.load_bytes += c.load_bytes;
    w->report.experts_wanted += c.experts_wanted;
    w->report.expert_hits += c.expert_hits;
    w->report.expert_misses += c.expert_misses;
    w->report.expert_reads += c.expert_reads;
    w->report.expert_guesses += c.expert_guesses;
    w->report.expert_good_guesses += c.expert_good_guesses;
    w->report.expert_busy_ms += c.expert_busy_ms;
    w->report.expert_wait_ms += c.expert_wait_ms;
    w->report.step_ms += c.step_ms;
    w->report.row_layers += c.row_layers;
}

void worker_unload(struct worker *w)
{
    if (w->engine)
        keep_counts(w);
    engine_close(w->engine);
    w->engine = NULL;
    mem_free(w->run);
    mem_free(w->progress);
    mem_free(w->ends);
    mem_free(w->of);
    w->run = NULL;
    w->progress = NULL;
    w->ends = NULL;
    w->of = NULL;
    w->n_slots = 0;
}

/* Only for people to see: a failure is none. */
static void write_status(struct worker *w)
{
    char windows[WINDOWS_TEXT_BYTES];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "state", w->state);
    cJSON_AddStringToObject(o, "model", w->model);
    cJSON_AddNumberToObject(o, "slots", (double)w->n_slots);
    view_add_time(o, "opens_at", w->gate.opens_us);
    if (w->o->windows.n) {
        windows_print(&w->o->windows, windows, sizeof(windows));
        cJSON_AddStringToObject(o, "windows", windows);
    }
    death_note(o);
    char *text = cJSON_PrintUnformatted(o);
    if (text && w->row)
        (void)queue_worker_status(w->row, str_of(text), NULL);
    cJSON_free(text);
    cJSON_Delete(o);
}

void worker_tell(struct worker *w, const char *state)
{
    snprintf(w->state, sizeof(w->state), "%s", state);
    write_status(w);
    notify_send(&w->notify, "STATUS=%s", state);
}

/* Twice the same: so that a count which is our own end, and just being made, is never noted. */
void worker_survived(struct worker *w)
{
    const int64_t now_us = clock_mono_us();
    if (now_us < w->next_deaths_us)
        return;
    w->next_deaths_us = now_us + DEATHS_EVERY_US;
    const uint64_t n = death_count();
    if (n == w->deaths_seen && n != w->deaths_noted) {
        w->deaths_noted = n;
        write_status(w);
    }
    w->deaths_seen = n;
}
