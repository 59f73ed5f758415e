/* Which bodies are accepted, what they mean, and which field each refusal names. */
#include "jobs/request.h"

#include "base/alloc.h"
#include "jobs/json.h"
#include "tests/test.h"

#define CHAT_WITH(rest) "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]," rest "}"
#define TEXT_WITH(rest) "{\"prompt\":\"Once\"," rest "}"
#define MESSAGES(list) "{\"messages\":[" list "]}"

static const struct job_kind *chat(void)
{
    return job_kind_find(str_of("/v1/chat/completions"));
}

static const struct job_kind *completion(void)
{
    return job_kind_find(str_of("/v1/completions"));
}

static void accept(struct job_request *r, const struct job_kind *kind, const char *body)
{
    struct error e;
    if (job_request_parse(r, kind, str_of(body), NULL, &e) < 0)
        test_fail(__FILE__, __LINE__, "%s: refused: %s", body, e.text);
}

TEST(request_kinds_are_those_of_the_table)
{
    CHECK_STR(job_kind_endpoint(job_kind_at(JOB_KIND_chat)), "/v1/chat/completions");
    CHECK_STR(job_kind_endpoint(job_kind_at(JOB_KIND_completion)), "/v1/completions");
    for (size_t i = 0; i < JOB_KIND_COUNT; i++)
        CHECK_INT(job_kind_at(i)->id, i);
    CHECK(!job_kind_at(JOB_KIND_COUNT));
    CHECK(!job_kind_find(str_of("/v1/embeddings")));
    CHECK(!job_kind_find(str_of("")));
}

TEST(request_reads_every_value)
{
    struct job_request r;
    accept(&r, chat(),
           CHAT_WITH(
               "\"model\":\"m\",\"temperature\":0.5,\"top_p\":0.25,\"min_p\":0.125,"
               "\"top_k\":40,\"repeat_penalty\":1.5,\"repeat_last_n\":-1,\"seed\":9007199254740991,"
               "\"stop\":[\"a\",\"b\"],\"max_tokens\":7"));
    const struct engine_sampling *s = &r.engine.sampling;
    CHECK(str_equal_c(r.model, "m") && r.has_seed);
    CHECK(s->temperature == 0.5f && s->top_p == 0.25f && s->min_p == 0.125f);
    CHECK(s->repeat_penalty == 1.5f && s->top_k == 40 && s->repeat_last_n == -1);
    CHECK(s->seed == UINT64_C(9007199254740991));
    CHECK_INT(r.engine.n_stop, 2);
    CHECK(str_equal_c(r.engine.stop[1], "b"));
    CHECK_INT(r.engine.max_tokens, 7);
    CHECK_INT(r.engine.n_messages, 1);
    CHECK(str_equal_c(r.engine.messages[0].role, "user"));
    CHECK(str_equal_c(r.engine.messages[0].content, "hi"));
    job_request_release(&r);
}

TEST(request_defaults_are_those_documented)
{
    struct job_request r;
    accept(&r, completion(), "{\"prompt\":\"Once\"}");
    const struct engine_sampling *s = &r.engine.sampling;
    CHECK(s->temperature == 0 && s->top_p == 1 && s->min_p == 0 && s->repeat_penalty == 1);
    CHECK(s->top_k == 0 && s->repeat_last_n == 64 && s->seed == 0 && !r.has_seed);
    CHECK_INT(r.engine.max_tokens, 0);
    CHECK_INT(r.engine.n_stop, 0);
    CHECK(r.model.len == 0 && !r.engine.messages);
    CHECK(str_equal_c(r.engine.prompt, "Once"));
    job_request_release(&r);
}

