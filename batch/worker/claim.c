/* From the queue into the engine. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "batch/piece.h"
#include "batch/worker/parts.h"

#define PIECES_MAX_BYTES (64u << 20)
#define JSON_MAX_BYTES (256u << 20)
/*
 * What reading a request takes beside its body, in bodies: the JSON tree, the rendered text twice and
 * the ids. The engine refuses a text that cannot fit the context before it makes ids of it.
 */
#define READING_COST 6
#define CLAIM_MAX_BYTES (64u << 20)

/* ---- Entries ---------------------------------------------------------------------------------- */

static struct running *free_entry(struct worker *w)
{
    for (size_t i = 0; i < w->n_slots; i++) {
        if (!w->run[i].used)
            return &w->run[i];
    }
    return NULL;
}

/* Takes the claim out of its list. */
static int take(struct worker *w, struct queue_claim *from, struct error *e)
{
    struct running *r = free_entry(w);
    struct queue_claim *own = mem_alloc(sizeof(*own));
    uint64_t reading = from->body ? (uint64_t)from->body_bytes * READING_COST : 0;
    int rc = r && own ? 0 : error_set(e, ERROR_NOMEM, "out of memory for a job");
    if (rc == 0)
        rc = ledger_reserve(w->ledger, LEDGER_IO, reading, "reading a request", e);
    if (rc) {
        mem_free(own);
        return rc;
    }
    *own = *from;
    memset(from, 0, sizeof(*from));
    memset(r, 0, sizeof(*r));
    r->used = true;
    r->reading_bytes = reading;
    r->own = (struct queue_claims){.item = own, .n = 1};
    r->claim = own;
    buf_init(&r->prompt, JOB_BODY_MAX_BYTES);
    buf_init(&r->resume, PIECES_MAX_BYTES);
    buf_init(&r->tokens, PIECES_MAX_BYTES);
    buf_init(&r->text, PIECES_MAX_BYTES);
    buf_init(&r->piece, PIECES_MAX_BYTES);
    buf_init(&r->json, JSON_MAX_BYTES);
    pressure_read(&w->place, &r->before);
    r->queued_ms = MAX_OF(clock_wall_us() - own->created_us, (int64_t)0) / 1000;
    w->n_used++;
    return 0;
}

/* The engine has the request, or nobody will: what reading it took goes back. */
static void forget_request(struct worker *w, struct running *r)
{
    job_request_release(&r->request);
    buf_release(&r->prompt);
    buf_release(&r->resume);
    mem_free(r->claim->body);
    r->claim->body = NULL;
    ledger_return(w->ledger, LEDGER_IO, r->reading_bytes);
    r->reading_bytes = 0;
}

void worker_drop(struct worker *w, struct running *r)
{
    engine_cancel(w->engine, (uint64_t)r->claim->job);
    w->offer = true;
    forget_request(w, r);
    queue_claims_release(&r->own);
    buf_release(&r->tokens);
    buf_release(&r->text);
    buf_release(&r->piece);
    buf_release(&r->json);
    memset(r, 0, sizeof(*r));
    w->n_used--;
}

/* ---- What to run ------------------------------------------------------------------------------ */

/* Everything that decides which token comes next: only under the same one may tokens be resumed. */
static void fingerprint(const struct worker *w, struct running *r)
{
    struct sha256 hash;
    const char *format = w->o->raw ? "raw" : w->info.chat_format;
    sha256_init(&hash);
    sha256_add(&hash, w->info.resume_fingerprint, sizeof(w->info.resume_fingerprint));
    sha256_add(&hash, format, strlen(format) + 1);
    sha256_add(&hash, &r->claim->created_us, sizeof(r->claim->created_us));
    sha256_add(&hash, r->claim->body, r->claim->body_bytes);
    sha256_end(&hash, r->fingerprint);
}

/* Tokens of earlier attempts, or none: what cannot be gone on from is forgotten, with an event. */
static int load_progress(struct worker *w, struct running *r, struct error *e)
{
    struct queue_claim *c = r->claim;
    if (!c->progress_bytes)
        return 0;
    struct error why = {0};
    if (memcmp(c->fingerprint, r->fingerprint, sizeof(r->fingerprint)) != 0)
        error_set(&why, ERROR_CONFLICT, "the model, its settings or the program changed");
    else
        (void)piece_read(str_slice(c->progress, c->progress_bytes), &r->resume, NULL, &why);
    if (why.code == ERROR_NONE)
        return 0;
    if (why.code == ERROR_NOMEM) {
        *e = why;
        return -ERROR_NOMEM;
    }
    bool refused = false;
    buf_clear(&r->resume);
    int rc = queue_progress_discard(w->queue, c->job, c->attempt, str_of(why.text), &refused, e);
    if (rc == 0 && !refused)
        report_say(&w->report, LOG_WARN, "'%s' begins again: %s", c->custom_id, why.text);
    return rc;
}

/* The contents alone, one after the other, for models without a known chat format. */
static int join_messages(struct running *r, struct error *e)
{
    struct engine_request *q = &r->request.engine;
    for (size_t i = 0; i < q->n_messages; i++) {
        if (i)
            buf_append_c(&r->prompt, "\n");
        buf_append_str(&r->prompt, q->messages[i].content);
    }
    q->prompt = buf_str(&r->prompt);
    q->messages = NULL;
    q->n_messages = 0;
    return buf_check(&r->prompt, "prompt", e);
}

