#include <stdio.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/night/night.h"
#include "batch/view.h"

#define LIMIT 20

struct row {
    const struct queue_run *run;
    struct queue_run_sums sums;
    cJSON *model;
};

static int64_t lasted_us(const struct queue_run *r)
{
    return MAX_OF(r->known_us - r->started_us, INT64_C(0));
}

static const char *model_name(const struct row *row)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItem(row->model, "name"));
    return name ? name : "";
}

static cJSON *row_json(const struct row *row)
{
    const struct queue_run *r = row->run;
    cJSON *o = view_run(r);
    cJSON_AddStringToObject(o, "model", model_name(row));
    cJSON_AddNumberToObject(o, "done", (double)row->sums.done);
    cJSON_AddNumberToObject(o, "failed", (double)row->sums.failed);
    cJSON_AddNumberToObject(o, "prefill_tokens", (double)row->sums.prefill_tokens);
    cJSON_AddNumberToObject(o, "decode_tokens", (double)row->sums.decode_tokens);
    cJSON_AddNumberToObject(o, "seconds", (double)lasted_us(r) / 1e6);
    return o;
}

static void put_row(struct table *t, const struct row *row)
{
    const struct queue_run *r = row->run;
    char at[32], lasted[32], count[32], end[96];
    table_cell(t, "%lld", (long long)r->key);
    table_cell(t, "%s", view_time(r->started_us, at));
    table_cell(t, "%s", night_time_text(lasted_us(r), lasted));
    table_cell(t, "%.40s", model_name(row));
    table_cell(t, "%lld", (long long)row->sums.done);
    table_cell(t, "%lld", (long long)row->sums.failed);
    table_cell(t, "%s", night_count(row->sums.decode_tokens, count));
    table_cell(t, "%s", night_rate_text(row->sums.decode_tokens, lasted_us(r), count));
    table_cell(t, "%s", night_end_text(r, end));
}

static int show(struct command_context *c, struct queue *q, const struct queue_runs *runs,
                struct error *e)
{
    static const char *const titles[] = {">RUN",    "BEGAN",    ">LASTED", "MODEL", ">DONE",
                                         ">FAILED", ">WRITTEN", ">/S",     "ENDED", NULL};
    const bool lines = option_on(c->options, OPTION_JSONL);
    cJSON *array = option_on(c->options, OPTION_JSON) && !lines ? cJSON_CreateArray() : NULL;
    struct table t;
    int rc = 0;
    if (!array && !lines)
        table_init(&t, c->out, titles);
    for (size_t i = 0; rc == 0 && i < runs->n; i++) {
        struct row row = {.run = &runs->item[i]};
        const struct queue_span all = {row.run->key, 0, INT64_MAX};
        rc = queue_run_sums(q, &all, &row.sums, e);
        row.model = view_parse(row.run->model_json);
        if (rc == 0 && array)
            cJSON_AddItemToArray(array, row_json(&row));
        else if (rc == 0 && lines)
            rc = output_json(c->out, row_json(&row), false, e);
        else if (rc == 0)
            put_row(&t, &row);
        cJSON_Delete(row.model);
    }
    if (!array && !lines) {
        const int printed = table_end(&t, rc ? NULL : e);
        return rc ? rc : printed;
    }
    if (rc == 0 && array)
        return output_json(c->out, array, true, e);
    cJSON_Delete(array);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    struct queue_runs runs = {0};
    const size_t limit = option_given(c->options, OPTION_LIMIT)
                             ? (size_t)option_int(c->options, OPTION_LIMIT)
                             : LIMIT;
    int rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = queue_runs(q, 0, limit, &runs, e);
    if (rc == 0)
        rc = show(c, q, &runs, e);
    queue_runs_release(&runs);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_LIMIT, OPTION_JSON, OPTION_JSONL, OPTION_NONE};

const struct command command_runs = {
    .name = "runs",
    .arguments = "",
    .option = options,
    .details =
        "The runs of workers, the newest first; 20 of them, or as many as --limit says (1,000 at\n"
        "most). One that was killed has died, and what is known of it ends with its last sample.\n"
        "'nocturne report' has more of each.",
    .examples = "nocturne runs\nnocturne runs --limit 100 --jsonl",
    .run = run,
};