TEST(request_limits_have_an_order_of_precedence)
{
    static const struct {
        const char *body;
        uint32_t want;
    } cases[] = {
        {CHAT_WITH("\"n_predict\":3"), 3},
        {CHAT_WITH("\"n_predict\":3,\"max_tokens\":4"), 4},
        {CHAT_WITH("\"max_completion_tokens\":5,\"n_predict\":3,\"max_tokens\":4"), 5},
        {CHAT_WITH("\"max_completion_tokens\":null,\"max_tokens\":4"), 4},
        {CHAT_WITH("\"max_tokens\":4294967295"), UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct job_request r;
        accept(&r, chat(), cases[i].body);
        CHECK_INT(r.engine.max_tokens, cases[i].want);
        job_request_release(&r);
    }
}

TEST(request_fields_about_thinking_have_an_order_of_precedence)
{
    static const struct {
        const char *rest;
        enum engine_reasoning reasoning;
        const char *effort;
        int64_t budget; /* -1: none */
    } cases[] = {
        {"\"n\":1", ENGINE_REASONING_AUTO, "", -1},
        {"\"reasoning\":\"on\",\"reasoning_budget\":0", ENGINE_REASONING_ON, "", 0},
        {"\"reasoning\":\"auto\",\"reasoning_effort\":\"none\"", ENGINE_REASONING_OFF, "", -1},
        {"\"reasoning_effort\":\"none\",\"reasoning\":\"on\"", ENGINE_REASONING_ON, "", -1},
        {"\"chat_template_kwargs\":{\"enable_thinking\":false}", ENGINE_REASONING_OFF, "", -1},
        {"\"chat_template_kwargs\":{\"thinking\":true,\"thinking_effort\":\"max\"},"
         "\"reasoning_effort\":\"low\"",
         ENGINE_REASONING_ON, "low", -1},
        {"\"chat_template_kwargs\":{\"thinking_effort\":\"max\"},\"thinking_budget_tokens\":9",
         ENGINE_REASONING_AUTO, "max", 9},
        {"\"thinking_budget_tokens\":9,\"reasoning_budget\":-1", ENGINE_REASONING_AUTO, "", -1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct job_request r;
        char body[512];
        snprintf(body, sizeof(body), CHAT_WITH("%s"), cases[i].rest);
        accept(&r, chat(), body);
        CHECK_INT(r.engine.reasoning, cases[i].reasoning);
        CHECK(str_equal_c(r.engine.reasoning_effort, cases[i].effort));
        CHECK_INT(r.engine.has_reasoning_budget ? (int64_t)r.engine.reasoning_budget : -1,
                  cases[i].budget);
        job_request_release(&r);
    }
}

TEST(request_passes_on_what_the_assistant_thought_and_names)
{
    struct job_request r;
    accept(&r, chat(),
           MESSAGES("{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"a\"},"
                    "{\"role\":\"user\",\"content\":\"b\",\"name\":\"Ann\","
                    "\"reasoning_content\":null}"));
    CHECK(str_equal_c(r.engine.messages[0].reasoning, "hm"));
    CHECK(str_equal_c(r.engine.messages[1].name, "Ann"));
    CHECK_INT(r.engine.messages[1].reasoning.len, 0);
    job_request_release(&r);
}

TEST(request_joins_text_parts_and_maps_developer)
{
    struct job_request r;
    accept(&r, chat(),
           MESSAGES("{\"role\":\"developer\",\"content\":\"Be \\u00e9brief\"},"
                    "{\"content\":[{\"type\":\"text\",\"text\":\"one\"},"
                    "{\"text\":\"two\",\"type\":\"text\"}],\"role\":\"user\",\"name\":\"Ann\"}"));
    CHECK_INT(r.engine.n_messages, 2);
    CHECK(str_equal_c(r.engine.messages[0].role, "system"));
    CHECK(str_equal_c(r.engine.messages[0].content, "Be \xC3\xA9"
                                                    "brief"));
    CHECK(str_equal_c(r.engine.messages[1].content, "one\ntwo"));
    job_request_release(&r);
    accept(&r, chat(),
           MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"}]}"));
    CHECK_INT(r.engine.messages[0].content.len, 0);
    job_request_release(&r);
}

/* What changes no answer, and what says no more than its absence. */
TEST(request_accepts_harmless_fields)
{
    static const char *const rests[] = {
        "\"user\":\"u\"",
        "\"metadata\":{\"a\":\"b\"}",
        "\"store\":true",
        "\"service_tier\":\"flex\"",
        "\"safety_identifier\":\"x\"",
        "\"stream_options\":null",
        "\"prompt_cache_key\":\"k\"",
        "\"cache_prompt\":true",
        "\"timings_per_token\":true",
        "\"return_progress\":false",
        "\"n\":1",
        "\"n\":null",
        "\"stream\":false",
        "\"presence_penalty\":0",
        "\"frequency_penalty\":0.0",
        "\"logit_bias\":{}",
        "\"logprobs\":false",
        "\"logprobs\":null",
        "\"response_format\":{\"type\":\"text\"}",
        "\"grammar\":\"\"",
        "\"json_schema\":null",
        "\"ignore_eos\":false",
        "\"typical_p\":1",
        "\"reasoning_budget\":-1",
        "\"stop\":null",
        "\"stop\":[]",
        "\"stop\":\"x\"",
        "\"seed\":null",
        "\"seed\":0",
        "\"top_k\":-1",
        "\"max_tokens\":null",
        "\"model\":null",
    };
    static const char *const chat_rests[] = {
        "\"tools\":[]",
        "\"tools\":null",
        "\"tool_choice\":\"none\"",
        "\"tool_choice\":\"auto\"",
        "\"functions\":[]",
        "\"function_call\":\"none\"",
        "\"parallel_tool_calls\":true",
        "\"modalities\":[\"text\"]",
        "\"reasoning_effort\":null",
        "\"reasoning_format\":\"deepseek\"",
        "\"chat_template_kwargs\":{}",
        "\"top_logprobs\":0",
        "\"prediction\":{\"type\":\"content\",\"content\":\"x\"}",
    };
    static const char *const text_rests[] = {"\"echo\":false", "\"best_of\":1", "\"suffix\":\"\"",
                                             "\"suffix\":null"};
    char body[512];
    struct job_request r;
    for (size_t i = 0; i < ARRAY_LEN(rests); i++) {
        snprintf(body, sizeof(body), CHAT_WITH("%s"), rests[i]);
        accept(&r, chat(), body);
        job_request_release(&r);
        snprintf(body, sizeof(body), TEXT_WITH("%s"), rests[i]);
        accept(&r, completion(), body);
        job_request_release(&r);
    }
    for (size_t i = 0; i < ARRAY_LEN(chat_rests); i++) {
        snprintf(body, sizeof(body), CHAT_WITH("%s"), chat_rests[i]);
        accept(&r, chat(), body);
        job_request_release(&r);
    }
    for (size_t i = 0; i < ARRAY_LEN(text_rests); i++) {
        snprintf(body, sizeof(body), TEXT_WITH("%s"), text_rests[i]);
        accept(&r, completion(), body);
        job_request_release(&r);
    }
}

struct refused {
    const char *body;
    const char *param;
    const char *code;
};

static void check_refused(const struct job_kind *kind, const struct refused *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct job_request r;
        struct job_refusal why;
        struct error e = {0};
        int rc = job_request_parse(&r, kind, str_of(rows[i].body), &why, &e);
        if (rc == 0)
            test_fail(__FILE__, __LINE__, "%s: accepted", rows[i].body);
        if (strcmp(why.param, rows[i].param) != 0 || strcmp(why.code, rows[i].code) != 0)
            test_fail(__FILE__, __LINE__, "%s: param '%s' code '%s', want '%s' '%s'", rows[i].body,
                      why.param, why.code, rows[i].param, rows[i].code);
        CHECK_INT(
            rc, -(strcmp(why.code, JOB_CODE_UNSUPPORTED) == 0 ? ERROR_UNSUPPORTED : ERROR_INVALID));
        if (strncmp(e.text, why.param, strlen(why.param)) != 0)
            test_fail(__FILE__, __LINE__, "\"%s\" does not begin with %s", e.text, why.param);
    }
}

