/* Answers, errors and lines: exact text, and that any text stays valid JSON. */
#include "jobs/response.h"

#include <cjson/cJSON.h>

#include "jobs/json.h"
#include "tests/test.h"

static struct buf out;

static struct job_answer sample(void)
{
    return (struct job_answer){
        .id = str_of("0192"),
        .created_s = 1767225600,
        .model = str_of("smol"),
        .fingerprint = str_of("abc"),
        .tokens_sha256 = str_of("0a1b"),
        .text = str_of("Hi \"you\"\n"),
        .seed = 42,
        .finish = ENGINE_FINISH_LENGTH,
        .detail = ENGINE_DETAIL_MAX_TOKENS,
        .usage = {.prompt_tokens = 10,
                  .completion_tokens = 5,
                  .resumed_tokens = 1,
                  .prefill_ms = 22,
                  .decode_ms = 8,
                  .bytes_read = 99,
                  .expert_hits = 6,
                  .expert_misses = 7,
                  .prefill_bytes_read = 90,
                  .prefill_expert_hits = 4,
                  .prefill_expert_misses = 5,
                  .read_ms = 9,
                  .read_wait_ms = 5},
        .timing = {.queued_ms = 3, .load_ms = 4, .attempts = 2, .peak_bytes = 77},
    };
}

#define TAIL(choice)                                                                               \
    "\"created\":1767225600,\"model\":\"smol\",\"system_fingerprint\":\"abc\","                    \
    "\"choices\":[{\"index\":0," choice ",\"logprobs\":null,"                                      \
    "\"finish_reason\":\"length\",\"x_finish_detail\":\"max_tokens\"}],"                           \
    "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15,"                 \
    "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},"                          \
    "\"completion_tokens_details\":{\"reasoning_tokens\":0,\"audio_tokens\":0,"                    \
    "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}},"                         \
    "\"timings\":{\"cache_n\":0,\"prompt_n\":11,\"prompt_ms\":22.000,"                             \
    "\"prompt_per_token_ms\":2.000,\"prompt_per_second\":500.000,\"predicted_n\":4,"               \
    "\"predicted_ms\":8.000,\"predicted_per_token_ms\":2.000,\"predicted_per_second\":500.000},"   \
    "\"x_timing\":{\"queued_ms\":3,\"load_ms\":4,\"attempts\":2,\"prefill_ms\":22.000,"            \
    "\"decode_ms\":8.000,\"resumed_tokens\":1,\"restored_tokens\":0,\"bytes_read\":99,"            \
    "\"expert_hits\":6,\"expert_misses\":7,\"prefill_bytes_read\":90,\"prefill_expert_hits\":4,"   \
    "\"prefill_expert_misses\":5,\"read_ms\":9.000,\"read_wait_ms\":5.000,\"peak_bytes\":77},"     \
    "\"x_tokens_sha256\":\"0a1b\",\"x_seed\":42}"

TEST(response_chat_object_is_exact)
{
    struct error e;
    struct job_answer a = sample();
    buf_init(&out, 65536);
    CHECK_OK(job_answer_json(&out, job_kind_at(JOB_KIND_chat), &a, &e), &e);
    CHECK_STR(out.ptr, "{\"id\":\"chatcmpl-0192\",\"object\":\"chat.completion\"," TAIL(
                           "\"message\":{\"role\":\"assistant\",\"content\":\"Hi \\\"you\\\"\\n\","
                           "\"refusal\":null,\"tool_calls\":[]}"));
    buf_release(&out);
}

TEST(response_completion_object_is_exact)
{
    struct error e;
    struct job_answer a = sample();
    buf_init(&out, 65536);
    CHECK_OK(job_answer_json(&out, job_kind_at(JOB_KIND_completion), &a, &e), &e);
    CHECK_STR(out.ptr, "{\"id\":\"cmpl-0192\",\"object\":\"text_completion\"," TAIL(
                           "\"text\":\"Hi \\\"you\\\"\\n\""));
    buf_release(&out);
}

