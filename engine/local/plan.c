#include "engine/local/plan.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/file.h"
#include "base/str.h"
#include "engine/local/events.h"
#include "engine/local/sequence.h"
#include "engine/model/step.h"
#include "engine/model/trunk.h"
#include "engine/sampler/sampler.h"

/* Text of an answer that each position of the context is allowed, on average. */
#define TEXT_BYTES 8u

/* More rows that want logits cost n_vocab floats each; only engine_score asks for many. */
#define SCORE_LOGITS 16u

/* A row for every sequence that decodes must fit, whatever the chunk. */
uint32_t plan_max_rows(uint32_t slots, uint32_t chunk)
{
    return MAX_OF(slots, chunk);
}

static uint32_t max_logits(const struct plan_input *in, uint32_t slots, uint32_t chunk)
{
    return MAX_OF(slots, MIN_OF(chunk, in->logits ? in->logits : SCORE_LOGITS));
}

uint64_t plan_sequences_bytes(uint32_t slots, uint32_t ctx)
{
    const size_t each = sizeof(struct sequence) + sizeof(struct sequence *) +
                        EVENTS_PER_SEQUENCE * sizeof(struct event);
    return (uint64_t)slots * (each + ctx * sizeof(int32_t));
}

uint64_t plan_text_bytes(uint32_t slots, uint32_t ctx)
{
    return (uint64_t)slots * ctx * TEXT_BYTES;
}

uint64_t plan_step_bytes(uint32_t max_rows, uint32_t n_vocab)
{
    return (uint64_t)n_vocab * sizeof(struct sampler_candidate) +
           (uint64_t)max_rows * sizeof(struct step_row);
}

/* The ledger takes whole pages of memory. */
static uint64_t whole_pages(uint64_t bytes)
{
    return ALIGN_UP(bytes, (uint64_t)FILE_DIRECT_ALIGN);
}

static uint64_t state_bytes(const struct kv_shape *shape, uint32_t slots, uint32_t ctx)
{
    uint64_t pages = kv_sequence_bytes(shape, ctx) * slots;
    return whole_pages(pages + kv_pool_overhead_bytes(shape, pages, slots, ctx)) +
           whole_pages(plan_sequences_bytes(slots, ctx)) + plan_text_bytes(slots, ctx);
}

static uint64_t scratch_bytes(const struct plan_input *in, uint32_t slots, uint32_t chunk)
{
    const struct forward_options o = {.model = in->model,
                                      .exact = in->exact,
                                      .max_rows = plan_max_rows(slots, chunk),
                                      .max_logits = max_logits(in, slots, chunk)};
    return whole_pages(forward_scratch_bytes(&o)) +
           whole_pages(plan_step_bytes(o.max_rows, in->model->hp.n_vocab));
}

/* Of others' memory, what rows of a step may take: one part of so many. In blocks of so many rows. */
#define SPAN_SHARE 8
#define SPAN_STEP 64u

/* What is left for requests that are read, while experts take all they can. */
#define REQUESTS_BYTES ((uint64_t)64 << 20)

/* A row's experts at least; more slots are read less often. */
static uint64_t least_experts(const struct model *m)
{
    return MIN_OF((uint64_t)m->hp.n_experts_used, m->n_experts);
}

