#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "batch/command.h"
#include "batch/database.h"
#include "batch/doctor/doctor.h"
#include "batch/host/machine.h"
#include "batch/model_options.h"
#include "batch/worker/worker.h"

#define EXIT_PROBLEM 4

/* ------------------------------------------------------------------ telling */

static void print_finding(struct output *out, const struct doctor_finding *f, bool first)
{
    static const enum output_color colors[DOCTOR_STATUS_COUNT] = {OUTPUT_GREEN, OUTPUT_DIM,
                                                                  OUTPUT_YELLOW, OUTPUT_RED};
    const char *name = doctor_status_name(f->status);
    output_colored(out, colors[f->status], name);
    output_put(out, "%*s  %-14s  ", (int)(7 - strlen(name)), "",
               first ? doctor_title(f->check) : "");
    output_text(out, str_of(f->text));
    output_put(out, "\n");
    if (f->mend) {
        output_put(out, "%-25s-> ", "");
        output_text(out, str_of(f->mend));
        output_put(out, "\n");
    }
}

static unsigned count(const struct doctor *d, enum doctor_status status)
{
    unsigned n = 0;
    for (size_t i = 0; i < d->n; i++)
        n += d->finding[i].status == status;
    return n;
}

static void print_text(struct output *out, const struct doctor *d)
{
    const unsigned problems = count(d, DOCTOR_PROBLEM), warnings = count(d, DOCTOR_WARNING);
    for (size_t i = 0; i < d->n; i++)
        print_finding(out, &d->finding[i],
                      i == 0 || d->finding[i].check != d->finding[i - 1].check);
    if (problems)
        output_put(out, "\n%u problem%s to mend before the night, %u warning%s\n", problems,
                   problems == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
    else
        output_put(out, "\nnothing would stop the night; %u warning%s\n", warnings,
                   warnings == 1 ? "" : "s");
}

static int print_json(struct output *out, struct doctor *d, struct error *e)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "status", doctor_status_name(doctor_worst(d)));
    cJSON *all = cJSON_AddArrayToObject(o, "findings");
    for (size_t i = 0; i < d->n; i++) {
        struct doctor_finding *f = &d->finding[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "check", f->check);
        cJSON_AddStringToObject(one, "status", doctor_status_name(f->status));
        cJSON_AddStringToObject(one, "text", f->text ? f->text : "");
        if (f->mend)
            cJSON_AddStringToObject(one, "mend", f->mend);
        if (f->values)
            cJSON_AddItemToObject(one, "values", f->values);
        f->values = NULL;
        cJSON_AddItemToArray(all, one);
    }
    return output_json(out, o, true, e);
}

/* ------------------------------------------------------------------ asking */

static void open_queue(struct doctor *d, const struct options *o, struct buf *path)
{
    if (database_path(o, path, &d->queue_error) != 0)
        return;
    d->database = path->ptr;
    if (database_open(o, false, &d->queue, &d->queue_error) == 0)
        (void)queue_status(d->queue, NULL, &d->status, NULL);
}

/* The ledger of a run, as `run` would refuse it. */
static void open_budget(struct doctor *d, const struct options *o)
{
    char warning[MACHINE_WARNING_BYTES] = "";
    struct machine_budget budget = {0};
    const bool given = option_given(o, OPTION_MEMORY);
    const uint64_t bytes = given ? option_size(o, OPTION_MEMORY) : 0;
    int rc = given ? machine_check_budget("", bytes, warning, &d->budget_error)
                   : machine_budget("", &budget, &d->budget_error);
    if (rc == 0)
        (void)ledger_new(&d->ledger, given ? bytes : budget.bytes, &d->budget_error);
    snprintf(d->budget_from, sizeof(d->budget_from), "%s", given ? warning : budget.from);
}

static void open_model(struct doctor *d, const struct options *o)
{
    struct engine_options eo;
    d->model_path = option_text(o, OPTION_MODEL);
    if (!d->model_path || !d->ledger || model_options_read(&eo, o, NULL, &d->model_error) != 0)
        return;
    eo.ledger = d->ledger;
    eo.headers_only = true;
    eo.cache_bytes = WORKER_CACHE_BYTES;
    (void)engine_open(&d->model, &eo, &d->model_error);
}

static int look(struct command_context *c, struct doctor *d, struct error *e)
{
    struct buf path;
    int rc = windows_of_options(&d->windows, c->options, e);
    if (rc)
        return rc;
    buf_init(&path, 1u << 16);
    d->root = "";
    d->lease_us = option_us(c->options, OPTION_LEASE);
    d->reserve_bytes = option_size(c->options, OPTION_RESERVE);
    open_queue(d, c->options, &path);
    open_budget(d, c->options);
    open_model(d, c->options);
    doctor_look(d);
    if (!d->found_all)
        rc = error_set(e, ERROR_NOMEM, "out of memory for what was found");
    else if (option_on(c->options, OPTION_JSON))
        rc = print_json(c->out, d, e);
    else
        print_text(c->out, d);
    queue_status_release(&d->status);
    queue_close(d->queue);
    engine_close(d->model);
    ledger_free(d->ledger);
    buf_release(&path);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct doctor *d = mem_zalloc(sizeof(*d));
    if (!d)
        return error_set(e, ERROR_NOMEM, "out of memory for the doctor");
    int rc = look(c, d, e);
    if (rc == 0 && doctor_worst(d) == DOCTOR_PROBLEM)
        rc = EXIT_PROBLEM;
    doctor_forget(d);
    mem_free(d);
    return rc;
}

static const enum option_id options[] = {OPTION_MODEL,         MODEL_OPTIONS,      OPTION_IO,
                                         OPTION_EXPERT_POLICY, OPTION_WORK_WINDOW, OPTION_LEASE,
                                         OPTION_JSON,          OPTION_NONE};

const struct command command_doctor = {
    .name = "doctor",
    .arguments = "",
    .option = options,
    .details =
        "Looks at the machine, the model (-m, --memory and the like as for run), the disks, the "
        "queue\n"
        "and at what the system does at night by itself, and says with figures what would go "
        "wrong\n"
        "and how to mend it. Takes a second, changes nothing. A line is ok, a note (good to know), "
        "a\n"
        "warning (may cost time or answers) or a problem (nothing would come of the night).\n\n"
        "Exit status: 0 nothing would stop the night, 4 there is a problem.",
    .examples = "nocturne doctor -m model.gguf --memory 24G\n"
                "nocturne doctor --window 22:00-07:00 --json",
    .run = run,
};