TEST(response_thought_stands_beside_the_content)
{
    struct error e;
    struct job_answer a = sample();
    a.reasoning = str_of("hm\n");
    a.usage.reasoning_tokens = 3;
    buf_init(&out, 65536);
    CHECK_OK(job_answer_json(&out, job_kind_at(JOB_KIND_chat), &a, &e), &e);
    CHECK(strstr(out.ptr, "\"content\":\"Hi \\\"you\\\"\\n\",\"reasoning_content\":\"hm\\n\","));
    CHECK(strstr(out.ptr, "\"completion_tokens\":5,\"total_tokens\":15"));
    CHECK(strstr(out.ptr, "\"reasoning_tokens\":3"));
    CHECK(!strstr(out.ptr, "empty_answer"));
    buf_release(&out);
}

TEST(response_empty_answers_are_marked_with_the_reason)
{
    static const struct {
        const char *text;
        enum engine_finish_detail detail;
        uint32_t reasoning_tokens;
        bool in_thought;
        const char *want;
    } cases[] = {
        {"", ENGINE_DETAIL_MAX_TOKENS, 5, true, "tokens_spent_on_thought"},
        {" \n", ENGINE_DETAIL_CONTEXT, 5, false, "tokens_spent_on_thought"},
        {"", ENGINE_DETAIL_EOS, 5, true, "ended_in_thought"},
        {"\t", ENGINE_DETAIL_EOS, 5, false, "nothing_said"},
        {"", ENGINE_DETAIL_MAX_TOKENS, 0, false, "nothing_said"},
        {"", ENGINE_DETAIL_STOP_STRING, 0, false, "nothing_said"},
        {"\n.", ENGINE_DETAIL_MAX_TOKENS, 5, false, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error e;
        char want[128] = "\"x_finish_detail\":";
        struct job_answer a = sample();
        a.text = str_of(cases[i].text);
        a.detail = cases[i].detail;
        a.usage.reasoning_tokens = cases[i].reasoning_tokens;
        a.in_thought = cases[i].in_thought;
        if (cases[i].want)
            snprintf(want, sizeof(want), ",\"empty_answer\":\"%s\"}]", cases[i].want);
        buf_init(&out, 65536);
        CHECK_OK(job_answer_json(&out, job_kind_at(JOB_KIND_chat), &a, &e), &e);
        if (!strstr(out.ptr, want) || (!cases[i].want && strstr(out.ptr, "empty_answer")))
            test_fail(__FILE__, __LINE__, "case %zu: %s", i, out.ptr);
        buf_release(&out);
    }
}

TEST(response_without_measurements_divides_nothing_by_zero)
{
    struct error e;
    struct job_answer a = {.finish = ENGINE_FINISH_STOP, .detail = ENGINE_DETAIL_EOS};
    buf_init(&out, 65536);
    CHECK_OK(job_answer_json(&out, job_kind_at(JOB_KIND_chat), &a, &e), &e);
    CHECK(strstr(out.ptr, "\"predicted_per_second\":0.000"));
    CHECK(strstr(out.ptr, "\"finish_reason\":\"stop\",\"x_finish_detail\":\"eos\""));
    struct cJSON *tree = NULL;
    CHECK_OK(json_parse(&tree, buf_str(&out), &e), &e);
    json_free(tree);
    buf_release(&out);
}

/* Every byte alone, and every pair with a quote: what comes out is strict JSON and reads back. */
TEST(response_text_is_escaped_whatever_it_holds)
{
    struct error e;
    for (int c = 1; c < 256; c++) {
        char text[] = {(char)c, '"', (char)c, '\\', '\n', 0};
        buf_init(&out, 4096);
        json_put_string(&out, str_of(text));
        struct cJSON *tree = NULL;
        CHECK_OK(json_parse(&tree, buf_str(&out), &e), &e);
        if (c < 128)
            CHECK_STR(tree->valuestring, text);
        else
            CHECK_STR(tree->valuestring, "\xEF\xBF\xBD\"\xEF\xBF\xBD\\\n");
        json_free(tree);
        buf_release(&out);
    }
    buf_init(&out, 4096);
    json_put_string(&out, str_slice("a\0b\xF0\x9F\x98\x80\xF0\x9F", 9));
    CHECK_STR(out.ptr, "\"a\\u0000b\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\"");
    buf_release(&out);
}

TEST(response_numbers_read_back)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {1e300, "1e+300"},
        {-17, "-17"},
        {9007199254740991.0, "9007199254740991"},
        {INFINITY, "null"},
        {NAN, "null"},
        {0.30000000000000004, "0.30000000000000004"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        buf_init(&out, 64);
        json_put_number(&out, cases[i].value);
        CHECK_STR(out.ptr, cases[i].text);
        buf_release(&out);
    }
}