TEST(request_refuses_what_would_change_the_answer)
{
    static const struct refused rows[] = {
        {CHAT_WITH("\"n\":2"), "n", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"n\":\"1\""), "n", JOB_CODE_TYPE},
        {CHAT_WITH("\"stream\":true"), "stream", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"tools\":[{\"type\":\"function\"}]"), "tools", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"tool_choice\":\"required\""), "tool_choice", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"tool_choice\":{}"), "tool_choice", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"functions\":[{}]"), "functions", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"response_format\":{\"type\":\"json_object\"}"), "response_format",
         JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"response_format\":{\"type\":\"text\",\"schema\":{}}"), "response_format",
         JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"response_format\":{}"), "response_format", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"response_format\":\"text\""), "response_format", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"logprobs\":true"), "logprobs", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"top_logprobs\":2"), "top_logprobs", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"logit_bias\":{\"5\":1}"), "logit_bias", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"presence_penalty\":0.1"), "presence_penalty", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"frequency_penalty\":-1"), "frequency_penalty", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"typical_p\":0.9"), "typical_p", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"grammar\":\"root\""), "grammar", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"json_schema\":{}"), "json_schema", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"chat_template_kwargs\":{\"tools\":false}"), "chat_template_kwargs",
         JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"chat_template_kwargs\":{\"thinking\":\"yes\"}"), "chat_template_kwargs",
         JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"chat_template_kwargs\":true"), "chat_template_kwargs", JOB_CODE_TYPE},
        {CHAT_WITH("\"reasoning_effort\":1"), "reasoning_effort", JOB_CODE_TYPE},
        {CHAT_WITH("\"reasoning\":\"maybe\""), "reasoning", JOB_CODE_VALUE},
        {CHAT_WITH("\"reasoning\":true"), "reasoning", JOB_CODE_VALUE},
        {CHAT_WITH("\"reasoning_budget\":-2"), "reasoning_budget", JOB_CODE_VALUE},
        {CHAT_WITH("\"thinking_budget_tokens\":1.5"), "thinking_budget_tokens", JOB_CODE_TYPE},
        {CHAT_WITH("\"reasoning_format\":\"none\""), "reasoning_format", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"ignore_eos\":true"), "ignore_eos", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"modalities\":[\"text\",\"audio\"]"), "modalities", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"audio\":{}"), "audio", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"web_search_options\":{}"), "web_search_options", JOB_CODE_UNSUPPORTED},
        {CHAT_WITH("\"verbosity\":\"low\""), "verbosity", JOB_CODE_UNSUPPORTED},
    };
    check_refused(chat(), rows, ARRAY_LEN(rows));
    static const struct refused text_rows[] = {
        {TEXT_WITH("\"suffix\":\"end\""), "suffix", JOB_CODE_UNSUPPORTED},
        {TEXT_WITH("\"echo\":true"), "echo", JOB_CODE_UNSUPPORTED},
        {TEXT_WITH("\"best_of\":2"), "best_of", JOB_CODE_UNSUPPORTED},
        {TEXT_WITH("\"logprobs\":0"), "logprobs", JOB_CODE_UNSUPPORTED},
        {"{\"prompt\":[\"a\",\"b\"]}", "prompt", JOB_CODE_UNSUPPORTED},
        {"{\"prompt\":[1]}", "prompt", JOB_CODE_UNSUPPORTED},
        {"{\"prompt\":[]}", "prompt", JOB_CODE_TYPE},
        {"{\"prompt\":7}", "prompt", JOB_CODE_TYPE},
        {"{\"prompt\":\"\"}", "prompt", JOB_CODE_VALUE},
        {"{\"prompt\":null}", "prompt", JOB_CODE_MISSING},
        {TEXT_WITH("\"tools\":[]"), "tools", JOB_CODE_UNKNOWN},
        {TEXT_WITH("\"reasoning\":\"on\""), "reasoning", JOB_CODE_UNKNOWN},
        {TEXT_WITH("\"reasoning_budget\":0"), "reasoning_budget", JOB_CODE_UNSUPPORTED},
        {TEXT_WITH("\"max_completion_tokens\":1"), "max_completion_tokens", JOB_CODE_UNKNOWN},
    };
    check_refused(completion(), text_rows, ARRAY_LEN(text_rows));
}

