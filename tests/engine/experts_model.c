/* A model whose experts do not all stay: the same bits with a few slots as with one for every expert. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 48

struct way {
    const char *io;
    const struct expert_policy *policy;
    uint64_t n_slots;
    uint32_t chunk;
    bool lookahead;
};

static float *run(const char *path, const struct way *way)
{
    struct step_kit k;
    const struct step_kit_options o = {.isa = "auto",
                                       .io = way->io,
                                       .policy = way->policy,
                                       .lookahead = way->lookahead,
                                       .expert_slots = way->n_slots,
                                       .max_rows = N_IDS,
                                       .max_logits = N_IDS,
                                       .positions = N_IDS};
    int32_t ids[N_IDS];
    step_kit_open(&k, path, &o);
    step_kit_ids(ids, N_IDS, k.model.hp.n_vocab, 0);
    float *kept = step_kit_logits(&k, ids, N_IDS, way->chunk);
    step_kit_close(&k);
    return kept;
}

TEST(experts_give_the_same_bits_with_few_slots)
{
    static const char *const archs[] = {"qwen3moe", "deepseek2", "kimi-k3"};
    static const uint64_t n_slots[] = {1, 2, 5, 9, 33, 34};
    char path[4096], arguments[128];
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        snprintf(arguments, sizeof(arguments), "--arch %s --type Q4_K", archs[a]);
        step_kit_model(archs[a], arguments, path);
        float *want = run(path, &(struct way){.io = "pread", .chunk = N_IDS});
        for (size_t i = 0; i < ARRAY_LEN(n_slots); i++) {
            const struct way way = {.io = i / 2 % 2 ? "pread" : "auto",
                                    .policy = expert_policy_at((a + i) % 3),
                                    .n_slots = n_slots[i],
                                    .chunk = i % 2 ? 1 : N_IDS - 5,
                                    .lookahead = i % 2};
            float *got = run(path, &way);
            if (memcmp(got, want, 256 * sizeof(float)) != 0)
                test_fail(__FILE__, __LINE__, "%s, %d slots, chunk %u: other bits", archs[a],
                          (int)n_slots[i], way.chunk);
            mem_free(got);
        }
        mem_free(want);
    }
}

/* ------------------------------------------------------------------ the engine within its budget */

/* Requests through an engine with that budget; 0: the smallest that its plan names. */
static void run_engine(const char *path, uint64_t budget, const struct way *way,
                       struct kit_result *ret, struct engine_plan *plan)
{
    struct error e = {0};
    struct kit_engine k = {0};
    struct engine_options o = {.model_path = path, .threads = 2, .slots = 1};
    CHECK_OK(ledger_new(&k.ledger, budget ? budget : kit_plan(path, 0, &o).smallest_bytes, &e), &e);
    o.ledger = k.ledger;
    o.io = way->io;
    o.lookahead = way->lookahead;
    CHECK_OK(engine_open(&k.en, &o, &e), &e);
    engine_plan(k.en, plan);
    const struct engine_request r[2] = {
        {.tag = 1, .prompt = str_of("The harbour was closed."), .max_tokens = 12},
        {.tag = 2,
         .prompt = str_of("Two cranes fell; the ferry waits."),
         .max_tokens = 9,
         .sampling = {.temperature = 0.8f, .top_p = 1, .seed = 4}}};
    kit_run(k.en, r, 2, ret);
    CHECK(ledger_total_peak(k.ledger) <= ledger_limit(k.ledger));
    kit_close(&k);
}

TEST(experts_smallest_budget_gives_the_same_tokens)
{
    char path[4096];
    struct engine_plan small, large;
    struct kit_result *got = mem_array(2, sizeof(*got)), *want = mem_array(2, sizeof(*want));
    step_kit_model("engine", "--arch kimi-linear --experts 24 --used 4 --type Q8_0", path);
    run_engine(path, (uint64_t)1 << 30, &(struct way){.io = "pread"}, want, &large);
    run_engine(path, 0, &(struct way){.io = "auto"}, got, &small);
    CHECK_INT(large.expert_slots, large.expert_count);
    CHECK_INT(small.expert_slots, 4);
    CHECK_INT(small.total_bytes, small.smallest_bytes);
    for (int i = 0; i < 2; i++) {
        kit_check_same(&got[i], &want[i], "the smallest budget");
        CHECK(want[i].usage.expert_misses > 0);
        CHECK(got[i].usage.bytes_read > want[i].usage.bytes_read);
    }
    for (int i = 0; i < 4; i++) {
        const struct way way = {.io = i % 2 ? "auto" : "pread", .lookahead = i / 2};
        run_engine(path, small.smallest_bytes + (uint64_t)i * 400000, &way, got, &large);
        for (int r = 0; r < 2; r++)
            kit_check_same(&got[r], &want[r], way.io);
    }
    mem_free(got);
    mem_free(want);
}

