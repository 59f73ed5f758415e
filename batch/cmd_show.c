#include <stdio.h>
#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/view.h"

/* JSON that is stored as text; broken text is shown as a string rather than lost. */
static cJSON *stored(const char *text)
{
    if (!text)
        return cJSON_CreateNull();
    cJSON *tree = view_parse(text);
    return tree ? tree : cJSON_CreateString(text);
}

static cJSON *attempt_json(const struct queue_attempt_info *a)
{
    const struct queue_timing *t = &a->timing;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"attempt", a->attempt},
        {"queued_ms", a->wait_us / 1000},
        {"load_ms", t->load_ms},
        {"prefill_tokens", t->prefill_tokens},
        {"prefill_ms", t->prefill_ms},
        {"decode_tokens", t->decode_tokens},
        {"decode_ms", t->decode_ms},
        {"resumed_tokens", t->resumed_tokens},
        {"read_bytes", t->read_bytes},
        {"expert_hits", t->expert_hits},
        {"expert_misses", t->expert_misses},
        {"major_faults", t->major_faults},
        {"pressure_some_us", t->pressure_some_us},
        {"pressure_full_us", t->pressure_full_us},
        {"refaults", t->refaults},
        {"throttled_us", t->throttled_us},
        {"limit_hits", t->limit_hits},
        {"peak_resident_bytes", t->peak_resident_bytes},
    };
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        view_add_count(o, numbers[i].name, numbers[i].value);
    view_add_time(o, "claimed_at", a->claimed_us);
    view_add_time(o, "ended_at", a->ended_us);
    cJSON_AddItemToObject(o, "end", a->end ? cJSON_CreateString(a->end) : cJSON_CreateNull());
    cJSON_AddItemToObject(o, "peak_bytes", stored(a->peak_json));
    cJSON_AddItemToObject(o, "error", stored(a->error_json));
    return o;
}

static cJSON *job_json(const struct queue_job_info *j)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "job", (double)j->job);
    cJSON_AddStringToObject(o, "role", j->role);
    cJSON_AddStringToObject(o, "state", queue_state_name(j->state));
    cJSON_AddNumberToObject(o, "priority", j->priority);
    cJSON_AddNumberToObject(o, "retries", j->retries);
    cJSON_AddNumberToObject(o, "lone_deaths", j->lone_deaths);
    cJSON_AddBoolToObject(o, "suspect", j->suspect);
    view_add_time(o, "not_before", j->not_before_us);
    view_add_time(o, "deadline", j->deadline_us);
    cJSON *attempts = cJSON_AddArrayToObject(o, "attempts");
    for (size_t i = 0; i < j->n_attempts; i++)
        cJSON_AddItemToArray(attempts, attempt_json(&j->attempt[i]));
    return o;
}

static int print_request_json(struct command_context *c, const struct queue_show *s,
                              struct error *e)
{
    cJSON *o = view_request(&s->request);
    cJSON_AddStringToObject(o, "endpoint", s->endpoint);
    cJSON_AddItemToObject(o, "body", stored(s->body));
    cJSON_AddItemToObject(o, "answer", stored(s->result_json));
    cJSON *jobs = cJSON_AddArrayToObject(o, "jobs");
    for (size_t i = 0; i < s->n_jobs; i++)
        cJSON_AddItemToArray(jobs, job_json(&s->job[i]));
    return output_json(c->out, o, true, e);
}

static void put_text(struct output *out, const char *before, const char *text)
{
    output_put(out, "%s", before);
    output_text(out, str_of(text));
    output_put(out, "\n");
}

/* An attempt that was given back has no times. */
static void put_cost(struct output *out, const char *what, int64_t tokens, int64_t ms)
{
    output_put(out, "%s %lld tokens", what, (long long)tokens);
    if (ms)
        output_put(out, " in %lld ms", (long long)ms);
    output_put(out, ", ");
}

/* The attempt's share of what steps wanted of experts. */
static void print_reads(struct output *out, const struct queue_timing *t)
{
    char size[24];
    const double wanted = (double)(t->expert_hits + t->expert_misses);
    output_put(out, "             %s read, %.1f %% of the experts were in memory\n",
               str_format_size((uint64_t)t->read_bytes, size),
               100 * (double)t->expert_hits / wanted);
}

/* What the attempt suffered, with nothing said of what did not happen or is unknown. */
static void print_trouble(struct output *out, const struct queue_timing *t)
{
    const struct {
        double value;
        int digits;
        const char *text;
    } rows[] = {
        {(double)t->pressure_full_us / 1e6, 3, "s in which the whole machine waited for memory"},
        {(double)t->major_faults, 0, "major faults"},
        {(double)t->refaults, 0, "pages read again"},
        {(double)t->throttled_us / 1e6, 3, "s of processor time withheld"},
        {(double)t->limit_hits, 0, "times at the limit of the control group"},
    };
    const char *between = "             ";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].value <= 0)
            continue;
        output_put(out, "%s%.*f %s", between, rows[i].digits, rows[i].value, rows[i].text);
        between = ", ";
    }
    if (*between == ',')
        output_put(out, "\n");
}