TEST(request_refuses_bad_values_and_unknown_fields)
{
    static const struct refused rows[] = {
        {"[]", "", JOB_CODE_TYPE},
        {"\"x\"", "", JOB_CODE_TYPE},
        {"{}", "messages", JOB_CODE_MISSING},
        {CHAT_WITH("\"prompt\":\"x\""), "prompt", JOB_CODE_UNKNOWN},
        {CHAT_WITH("\"temprature\":1"), "temprature", JOB_CODE_UNKNOWN},
        {CHAT_WITH("\"Temperature\":1"), "Temperature", JOB_CODE_UNKNOWN},
        {CHAT_WITH("\"\":1"), "", JOB_CODE_UNKNOWN},
        {CHAT_WITH("\"seed\":1,\"seed\":1"), "seed", JOB_CODE_DUPLICATE},
        {CHAT_WITH("\"user\":null,\"user\":null"), "user", JOB_CODE_DUPLICATE},
        {CHAT_WITH("\"messages\":[]"), "messages", JOB_CODE_DUPLICATE},
        {CHAT_WITH("\"temperature\":-0.1"), "temperature", JOB_CODE_VALUE},
        {CHAT_WITH("\"temperature\":101"), "temperature", JOB_CODE_VALUE},
        {CHAT_WITH("\"temperature\":\"1\""), "temperature", JOB_CODE_TYPE},
        {CHAT_WITH("\"top_p\":1.5"), "top_p", JOB_CODE_VALUE},
        {CHAT_WITH("\"min_p\":2"), "min_p", JOB_CODE_VALUE},
        {CHAT_WITH("\"repeat_penalty\":-1"), "repeat_penalty", JOB_CODE_VALUE},
        {CHAT_WITH("\"top_k\":-2"), "top_k", JOB_CODE_VALUE},
        {CHAT_WITH("\"top_k\":1.5"), "top_k", JOB_CODE_TYPE},
        {CHAT_WITH("\"top_k\":2147483648"), "top_k", JOB_CODE_VALUE},
        {CHAT_WITH("\"repeat_last_n\":-2"), "repeat_last_n", JOB_CODE_VALUE},
        {CHAT_WITH("\"max_tokens\":0"), "max_tokens", JOB_CODE_VALUE},
        {CHAT_WITH("\"max_tokens\":4294967296"), "max_tokens", JOB_CODE_VALUE},
        {CHAT_WITH("\"max_tokens\":1.5"), "max_tokens", JOB_CODE_TYPE},
        {CHAT_WITH("\"n_predict\":-1"), "n_predict", JOB_CODE_VALUE},
        {CHAT_WITH("\"seed\":-1"), "seed", JOB_CODE_VALUE},
        {CHAT_WITH("\"seed\":0.5"), "seed", JOB_CODE_TYPE},
        {CHAT_WITH("\"seed\":9007199254740992"), "seed", JOB_CODE_VALUE},
        {CHAT_WITH("\"seed\":9007199254740993"), "seed", JOB_CODE_VALUE},
        {CHAT_WITH("\"seed\":1e999"), "seed", JOB_CODE_VALUE},
        {CHAT_WITH("\"metadata\":{\"a\":[1,{\"ticket\":-9007199254740993}]}"),
         "metadata.a[1].ticket", JOB_CODE_VALUE},
        {CHAT_WITH("\"stop\":\"\""), "stop", JOB_CODE_VALUE},
        {CHAT_WITH("\"stop\":[\"a\",\"\"]"), "stop", JOB_CODE_VALUE},
        {CHAT_WITH("\"stop\":[1]"), "stop", JOB_CODE_TYPE},
        {CHAT_WITH("\"stop\":{}"), "stop", JOB_CODE_TYPE},
        {CHAT_WITH("\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\","
                   "\"12\",\"13\",\"14\",\"15\",\"16\",\"17\"]"),
         "stop", JOB_CODE_VALUE},
        {CHAT_WITH("\"model\":7"), "model", JOB_CODE_TYPE},
        {CHAT_WITH("\"logit_bias\":7"), "logit_bias", JOB_CODE_UNSUPPORTED},
    };
    check_refused(chat(), rows, ARRAY_LEN(rows));
}

