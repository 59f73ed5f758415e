/* Bodies made, changed and seeded; identity; progress. */
#include "jobs/body.h"

#include "base/alloc.h"
#include "jobs/identity.h"
#include "jobs/json.h"
#include "jobs/progress.h"
#include "jobs/request.h"
#include "tests/test.h"

static struct buf out;

static const struct job_kind *chat(void)
{
    return job_kind_at(JOB_KIND_chat);
}

static void fresh(size_t max)
{
    buf_release(&out);
    buf_init(&out, max);
}

TEST(body_makes_what_the_parser_accepts)
{
    struct error e;
    struct job_parameters p = {.model = str_of("m"),
                               .system = str_of("Be \"brief\""),
                               .has_max_tokens = true,
                               .max_tokens = 9,
                               .has_temperature = true,
                               .temperature = 0.1,
                               .has_top_p = true,
                               .top_p = 1,
                               .has_seed = true,
                               .seed = 3};
    fresh(4096);
    CHECK_OK(job_body_make(&out, chat(), &p, str_of("line\n\t\x01\xC3\xA9"), &e), &e);
    CHECK_STR(out.ptr,
              "{\"messages\":[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\"\"},"
              "{\"role\":\"user\",\"content\":\"line\\n\\t\\u0001\xC3\xA9\"}],"
              "\"model\":\"m\",\"max_tokens\":9,\"temperature\":0.1,\"top_p\":1,\"seed\":3}");
    p = (struct job_parameters){.has_max_tokens = false};
    fresh(4096);
    CHECK_OK(job_body_make(&out, job_kind_at(JOB_KIND_completion), &p, str_of("x"), &e), &e);
    CHECK_STR(out.ptr, "{\"prompt\":\"x\"}");
    buf_release(&out);
}

TEST(body_refuses_bad_parameters)
{
    struct error e;
    const struct job_kind *completion = job_kind_at(JOB_KIND_completion);
    struct job_parameters p = {.has_max_tokens = true, .max_tokens = 0};
    fresh(4096);
    CHECK_ERROR(job_body_make(&out, chat(), &p, str_of("x"), &e), &e, ERROR_INVALID, "max_tokens");
    p = (struct job_parameters){.system = str_of("s")};
    CHECK_ERROR(job_body_make(&out, completion, &p, str_of("x"), &e), &e, ERROR_UNSUPPORTED,
                "/v1/completions");
    p = (struct job_parameters){.has_temperature = true, .temperature = -1};
    fresh(4096);
    CHECK_ERROR(job_body_make(&out, chat(), &p, str_of("x"), &e), &e, ERROR_INVALID, "temperature");
    p = (struct job_parameters){.has_seed = false};
    CHECK_ERROR(job_body_make(&out, chat(), &p, str_of("a\xFF"), &e), &e, ERROR_BADDATA, "byte 2");
    CHECK_ERROR(job_body_make(&out, chat(), &p, str_slice("a\0b", 3), &e), &e, ERROR_BADDATA,
                "NUL");
    fresh(16);
    CHECK_ERROR(job_body_make(&out, chat(), &p, str_of("x"), &e), &e, ERROR_INVALID, "limit 16");
    buf_release(&out);
}

TEST(body_change_replaces_and_tells)
{
    static const char body[] =
        "{\"n_predict\":5,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
        "\"temperature\":0.5,\"max_tokens\":null}";
    struct error e;
    bool changed = false;
    struct job_parameters p = {.has_max_tokens = true, .max_tokens = 6};
    fresh(4096);
    CHECK_OK(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e);
    CHECK_STR(out.ptr, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"temperature\":0.5,"
                       "\"max_tokens\":6}");
    CHECK(changed);
    p = (struct job_parameters){.has_temperature = true, .temperature = 0.5};
    fresh(4096);
    CHECK_OK(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e);
    CHECK(!changed);
    p = (struct job_parameters){.has_seed = true, .seed = 0};
    fresh(4096);
    CHECK_OK(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e);
    CHECK(changed);
    p = (struct job_parameters){.system = str_of("s")};
    CHECK_ERROR(job_body_change(&out, chat(), &p, str_of(body), NULL, &e), &e, ERROR_USAGE,
                "system");
    buf_release(&out);
}

