/*
 * Continuous batching: each step takes a row of every sequence that decodes and fills up with rows of
 * prompts, so new prompts never wait for others' answers and answers never wait long for prompts.
 */
#include "base/clock.h"
#include "engine/local/local.h"
#include "engine/local/suspended.h"

#define US_PER_MS 1000.0

/* ------------------------------------------------------------------ memory */

static int open_sequences(struct engine *en, struct error *e)
{
    const uint32_t slots = en->plan.slots;
    const size_t n_events = (size_t)slots * EVENTS_PER_SEQUENCE;
    en->sequences_bytes = plan_sequences_bytes(slots, en->plan.ctx);
    int rc = ledger_alloc(en->ledger, LEDGER_STATE, en->sequences_bytes, "sequences",
                          &en->sequences_block, e);
    if (rc < 0)
        return rc;
    /* The answers' texts are small blocks that grow; together they are not small. */
    const uint64_t text_bytes = plan_text_bytes(slots, en->plan.ctx);
    rc = ledger_reserve(en->ledger, LEDGER_STATE, text_bytes, "texts of answers", e);
    if (rc < 0)
        return rc;
    en->text_reserved = text_bytes;
    en->sequences = en->sequences_block;
    en->running = (struct sequence **)(en->sequences + slots);
    en->events = (struct events){.at = (struct event *)(en->running + slots), .cap = n_events};
    int32_t *tokens = (int32_t *)(en->events.at + n_events);
    for (uint32_t i = 0; i < slots; i++) {
        en->sequences[i].tokens = tokens + (size_t)i * en->plan.ctx;
        en->sequences[i].slot = -1;
    }
    return 0;
}

static int open_step(struct engine *en, struct error *e)
{
    const uint32_t max_rows = plan_max_rows(en->plan.slots, en->plan.chunk);
    const uint32_t n_vocab = en->model.hp.n_vocab;
    en->step_bytes = plan_step_bytes(max_rows, n_vocab);
    int rc = ledger_alloc(en->ledger, LEDGER_SCRATCH, en->step_bytes, "rows and candidates",
                          &en->step_block, e);
    if (rc < 0)
        return rc;
    en->candidates = en->step_block;
    en->rows = (struct step_row *)(en->candidates + n_vocab);
    return 0;
}

static void tell_read(void *context, const struct expert_read *r)
{
    const struct engine *en = context;
    const struct engine_read read = {r->burst, r->shard, r->offset, r->bytes};
    en->o.reading(en->o.reading_context, &read);
}

static int open_experts(struct engine *en, struct error *e)
{
    const struct model_experts_options o = {.ledger = en->ledger,
                                            .n_slots = en->plan.expert_slots,
                                            .io = en->o.io,
                                            .lookahead = en->o.lookahead,
                                            .policy = en->expert_policy,
                                            .reading = en->o.reading ? tell_read : NULL,
                                            .reading_context = en,
                                            .n_reads = en->o.n_reads};
    return model_experts_open(&en->model, &o, &en->experts, e);
}

int scheduler_open(struct engine *en, struct error *e)
{
    const uint32_t slots = en->plan.slots;
    const struct kv_shape shape = model_kv_shape(&en->model, en->o.exact);
    struct forward_options o = {.model = &en->model,
                                .kernels = en->kernels,
                                .ledger = en->ledger,
                                .exact = en->o.exact,
                                .lookahead = en->o.lookahead && en->model.n_experts > 0,
                                .max_rows = plan_max_rows(slots, en->plan.chunk),
                                .max_logits = en->plan.logits,
                                .interrupted = en->o.interrupted,
                                .interrupted_context = en->o.interrupted_context};
    int rc = kv_pool_new(&en->kv, en->ledger, &shape,
                         kv_sequence_bytes(&shape, en->plan.ctx) * slots, slots, en->plan.ctx, e);
    o.kv = en->kv;
    if (rc == 0)
        rc = open_experts(en, e);
    o.experts = en->experts;
    if (rc == 0)
        rc = visits_open(en, e);
    o.visited = en->trace ? visits_add : NULL;
    o.visited_context = en;
    if (rc == 0)
        rc = trunk_open(&en->trunk, &en->model, en->ledger, en->o.n_reads, e);
    o.trunk = en->trunk;
    if (rc == 0)
        rc = forward_new(&en->forward, &o, e);
    if (rc == 0)
        rc = open_sequences(en, e);
    if (rc == 0)
        rc = open_step(en, e);
    return rc;
}

/* ------------------------------------------------------------------ entries */

