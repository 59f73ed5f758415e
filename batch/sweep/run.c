#include "batch/sweep/run.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/ledger.h"
#include "batch/host/machine.h"
#include "batch/model_options.h"
#include "batch/sweep/process.h"
#include "batch/view.h"
#include "batch/worker/worker.h"
#include "jobs/body.h"
#include "queue/queue.h"

#define LOG_MAX_BYTES (1u << 20)
#define EXIT_SOME_FAILED 1
#define EXIT_REFUSED 4

const enum option_id *sweep_engine_options(void)
{
    static const enum option_id ids[] = {
        OPTION_THREADS, OPTION_CTX,           OPTION_SLOTS,     OPTION_CHUNK, OPTION_ISA,
        OPTION_IO,      OPTION_EXPERT_POLICY, OPTION_LOOKAHEAD, OPTION_EXACT, OPTION_NONE};
    return ids;
}

/* ---- The request ------------------------------------------------------------------------------ */

static int publish(struct queue *db, const struct job_kind *kind, struct str body, struct error *e)
{
    const struct queue_batch_options batch = {.endpoint = str_of(job_kind_endpoint(kind))};
    const struct queue_new_request request = {.custom_id = str_of("sweep"), .body = body};
    struct queue_submit *s = NULL;
    struct queue_id id;
    bool found;
    int rc = queue_submit_begin(db, &batch, &s, e);
    if (rc == 0)
        rc = queue_submit_add(s, &request, e);
    if (rc == 0)
        rc = queue_submit_publish(s, NULL, true, &id, &found, e);
    if (rc)
        queue_submit_abort(s);
    return rc;
}

static int submit(const struct sweep_request *q, const struct sweep_place *p, struct error *e)
{
    const struct queue_options opt = {.create = true};
    const struct job_kind *kind = job_kind_at(JOB_KIND_completion);
    const struct job_parameters greedy = {.has_max_tokens = true,
                                          .max_tokens = q->tokens,
                                          .has_temperature = true,
                                          .has_seed = true,
                                          .seed = 1};
    struct queue *db = NULL;
    struct buf body;
    buf_init(&body, 64u << 20);
    int rc = job_body_make(&body, kind, &greedy, str_of(q->prompt), e);
    if (rc == 0)
        rc = queue_open(p->db, &opt, &db, e);
    if (rc == 0)
        rc = publish(db, kind, buf_str(&body), e);
    queue_close(db);
    buf_release(&body);
    return rc;
}

/* ---- What came of it -------------------------------------------------------------------------- */

static void put_message(struct sweep_row *row, struct str text)
{
    const size_t n =
        str_utf8_whole(str_slice(text.ptr, MIN_OF(text.len, sizeof(row->message) - 1)));
    memcpy(row->message, text.ptr, n);
    row->message[n] = '\0';
    output_harmless(row->message, n, false);
}

/* The last line that the worker said, without its name. */
static void take_complaint(struct sweep_row *row, const struct sweep_place *p, int status)
{
    static const char prefix[] = "nocturne: ";
    struct buf log;
    buf_init(&log, LOG_MAX_BYTES);
    (void)file_read_text(p->log, LOG_MAX_BYTES, &log, NULL);
    while (log.len > 0 && log.ptr[log.len - 1] == '\n')
        log.len--;
    size_t at = log.len;
    while (at > 0 && log.ptr[at - 1] != '\n')
        at--;
    struct str line = str_slice(log.ptr ? log.ptr + at : "", log.len - at);
    if (line.len > sizeof(prefix) - 1 && memcmp(line.ptr, prefix, sizeof(prefix) - 1) == 0)
        line = str_slice(line.ptr + sizeof(prefix) - 1, line.len - (sizeof(prefix) - 1));
    if (line.len > 0)
        put_message(row, line);
    else if (WIFSIGNALED(status))
        snprintf(row->message, sizeof(row->message), "the worker was ended by signal %d",
                 WTERMSIG(status));
    else
        snprintf(row->message, sizeof(row->message), "the worker ended with exit status %d",
                 WEXITSTATUS(status));
    buf_release(&log);
}

static double number(const cJSON *o, const char *name)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

/* Of the steps that wrote a token each: the first token is the prompt's. */
static void take_answer(struct sweep_row *row, const cJSON *answer)
{
    const cJSON *usage = cJSON_GetObjectItemCaseSensitive(answer, "usage");
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(answer, "x_timing");
    const cJSON *digest = cJSON_GetObjectItemCaseSensitive(answer, "x_tokens_sha256");
    row->prompt_tokens = number(usage, "prompt_tokens");
    row->tokens = number(usage, "completion_tokens");
    const double steps = row->tokens - 1;
    const double hits = number(t, "expert_hits") - number(t, "prefill_expert_hits");
    const double misses = number(t, "expert_misses") - number(t, "prefill_expert_misses");
    const double read = number(t, "bytes_read") - number(t, "prefill_bytes_read");
    row->decode_per_s = share(1000 * steps, number(t, "decode_ms"));
    row->prefill_per_s = share(1000 * row->prompt_tokens, number(t, "prefill_ms"));
    row->bytes_per_token = share(read, steps);
    row->hit_rate = share(hits, hits + misses);
    row->load_s = number(t, "load_ms") / 1000;
    row->plan_bytes = number(t, "peak_bytes");
    if (cJSON_IsString(digest))
        snprintf(row->digest, sizeof(row->digest), "%s", digest->valuestring);
}

/* -1: the kernel does not tell. */
static double known(int64_t n)
{
    return n < 0 ? NAN : (double)n;
}

