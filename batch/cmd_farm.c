/* How many machines a number of users takes, and what they cost: from a rate given or measured. */
#include <stdio.h>
#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/farm.h"
#include "batch/view.h"

#define CASES_MAX 32
#define US_PER_S 1e6

struct farm {
    struct farm_machine machine;
    struct farm_demand demand[CASES_MAX]; /* [n] */
    struct farm_size size[CASES_MAX];
    size_t n;
    struct queue_measure measured; /* n_attempts 0: the rate was given */
};

/* "44,000" */
static const char *group(double n, char out[40])
{
    char plain[32];
    const size_t len = (size_t)snprintf(plain, sizeof(plain), "%.0f", n);
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = plain[i];
    }
    out[at] = '\0';
    return out;
}

/* ---- What is asked ---------------------------------------------------------------------------- */

/* "5,20,50"; one value stands for as many as the other list has. */
static int read_list(const struct options *o, enum option_id id, double max, double *ret,
                     size_t *ret_n, struct error *e)
{
    const char *flag = option_row(id)->flag;
    const char *at = option_text(o, id);
    size_t n = 0;
    if (!at)
        return error_set(e, ERROR_USAGE, "needs --users, --requests and --tokens; --%s is missing",
                         flag);
    while (at) {
        char word[32];
        struct error why = {0};
        double value = 0;
        if (!str_take_word(&at, word, sizeof(word)) ||
            str_parse_double(word, 0, max, &value, &why) < 0 || !(value > 0))
            return error_set(e, ERROR_USAGE, "--%s: '%s' is no number above 0 and up to %.0f", flag,
                             word, max);
        if (n == CASES_MAX)
            return error_set(e, ERROR_USAGE, "--%s: more than %d values", flag, CASES_MAX);
        ret[n++] = value;
    }
    *ret_n = n;
    return 0;
}

static int read_demand(struct farm *f, const struct options *o, struct error *e)
{
    double requests[CASES_MAX], tokens[CASES_MAX];
    size_t n_requests = 0, n_tokens = 0;
    if (!option_given(o, OPTION_USERS))
        return error_set(e, ERROR_USAGE,
                         "needs --users, --requests and --tokens; --users is missing");
    int rc = read_list(o, OPTION_REQUESTS, 1e6, requests, &n_requests, e);
    if (rc == 0)
        rc = read_list(o, OPTION_ANSWER_TOKENS, 1e9, tokens, &n_tokens, e);
    if (rc == 0 && n_requests != n_tokens && n_requests != 1 && n_tokens != 1)
        rc = error_set(e, ERROR_USAGE,
                       "--requests has %zu values and --tokens %zu: as many, or one for all",
                       n_requests, n_tokens);
    if (rc < 0)
        return rc;
    f->n = MAX_OF(n_requests, n_tokens);
    for (size_t i = 0; i < f->n; i++)
        f->demand[i] = (struct farm_demand){(double)option_int(o, OPTION_USERS),
                                            requests[MIN_OF(i, n_requests - 1)],
                                            tokens[MIN_OF(i, n_tokens - 1)]};
    return 0;
}

/* ---- How fast a machine is -------------------------------------------------------------------- */

static int no_rate(struct error *e)
{
    return error_set(e, ERROR_NOTFOUND,
                     "no rate was measured: the database has no finished request; let a worker "
                     "finish some ('nocturne submit', 'nocturne run -m MODEL --drain'), name the "
                     "database that has some with --db, or give --rate TOKENS_PER_SECOND");
}

static int measure(struct farm *f, const struct options *o, struct error *e)
{
    struct queue *q = NULL;
    int rc = database_open(o, false, &q, e);
    if (rc == -ERROR_NOTFOUND)
        return no_rate(e);
    if (rc == 0)
        rc = queue_measured(q, &f->measured, e);
    queue_close(q);
    if (rc < 0)
        return rc;
    const struct queue_measure *m = &f->measured;
    if (m->n_attempts == 0 || m->busy_us <= 0)
        return no_rate(e);
    f->machine.tokens_per_s = (double)m->tokens / ((double)m->busy_us / US_PER_S);
    f->machine.prompt_s = (double)m->prefill_ms / 1000 / (double)m->n_attempts;
    /* Requests of less than a millisecond have no rate but that of their attempts. */
    const double writing_s =
        m->decode_ms > 0 ? (double)m->decode_ms / 1000 : (double)m->held_us / US_PER_S;
    f->machine.stream_tokens_per_s = (double)m->tokens / writing_s;
    return 0;
}

