#include <string.h>

#include "base/rng.h"
#include "batch/command.h"
#include "batch/database.h"
#include "batch/parameters.h"
#include "jobs/kind.h"
#include "jobs/request.h"

struct retry {
    struct queue *queue;
    struct parameters change;
    bool empty;                  /* only what was answered with nothing */
    uint64_t n;                  /* requests that got another job */
    uint64_t n_futile;           /* of them: the thought may take every token */
    uint32_t budget, max_tokens; /* of the last such */
};

static bool is_greedy(const struct job_kind *kind, struct str body)
{
    struct job_request r;
    if (job_request_parse(&r, kind, body, NULL, NULL))
        return false;
    bool greedy = r.engine.sampling.temperature == 0;
    job_request_release(&r);
    return greedy;
}

/* A thought that may take all that thought and answer have together leaves nothing for the answer. */
static void note_futile(struct retry *r, const struct queue_show *s, struct str body)
{
    struct job_request parsed;
    if (!r->change.job.has_reasoning_budget ||
        job_request_parse(&parsed, job_kind_find(str_of(s->endpoint)), body, NULL, NULL))
        return;
    const struct engine_request *q = &parsed.engine;
    if (q->has_reasoning_budget && q->max_tokens && q->reasoning_budget >= q->max_tokens) {
        r->n_futile++;
        r->budget = q->reasoning_budget;
        r->max_tokens = q->max_tokens;
    }
    job_request_release(&parsed);
}

static void warn_futile(const struct retry *r)
{
    if (r->n_futile)
        message("%llu of them may think for %u tokens and have %u for thought and answer "
                "together: give --max-tokens more than --reasoning-budget",
                (unsigned long long)r->n_futile, r->budget, r->max_tokens);
}

/*
 * The body of the new job. A failed request may run again as it was; one that is done would only
 * repeat itself, so it needs a change or, where sampling is random, gets another seed.
 */
static int make_body(struct retry *r, const struct queue_show *s, struct buf *out, struct error *e)
{
    const struct job_kind *kind = job_kind_find(str_of(s->endpoint));
    if (!kind)
        return error_set(e, ERROR_UNSUPPORTED, "endpoint %s", s->endpoint);
    struct str body = str_slice(s->body, s->body_bytes);
    bool changed = false;
    int rc = job_body_change(out, kind, &r->change.job, body, &changed, e);
    if (rc || changed || s->request.state != QUEUE_DONE)
        return rc;
    if (is_greedy(kind, body))
        return error_set(
            e, ERROR_INVALID,
            "'%s' is done, and at temperature 0 it would answer the same again; change "
            "something, for example --temperature, --max-tokens or --reasoning-budget",
            s->request.custom_id);
    struct job_parameters seed = {.has_seed = true,
                                  .seed = (int64_t)(rng_entropy() & JOB_SEED_MASK)};
    buf_clear(out);
    return job_body_change(out, kind, &seed, body, NULL, e);
}

static int retry_request(struct retry *r, struct queue_id id, struct error *e)
{
    struct queue_show s = {0};
    struct buf body;
    buf_init(&body, JOB_BODY_MAX_BYTES);
    int rc = queue_show(r->queue, id, &s, e);
    if (rc == 0 && !queue_state_final(s.request.state))
        rc = error_set(e, ERROR_CONFLICT, "'%s' is not finished: it is %s", s.request.custom_id,
                       queue_state_name(s.request.state));
    if (rc == 0)
        rc = make_body(r, &s, &body, e);
    if (rc == 0)
        rc = queue_retry(r->queue, id, buf_str(&body), e);
    if (rc == 0) {
        r->n++;
        note_futile(r, &s, buf_str(&body));
    }
    buf_release(&body);
    queue_show_release(&s);
    return rc;
}

/* Everything in the batch (NULL: in all) that ended without a result, or with an empty one. */
static int retry_batch(struct retry *r, const struct queue_id *batch, struct error *e)
{
    const unsigned lost = 1u << QUEUE_FAILED | 1u << QUEUE_CANCELLED | 1u << QUEUE_EXPIRED;
    struct queue_filter f = {
        .batch = batch, .states = r->empty ? 1u << QUEUE_DONE : lost, .empty = r->empty};
    int rc = 0;
    do {
        struct queue_requests page = {0};
        rc = queue_requests(r->queue, &f, &page, e);
        for (size_t i = 0; i < page.n && rc == 0; i++)
            rc = retry_request(r, page.item[i].id, e);
        f.after_key = page.next_key;
        queue_requests_release(&page);
    } while (rc == 0 && f.after_key);
    return rc;
}

static int retry_if_empty(struct retry *r, struct queue_id id, struct error *e)
{
    struct queue_show s = {0};
    int rc = queue_show(r->queue, id, &s, e);
    bool empty = rc == 0 && s.request.empty;
    queue_show_release(&s);
    return empty ? retry_request(r, id, e) : rc;
}

static int retry_argument(struct retry *r, const char *text, const struct queue_id *batch,
                          struct error *e)
{
    struct queue_target t;
    int rc = database_find(r->queue, text, batch, &t, e);
    if (rc)
        return rc;
    if (t.kind == QUEUE_KIND_BATCH)
        return retry_batch(r, &t.id, e);
    return r->empty ? retry_if_empty(r, t.id, e) : retry_request(r, t.id, e);
}

static int run(struct command_context *c, struct error *e)
{
    struct retry r = {.empty = option_on(c->options, OPTION_EMPTY)};
    struct queue_id id;
    const struct queue_id *batch = NULL;
    if (c->n_args == 0 && !r.empty)
        return error_set(e, ERROR_USAGE, "which requests? give an ID, or --empty");
    int rc = database_open(c->options, false, &r.queue, e);
    if (rc == 0)
        rc = parameters_take(&r.change, c->options, true, e);
    if (rc == 0)
        rc = database_batch_option(r.queue, c->options, &id, &batch, e);
    if (rc == 0 && c->n_args == 0)
        rc = retry_batch(&r, batch, e);
    for (int i = 0; i < c->n_args && rc == 0; i++)
        rc = retry_argument(&r, c->arg[i], batch, e);
    if (r.n || rc == 0)
        output_put(c->out, "%llu queued again\n", (unsigned long long)r.n);
    warn_futile(&r);
    parameters_release(&r.change);
    queue_close(r.queue);
    return rc;
}

static const enum option_id options[] = {OPTION_EMPTY,      OPTION_BATCH,
                                         OPTION_MAX_TOKENS, OPTION_TEMPERATURE,
                                         OPTION_TOP_P,      OPTION_TOP_K,
                                         OPTION_MIN_P,      OPTION_REPEAT_PENALTY,
                                         OPTION_REASONING,  OPTION_REASONING_BUDGET,
                                         OPTION_SEED,       OPTION_STOP,
                                         OPTION_NONE};

const struct command command_retry = {
    .name = "retry",
    .arguments = "[ID]...",
    .max_args = -1,
    .option = options,
    .details =
        "ID is a request, or a batch for everything in it that did not succeed. Options change the "
        "request.\nOne that is done needs a change, or gets another seed; its answer stays until a "
        "new one replaces it.\n\nWith --empty only what is done and has an empty answer runs "
        "again, of the IDs or, without any, of\nall batches. A thought that took every token is "
        "cut short with --reasoning-budget;\n--max-tokens is for thought and answer together and "
        "has "
        "to be more.",
    .examples = "nocturne retry nightly\nnocturne retry report.txt --max-tokens 4096\n"
                "nocturne retry --empty --reasoning-budget 1000 --max-tokens 3000",
    .run = run,
};