/* Its state goes back to the pool; the text stays until the entry is made free. */
static void leave(struct engine *en, struct sequence *s)
{
    kv_release(en->kv, s->slot);
    s->slot = -1;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < en->n_running; i++) {
        if (en->running[i] != s)
            en->running[kept++] = en->running[i];
    }
    en->n_running = kept;
    if (kept == 0)
        en->n_rows = en->suspended = 0;
}

void scheduler_drop(struct engine *en, struct sequence *s)
{
    leave(en, s);
    events_drop(&en->events, s);
    if (en->leaving == s)
        en->leaving = NULL;
    sequence_end(s);
}

static void void_all(struct engine *en)
{
    for (uint32_t i = 0; i < en->plan.slots; i++) {
        if (en->sequences[i].state != SEQUENCE_FREE)
            scheduler_drop(en, &en->sequences[i]);
    }
}

void scheduler_close(struct engine *en)
{
    if (en->sequences)
        void_all(en);
    ledger_release(en->ledger, LEDGER_SCRATCH, en->step_block, en->step_bytes);
    ledger_release(en->ledger, LEDGER_STATE, en->sequences_block, en->sequences_bytes);
    if (en->text_reserved > 0)
        ledger_return(en->ledger, LEDGER_STATE, en->text_reserved);
    forward_free(en->forward);
    trunk_close(en->trunk);
    trace_abort(en->trace);
    experts_close(en->experts);
    kv_pool_free(en->kv);
}

struct sequence *scheduler_find(const struct engine *en, uint64_t tag)
{
    for (uint32_t i = 0; en->sequences && i < en->plan.slots; i++) {
        struct sequence *s = &en->sequences[i];
        if (s->state != SEQUENCE_FREE && s->tag == tag)
            return s;
    }
    return NULL;
}

struct sequence *scheduler_free_entry(const struct engine *en)
{
    for (uint32_t i = 0; i < en->plan.slots; i++) {
        if (en->sequences[i].state == SEQUENCE_FREE)
            return &en->sequences[i];
    }
    return NULL;
}

void scheduler_reap(struct engine *en)
{
    if (en->leaving)
        scheduler_drop(en, en->leaving);
}

void scheduler_finished(struct engine *en, struct sequence *s)
{
    const bool failed = s->state == SEQUENCE_FAILED;
    leave(en, s);
    events_push(&en->events,
                &(struct event){.kind = failed ? ENGINE_EVENT_FAILED : ENGINE_EVENT_DONE, .s = s});
}

/* ------------------------------------------------------------------ the step */

uint32_t scheduler_share(struct sequence *const *running, uint32_t n_running, uint32_t chunk)
{
    uint32_t n_rows = 0;
    for (uint32_t i = 0; i < n_running; i++) {
        running[i]->n_rows = sequence_pending(running[i]) == 1 ? 1 : 0;
        n_rows += running[i]->n_rows;
    }
    uint32_t left = n_rows < chunk ? chunk - n_rows : 1;
    for (uint32_t i = 0; i < n_running && left > 0; i++) {
        if (running[i]->n_rows > 0)
            continue;
        running[i]->n_rows = MIN_OF(sequence_pending(running[i]), left);
        left -= running[i]->n_rows;
        n_rows += running[i]->n_rows;
    }
    return n_rows;
}

/* Only the row after which nothing is pending says what the next token is. */
static void fill_rows(struct engine *en)
{
    struct step_row *row = en->rows;
    for (uint32_t i = 0; i < en->n_running; i++) {
        struct sequence *s = en->running[i];
        s->first_row = (uint32_t)(row - en->rows);
        for (uint32_t k = 0; k < s->n_rows; k++) {
            const uint32_t position = s->n_cached + k;
            *row++ = (struct step_row){.token = s->tokens[position],
                                       .position = position,
                                       .slot = s->slot,
                                       .want_logits = position + 1 == s->n_tokens};
        }
    }
    en->n_rows = (uint32_t)(row - en->rows);
}