static void print_attempt(struct output *out, const struct queue_attempt_info *a)
{
    const struct queue_timing *t = &a->timing;
    char from[32], wait[24];
    output_put(out, "  attempt %lld  %s  %s, waited %s\n", (long long)a->attempt,
               view_time(a->claimed_us, from), a->end ? a->end : "running",
               str_format_duration(a->wait_us / 1000000, wait));
    if (t->prefill_tokens || t->decode_tokens) {
        output_put(out, "             ");
        put_cost(out, "prompt", t->prefill_tokens, t->prefill_ms);
        put_cost(out, "answer", t->decode_tokens, t->decode_ms);
        output_put(out, "%lld resumed\n", (long long)t->resumed_tokens);
    }
    if (t->expert_misses)
        print_reads(out, t);
    print_trouble(out, t);
    cJSON *error = a->error_json ? view_parse(a->error_json) : NULL;
    const char *text = view_error_text(error);
    if (text)
        put_text(out, "             ", text);
    cJSON_Delete(error);
}

static void print_request(struct command_context *c, const struct queue_show *s)
{
    const struct queue_request *r = &s->request;
    char id[37], at[32], state[64];
    struct output *out = c->out;
    output_put(out, "request    %s\n", database_id_text(r->id, id));
    put_text(out, "custom_id  ", r->custom_id);
    output_put(out, "batch      %s\n", database_id_text(r->batch, id));
    output_put(out, "state      %s%s%s%s%s\n", view_state(r->state, r->hold, state),
               r->finish ? ", " : "", r->finish ? r->finish : "",
               r->empty ? ", empty answer: " : "", r->empty ? r->empty : "");
    output_put(out, "submitted  %s\n", view_time(r->created_us, at));
    output_put(out, "finished   %s\n", view_time(r->finished_us, at));
    for (size_t i = 0; i < s->n_jobs; i++) {
        const struct queue_job_info *j = &s->job[i];
        output_put(out, "job %lld  %s, priority %d%s\n", (long long)j->job,
                   view_state(j->state, j->hold, state), j->priority,
                   j->suspect ? ", suspected of killing its worker" : "");
        for (size_t k = 0; k < j->n_attempts; k++)
            print_attempt(out, &j->attempt[k]);
    }
    cJSON *answer = s->result_json ? view_parse(s->result_json) : NULL;
    const char *thought = view_reasoning(answer);
    if (thought)
        put_text(out, "\nthought:\n", thought);
    const char *text = view_answer_text(answer);
    if (text)
        put_text(out, thought ? "\nanswer:\n" : "\n", text);
    cJSON_Delete(answer);
}

static int show_request(struct command_context *c, struct queue *q, struct queue_id id,
                        struct error *e)
{
    struct queue_show s = {0};
    int rc = queue_show(q, id, &s, e);
    if (rc == 0 && option_on(c->options, OPTION_JSON))
        rc = print_request_json(c, &s, e);
    else if (rc == 0)
        print_request(c, &s);
    queue_show_release(&s);
    return rc;
}

static void print_batch(struct command_context *c, const struct queue_batch *b)
{
    char id[37], at[32];
    output_put(c->out, "batch      %s\n", database_id_text(b->id, id));
    if (b->name && *b->name)
        output_put(c->out, "name       %s\n", b->name);
    output_put(c->out, "submitted  %s\n", view_time(b->created_us, at));
    output_put(c->out, "finished   %s\n", view_time(b->finished_us, at));
    view_put_counts(c->out, &b->counts);
    output_put(c->out, "\n");
}

static int show_batch(struct command_context *c, struct queue *q, struct queue_id id,
                      struct error *e)
{
    struct queue_batches b = {0};
    int rc = queue_batch(q, id, &b, e);
    if (rc == 0 && option_on(c->options, OPTION_JSON))
        rc = output_json(c->out, view_batch(&b.item[0]), true, e);
    else if (rc == 0)
        print_batch(c, &b.item[0]);
    queue_batches_release(&b);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    struct queue_id batch_id;
    const struct queue_id *batch = NULL;
    struct queue_target t = {0};
    int rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = database_batch_option(q, c->options, &batch_id, &batch, e);
    if (rc == 0)
        rc = database_find(q, c->arg[0], batch, &t, e);
    if (rc == 0)
        rc = t.kind == QUEUE_KIND_BATCH ? show_batch(c, q, t.id, e) : show_request(c, q, t.id, e);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_BATCH, OPTION_JSON, OPTION_NONE};

const struct command command_show = {
    .name = "show",
    .arguments = "ID",
    .min_args = 1,
    .max_args = 1,
    .option = options,
    .details =
        "ID is a request or a batch: its id, the beginning of it, a custom_id (of the newest batch "
        "that has it,\nor of --batch) or a batch's name.",
    .examples = "nocturne show report.txt\nnocturne show --json 0193a1",
    .run = run,
};
