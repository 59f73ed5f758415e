#include "batch/night/night.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "batch/night/parts.h"
#include "batch/view.h"

#define LONGEST_SHOWN 10
#define CAUSES_MAX 200

/* ---- Small things ----------------------------------------------------------------------------- */

double night_number(const cJSON *o, const char *name)
{
    const cJSON *n = cJSON_GetObjectItem(o, name);
    return cJSON_IsNumber(n) ? n->valuedouble : 0;
}

const char *night_word(const cJSON *o, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(o, name));
    return text ? text : "";
}

const char *night_end_text(const struct queue_run *r, char out[96])
{
    char at[32];
    if (!r->why)
        snprintf(out, 96, "running");
    else if (strcmp(r->why, "died") == 0 || strcmp(r->why, "superseded") == 0)
        snprintf(out, 96, "%s, last heard of at %s", r->why, view_time(r->known_us, at));
    else
        snprintf(out, 96, "%s", r->why);
    return out;
}

const char *night_count(int64_t n, char out[32])
{
    char digits[24];
    const int len = snprintf(digits, sizeof(digits), "%lld", (long long)n);
    int at = 0;
    for (int i = 0; i < len; i++) {
        out[at++] = digits[i];
        if ((len - i) % 3 == 1 && i + 1 < len && digits[i] != '-')
            out[at++] = ',';
    }
    out[at] = '\0';
    return out;
}

const char *night_time_text(int64_t us, char out[32])
{
    char whole[24];
    if (us < INT64_C(60000000))
        snprintf(out, 32, "%.1f s", (double)us / 1e6);
    else
        snprintf(out, 32, "%s", str_format_duration(us / 1000000, whole));
    return out;
}

const char *night_rate_text(int64_t n, int64_t us, char out[32])
{
    const double rate = us > 0 ? (double)n * 1e6 / (double)us : 0;
    if (rate >= 100)
        return night_count((int64_t)(rate + 0.5), out);
    snprintf(out, 32, "%.3g", rate);
    return out;
}

/* ---- Gathering -------------------------------------------------------------------------------- */

static int read_samples(struct queue *q, struct night_run *r, struct error *e)
{
    struct queue_samples page = {0};
    int64_t after_us = -1;
    int rc = 0;
    do {
        rc = queue_run_samples(q, &r->span, after_us, &page, e);
        if (rc == 0 && page.n > 0) {
            struct queue_sample *more = mem_regrow(r->sample, r->n_samples + page.n, sizeof(*more));
            if (!more)
                rc = error_set(e, ERROR_NOMEM, "out of memory for %zu samples", page.n);
            else {
                memcpy(more + r->n_samples, page.item, page.n * sizeof(*more));
                r->sample = more;
                r->n_samples += page.n;
                after_us = page.item[page.n - 1].elapsed_us;
            }
        }
        const bool more_pages = page.more;
        queue_samples_release(&page);
        if (!more_pages)
            break;
    } while (rc == 0);
    return rc;
}

static void add_sums(struct queue_run_sums *sum, const struct queue_run_sums *s)
{
    sum->attempts += s->attempts;
    sum->done += s->done;
    sum->failed += s->failed;
    sum->retried += s->retried;
    sum->released += s->released;
    sum->died += s->died;
    sum->cancelled += s->cancelled;
    sum->running += s->running;
    sum->empty += s->empty;
    sum->prefill_tokens += s->prefill_tokens;
    sum->prefill_ms += s->prefill_ms;
    sum->decode_tokens += s->decode_tokens;
    sum->decode_ms += s->decode_ms;
    sum->resumed_tokens += s->resumed_tokens;
    sum->load_ms += s->load_ms;
    sum->read_bytes += s->read_bytes;
    sum->expert_hits += s->expert_hits;
    sum->expert_misses += s->expert_misses;
    sum->peak_resident_bytes = MAX_OF(sum->peak_resident_bytes, s->peak_resident_bytes);
}

/* The cause with that code, added where it is new; beyond the most the last one takes them all. */
static struct night_cause *find_cause(struct night *n, const char *code)
{
    for (size_t i = 0; i < n->n_causes; i++) {
        if (strcmp(n->cause[i].code, code) == 0)
            return &n->cause[i];
    }
    if (n->n_causes == CAUSES_MAX)
        return &n->cause[n->n_causes - 1];
    struct night_cause *more = mem_regrow(n->cause, n->n_causes + 1, sizeof(*more));
    if (!more)
        return NULL;
    n->cause = more;
    memset(&more[n->n_causes], 0, sizeof(*more));
    snprintf(more[n->n_causes].code, sizeof(more->code), "%s", code);
    return &more[n->n_causes++];
}

static int add_failure(struct night *n, const struct queue_failure *f, struct error *e)
{
    cJSON *error = view_parse(f->error_json);
    const cJSON *inner = cJSON_GetObjectItem(error, "error");
    const char *code = night_word(inner ? inner : error, "code");
    const char *text = view_error_text(error);
    struct night_cause *c = find_cause(n, *code ? code : "unknown");
    if (c && !c->custom_id) {
        c->request = f->request;
        c->custom_id = mem_strdup(f->custom_id ? f->custom_id : "");
        c->text = mem_strdup(text ? text : "");
    }
    cJSON_Delete(error);
    if (!c || !c->custom_id || !c->text)
        return error_set(e, ERROR_NOMEM, "out of memory for causes of failures");
    c->n_final += f->final;
    c->n_returned += !f->final;
    return 0;
}