static int check_model(const struct worker *w, const struct running *r, struct error *e)
{
    struct str name = r->request.model;
    if (!w->o->match_model || name.len == 0 || str_equal_c(name, w->model))
        return 0;
    return error_set(e, ERROR_NOTFOUND, "model '%.*s' is not the one that runs here, '%s'",
                     (int)MIN_OF(name.len, (size_t)200), name.ptr, w->model);
}

/* A body that cannot be read within the budget: it came without its bytes. */
static int refuse_size(struct worker *w, struct running *r, struct error *e)
{
    struct error why = {0};
    char body[24], need[24], left[24];
    uint64_t bytes = r->claim->body_bytes;
    error_set(&why, ERROR_INVALID,
              "the request is %s; reading it takes %s, the memory budget has %s left for that",
              str_format_size(bytes, body), str_format_size(bytes * READING_COST, need),
              str_format_size(ledger_limit(w->ledger) - ledger_total(w->ledger), left));
    return worker_fail(w, r, &why, NULL, e);
}

/*
 * Reads the body; what is wrong with it becomes the job's end. When the database cannot be written
 * now nothing has happened, and it is called again.
 */
static int prepare(struct worker *w, struct running *r, struct error *e)
{
    struct queue_claim *c = r->claim;
    log_event(LOG_DEBUG, "worker", "claimed job=%lld attempt=%lld custom_id=%s", (long long)c->job,
              (long long)c->attempt, c->custom_id);
    struct error why = {0};
    struct job_refusal refusal = {0};
    const struct job_kind *kind = job_kind_find(str_of(c->endpoint));
    if (!c->body)
        return refuse_size(w, r, e);
    int rc = kind ? job_request_parse(&r->request, kind, str_slice(c->body, c->body_bytes),
                                      &refusal, &why)
                  : error_set(&why, ERROR_UNSUPPORTED, "endpoint %s", c->endpoint);
    if (rc == 0)
        rc = check_model(w, r, &why);
    if (rc == 0 && w->o->raw && r->request.engine.n_messages)
        rc = join_messages(r, &why);
    if (rc)
        return worker_fail(w, r, &why, &refusal, e);
    fingerprint(w, r);
    rc = load_progress(w, r, e);
    if (rc) {
        job_request_release(&r->request);
        buf_clear(&r->prompt);
        return rc;
    }
    struct engine_request *q = &r->request.engine;
    q->tag = (uint64_t)c->job;
    q->submitted_us = c->created_us;
    q->resume = (const int32_t *)(const void *)r->resume.ptr;
    q->n_resume = r->resume.len / sizeof(int32_t);
    sha256_init(&r->ids);
    if (r->resume.len > 0)
        sha256_add(&r->ids, r->resume.ptr, r->resume.len);
    r->kind = r->request.kind;
    r->seed = q->sampling.seed;
    r->prepared = true;
    return 0;
}

/* ---- Into the engine -------------------------------------------------------------------------- */

static int offer_one(struct worker *w, struct running *r, struct error *e)
{
    struct error why = {0};
    enum engine_admission answer = ENGINE_BUSY;
    int rc = r->prepared ? 0 : prepare(w, r, e);
    if (rc || r->ended)
        return rc;
    rc = engine_submit(w->engine, &r->request.engine, &answer, &why);
    if (rc)
        return worker_fail(w, r, &why, NULL, e);
    r->admitted = answer == ENGINE_ADMITTED;
    if (r->admitted) {
        worker_take_state(w, r);
        forget_request(w, r);
    }
    if (r->admitted && w->load_ms) {
        /* The first job after the load paid for it. */
        r->load_ms = w->load_ms;
        w->load_ms = 0;
    }
    return 0;
}

static bool waiting(const struct running *r)
{
    return r->used && !r->admitted && !r->ended;
}

int worker_offer(struct worker *w, struct error *e)
{
    if (!w->offer)
        return 0;
    w->offer = false;
    int rc = 0;
    for (size_t i = 0; i < w->n_slots && rc == 0; i++) {
        if (waiting(&w->run[i]))
            rc = offer_one(w, &w->run[i], e);
    }
    w->offer |= rc != 0;
    return rc;
}

/* Nothing more is claimed while a claim waits for room: it would only wait, too. */
static bool may_claim(const struct worker *w)
{
    if (w->full || w->gate.stand != GATE_OPEN || w->n_used == w->n_slots || !engine_room(w->engine))
        return false;
    for (size_t i = 0; i < w->n_slots; i++) {
        if (waiting(&w->run[i]))
            return false;
    }
    return true;
}

/* Takes them all before anything else can fail: they are running in the queue and belong here. */
int worker_claim(struct worker *w, struct error *e)
{
    const uint64_t most = MIN_OF((uint64_t)(w->n_slots - w->n_used), worker_jobs_left(w));
    if (most == 0 || !may_claim(w))
        return 0;
    struct queue_claims claims = {0};
    uint64_t left = ledger_limit(w->ledger) - ledger_total(w->ledger);
    queue_worker_room(w->row, (size_t)MIN_OF(left / READING_COST, (uint64_t)CLAIM_MAX_BYTES));
    int rc = queue_claim(w->row, (size_t)most, &claims, e);
    for (size_t i = 0; i < claims.n && rc == 0; i++)
        rc = take(w, &claims.item[i], e);
    w->offer |= claims.n > 0;
    queue_claims_release(&claims);
    return rc;
}