TEST(body_carries_every_parameter)
{
    static const struct str stop[] = {{"\n\n", 2}, {"END", 3}};
    static const char body[] = "{\"prompt\":\"x\",\"top_k\":5,\"min_p\":0.5,\"repeat_penalty\":2,"
                               "\"stop\":\"old\",\"user\":\"u\"}";
    struct error e;
    bool changed = false;
    const struct job_parameters p = {.has_top_k = true,
                                     .top_k = 40,
                                     .has_min_p = true,
                                     .min_p = 0.05,
                                     .has_repeat_penalty = true,
                                     .repeat_penalty = 1.1,
                                     .stop = stop,
                                     .n_stop = 2};
    fresh(4096);
    CHECK_OK(
        job_body_change(&out, job_kind_at(JOB_KIND_completion), &p, str_of(body), &changed, &e),
        &e);
    CHECK_STR(out.ptr, "{\"prompt\":\"x\",\"user\":\"u\",\"top_k\":40,\"min_p\":0.05,"
                       "\"repeat_penalty\":1.1,\"stop\":[\"\\n\\n\",\"END\"]}");
    CHECK(changed);
    char *first = mem_strdup(out.ptr);
    fresh(4096);
    CHECK_OK(
        job_body_change(&out, job_kind_at(JOB_KIND_completion), &p, str_of(first), &changed, &e),
        &e);
    CHECK(!changed);
    mem_free(first);
    buf_release(&out);
}

TEST(body_change_of_the_thought)
{
    static const char body[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                               "\"thinking_budget_tokens\":9,\"reasoning_effort\":\"low\"}";
    struct error e;
    bool changed = false;
    struct job_parameters p = {.has_reasoning_budget = true, .reasoning_budget = 4};
    fresh(4096);
    CHECK_OK(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e);
    CHECK_STR(out.ptr, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
                       "\"reasoning_effort\":\"low\",\"reasoning_budget\":4}");
    CHECK(changed);
    p.reasoning_budget = 9;
    fresh(4096);
    CHECK_OK(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e);
    CHECK(!changed);
    p = (struct job_parameters){.reasoning = str_of("off")};
    fresh(4096);
    CHECK_OK(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e);
    CHECK(changed);
    p = (struct job_parameters){.reasoning = str_of("often")};
    CHECK_ERROR(job_body_change(&out, chat(), &p, str_of(body), &changed, &e), &e, ERROR_INVALID,
                "reasoning");
    buf_release(&out);
}

TEST(body_seed_is_added_once)
{
    static const char body[] = "{\"prompt\":\"x\", \"seed\":null, \"top_p\":0.30000000000000004}";
    struct error e;
    fresh(4096);
    CHECK_OK(job_body_seed(&out, str_of(body), UINT64_MAX, &e), &e);
    CHECK_STR(out.ptr,
              "{\"prompt\":\"x\",\"top_p\":0.30000000000000004,\"seed\":9007199254740991}");
    char *first = mem_strdup(out.ptr);
    fresh(4096);
    CHECK_OK(job_body_seed(&out, str_of(first), 5, &e), &e);
    CHECK_STR(out.ptr, first);
    mem_free(first);
    buf_release(&out);
}

static void identity(const char *option, const char *custom_id, const char *body, char hex[65])
{
    struct job_identity i;
    uint8_t digest[JOB_IDENTITY_BYTES];
    job_identity_init(&i);
    job_identity_option(&i, "template", str_of(option));
    job_identity_add(&i, chat(), str_of(custom_id), str_of(body));
    job_identity_end(&i, digest);
    sha256_hex(digest, hex);
}

TEST(identity_tells_everything_apart)
{
    static const char *const inputs[][3] = {
        {"t", "id", "body"},  {"t2", "id", "body"}, {"t", "id2", "body"},
        {"t", "id", "body2"}, {"t", "idb", "ody"},  {"tid", "", "body"},
    };
    char hex[ARRAY_LEN(inputs)][65];
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++) {
        identity(inputs[i][0], inputs[i][1], inputs[i][2], hex[i]);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(hex[i], hex[k]) != 0);
    }
    char again[65];
    identity("t", "id", "body", again);
    CHECK_STR(again, hex[0]);
}

