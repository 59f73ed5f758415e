/*
 * Thoughts in the engine: budgets, resumed tokens, stop strings, limits. The model's weights are random;
 * in the format of Kimi-K3 it begins inside its thought, so it thinks until it is told to stop.
 */
#include "engine/engine.h"
#include "tests/engine/local_kit.h"
#include "tests/test.h"

static const struct engine_message question = {.role = {"user", 4},
                                               .content = {"Why is it so?", 13}};

static struct engine_request ask(uint32_t max_tokens, int32_t budget)
{
    return (struct engine_request){.tag = 1,
                                   .messages = &question,
                                   .n_messages = 1,
                                   .sampling = {.temperature = 1, .top_p = 1, .seed = 3},
                                   .max_tokens = max_tokens,
                                   .has_reasoning_budget = budget >= 0,
                                   .reasoning_budget = budget >= 0 ? (uint32_t)budget : 0};
}

static struct kit_engine open_thinking(void)
{
    char path[4096];
    return kit_open(&(struct engine_options){
        .model_path = kit_thinking_model(path), .slots = 2, .chat_format = "kimi-k3"});
}

/*
 * Random weights end at random. The first seed with which it thinks for 60 tokens, and says something
 * when its thought is cut after 10.
 */
static uint64_t talkative(const struct kit_engine *k, struct kit_result *free,
                          struct kit_result *cut)
{
    for (uint64_t seed = 1; seed < 40; seed++) {
        struct engine_request unlimited = ask(60, -1);
        struct engine_request limited = ask(60, 10);
        unlimited.sampling.seed = limited.sampling.seed = seed;
        kit_run(k->en, &unlimited, 1, free);
        kit_run(k->en, &limited, 1, cut);
        if (free->n_tokens == 60 && cut->n_text >= 4 && cut->n_thought >= 2)
            return seed;
    }
    test_fail(__FILE__, __LINE__, "no seed makes this model talk");
}

/* Tokens before and after the thought are one sequence: whatever the budget, they begin alike. */
TEST(thinking_budget_cuts_the_thought_and_the_answer_follows)
{
    struct kit_engine k = open_thinking();
    struct kit_result free, cut;
    (void)talkative(&k, &free, &cut);
    CHECK(free.in_thought && free.n_text == 0 && free.usage.reasoning_tokens == 60);
    CHECK_INT(free.finish, ENGINE_FINISH_LENGTH);
    CHECK_INT(free.detail, ENGINE_DETAIL_MAX_TOKENS);
    CHECK(!cut.in_thought);
    CHECK(cut.usage.reasoning_tokens > 10 && cut.usage.reasoning_tokens < cut.n_tokens);
    CHECK_INT(cut.usage.completion_tokens, cut.n_tokens);
    for (size_t i = 0; i < 10; i++)
        CHECK_INT(cut.token[i], free.token[i]);
    CHECK(memcmp(cut.thought, free.thought, cut.n_thought) == 0);
    kit_close(&k);
}

TEST(thinking_streams_what_it_says_at_the_end)
{
    struct kit_engine k = open_thinking();
    struct kit_result got;
    const struct engine_request r = ask(60, 10);
    kit_run(k.en, &r, 1, &got);
    CHECK_INT(got.n_streamed_thought, got.n_thought);
    CHECK(memcmp(got.streamed_thought, got.thought, got.n_thought) == 0);
    CHECK_INT(got.n_streamed, got.n_text);
    CHECK(memcmp(got.streamed, got.text, got.n_text) == 0);
    kit_close(&k);
}

TEST(thinking_goes_on_from_every_token_of_an_earlier_attempt)
{
    struct kit_engine k = open_thinking();
    struct kit_result whole, rest;
    const struct engine_request first = ask(45, 6);
    kit_run(k.en, &first, 1, &whole);
    const size_t step = test_emulated() ? 8 : 1; /* an emulator takes minutes for all */
    for (size_t n = 0; n <= whole.n_tokens; n += n < 32 ? step : 4 * step) {
        struct engine_request again = first;
        again.resume = whole.token;
        again.n_resume = n;
        kit_run(k.en, &again, 1, &rest);
        CHECK_INT(rest.n_tokens, whole.n_tokens - n);
        size_t before = n > 0 ? whole.streamed_by[n - 1] : 0;
        CHECK_INT(rest.n_streamed, n < whole.n_tokens ? whole.n_streamed - before : 0);
        CHECK(memcmp(rest.streamed, whole.streamed + before, rest.n_streamed) == 0);
        memmove(rest.token + n, rest.token, rest.n_tokens * sizeof(*rest.token));
        memcpy(rest.token, whole.token, n * sizeof(*rest.token));
        rest.n_tokens = whole.n_tokens;
        kit_check_same(&rest, &whole, "resumed");
    }
    kit_close(&k);
}