static int read_failures(struct queue *q, struct night *n, const struct night_run *r,
                         struct error *e)
{
    int64_t job = 0, attempt = 0;
    bool more = true;
    int rc = 0;
    while (rc == 0 && more) {
        struct queue_failures page = {0};
        rc = queue_run_failures(q, &r->span, job, attempt, &page, e);
        for (size_t i = 0; rc == 0 && i < page.n; i++) {
            rc = add_failure(n, &page.item[i], e);
            job = page.item[i].job;
            attempt = page.item[i].attempt;
        }
        more = page.more;
        queue_failures_release(&page);
    }
    return rc;
}

/* ---- Which requests took longest: of each run the first ones, of all of them the first --------- */

static bool same_request(const struct queue_longest *a, const struct queue_longest *b)
{
    return memcmp(a->request.bytes, b->request.bytes, sizeof(a->request.bytes)) == 0;
}

/* Takes the row's texts over unless the request is there already, from another run. */
static int add_longest(struct night *n, struct queue_longest *row, struct error *e)
{
    for (size_t i = 0; i < n->n_longest; i++) {
        struct queue_longest *l = &n->longest[i];
        if (!same_request(l, row))
            continue;
        l->attempts += row->attempts;
        l->held_us += row->held_us;
        l->prefill_tokens += row->prefill_tokens;
        l->decode_tokens += row->decode_tokens;
        return 0;
    }
    struct queue_longest *more = mem_regrow(n->longest, n->n_longest + 1, sizeof(*more));
    if (!more)
        return error_set(e, ERROR_NOMEM, "out of memory for requests");
    n->longest = more;
    more[n->n_longest++] = *row;
    memset(row, 0, sizeof(*row));
    return 0;
}

static int by_held(const void *a, const void *b)
{
    const struct queue_longest *x = a, *y = b;
    return (x->held_us < y->held_us) - (x->held_us > y->held_us);
}

static int read_longest(struct queue *q, struct night *n, const struct night_run *r,
                        struct error *e)
{
    struct queue_longests page = {0};
    int rc = queue_run_longest(q, &r->span, r->until_us, 10 * LONGEST_SHOWN, &page, e);
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        rc = add_longest(n, &page.item[i], e);
    queue_longests_release(&page);
    return rc;
}

static void cut_longest(struct night *n)
{
    if (n->n_longest > 1)
        qsort(n->longest, n->n_longest, sizeof(*n->longest), by_held);
    while (n->n_longest > LONGEST_SHOWN) {
        n->n_longest--;
        mem_free(n->longest[n->n_longest].custom_id);
        mem_free(n->longest[n->n_longest].batch_name);
    }
}

static int by_count(const void *a, const void *b)
{
    const struct night_cause *x = a, *y = b;
    const int64_t nx = x->n_final + x->n_returned, ny = y->n_final + y->n_returned;
    return nx != ny ? (nx < ny) - (nx > ny) : strcmp(x->code, y->code);
}

static int read_run(struct queue *q, struct night *n, struct night_run *r, struct error *e)
{
    int rc = queue_run_sums(q, &r->span, &r->sums, e);
    if (rc == 0)
        rc = read_samples(q, r, e);
    if (rc == 0)
        rc = read_failures(q, n, r, e);
    if (rc == 0)
        rc = read_longest(q, n, r, e);
    if (rc)
        return rc;
    night_course(r);
    night_course_add(&n->course, &r->course);
    add_sums(&n->sums, &r->sums);
    n->n_running += r->run.running ? r->sums.running : 0;
    n->n_interrupted += r->sums.died + (r->run.running ? 0 : r->sums.running);
    return 0;
}

int night_open(struct queue *q, const struct night_choice *choice, struct night **ret,
               struct error *e)
{
    struct night *n = mem_zalloc(sizeof(*n));
    if (!n)
        return error_set(e, ERROR_NOMEM, "out of memory for a report");
    int rc = night_choose(q, choice, n, e);
    for (size_t i = 0; rc == 0 && i < n->n_runs; i++)
        rc = read_run(q, n, &n->run[i], e);
    if (rc == 0) {
        n->from_us = n->run[0].from_us;
        for (size_t i = 0; i < n->n_runs; i++)
            n->until_us = MAX_OF(n->until_us, n->run[i].until_us);
        cut_longest(n);
        if (n->n_causes > 1)
            qsort(n->cause, n->n_causes, sizeof(*n->cause), by_count);
        rc = night_events(q, n, e);
    }
    if (rc == 0)
        rc = queue_lapsed(q, n->from_us, n->until_us + 1, &n->expired, &n->cancelled, e);
    if (rc == 0)
        rc = night_forecast(q, n, e);
    if (rc) {
        night_free(n);
        return rc;
    }
    *ret = n;
    return 0;
}

static void release_run(struct night_run *r)
{
    queue_run_release(&r->run);
    mem_free(r->sample);
    cJSON_Delete(r->machine);
    cJSON_Delete(r->model);
    cJSON_Delete(r->configuration);
    cJSON_Delete(r->plan);
    cJSON_Delete(r->totals);
}

void night_free(struct night *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->n_runs; i++)
        release_run(&n->run[i]);
    for (size_t i = 0; i < n->n_causes; i++) {
        mem_free(n->cause[i].custom_id);
        mem_free(n->cause[i].text);
    }
    for (size_t i = 0; i < n->n_longest; i++) {
        mem_free(n->longest[i].custom_id);
        mem_free(n->longest[i].batch_name);
    }
    for (size_t i = 0; i < n->n_events; i++)
        mem_free(n->event[i].text);
    queue_status_release(&n->status);
    mem_free(n->run);
    mem_free(n->cause);
    mem_free(n->longest);
    mem_free(n->event);
    mem_free(n);
}