TEST(request_refuses_bad_messages_by_their_place)
{
    static const struct refused rows[] = {
        {"{\"messages\":null}", "messages", JOB_CODE_MISSING},
        {"{\"messages\":[]}", "messages", JOB_CODE_TYPE},
        {"{\"messages\":{}}", "messages", JOB_CODE_TYPE},
        {MESSAGES("7"), "messages[0]", JOB_CODE_TYPE},
        {MESSAGES("{\"content\":\"x\"}"), "messages[0].role", JOB_CODE_MISSING},
        {MESSAGES("{\"role\":\"user\"}"), "messages[0].content", JOB_CODE_MISSING},
        {MESSAGES("{\"role\":7,\"content\":\"x\"}"), "messages[0].role", JOB_CODE_TYPE},
        {MESSAGES("{\"role\":\"robot\",\"content\":\"x\"}"), "messages[0].role", JOB_CODE_VALUE},
        {MESSAGES("{\"role\":\"tool\",\"content\":\"x\"}"), "messages[0].role",
         JOB_CODE_UNSUPPORTED},
        {MESSAGES("{\"role\":\"user\",\"content\":null}"), "messages[0].content", JOB_CODE_TYPE},
        {MESSAGES("{\"role\":\"user\",\"content\":[]}"), "messages[0].content", JOB_CODE_VALUE},
        {MESSAGES("{\"role\":\"user\",\"role\":\"user\",\"content\":\"x\"}"), "messages[0].role",
         JOB_CODE_DUPLICATE},
        {MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}],"
                  "\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"),
         "messages[0].content", JOB_CODE_DUPLICATE},
        {MESSAGES(
             "{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"user\",\"content\":"
             "[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\",\"image_url\":{}}]}"),
         "messages[1].content[1].type", JOB_CODE_UNSUPPORTED},
        {MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}"),
         "messages[0].content[0].text", JOB_CODE_TYPE},
        {MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\",\"x\":1}]}"),
         "messages[0].content[0]", JOB_CODE_UNKNOWN},
        {MESSAGES("{\"role\":\"user\",\"content\":[\"a\"]}"), "messages[0].content[0].type",
         JOB_CODE_TYPE},
        {MESSAGES("{\"role\":\"user\",\"content\":\"x\",\"tool_calls\":[{}]}"),
         "messages[0].tool_calls", JOB_CODE_UNSUPPORTED},
        {MESSAGES("{\"role\":\"user\",\"content\":\"x\",\"reasoning_content\":\"y\"}"),
         "messages[0].reasoning_content", JOB_CODE_UNSUPPORTED},
        {MESSAGES("{\"role\":\"user\",\"content\":\"x\",\"name\":7}"), "messages[0].name",
         JOB_CODE_TYPE},
        {MESSAGES("{\"role\":\"user\",\"content\":\"x\",\"colour\":1}"), "messages[0].colour",
         JOB_CODE_UNKNOWN},
        {MESSAGES(
             "{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"y\"}"),
         "messages[1].role", JOB_CODE_UNSUPPORTED},
    };
    check_refused(chat(), rows, ARRAY_LEN(rows));
}