/* A stop string ends answers; what is only thought does not count. */
TEST(thinking_is_not_ended_by_a_stop_string)
{
    struct kit_engine k = open_thinking();
    struct kit_result free, whole, got;
    struct engine_request plain = ask(60, 10);
    plain.sampling.seed = talkative(&k, &free, &whole);
    const struct str stop[] = {{whole.thought, 2}, {whole.text + whole.n_text - 2, 2}};
    struct engine_request r = plain;
    r.stop = stop;
    r.n_stop = 1;
    kit_run(k.en, &r, 1, &got);
    CHECK_INT(got.n_thought, whole.n_thought);
    r.stop = &stop[1];
    kit_run(k.en, &r, 1, &got);
    CHECK_INT(got.detail, ENGINE_DETAIL_STOP_STRING);
    CHECK_INT(got.n_thought, whole.n_thought);
    CHECK(got.n_text < whole.n_text && memcmp(got.text, whole.text, got.n_text) == 0);
    kit_close(&k);
}

TEST(thinking_off_answers_at_once_and_prompts_never_think)
{
    struct kit_engine k = open_thinking();
    struct kit_result got;
    struct engine_request r = ask(20, 0);
    r.reasoning = ENGINE_REASONING_OFF;
    kit_run(k.en, &r, 1, &got);
    CHECK(got.usage.reasoning_tokens == 0 && got.n_thought == 0 && got.n_text > 0);
    r = ask(20, 0);
    r.messages = NULL;
    r.prompt = str_of("Once");
    kit_run(k.en, &r, 1, &got);
    CHECK(got.usage.reasoning_tokens == 0 && got.n_text > 0);
    kit_close(&k);
}

/* Nobody said how long the answer may be: the budget of the thought comes on top. */
TEST(thinking_budget_raises_the_default_limit)
{
    struct kit_engine k = open_thinking();
    struct kit_result got;
    struct engine_request r = ask(0, 100000);
    kit_run(k.en, &r, 1, &got);
    CHECK(got.detail == ENGINE_DETAIL_CONTEXT || got.detail == ENGINE_DETAIL_EOS);
    CHECK_INT(got.finish, ENGINE_FINISH_LENGTH); /* in its thought, even if the model ended */
    kit_close(&k);
}

/* Two that think at once give what each gives alone. */
TEST(thinking_of_others_changes_nothing)
{
    struct kit_engine k = open_thinking();
    struct kit_result alone[2], together[2];
    struct engine_request r[2] = {ask(50, 4), ask(50, 17)};
    r[1].tag = 2;
    kit_run(k.en, &r[0], 1, &alone[0]);
    kit_run(k.en, &r[1], 1, &alone[1]);
    kit_run(k.en, r, 2, together);
    kit_check_same(&together[0], &alone[0], "first of two");
    kit_check_same(&together[1], &alone[1], "second of two");
    kit_close(&k);
}

TEST(thinking_is_refused_where_the_format_cannot)
{
    char path[4096];
    struct error e = {0};
    enum engine_admission admission;
    struct kit_engine k = kit_open(
        &(struct engine_options){.model_path = kit_model("F16", path), .chat_format = "chatml"});
    struct engine_request r = ask(5, -1);
    r.reasoning = ENGINE_REASONING_ON;
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_UNSUPPORTED, "does not think");
    r.reasoning = ENGINE_REASONING_AUTO;
    r.reasoning_effort = str_of("low");
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_UNSUPPORTED, "no levels");
    r.messages = NULL;
    r.prompt = str_of("Once");
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_UNSUPPORTED, "plain text");
    kit_close(&k);
}