/* The most slots whose store takes no more than that. */
static uint64_t most_experts(const struct model *m, uint64_t bytes)
{
    uint64_t low = 0, high = m->n_experts;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (model_experts_bytes(m, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/*
 * Weights come before experts beyond the least: a step reads every byte of them that does not stay, and
 * of an expert only when it is picked.
 */
static void lay_out_trunk(struct engine_plan *p, const struct model *m)
{
    const uint64_t others = p->total_bytes + model_experts_bytes(m, least_experts(m));
    const uint64_t left = p->limit_bytes - MIN_OF(p->limit_bytes, others);
    const uint32_t n = p->limit_bytes > 0 ? trunk_choose_streamed(m, left) : 0;
    p->streamed_layers = n;
    p->streamed_bytes = trunk_step_bytes(m, n);
    p->trunk_bytes = whole_pages(model_trunk_bytes(m, n));
    p->repacked_bytes = whole_pages(model_repacked_bytes(m, n));
    p->ring_bytes = trunk_ring_bytes(m, n);
    p->total_bytes += p->trunk_bytes + p->repacked_bytes + p->ring_bytes;
}

/* What the terms so far leave for slots. */
static uint64_t left_for_experts(const struct engine_plan *p)
{
    if (p->limit_bytes == 0)
        return UINT64_MAX;
    const uint64_t left = p->limit_bytes - MIN_OF(p->limit_bytes, p->total_bytes);
    return left - MIN_OF(REQUESTS_BYTES, left / 8);
}

/* Experts get what the other terms leave: all of them where nothing limits. */
static void lay_out_experts(struct engine_plan *p, const struct model *m)
{
    p->expert_count = m->n_experts;
    p->expert_slots = most_experts(m, left_for_experts(p));
    p->expert_slots = MAX_OF(p->expert_slots, least_experts(m));
    p->experts_bytes = model_experts_bytes(m, p->expert_slots);
    p->total_bytes += p->experts_bytes;
}

/* Steps of as many rows as `allowed` bytes more hold, in whole blocks. */
static void lengthen(struct engine_plan *p, const struct plan_input *in, uint64_t allowed)
{
    const uint64_t before = p->scratch_bytes;
    uint32_t low = p->chunk / SPAN_STEP;
    uint32_t high = MAX_OF(low, MIN_OF(p->ctx, PLAN_MAX_CHUNK) / SPAN_STEP);
    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;
        if (scratch_bytes(in, p->slots, middle * SPAN_STEP) <= before + allowed)
            low = middle;
        else
            high = middle - 1;
    }
    p->chunk = low * SPAN_STEP;
    p->scratch_bytes = scratch_bytes(in, p->slots, p->chunk);
    p->total_bytes += p->scratch_bytes - before;
}

/* Bytes that rows may take from the slots; plan.h says why. */
static uint64_t slots_allowance(const struct engine_plan *p, const struct plan_input *in)
{
    const uint64_t all = model_experts_bytes(in->model, in->model->n_experts);
    const uint64_t least = model_experts_bytes(in->model, least_experts(in->model));
    const uint64_t left = left_for_experts(p);
    if (left >= all)
        return MIN_OF(all / SPAN_SHARE, left - all);
    const uint64_t short_span =
        scratch_bytes(in, p->slots, MAX_OF(PLAN_LEAST_SPAN, p->chunk)) - p->scratch_bytes;
    return MIN_OF(MAX_OF(left / SPAN_SHARE, short_span), left - MIN_OF(left, least));
}

/* And from the layers that stay, without going below what runs. */
static uint64_t layers_allowance(const struct engine_plan *p, const struct model *m)
{
    const uint32_t n = trunk_choose_streamed(m, 0);
    const uint64_t least = p->total_bytes + whole_pages(model_trunk_bytes(m, n)) +
                           whole_pages(model_repacked_bytes(m, n)) + trunk_ring_bytes(m, n) +
                           model_experts_bytes(m, least_experts(m));
    return MIN_OF(p->streamed_bytes / SPAN_SHARE, p->limit_bytes - MIN_OF(p->limit_bytes, least));
}

static void lengthen_steps(struct engine_plan *p, const struct plan_input *in)
{
    if (p->streamed_layers > 0) {
        p->total_bytes -= p->trunk_bytes + p->repacked_bytes + p->ring_bytes;
        lengthen(p, in, layers_allowance(p, in->model));
        lay_out_trunk(p, in->model);
    }
    if (in->model->n_experts > 0)
        lengthen(p, in, slots_allowance(p, in));
}

/* Every term but the experts, for that many slots and positions and steps of the default length. */
static void lay_out_others(struct engine_plan *p, const struct plan_input *in, uint32_t slots,
                           uint32_t ctx)
{
    const struct kv_shape shape = model_kv_shape(in->model, in->exact);
    p->slots = slots;
    p->ctx = ctx;
    p->chunk = in->chunk ? in->chunk : PLAN_DEFAULT_CHUNK;
    p->logits = max_logits(in, slots, p->chunk);
    p->process_bytes = in->process_bytes;
    p->state_bytes = state_bytes(&shape, slots, ctx);
    p->scratch_bytes = scratch_bytes(in, slots, p->chunk);
    p->io_bytes = MODEL_LOAD_BUFFER_BYTES;
    p->cache_bytes = in->cache_bytes;
    p->total_bytes =
        p->process_bytes + p->state_bytes + p->scratch_bytes + p->io_bytes + p->cache_bytes;
    lay_out_trunk(p, in->model);
    p->per_sequence_bytes = state_bytes(&shape, 1, ctx);
    p->per_token_bytes =
        kv_sequence_bytes(&shape, KV_PAGE) / KV_PAGE + sizeof(int32_t) + TEXT_BYTES;
}

static void lay_out(struct engine_plan *p, const struct plan_input *in, uint32_t slots,
                    uint32_t ctx)
{
    lay_out_others(p, in, slots, ctx);
    if (in->chunk == 0)
        lengthen_steps(p, in);
    lay_out_experts(p, in->model);
    p->fits = p->limit_bytes == 0 || p->total_bytes <= p->limit_bytes;
}

static int check_range(const char *what, uint32_t value, uint32_t max, struct error *e)
{
    if (value > max)
        return error_set(e, ERROR_INVALID, "%s is %u, at most %u", what, value, max);
    return 0;
}

/* The total where every choice is made for memory. */
static uint64_t smallest(const struct plan_input *in, uint32_t ctx)
{
    struct engine_plan least = {.limit_bytes = 1};
    lay_out_others(&least, in, 1, ctx);
    return least.total_bytes + model_experts_bytes(in->model, least_experts(in->model));
}

/* Fewer sequences where all layers stay then; else as many as fit beside the streamed ones. */
static void cut_slots(struct engine_plan *p, const struct plan_input *in)
{
    struct engine_plan all_stay = *p;
    while ((!all_stay.fits || all_stay.streamed_layers > 0) && all_stay.slots > 1)
        lay_out(&all_stay, in, all_stay.slots - 1, p->ctx);
    if (all_stay.fits && all_stay.streamed_layers == 0)
        *p = all_stay;
    while (!p->fits && p->slots > 1)
        lay_out(p, in, p->slots - 1, p->ctx);
}

int plan_make(struct engine_plan *ret, const struct plan_input *in, struct error *e)
{
    const uint32_t n_ctx = in->model->hp.n_ctx;
    int rc = check_range("slots", in->slots, PLAN_MAX_SLOTS, e);
    if (rc == 0)
        rc = check_range("chunk", in->chunk, PLAN_MAX_CHUNK, e);
    if (rc < 0)
        return rc;
    if (in->ctx > n_ctx)
        return error_set(e, ERROR_INVALID,
                         "ctx is %u, the model was made for %u positions; give %u or less", in->ctx,
                         n_ctx, n_ctx);
    struct engine_plan p = {.limit_bytes = in->limit_bytes};
    const uint32_t ctx = in->ctx ? in->ctx : n_ctx;
    p.smallest_bytes = smallest(in, ctx);
    lay_out(&p, in, in->slots ? in->slots : PLAN_DEFAULT_SLOTS, ctx);
    if (in->slots == 0)
        cut_slots(&p, in);
    *ret = p;
    return 0;
}

/* The longest context in whole pages of state that fits with these slots; 0: none. */
static uint32_t longest_ctx(const struct engine_plan *p, const struct plan_input *in)
{
    uint32_t low = 0;
    uint32_t high = p->ctx / KV_PAGE;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        struct engine_plan tried = *p;
        lay_out(&tried, in, p->slots, middle * KV_PAGE);
        if (tried.fits)
            low = middle;
        else
            high = middle - 1;
    }
    return low * KV_PAGE;
}

/* The most slots that fit at this context; 0: not even one. */
static uint32_t most_slots(const struct engine_plan *p, const struct plan_input *in)
{
    struct engine_plan tried = *p;
    uint32_t slots = p->slots;
    while (slots > 0 && !tried.fits) {
        if (--slots > 0)
            lay_out(&tried, in, slots, p->ctx);
    }
    return slots;
}

static void put_ways(char *out, size_t size, const struct engine_plan *p,
                     const struct plan_input *in)
{
    int n = snprintf(out, size, "--memory %" PRIu64 "M is the least for one slot of %u tokens",
                     (p->smallest_bytes + (1u << 20) - 1) >> 20, p->ctx);
    const uint32_t ctx = longest_ctx(p, in);
    const uint32_t slots = p->slots > 1 ? most_slots(p, in) : 0;
    if (n > 0 && ctx > 0)
        n += snprintf(out + n, size - (size_t)n, "; --ctx %u would fit", ctx);
    if (n > 0 && slots > 0)
        snprintf(out + n, size - (size_t)n, "; --slots %u would fit", slots);
}

int plan_check(const struct engine_plan *p, const struct plan_input *in, struct error *e)
{
    if (p->fits)
        return 0;
    char ways[200];
    char need[24];
    char limit[24];
    char term[6][24];
    put_ways(ways, sizeof(ways), p, in);
    return error_set(
        e, ERROR_BUDGET,
        "%s: %u slot%s of %u tokens need%s %s (%" PRIu64 " bytes: process %s, weights "
        "%s, experts %s, state %s, scratch %s, io %s), the budget is %s (%" PRIu64 " bytes). %s",
        in->path, p->slots, p->slots == 1 ? "" : "s", p->ctx, p->slots == 1 ? "s" : "",
        str_format_size(p->total_bytes, need), p->total_bytes,
        str_format_size(p->process_bytes, term[0]),
        str_format_size(p->trunk_bytes + p->repacked_bytes + p->ring_bytes, term[1]),
        str_format_size(p->experts_bytes, term[5]), str_format_size(p->state_bytes, term[2]),
        str_format_size(p->scratch_bytes, term[3]),
        str_format_size(p->io_bytes + p->cache_bytes, term[4]),
        str_format_size(p->limit_bytes, limit), p->limit_bytes, ways);
}