static int read_machine(struct farm *f, const struct options *o, struct error *e)
{
    f->machine = (struct farm_machine){
        .tokens_per_s = option_real(o, OPTION_RATE),
        .stream_tokens_per_s = option_real(o, OPTION_RATE),
        .hours = option_real(o, OPTION_HOURS),
        .utilisation = option_real(o, OPTION_UTILISATION),
        .watts = option_real(o, OPTION_WATTS),
        .price = option_real(o, OPTION_PRICE),
        .checkpoint_bytes = option_size(o, OPTION_CHECKPOINT),
    };
    return option_given(o, OPTION_RATE) ? 0 : measure(f, o, e);
}

/* ---- What comes out --------------------------------------------------------------------------- */

static void print_rate(struct output *out, const struct farm *f)
{
    const struct queue_measure *m = &f->measured;
    char tokens[40], busy[24], from[32], to[32];
    if (m->n_attempts == 0) {
        output_put(out, "speed     %.4g tokens/s, as given\n", f->machine.tokens_per_s);
        return;
    }
    output_put(out,
               "speed     %.4g tokens/s, measured: %s tokens of %llu finished requests in %s\n",
               f->machine.tokens_per_s, group((double)m->tokens, tokens),
               (unsigned long long)m->n_attempts,
               str_format_duration((int64_t)((double)m->busy_us / US_PER_S), busy));
    output_put(out, "          model %s, %s to %s\n", m->model[0] ? m->model : "unknown",
               view_time(m->first_us, from), view_time(m->last_us, to));
    output_put(out, "stream    %.4g tokens/s each, %.1f at once; %.1f s before the first token\n",
               f->machine.stream_tokens_per_s, (double)m->held_us / (double)m->busy_us,
               f->machine.prompt_s);
}

static int print_text(struct output *out, const struct farm *f, struct error *e)
{
    static const char *const titles[] = {">requests", ">tokens",  ">tokens/day",
                                         ">machines", ">latency", ">power",
                                         ">cost",     ">storage", NULL};
    const struct farm_machine *m = &f->machine;
    char text[40], size[24];
    print_rate(out, f);
    output_put(out, "machine   %s tokens a day: %.4g h at %.4g %%; ",
               group(f->size[0].machine_tokens_per_day, text), m->hours, m->utilisation * 100);
    output_put(out, "%.4g W, %s USD, %s of model\n", m->watts, group(m->price, text),
               str_format_size(m->checkpoint_bytes, size));
    output_put(out, "users     %s\n\n", group(f->demand[0].users, text));
    struct table t;
    table_init(&t, out, titles);
    for (size_t i = 0; i < f->n; i++) {
        const struct farm_size *s = &f->size[i];
        table_cell(&t, "%.6g", f->demand[i].requests);
        table_cell(&t, "%.6g", f->demand[i].tokens);
        table_cell(&t, "%s", group(s->tokens_per_day, text));
        table_cell(&t, "%s", group(s->machines, text));
        if (s->latency_s < 60)
            table_cell(&t, "%.1f s", s->latency_s);
        else
            table_cell(&t, "%.1f min", s->latency_s / 60);
        table_cell(&t, "%.1f kW", s->watts / 1000);
        table_cell(&t, "%s USD", group(s->cost, text));
        table_cell(&t, "%.1f TiB", s->storage_bytes / (double)(UINT64_C(1) << 40));
    }
    return table_end(&t, e);
}