/* An extent goes back after every event: the tokens are those of a store that stays. */
TEST(experts_that_shrink_while_a_request_runs_give_the_same_tokens)
{
    char path[4096];
    struct error e = {0};
    struct kit_result want;
    struct engine_event event;
    enum engine_admission admission;
    struct engine_plan plan;
    uint64_t given = 0;
    size_t n_tokens = 0;
    int rc;
    step_kit_model("engine", "--arch kimi-linear --experts 24 --used 4 --type Q8_0", path);
    const struct engine_options o = {.model_path = path, .threads = 2, .slots = 1};
    const struct engine_request r = {
        .tag = 1, .prompt = str_of("The harbour was closed."), .max_tokens = 24};
    struct kit_engine k = kit_open(&o);
    kit_run(k.en, &r, 1, &want);
    const uint64_t before = ledger_used(k.ledger, LEDGER_SLOTS);
    CHECK_OK(engine_submit(k.en, &r, &admission, &e), &e);
    while ((rc = engine_poll(k.en, &event, &e)) > 0) {
        if (event.kind == ENGINE_EVENT_TOKEN)
            CHECK_INT(event.token, want.token[n_tokens++]);
        given += engine_shrink_experts(k.en, 1);
        CHECK_INT(ledger_used(k.ledger, LEDGER_SLOTS), before - given);
    }
    CHECK_OK(rc, &e);
    CHECK_INT(n_tokens, want.n_tokens);
    engine_plan(k.en, &plan);
    given += engine_shrink_experts(k.en, UINT64_MAX);
    const uint64_t slot_bytes = plan.experts_bytes / plan.expert_slots;
    CHECK(before - given >= 4 * (slot_bytes / 2) && before - given < before / 4);
    CHECK_INT(engine_shrink_experts(k.en, UINT64_MAX), 0);
    kit_close(&k);
}

struct shrinking {
    bool on;
    unsigned n_asked, n_suspended;
    uint64_t given, before;
};

static bool every_third_layer(void *context)
{
    struct shrinking *s = context;
    return s->on && ++s->n_asked % 3 == 0;
}

/* The ledger drops by what was said, whatever is under way. */
static void shrink_some(struct kit_engine *k, struct shrinking *s)
{
    s->given += engine_shrink_experts(k->en, 1);
    CHECK_INT(ledger_used(k->ledger, LEDGER_SLOTS), s->before - s->given);
}

/* In the middle of steps of several requests, with reads ahead of routers under way. */
TEST(experts_that_shrink_while_steps_are_suspended_give_the_same_tokens)
{
    enum { N = 3 };
    char path[4096];
    struct error e = {0};
    struct kit_result want[N];
    struct engine_event event;
    enum engine_admission admission;
    struct shrinking s = {0};
    struct engine_request r[N];
    size_t n_tokens[N] = {0};
    int rc;
    step_kit_model("suspended", "--arch kimi-linear --experts 48 --used 4 --type Q8_0", path);
    const struct engine_options o = {.model_path = path,
                                     .threads = 2,
                                     .slots = N,
                                     .lookahead = true,
                                     .interrupted = every_third_layer,
                                     .interrupted_context = &s};
    for (int i = 0; i < N; i++)
        r[i] = (struct engine_request){.tag = (uint64_t)i,
                                       .prompt = str_of("The harbour was closed for the night."),
                                       .sampling = {.temperature = 1, .seed = (uint64_t)i},
                                       .max_tokens = 24};
    struct kit_engine k = kit_open(&o);
    kit_run(k.en, r, N, want);
    s.before = ledger_used(k.ledger, LEDGER_SLOTS);
    s.on = true;
    for (int i = 0; i < N; i++)
        CHECK_OK(engine_submit(k.en, &r[i], &admission, &e), &e);
    while ((rc = engine_poll(k.en, &event, &e)) > 0 || rc == -ERROR_INTERRUPTED) {
        if (rc > 0 && event.kind == ENGINE_EVENT_TOKEN)
            CHECK_INT(event.token, want[event.tag].token[n_tokens[event.tag]++]);
        if (rc < 0) {
            s.n_suspended++;
            shrink_some(&k, &s);
        }
    }
    CHECK_OK(rc, &e);
    for (int i = 0; i < N; i++)
        CHECK_INT(n_tokens[i], want[i].n_tokens);
    CHECK(s.n_suspended > 20 && s.given > s.before / 2);
    kit_close(&k);
}

TEST(experts_budget_below_the_smallest_is_refused_with_both_figures)
{
    char path[4096], figure[32];
    struct error e = {0};
    struct engine *en = NULL;
    struct ledger *l;
    step_kit_model("engine", "--arch kimi-linear --experts 24 --used 4 --type Q8_0", path);
    struct engine_options o = {.model_path = path, .threads = 1, .slots = 1};
    const uint64_t least = kit_plan(path, 0, &o).smallest_bytes;
    CHECK_OK(ledger_new(&l, least - 1, &e), &e);
    o.ledger = l;
    snprintf(figure, sizeof(figure), "%llu bytes", (unsigned long long)least);
    CHECK_ERROR(engine_open(&en, &o, &e), &e, ERROR_BUDGET, figure);
    snprintf(figure, sizeof(figure), "%llu bytes", (unsigned long long)least - 1);
    CHECK(strstr(e.text, figure) != NULL);
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
}

/* Somebody writes into the file while the worker runs: no token of old trunk and new experts. */
TEST(experts_of_a_file_that_is_written_to_give_no_token)
{
    char path[4096];
    struct error e = {0};
    struct kit_engine k = {0};
    enum engine_admission answer;
    struct engine_event event;
    step_kit_model("engine", "--arch kimi-linear --experts 24 --used 4 --type Q8_0", path);
    const struct engine_options o = {.model_path = path, .threads = 1, .slots = 1};
    k = kit_open(&o);
    const struct engine_request r = {.tag = 1, .prompt = str_of("The harbour"), .max_tokens = 50};
    CHECK_OK(engine_submit(k.en, &r, &answer, &e), &e);
    CHECK_INT(engine_poll(k.en, &event, &e), 1);
    CHECK_INT(utimensat(AT_FDCWD, path, NULL, 0), 0);
    int rc;
    while ((rc = engine_poll(k.en, &event, &e)) > 0)
        CHECK(event.kind == ENGINE_EVENT_TOKEN);
    CHECK_ERROR(rc, &e, ERROR_IO, "was written to while it was in use");
    kit_close(&k);
}