/* The sequence's next token from its row of logits. A failure here is this sequence's alone. */
static void choose(struct engine *en, struct sequence *s, const float *logits)
{
    const struct sampler_input in = {.sampling = &s->sampling,
                                     .index = sequence_answered(s),
                                     .history = s->tokens,
                                     .n_history = s->n_tokens,
                                     .logits = logits,
                                     .n_vocab = en->model.hp.n_vocab,
                                     .scratch = en->candidates};
    int32_t token = sequence_forced(s);
    int rc = token >= 0 ? 0 : sampler_choose(&in, &token, &s->error);
    if (rc == 0)
        rc = sequence_accept(s, token, &s->error);
    if (rc < 0) {
        s->state = SEQUENCE_FAILED;
        return;
    }
    if (s->first_us == 0) {
        s->first_us = clock_mono_us();
        s->first_reads = s->reads;
    }
    events_push(&en->events, &(struct event){.kind = ENGINE_EVENT_TOKEN,
                                             .s = s,
                                             .token = token,
                                             .text = sequence_new_text(s),
                                             .thought = sequence_new_thought(s)});
}

/* What the step gave: walks the sequences as fill_rows did. */
static void take_results(struct engine *en)
{
    uint32_t n_logits = 0;
    for (uint32_t i = 0; i < en->n_running; i++) {
        struct sequence *s = en->running[i];
        const uint32_t n_rows = s->n_rows;
        s->n_cached += n_rows;
        if (s->n_cached <= s->n_prompt + s->n_resumed && n_rows > 0) {
            en->counters.prompt_tokens += n_rows;
            events_push(
                &en->events,
                &(struct event){.kind = ENGINE_EVENT_PREFILL, .s = s, .prefilled = s->n_cached});
        }
        if (n_rows > 0 && s->n_cached == s->n_tokens) {
            en->counters.decode_tokens++;
            choose(en, s, forward_logits(en->forward, n_logits++));
        }
    }
    for (uint32_t i = 0; i < en->n_running;) {
        if (en->running[i]->state == SEQUENCE_RUNNING)
            i++;
        else
            scheduler_finished(en, en->running[i]); /* the next one moves to i */
    }
}

/* What was read since the last step, this one's reads among it, is shared out by rows. */
static void share_reads(struct engine *en, uint32_t n_rows)
{
    const struct engine_counters before = en->shared;
    engine_counters(en, &en->shared);
    const struct engine_counters *now = &en->shared;
    for (uint32_t i = 0; i < en->n_running; i++) {
        struct sequence *s = en->running[i];
        const double share = (double)s->n_rows / n_rows;
        s->reads.bytes += (now->bytes_read - before.bytes_read) * s->n_rows / n_rows;
        s->reads.expert_hits += (now->expert_hits - before.expert_hits) * s->n_rows / n_rows;
        s->reads.expert_misses += (now->expert_misses - before.expert_misses) * s->n_rows / n_rows;
        s->read_ms += (now->expert_busy_ms - before.expert_busy_ms) * share;
        s->read_wait_ms += (now->expert_wait_ms - before.expert_wait_ms + now->layers_wait_ms -
                            before.layers_wait_ms) *
                           share;
    }
}

/*
 * What comes next: the step that was suspended, rows that came back from a snapshot, or a new step. *ret:
 * the layer it begins at.
 */
static int choose_step(struct engine *en, uint32_t *ret, struct error *e)
{
    *ret = en->suspended;
    en->n_rows = en->suspended > 0 ? suspended_take_up(en) : 0;
    if (en->n_rows > 0)
        return 0;
    *ret = suspended_share(en);
    if (*ret == 0)
        (void)scheduler_share(en->running, en->n_running, en->plan.chunk);
    fill_rows(en);
    return *ret > 0 ? suspended_load(en, e) : 0;
}

static int run_step(struct engine *en, uint32_t from, struct error *e)
{
    const int64_t start_us = clock_mono_us();
    int rc = from > 0 ? forward_resume(en->forward, en->rows, en->n_rows, from, e)
                      : forward_step(en->forward, en->rows, en->n_rows, e);
    share_reads(en, en->n_rows);
    en->counters.row_layers += (uint64_t)en->n_rows * (forward_layer(en->forward) - from);
    en->counters.step_ms += (double)(clock_mono_us() - start_us) / US_PER_MS;
    return rc;
}

int scheduler_step(struct engine *en, struct error *e)
{
    uint32_t from;
    int rc = choose_step(en, &from, e);
    if (rc == 0)
        rc = run_step(en, from, e);
    en->suspended = rc == -ERROR_INTERRUPTED ? forward_layer(en->forward) : 0;
    if (en->suspended > 0)
        return rc;
    if (rc == 0) {
        en->counters.steps++;
        en->counters.rows += en->n_rows;
    }
    en->n_rows = 0;
    if (rc == 0)
        take_results(en);
    else if (rc != -ERROR_INTERRUPTED) /* before the first layer nothing has changed */
        void_all(en);
    return rc;
}
