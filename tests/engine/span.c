/*
 * Spans: how many rows of a prompt a plan lets through every layer together, and that each expert they
 * choose is read once per layer and span, with the fewest slots that run.
 */
#include "base/alloc.h"
#include "engine/engine.h"
#include "engine/experts/store.h"
#include "engine/local/plan.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define SPAN 512
#define MAX_LAYERS 8
#define MAX_EXPERTS 512

/* More experts than a span of this model chooses, small enough that the test is fast. */
static const char *many_experts(char path[4096])
{
    return step_kit_model(
        "many",
        "--arch kimi-k3 --layers 4 --mla-every 2 --res-block 2 --ctx 1024 --embd 64 "
        "--latent 64 --experts 512 --used 2 --expert-ff 256 --type Q8_0",
        path);
}

static struct engine_plan plan_for(const char *path, uint64_t limit, uint32_t chunk)
{
    return kit_plan(path, limit,
                    &(struct engine_options){.slots = 1, .threads = 2, .chunk = chunk});
}

/* The smallest budget whose plan has such a span. */
static uint64_t least_budget(const char *path, uint32_t span)
{
    uint64_t low = plan_for(path, 0, 0).smallest_bytes, high = low + (64u << 20);
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (plan_for(path, middle, 0).chunk >= span)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ------------------------------------------------------------------ the plan */

TEST(span_grows_with_the_budget_and_never_costs_the_smallest)
{
    char path[4096];
    many_experts(path);
    const struct engine_plan least = plan_for(path, plan_for(path, 0, 0).smallest_bytes, 0);
    CHECK(least.fits);
    CHECK_INT(least.chunk, PLAN_DEFAULT_CHUNK);
    CHECK_INT(least.expert_slots, 2);
    CHECK_INT(least.total_bytes, least.smallest_bytes);
    uint32_t last = 0;
    for (uint64_t more = 0; more < (128u << 20); more += 9u << 20) {
        const struct engine_plan p = plan_for(path, least.smallest_bytes + more, 0);
        const struct engine_plan plain =
            plan_for(path, least.smallest_bytes + more, PLAN_DEFAULT_CHUNK);
        CHECK(p.fits && p.total_bytes <= p.limit_bytes);
        CHECK_INT(p.smallest_bytes, least.smallest_bytes);
        CHECK(p.chunk >= last && p.chunk <= p.ctx);
        CHECK_INT(plain.chunk, PLAN_DEFAULT_CHUNK);
        if (plain.expert_slots == plain.expert_count)
            CHECK_INT(p.expert_slots, p.expert_count);
        else if (p.chunk > PLAN_LEAST_SPAN)
            CHECK(p.expert_slots + 2 >= plain.expert_slots * 7 / 8);
        last = plain.expert_slots == plain.expert_count ? 0 : p.chunk;
    }
    CHECK_INT(plan_for(path, 0, 0).chunk, 1024); /* all of the context */
    CHECK_INT(plan_for(path, 0, 7).chunk, 7);
}

TEST(span_of_a_model_without_experts_is_the_default)
{
    char path[4096];
    CHECK_INT(plan_for(kit_model("Q4_K", path), 0, 0).chunk, PLAN_DEFAULT_CHUNK);
}

/* Layers are read again for each step: longer steps for hardly more of them. */
TEST(span_grows_where_layers_stream_and_hardly_more_stream_for_it)
{
    char path[4096];
    step_kit_model(
        "deep", "--arch llama --layers 24 --embd 256 --ff 1024 --vocab 300 --ctx 2048 --type F32",
        path);
    const uint64_t smallest = plan_for(path, 0, 0).smallest_bytes;
    const uint64_t whole = plan_for(path, 0, 0).total_bytes;
    CHECK_INT(plan_for(path, whole, 0).chunk, PLAN_DEFAULT_CHUNK);
    CHECK_INT(plan_for(path, smallest, 0).chunk, PLAN_DEFAULT_CHUNK);
    CHECK(plan_for(path, smallest, 0).fits);
    uint32_t longest = 0;
    for (uint64_t budget = smallest; budget < whole; budget += (whole - smallest) / 16) {
        const struct engine_plan p = plan_for(path, budget, 0);
        const struct engine_plan plain = plan_for(path, budget, PLAN_DEFAULT_CHUNK);
        CHECK(p.fits && p.total_bytes <= budget && p.chunk <= p.ctx);
        CHECK_INT(p.smallest_bytes, smallest);
        CHECK(p.streamed_layers <= plain.streamed_layers * 9 / 8 + 1);
        longest = MAX_OF(longest, p.chunk);
    }
    CHECK(longest > 4 * PLAN_DEFAULT_CHUNK);
}

/* ------------------------------------------------------------------ what is read */

struct seen {
    bool expert[MAX_LAYERS][MAX_EXPERTS];
};

static void see(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                uint32_t n_rows)
{
    struct seen *seen = context;
    if (strcmp(name, "ffn_moe_topk") != 0)
        return;
    for (size_t i = 0; i < n_rows * n_cols; i++)
        seen->expert[layer][(size_t)x[i]] = true;
}

static uint64_t count_distinct(const struct seen *seen)
{
    uint64_t n = 0;
    for (size_t il = 0; il < MAX_LAYERS; il++) {
        for (size_t i = 0; i < MAX_EXPERTS; i++)
            n += seen->expert[il][i];
    }
    return n;
}

/* n rows in steps of `span` with that many slots; the last one's logits, and the experts' counters. */
static float *run_span(const char *path, uint32_t n, uint32_t span, uint64_t n_slots,
                       struct seen *seen, struct expert_counters *ret)
{
    struct step_kit k;
    const struct step_kit_options o = {.isa = "auto",
                                       .max_rows = n,
                                       .max_logits = 1,
                                       .expert_slots = n_slots,
                                       .positions = n,
                                       .trace = see,
                                       .trace_context = seen};
    step_kit_open(&k, path, &o);
    int32_t *ids = mem_array(n, sizeof(*ids));
    step_kit_ids(ids, n, k.model.hp.n_vocab, 0);
    float *kept = step_kit_logits(&k, ids, n, span);
    experts_counters(k.experts, ret);
    mem_free(ids);
    step_kit_close(&k);
    return kept;
}

static int keep_row(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                    struct error *e)
{
    (void)position, (void)e;
    memcpy(context, logits, n_vocab * sizeof(*logits));
    return 0;
}

/* A prompt of 512 tokens at the smallest budget that holds it as one span. */
TEST(span_reads_each_expert_once_at_the_smallest_budget)
{
    char path[4096];
    int32_t ids[SPAN];
    struct error e = {0};
    struct seen *seen = mem_zalloc(sizeof(*seen));
    struct expert_counters ample;
    struct engine_counters c;
    struct engine_plan p;
    many_experts(path);
    float *want = run_span(path, SPAN, SPAN, 0, seen, &ample);
    const uint64_t distinct = count_distinct(seen);
    CHECK_INT(ample.misses, distinct);
    struct kit_engine k = {0};
    CHECK_OK(ledger_new(&k.ledger, least_budget(path, SPAN), &e), &e);
    const struct engine_options o = {
        .model_path = path, .ledger = k.ledger, .slots = 1, .threads = 2, .isa = "auto"};
    CHECK_OK(engine_open(&k.en, &o, &e), &e);
    engine_plan(k.en, &p);
    CHECK_INT(p.chunk, SPAN);
    CHECK(p.expert_slots < 8);
    CHECK(distinct < p.expert_count && distinct > 10 * p.expert_slots);
    struct engine_info info;
    engine_describe(k.en, &info);
    float *got = mem_array(info.n_vocab, sizeof(*got));
    step_kit_ids(ids, SPAN, info.n_vocab, 0);
    CHECK_OK(engine_score(k.en, ids, SPAN, 1, keep_row, got, &e), &e);
    engine_counters(k.en, &c);
    CHECK_INT(c.expert_misses, distinct);
    CHECK(memcmp(got, want, info.n_vocab * sizeof(*got)) == 0);
    kit_close(&k);
    mem_free(got);
    mem_free(want);
    mem_free(seen);
}

/* Few experts for many rows: each is wanted by more pairs than go through at once. */
TEST(span_reads_once_an_expert_that_many_rows_want)
{
    static const uint64_t n_slots[] = {1, 2, 0};
    char path[4096];
    struct seen *seen = mem_zalloc(sizeof(*seen));
    struct expert_counters ample, few;
    step_kit_model("crowd",
                   "--arch qwen3moe --layers 2 --ctx 1024 --embd 64 --experts 4 --used 2 "
                   "--expert-ff 64 --vocab 300 --type Q8_0",
                   path);
    float *want = run_span(path, 700, 100, 0, seen, &ample);
    CHECK_INT(ample.misses, count_distinct(seen));
    for (size_t i = 0; i < ARRAY_LEN(n_slots); i++) {
        float *got = run_span(path, 700, 700, n_slots[i], seen, &few);
        CHECK_INT(few.misses, ample.misses);
        CHECK_INT(few.hits, 0);
        CHECK(memcmp(got, want, 300 * sizeof(*got)) == 0);
        mem_free(got);
    }
    mem_free(want);
    mem_free(seen);
}