TEST(progress_reads_what_was_written)
{
    static const int32_t tokens[] = {0, 1, 151643, INT32_MAX};
    struct error e;
    fresh(4096);
    CHECK_OK(job_progress_put(&out, tokens, 0, &e), &e);
    CHECK_INT(out.len, 0);
    CHECK_OK(job_progress_put(&out, tokens, 3, &e), &e);
    CHECK_OK(job_progress_put(&out, tokens + 3, 1, &e), &e);
    CHECK_INT(out.len, 4 + 12 + 4 + 4);
    CHECK(memcmp(out.ptr, "\3\0\0\0\0\0\0\0\1\0\0\0", 12) == 0);
    struct buf got;
    size_t n = 0;
    buf_init(&got, 4096);
    CHECK_OK(job_progress_read(buf_str(&out), &got, &n, &e), &e);
    CHECK_INT(n, 4);
    CHECK(memcmp(got.ptr, tokens, sizeof(tokens)) == 0);
    buf_release(&got);
    CHECK_OK(job_progress_read(str_slice(NULL, 0), &got, &n, &e), &e);
    CHECK_INT(n, 0);
    buf_release(&out);
}

TEST(progress_refuses_torn_bytes)
{
    static const int32_t tokens[] = {7, 8, 9};
    struct error e;
    fresh(4096);
    CHECK_OK(job_progress_put(&out, tokens, 3, &e), &e);
    struct buf got;
    size_t n = 0;
    for (size_t cut = 1; cut < out.len; cut++) {
        buf_init(&got, 4096);
        CHECK_ERROR(job_progress_read(str_slice(out.ptr, cut), &got, &n, &e), &e, ERROR_FORMAT,
                    "torn");
        buf_release(&got);
    }
    CHECK_ERROR(job_progress_read(str_slice("\0\0\0\0", 4), &got, &n, &e), &e, ERROR_FORMAT,
                "torn");
    CHECK_ERROR(job_progress_read(str_slice("\xFF\xFF\xFF\xFF", 4), &got, &n, &e), &e, ERROR_FORMAT,
                "4294967295");
    CHECK_ERROR(job_progress_read(str_slice("\1\0\0\0\xFF\xFF\xFF\xFF", 8), &got, &n, &e), &e,
                ERROR_FORMAT, "token -1");
    buf_release(&got);
    buf_release(&out);
}

TEST(body_survives_every_failing_allocation)
{
    static const char body[] = "{\"prompt\":\"x\",\"stop\":[\"y\"]}";
    json_init();
    struct job_parameters p = {.has_max_tokens = true, .max_tokens = 4};
    const struct job_kind *kind = job_kind_at(JOB_KIND_completion);
    for (long k = 1, rc = -1; rc < 0; k++) {
        struct error e = {0};
        fresh(4096);
        mem_fail_after(k);
        rc = job_body_make(&out, kind, &p, str_of("text"), &e);
        if (rc == 0)
            rc = job_body_change(&out, kind, &p, str_of(body), NULL, &e);
        if (rc == 0)
            rc = job_body_seed(&out, str_of(body), 1, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        CHECK(k < 1000);
    }
    buf_release(&out);
}