TEST(response_errors_name_param_and_code)
{
    struct error e;
    struct error failure = {0};
    struct job_refusal why;
    buf_init(&out, 4096);
    error_set(&failure, ERROR_CONTEXT, "prompt is 9 tokens; context is 8");
    CHECK_OK(job_error_json(&out, job_kind_at(JOB_KIND_chat), &failure, NULL, &e), &e);
    CHECK_STR(out.ptr, "{\"error\":{\"message\":\"prompt is 9 tokens; context is 8\","
                       "\"type\":\"invalid_request_error\",\"param\":\"messages\","
                       "\"code\":\"context_length_exceeded\"}}");
    CHECK_INT(job_error_status(&failure), 400);
    buf_clear(&out);
    job_refuse(&why, &failure, JOB_CODE_UNSUPPORTED, "tools", "no");
    CHECK_OK(job_error_json(&out, job_kind_at(JOB_KIND_chat), &failure, &why, &e), &e);
    CHECK_STR(out.ptr, "{\"error\":{\"message\":\"tools: no\",\"type\":\"invalid_request_error\","
                       "\"param\":\"tools\",\"code\":\"unsupported_parameter\"}}");
    buf_clear(&out);
    error_set(&failure, ERROR_NUMERIC, "NaN in layer 3");
    CHECK_OK(job_error_json(&out, job_kind_at(JOB_KIND_chat), &failure, NULL, &e), &e);
    CHECK_STR(out.ptr, "{\"error\":{\"message\":\"NaN in layer 3\",\"type\":\"server_error\","
                       "\"param\":null,\"code\":\"numeric\"}}");
    CHECK_INT(job_error_status(&failure), 500);
    buf_release(&out);
}

TEST(response_lines_have_their_keys_in_order)
{
    struct error e;
    struct job_line l = {.id = str_of("0192"),
                         .custom_id = str_of("doc \"17\""),
                         .status = 200,
                         .body = str_of("{\"a\":1}"),
                         .timing = str_of("{\"wait_ms\":1}")};
    buf_init(&out, 4096);
    CHECK_OK(job_line_json(&out, &l, &e), &e);
    CHECK_STR(out.ptr, "{\"id\":\"batch_req_0192\",\"custom_id\":\"doc \\\"17\\\"\",\"response\":"
                       "{\"status_code\":200,\"request_id\":\"req_0192\",\"body\":{\"a\":1}},"
                       "\"error\":null,\"x_timing\":{\"wait_ms\":1}}");
    buf_clear(&out);
    l = (struct job_line){.id = str_of("0192"),
                          .custom_id = str_of("d"),
                          .error_code = "batch_cancelled",
                          .error_message = "Cancelled."};
    CHECK_OK(job_line_json(&out, &l, &e), &e);
    CHECK_STR(out.ptr, "{\"id\":\"batch_req_0192\",\"custom_id\":\"d\",\"response\":null,"
                       "\"error\":{\"code\":\"batch_cancelled\",\"message\":\"Cancelled.\"}}");
    buf_release(&out);
    buf_init(&out, 20);
    CHECK_ERROR(job_line_json(&out, &l, &e), &e, ERROR_INVALID, "output line");
    buf_release(&out);
}