static void take_attempt(struct sweep_row *row, const struct queue_timing *t)
{
    const double us = 1000 * (double)(t->prefill_ms + t->decode_ms);
    row->some = share(known(t->pressure_some_us), us);
    row->full = share(known(t->pressure_full_us), us);
    row->major_faults = known(t->major_faults);
}

static void take_show(struct sweep_row *row, const struct queue_show *s)
{
    cJSON *answer = s->result_json ? view_parse(s->result_json) : NULL;
    const struct queue_job_info *job = s->n_jobs > 0 ? &s->job[0] : NULL;
    if (s->request.state != QUEUE_DONE || !answer || !job) {
        const cJSON *error = cJSON_GetObjectItemCaseSensitive(answer, "error");
        const char *why = error ? view_error_text(error) : NULL;
        put_message(row, str_of(why ? why : "the request has no answer"));
    } else if (job->n_attempts != 1) {
        snprintf(row->message, sizeof(row->message), "it took %zu attempts: no figures",
                 job->n_attempts);
    } else {
        row->state = SWEEP_DONE;
        take_answer(row, answer);
        take_attempt(row, &job->attempt[0].timing);
    }
    cJSON_Delete(answer);
}

static int read_result(struct sweep_row *row, const struct sweep_place *p, struct error *e)
{
    const struct queue_options opt = {0};
    const struct queue_filter all = {0};
    struct queue_requests requests = {0};
    struct queue_show show = {0};
    struct queue *db = NULL;
    int rc = queue_open(p->db, &opt, &db, e);
    if (rc == 0)
        rc = queue_requests(db, &all, &requests, e);
    if (rc == 0 && requests.n == 1)
        rc = queue_show(db, requests.item[0].id, &show, e);
    if (rc == 0)
        take_show(row, &show);
    queue_show_release(&show);
    queue_requests_release(&requests);
    queue_close(db);
    return rc;
}

static int judge(struct sweep_row *row, const struct sweep_place *p, int status, struct error *e)
{
    const int exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    row->state = exit_status == EXIT_REFUSED ? SWEEP_REFUSED : SWEEP_FAILED;
    if (exit_status == 0 || exit_status == EXIT_SOME_FAILED)
        return read_result(row, p, e);
    take_complaint(row, p, status);
    return 0;
}

static void refuse(struct sweep_row *row, enum sweep_state state, const char *text)
{
    row->state = state;
    put_message(row, str_of(text));
}

/*
 * Whether it is worth a process: the worker would refuse a plan that does not fit the budget, and wait for
 * memory that is not there.
 */
static int look_ahead(struct sweep_row *row, const struct sweep_request *q, struct error *e)
{
    struct engine_options eo;
    struct engine *en = NULL;
    struct engine_plan plan;
    struct error why = {0};
    uint64_t available = UINT64_MAX;
    char needs[24], has[24], text[100];
    int rc = model_options_read(&eo, q->options, NULL, e);
    if (rc == 0)
        rc = ledger_new(&eo.ledger, row->budget_bytes, e);
    if (rc)
        return rc;
    eo.headers_only = true;
    eo.cache_bytes = WORKER_CACHE_BYTES;
    rc = engine_open(&en, &eo, e);
    if (rc == 0 && engine_plan_check(en, &why) < 0) {
        refuse(row, SWEEP_REFUSED, why.text);
    } else if (rc == 0) {
        engine_plan(en, &plan);
        (void)machine_available(&available, NULL);
        snprintf(text, sizeof(text), "the plan takes %s, %s are available now",
                 str_format_size(plan.total_bytes, needs), str_format_size(available, has));
        if (plan.total_bytes > available)
            refuse(row, SWEEP_FAILED, text);
    }
    engine_close(en);
    ledger_free(eo.ledger);
    return rc;
}

static void begin_row(struct sweep_row *row, const struct sweep_request *q, uint64_t budget_bytes,
                      uint64_t repetition)
{
    *row = (struct sweep_row){.budget_bytes = budget_bytes,
                              .repetition = repetition,
                              .decode_per_s = NAN,
                              .prefill_per_s = NAN,
                              .bytes_per_token = NAN,
                              .hit_rate = NAN,
                              .load_s = NAN,
                              .peak_rss_bytes = NAN,
                              .plan_bytes = NAN,
                              .some = NAN,
                              .full = NAN,
                              .major_faults = NAN,
                              .prompt_tokens = NAN,
                              .tokens = NAN};
    snprintf(row->key, sizeof(row->key), "%s", q->key);
    clock_format(clock_wall_us(), row->at);
}

int sweep_run(const struct sweep_request *q, uint64_t budget_bytes, uint64_t repetition,
              struct stop *stop, struct sweep_row *ret, struct error *e)
{
    struct sweep_place p;
    struct sweep_end end = {0};
    begin_row(ret, q, budget_bytes, repetition);
    int rc = look_ahead(ret, q, e);
    if (rc < 0 || ret->message[0])
        return rc;
    rc = sweep_place_make(&p, q->options, e);
    if (rc == 0)
        rc = submit(q, &p, e);
    if (rc == 0)
        rc = sweep_process_run(q, &p, budget_bytes, stop, &end, e);
    if (rc == 0 && stop_asked(stop))
        rc = error_set(e, ERROR_INTERRUPTED, "stopped");
    if (rc == 0)
        rc = judge(ret, &p, end.status, e);
    if (rc == 0 && ret->state == SWEEP_DONE)
        ret->peak_rss_bytes = (double)end.peak_resident_bytes;
    sweep_place_leave(&p);
    return rc;
}
