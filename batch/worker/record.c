/*
 * The record of this run, for people to read in the morning. Nothing of it is worth a job or a second:
 * what cannot be written is dropped and told at debug level.
 */
#include <cjson/cJSON.h>

#include "base/clock.h"
#include "batch/worker/parts.h"

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

static cJSON *model(const struct worker *w)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", w->model);
    cJSON_AddStringToObject(o, "path", w->o->model_path);
    cJSON_AddStringToObject(o, "fingerprint", w->info.fingerprint);
    cJSON_AddStringToObject(o, "architecture", w->info.arch ? w->info.arch : "");
    cJSON_AddNumberToObject(o, "bytes", (double)w->info.file_bytes);
    cJSON_AddNumberToObject(o, "files", w->info.n_shards);
    return o;
}

void worker_record_begin(struct worker *w)
{
    struct error e = {0};
    char *about = print(model(w));
    const struct queue_run_about o = {.model_json = str_of(about)};
    if (queue_run_begin(w->row, &o, &e) != 0)
        dropped("the run", &e);
    cJSON_free(about);
}