static void add_rate(cJSON *o, const struct farm *f)
{
    const struct queue_measure *m = &f->measured;
    cJSON *rate = cJSON_AddObjectToObject(o, "rate");
    cJSON_AddStringToObject(rate, "source", m->n_attempts ? "measured" : "given");
    cJSON_AddNumberToObject(rate, "tokens_per_s", f->machine.tokens_per_s);
    cJSON_AddNumberToObject(rate, "stream_tokens_per_s", f->machine.stream_tokens_per_s);
    cJSON_AddNumberToObject(rate, "prompt_s", f->machine.prompt_s);
    if (m->n_attempts == 0)
        return;
    cJSON_AddStringToObject(rate, "model", m->model);
    cJSON_AddNumberToObject(rate, "requests", (double)m->n_attempts);
    cJSON_AddNumberToObject(rate, "tokens", (double)m->tokens);
    cJSON_AddNumberToObject(rate, "busy_s", (double)m->busy_us / US_PER_S);
    cJSON_AddNumberToObject(rate, "at_once", (double)m->held_us / (double)m->busy_us);
    view_add_time(rate, "from", m->first_us);
    view_add_time(rate, "to", m->last_us);
}

static cJSON *case_json(const struct farm *f, size_t i)
{
    const struct farm_machine *m = &f->machine;
    const struct farm_demand *d = &f->demand[i];
    const struct farm_size *s = &f->size[i];
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"users", d->users},
        {"requests", d->requests},
        {"tokens", d->tokens},
        {"hours", m->hours},
        {"utilisation", m->utilisation},
        {"watts", m->watts},
        {"price_usd", m->price},
        {"checkpoint_bytes", (double)m->checkpoint_bytes},
        {"tokens_per_day", s->tokens_per_day},
        {"machine_tokens_per_day", s->machine_tokens_per_day},
        {"machines", s->machines},
        {"latency_s", s->latency_s},
        {"power_w", s->watts},
        {"cost_usd", s->cost},
        {"storage_bytes", s->storage_bytes},
    };
    cJSON *o = cJSON_CreateObject();
    for (size_t k = 0; k < ARRAY_LEN(numbers); k++)
        cJSON_AddNumberToObject(o, numbers[k].name, numbers[k].value);
    add_rate(o, f);
    return o;
}

/* One case is an object, several are an array. */
static int print_json(struct output *out, const struct farm *f, struct error *e)
{
    cJSON *all = f->n == 1 ? case_json(f, 0) : cJSON_CreateArray();
    for (size_t i = 0; f->n > 1 && i < f->n; i++)
        cJSON_AddItemToArray(all, case_json(f, i));
    return output_json(out, all, true, e);
}

static int run(struct command_context *c, struct error *e)
{
    struct farm f = {0};
    int rc = read_demand(&f, c->options, e);
    if (rc == 0)
        rc = read_machine(&f, c->options, e);
    for (size_t i = 0; rc == 0 && i < f.n; i++)
        rc = farm_size(&f.machine, &f.demand[i], &f.size[i], e);
    if (rc < 0)
        return rc;
    return option_on(c->options, OPTION_JSON) ? print_json(c->out, &f, e)
                                              : print_text(c->out, &f, e);
}

static const enum option_id options[] = {OPTION_USERS,       OPTION_REQUESTS, OPTION_ANSWER_TOKENS,
                                         OPTION_RATE,        OPTION_HOURS,    OPTION_WATTS,
                                         OPTION_UTILISATION, OPTION_PRICE,    OPTION_CHECKPOINT,
                                         OPTION_JSON,        OPTION_NONE};

const struct command command_farm = {
    .name = "farm",
    .arguments = "",
    .max_args = 0,
    .option = options,
    .details =
        "The machines are those that write what the users ask for in a day: users x requests x\n"
        "tokens, over what one machine writes in --hours at --utilisation, rounded up. Latency is\n"
        "that of one answer. Power, cost and storage are the machines' together; each keeps its\n"
        "own copy of the model. --requests and --tokens take lists, a row for each.\n\n"
        "Without --rate the rates are those that the database has seen, of the model that last\n"
        "finished a request: tokens a second over the time that at least one request ran, prompts\n"
        "included, decide about machines; the rate of one of the streams that shared the machine,\n"
        "and its mean time to the first token, decide about latency. The output says which.",
    .examples =
        "nocturne farm --users 50 --requests 20 --tokens 500\n"
        "nocturne farm --users 50 --requests 5,20,50 --tokens 300,500,800 --rate 0.37\n"
        "nocturne farm --users 50 --requests 20 --tokens 500 --watts 500 --price 9000 --json",
    .run = run,
};
