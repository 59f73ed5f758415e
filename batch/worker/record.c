/*
 * The record of this run, for people to read in the morning. Nothing of it is worth a job or a second:
 * what cannot be written is dropped and told at debug level.
 *
 * Samples are dense at first and one a minute later, so that a short run can be drawn, too, and a night has
 * some 800 rows; while nothing happens there is one every ten minutes.
 */
#include <cjson/cJSON.h>

#include "base/clock.h"
#include "batch/host/facts.h"
#include "batch/host/figures.h"
#include "batch/plan_json.h"
#include "batch/version.h"
#include "batch/worker/parts.h"

#define SAMPLE_LEAST_US INT64_C(2000000)
#define SAMPLE_MOST_US INT64_C(60000000)
#define SAMPLE_IDLE_US INT64_C(600000000)
/* The time between samples is this part of the run's age. */
#define SAMPLE_PART 64

static void dropped(const char *what, const struct error *e)
{
    log_event(LOG_DEBUG, "record", "dropped %s: %s", what, e->text);
}

/* The text of an object, which it frees; NULL: "{}" or no memory. */
static char *print(cJSON *o)
{
    char *text = o ? cJSON_PrintUnformatted(o) : NULL;
    cJSON_Delete(o);
    return text;
}

void worker_note(struct worker *w, const char *kind, cJSON *detail)
{
    struct error e = {0};
    char *text = print(detail);
    if (w->row && queue_run_note(w->row, str_of(kind), str_of(text), &e) != 0)
        dropped(kind, &e);
    cJSON_free(text);
}

void worker_note_text(struct worker *w, const char *kind, const char *text)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "text", text);
    worker_note(w, kind, o);
}

/* ---- Beginning and end ------------------------------------------------------------------------ */

static cJSON *machine(const struct worker *w)
{
    struct facts f;
    cJSON *o = cJSON_CreateObject();
    facts_read(w->o->root, &f);
    cJSON_AddStringToObject(o, "host", f.host);
    cJSON_AddStringToObject(o, "kernel", f.kernel);
    cJSON_AddStringToObject(o, "cpu", f.cpu);
    cJSON_AddNumberToObject(o, "cores", f.cores);
    cJSON_AddNumberToObject(o, "memory_bytes", (double)f.memory_bytes);
    cJSON_AddStringToObject(o, "isa", w->info.isa ? w->info.isa : "");
    cJSON_AddStringToObject(o, "version", NOCTURNE_VERSION);
    return o;
}

static cJSON *model(const struct worker *w)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", w->model);
    cJSON_AddStringToObject(o, "path", w->o->model_path);
    cJSON_AddStringToObject(o, "fingerprint", w->info.fingerprint);
    cJSON_AddStringToObject(o, "architecture", w->record.architecture);
    cJSON_AddNumberToObject(o, "parameters", (double)w->info.n_params);
    cJSON_AddNumberToObject(o, "bytes", (double)w->info.file_bytes);
    cJSON_AddNumberToObject(o, "files", w->info.n_shards);
    return o;
}

void worker_record_begin(struct worker *w)
{
    struct error e = {0};
    char *text[] = {print(machine(w)), print(model(w)),
                    print(cJSON_Duplicate(w->o->configuration, true)), print(plan_json(&w->plan))};
    const struct queue_run_about about = {.machine_json = str_of(text[0]),
                                          .model_json = str_of(text[1]),
                                          .configuration_json = str_of(text[2]),
                                          .plan_json = str_of(text[3])};
    if (queue_run_begin(w->row, &about, &e) != 0)
        dropped("the run", &e);
    for (size_t i = 0; i < ARRAY_LEN(text); i++)
        cJSON_free(text[i]);
    w->record.since_us = clock_boot_us();
    pressure_read(&w->place, &w->record.before);
    worker_record_sample(w, true);
}

void worker_record_end(struct worker *w, const char *why, int status, const struct error *failure)
{
    struct error e = {0};
    if (!w->row || queue_worker_fenced(w->row))
        return;
    char *totals = print(report_json(&w->report));
    if (queue_run_end(w->row, str_of(why), status, str_of(failure ? failure->text : NULL),
                      str_of(totals), &e) != 0)
        dropped("the end of the run", &e);
    cJSON_free(totals);
}

/* ---- Samples ---------------------------------------------------------------------------------- */

static uint64_t bytes_read(const struct worker *w)
{
    struct engine_counters c = {0};
    if (w->engine)
        engine_counters(w->engine, &c);
    return w->report.read_bytes + c.bytes_read;
}

static struct queue_sample measure(const struct worker *w)
{
    struct pressure_sample now;
    const struct pressure_sample *before = &w->record.before;
    const struct report *r = &w->report;
    pressure_read(&w->place, &now);
    return (struct queue_sample){
        .stand = w->full ? GATE_HOLD : w->gate.stand,
        .running = (int64_t)w->n_used,
        .ledger_bytes = (int64_t)ledger_total(w->ledger),
        .resident_bytes = now.resident_bytes,
        .available_bytes = now.available_bytes,
        .done = (int64_t)r->n_done,
        .failed = (int64_t)r->n_failed,
        .returned = (int64_t)r->n_returned,
        .prompt_tokens = (int64_t)r->prompt_tokens,
        .decode_tokens = (int64_t)r->decode_tokens,
        .read_bytes = (int64_t)bytes_read(w),
        .major_faults = figure_since(before->major_faults, now.major_faults),
        .refaults = figure_since(before->refaults, now.refaults),
        .pressure_some_us = figure_since(before->system.some_us, now.system.some_us),
        .pressure_full_us = figure_since(before->system.full_us, now.system.full_us),
        .throttled_us = figure_since(before->throttled_us, now.throttled_us),
        .limit_hits = figure_since(before->limit_hits, now.limit_hits),
    };
}

void worker_record_sample(struct worker *w, bool now)
{
    struct error e = {0};
    const int64_t at_us = clock_boot_us();
    if (!w->row || queue_worker_fenced(w->row) || (!now && at_us < w->record.next_us))
        return;
    const struct queue_sample s = measure(w);
    if (queue_run_sample(w->row, &s, &e) != 0)
        dropped("a sample", &e);
    w->record.last_us = at_us;
    const int64_t part_us = (at_us - w->record.since_us) / SAMPLE_PART;
    w->record.next_us =
        at_us + (w->n_used || w->loading ? MIN_OF(MAX_OF(part_us, SAMPLE_LEAST_US), SAMPLE_MOST_US)
                                         : SAMPLE_IDLE_US);
}

void worker_record_soon(struct worker *w)
{
    w->record.next_us = MIN_OF(w->record.next_us, w->record.last_us + SAMPLE_LEAST_US);
}