TEST(request_refuses_what_is_no_strict_json)
{
    static const struct refused rows[] = {
        {"", "", JOB_CODE_JSON},
        {"{", "", JOB_CODE_JSON},
        {"{}x", "", JOB_CODE_JSON},
        {"{}{}", "", JOB_CODE_JSON},
        {"{\"a\":}", "", JOB_CODE_JSON},
        {"{\"a\":1,}", "", JOB_CODE_JSON},
        {"{a:1}", "", JOB_CODE_JSON},
        {"{\"a\" 1}", "", JOB_CODE_JSON},
        {"[1 2]", "", JOB_CODE_JSON},
        {"[01]", "", JOB_CODE_JSON},
        {"[1.]", "", JOB_CODE_JSON},
        {"[.5]", "", JOB_CODE_JSON},
        {"[+1]", "", JOB_CODE_JSON},
        {"[-]", "", JOB_CODE_JSON},
        {"[1e]", "", JOB_CODE_JSON},
        {"[nul]", "", JOB_CODE_JSON},
        {"[NaN]", "", JOB_CODE_JSON},
        {"['a']", "", JOB_CODE_JSON},
        {"[\"a\nb\"]", "", JOB_CODE_JSON},
        {"[\"\\x\"]", "", JOB_CODE_JSON},
        {"[\"\\u12g4\"]", "", JOB_CODE_JSON},
        {"[\"\\u0000\"]", "", JOB_CODE_JSON},
        {"[\"\\ud800\"]", "", JOB_CODE_JSON},
        {"[\"\\ud800\\u0041\"]", "", JOB_CODE_JSON},
        {"[\"\\udc00\"]", "", JOB_CODE_JSON},
        {"[\"a", "", JOB_CODE_JSON},
        {"[\"\xFF\"]", "", JOB_CODE_JSON},
        {"[\"\xC0\x80\"]", "", JOB_CODE_JSON},
        {"\xEF\xBB\xBF{}", "", JOB_CODE_JSON},
        {"\f{}", "", JOB_CODE_JSON},
        {"[1234567890123456789012345678901234567890123456789012345678901234]", "", JOB_CODE_JSON},
    };
    check_refused(chat(), rows, ARRAY_LEN(rows));
    struct error e;
    CHECK_ERROR(json_check(str_slice("[\"a\0b\"]", 7), &e), &e, ERROR_BADDATA, "NUL");
}

TEST(request_bounds_depth_values_and_size)
{
    char deep[200];
    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    struct error e;
    CHECK_OK(json_check(str_slice(deep + 1, 128), &e), &e);
    CHECK_ERROR(json_check(str_slice(deep, 130), &e), &e, ERROR_BADDATA, "64 deep");

    size_t n = 2 * (size_t)JSON_VALUES_MAX + 1;
    char *many = malloc(n);
    CHECK(many);
    many[0] = '[';
    for (size_t i = 1; i + 1 < n; i += 2) {
        many[i] = '1';
        many[i + 1] = ',';
    }
    many[n - 1] = ']';
    CHECK_ERROR(json_check(str_slice(many, n), &e), &e, ERROR_BADDATA, "1,000,000 values");
    free(many);

    size_t big = (size_t)JOB_BODY_MAX_BYTES + 1;
    char *blank = malloc(big);
    CHECK(blank);
    memset(blank, ' ', big);
    struct job_request r;
    CHECK_ERROR(job_request_parse(&r, chat(), str_slice(blank, big), NULL, &e), &e, ERROR_INVALID,
                "33554433 bytes, limit 33554432");
    free(blank);
}

TEST(request_cuts_long_names_at_whole_characters)
{
    char body[700];
    int n = snprintf(body, sizeof(body), "{\"");
    for (int i = 0; i < 150; i++)
        n += snprintf(body + n, sizeof(body) - (size_t)n, "\xE2\x82\xAC");
    snprintf(body + n, sizeof(body) - (size_t)n, "\":1}");
    struct job_request r;
    struct job_refusal why;
    struct error e;
    CHECK_ERROR(job_request_parse(&r, chat(), str_of(body), &why, &e), &e, ERROR_INVALID,
                "unknown field");
    CHECK(str_utf8_valid(str_of(why.param), NULL));
    CHECK_INT(strlen(why.param), 189);
}

TEST(request_survives_every_failing_allocation)
{
    static const char body[] =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
        "{\"type\":\"text\",\"text\":\"b\"}]}],\"stop\":[\"x\"]}";
    json_init();
    long k = 0;
    for (;;) {
        struct job_request r;
        struct job_refusal why;
        struct error e = {0};
        mem_fail_after(++k);
        int rc = job_request_parse(&r, chat(), str_of(body), &why, &e);
        mem_fail_after(0);
        if (rc == 0) {
            job_request_release(&r);
            break;
        }
        CHECK_INT(rc, -ERROR_NOMEM);
        CHECK_INT(e.code, ERROR_NOMEM);
        CHECK(!why.code);
        CHECK(k < 1000);
    }
    CHECK(k > 20);
}
