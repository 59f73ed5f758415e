/* Submitting, stopping, refusing and planning: what engine.h promises around the tokens. */
#include "engine/local/local.h"

#include <float.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/gguf/gguf.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

static struct engine_request request(uint64_t tag, const char *prompt, uint32_t max_tokens)
{
    return (struct engine_request){.tag = tag, .prompt = str_of(prompt), .max_tokens = max_tokens};
}

static enum engine_admission submit(struct engine *en, const struct engine_request *r)
{
    struct error e = {0};
    enum engine_admission admission = ENGINE_BUSY;
    CHECK_OK(engine_submit(en, r, &admission, &e), &e);
    return admission;
}

static struct kit_engine open_made(uint32_t slots)
{
    static char path[4096];
    const struct engine_options o = {
        .model_path = kit_model("Q8_0", path), .slots = slots, .threads = 1};
    return kit_open(&o);
}

/* A sampled answer with many different letters in it. */
static struct engine_request lively(uint64_t tag)
{
    struct engine_request r = request(tag, "Once upon a time", 40);
    r.sampling = (struct engine_sampling){.temperature = 1, .top_p = 1, .seed = 3};
    return r;
}

/* ------------------------------------------------------------------ the end of an answer */

TEST(local_ends_at_max_tokens_or_at_the_context)
{
    struct kit_engine k = open_made(2);
    struct kit_result got[2];
    struct engine_request r[2] = {request(1, "a short prompt", 9), request(2, "another", 0)};
    r[0].sampling.repeat_penalty = r[1].sampling.repeat_penalty = 1.3f;
    r[0].sampling.repeat_last_n = r[1].sampling.repeat_last_n = -1;
    kit_run(k.en, r, 2, got);
    CHECK_INT(got[0].n_tokens, 9);
    CHECK_INT(got[0].finish, ENGINE_FINISH_LENGTH);
    CHECK_INT(got[0].detail, ENGINE_DETAIL_MAX_TOKENS);
    CHECK_INT(got[0].usage.completion_tokens, 9);
    /* 2048 do not fit beside this prompt in 512 positions. */
    if (got[1].finish == ENGINE_FINISH_LENGTH) {
        CHECK_INT(got[1].detail, ENGINE_DETAIL_CONTEXT);
        CHECK_INT(got[1].n_tokens + got[1].usage.prompt_tokens, 512);
    } else {
        CHECK_INT(got[1].detail, ENGINE_DETAIL_EOS);
    }
    kit_close(&k);
}

/* Every substring of an answer as the stop string: cut before its first place, never shown. */
TEST(local_cuts_before_a_stop_string)
{
    struct kit_engine k = open_made(1);
    struct engine_request r = lively(5);
    struct kit_result *free_run = mem_array(1, sizeof(*free_run));
    struct kit_result *got = mem_array(1, sizeof(*got));
    kit_run(k.en, &r, 1, free_run);
    CHECK(free_run->n_text > 20);
    for (size_t at = 3; at + 3 < free_run->n_text; at += 4) {
        const struct str stop = str_slice(free_run->text + at, 3);
        r.stop = &stop;
        r.n_stop = 1;
        kit_run(k.en, &r, 1, got);
        const char *first = memmem(free_run->text, free_run->n_text, stop.ptr, stop.len);
        CHECK_INT(got->finish, ENGINE_FINISH_STOP);
        CHECK_INT(got->detail, ENGINE_DETAIL_STOP_STRING);
        CHECK_INT(got->n_text, first - free_run->text);
        CHECK(memcmp(got->text, free_run->text, got->n_text) == 0);
        CHECK_INT(got->n_streamed, got->n_text);
        CHECK(got->n_tokens <= free_run->n_tokens);
        CHECK(memcmp(got->token, free_run->token, got->n_tokens * sizeof(int32_t)) == 0);
    }
    mem_free(got);
    mem_free(free_run);
    kit_close(&k);
}

/* An answer that an earlier attempt had finished costs no step. */
TEST(local_finishes_a_resumed_answer_without_a_step)
{
    struct kit_engine k = open_made(1);
    struct engine_request r = lively(8);
    struct kit_result *want = mem_array(1, sizeof(*want));
    struct kit_result *got = mem_array(1, sizeof(*got));
    struct engine_counters before;
    struct engine_counters after;
    kit_run(k.en, &r, 1, want);
    r.resume = want->token;
    r.n_resume = want->n_tokens;
    engine_counters(k.en, &before);
    kit_run(k.en, &r, 1, got);
    engine_counters(k.en, &after);
    CHECK_INT(after.steps, before.steps);
    CHECK_INT(got->n_tokens, 0);
    CHECK_INT(got->n_text, want->n_text);
    CHECK_INT(got->detail, want->detail);
    /* More tokens than the request allows: what is beyond the end does not count. */
    r.max_tokens = 10;
    kit_run(k.en, &r, 1, got);
    CHECK_INT(got->usage.completion_tokens, 10);
    CHECK_INT(got->usage.resumed_tokens, 10);
    CHECK_INT(got->detail, ENGINE_DETAIL_MAX_TOKENS);
    mem_free(got);
    mem_free(want);
    kit_close(&k);
}

/* ------------------------------------------------------------------ refusing */

TEST(local_refuses_what_never_fits_with_both_counts)
{
    char text[1400];
    struct kit_engine k = open_made(1);
    struct error e = {0};
    enum engine_admission admission;
    memset(text, 'x', sizeof(text) - 1);
    for (size_t i = 0; i + 1 < sizeof(text); i += 2)
        text[i] = (char)('a' + i % 26);
    text[sizeof(text) - 1] = '\0';
    struct engine_request r = request(1, text, 0);
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_CONTEXT,
                "the context holds 512");
    r = request(1, "short", 512);
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_CONTEXT, "max_tokens 512 need");
    r = request(1, "", 0);
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_INVALID, "no tokens");
    r = request(1, "short", 4);
    r.sampling.top_p = 3;
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_INVALID, "top_p");
    const int32_t beyond = 600;
    r = request(1, "short", 4);
    r.resume = &beyond;
    r.n_resume = 1;
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_INVALID, "vocabulary has 600");
    const struct engine_message message = {.role = str_of("user"), .content = str_of("hello")};
    r = (struct engine_request){.messages = &message, .n_messages = 1};
    CHECK_ERROR(engine_submit(k.en, &r, &admission, &e), &e, ERROR_UNSUPPORTED, "template");
    CHECK(engine_room(k.en) && !engine_busy(k.en));
    kit_close(&k);
}

TEST(local_is_busy_until_a_sequence_leaves)
{
    struct kit_engine k = open_made(2);
    struct error e = {0};
    struct engine_event event;
    const struct engine_request r[3] = {request(1, "one", 3), request(2, "two", 200),
                                        request(3, "three", 2)};
    CHECK_INT(submit(k.en, &r[0]), ENGINE_ADMITTED);
    CHECK_INT(submit(k.en, &r[1]), ENGINE_ADMITTED);
    CHECK(!engine_room(k.en));
    CHECK_INT(submit(k.en, &r[2]), ENGINE_BUSY);
    do {
        CHECK_INT(engine_poll(k.en, &event, &e), 1);
    } while (event.kind != ENGINE_EVENT_DONE);
    CHECK_INT(event.tag, 1);
    CHECK(engine_room(k.en));
    CHECK_INT(submit(k.en, &r[2]), ENGINE_ADMITTED);
    /* Neither a cancelled sequence nor its waiting events are heard of again. */
    engine_cancel(k.en, 2);
    engine_cancel(k.en, 999);
    int n_done = 0;
    while (engine_busy(k.en)) {
        CHECK_INT(engine_poll(k.en, &event, &e), 1);
        CHECK_INT(event.tag, 3);
        n_done += event.kind == ENGINE_EVENT_DONE;
    }
    CHECK_INT(n_done, 1);
    CHECK_INT(engine_poll(k.en, &event, &e), 0);
    kit_close(&k);
}

/* Its experts cannot be read: states of some layers have gone on and those of others have not. */
TEST(local_voids_every_sequence_of_a_failed_step)
{
    char path[4096];
    struct error e = {0};
    struct engine_event event;
    const struct engine_options o = {.model_path =
                                         step_kit_model("hybrid", "--arch kimi-linear", path),
                                     .slots = 2,
                                     .threads = 1};
    struct kit_engine k = kit_open(&o);
    const struct engine_request r[2] = {request(1, "one", 50), request(2, "two", 50)};
    CHECK_INT(submit(k.en, &r[0]), ENGINE_ADMITTED);
    CHECK_INT(submit(k.en, &r[1]), ENGINE_ADMITTED);
    file_fail_after(1, FILE_FAULT_EIO);
    CHECK_ERROR(engine_poll(k.en, &event, &e), &e, ERROR_IO, "layer");
    file_fail_after(0, FILE_FAULT_NONE);
    CHECK(engine_room(k.en) && !engine_busy(k.en));
    CHECK_INT(engine_poll(k.en, &event, &e), 0);
    /* And everything that they held is free again. */
    CHECK_INT(submit(k.en, &r[0]), ENGINE_ADMITTED);
    CHECK_INT(submit(k.en, &r[1]), ENGINE_ADMITTED);
    kit_close(&k);
}

/* A model that gives no number fails the request and nothing else. */
TEST(local_fails_a_request_whose_logits_are_no_numbers)
{
    char path[4096];
    struct gguf *g = NULL;
    struct error e = {0};
    kit_model("Q8_0", path);
    CHECK_OK(gguf_open(&g, path, &e), &e);
    const struct gguf_tensor *norm = gguf_tensor_find(g, "output_norm.weight");
    CHECK(norm != NULL);
    FILE *file = fopen(path, "r+b");
    const float largest = FLT_MAX; /* a number, so it is loaded; a little more of it is none */
    CHECK(file && fseek(file, (long)norm->offset, SEEK_SET) == 0);
    for (uint64_t i = 0; i < norm->ne[0]; i++)
        CHECK(fwrite(&largest, sizeof(largest), 1, file) == 1);
    fclose(file);
    gguf_close(g);
    struct kit_engine k = open_made(2);
    const struct engine_request r[2] = {request(1, "one", 50), request(2, "two", 50)};
    struct kit_result got[2];
    kit_run(k.en, r, 2, got);
    CHECK_INT(got[0].error.code, ERROR_NUMERIC);
    CHECK_INT(got[1].error.code, ERROR_NUMERIC);
    CHECK_INT(got[0].n_tokens, 0);
    kit_close(&k);
}

TEST(local_without_weights_only_describes)
{
    char path[4096];
    struct engine *en = NULL;
    struct error e = {0};
    struct engine_info info;
    struct engine_tensor tensor;
    struct buf ids;
    enum engine_admission admission;
    const struct engine_request r = request(1, "one", 5);
    const int32_t id = 5;
    const struct engine_options o = {.model_path = kit_model("Q8_0", path), .headers_only = true};
    CHECK_OK(engine_open(&en, &o, &e), &e);
    engine_describe(en, &info);
    CHECK_STR(info.arch, "llama");
    CHECK_STR(info.model_refusal, "");
    CHECK_INT(info.n_layers, 2);
    CHECK_INT(strlen(info.fingerprint), 64);
    CHECK(engine_tensor_at(en, 0, &tensor) && tensor.bytes > 0);
    buf_init(&ids, 4096);
    CHECK_OK(engine_tokenize(en, str_of("hello"), false, false, &ids, &e), &e);
    CHECK(ids.len >= sizeof(int32_t));
    buf_release(&ids);
    CHECK_ERROR(engine_submit(en, &r, &admission, &e), &e, ERROR_UNSUPPORTED, "without weights");
    CHECK_ERROR(engine_score(en, &id, 1, 0, NULL, NULL, &e), &e, ERROR_UNSUPPORTED,
                "without weights");
    engine_close(en);
}

/* ------------------------------------------------------------------ the plan */

/* What is taken is what the plan says, term by term, and nothing more while requests run. */
TEST(local_takes_what_the_plan_says)
{
    for (int exact = 0; exact < 2; exact++) {
        char path[4096];
        struct engine_plan p;
        struct kit_result *got = mem_array(3, sizeof(*got));
        const struct engine_options o = {
            .model_path = kit_model("Q4_K", path), .slots = 3, .exact = exact == 1, .threads = 1};
        struct kit_engine k = kit_open(&o);
        engine_plan(k.en, &p);
        CHECK_INT(p.slots, 3);
        CHECK_INT(p.total_bytes, p.process_bytes + p.trunk_bytes + p.repacked_bytes +
                                     p.state_bytes + p.scratch_bytes + p.io_bytes);
        CHECK_INT(ledger_used(k.ledger, LEDGER_PROCESS), p.process_bytes);
        CHECK_INT(ledger_used(k.ledger, LEDGER_TRUNK), p.trunk_bytes);
        CHECK_INT(ledger_used(k.ledger, LEDGER_STATE), p.state_bytes);
        CHECK_INT(ledger_used(k.ledger, LEDGER_SCRATCH), p.scratch_bytes);
        CHECK_INT(ledger_peak(k.ledger, LEDGER_IO), p.io_bytes);
        const struct engine_request r[3] = {lively(1), lively(2), request(3, "three", 30)};
        kit_run(k.en, r, 3, got);
        CHECK(ledger_total_peak(k.ledger) <= p.total_bytes);
        mem_free(got);
        kit_close(&k);
    }
}

TEST(local_cuts_slots_to_the_budget_but_never_a_number_asked_for)
{
    char path[4096];
    char part[64];
    struct engine *en = NULL;
    struct error e = {0};
    kit_model("Q4_K", path);
    const struct engine_plan whole = kit_plan(path, 0, &(struct engine_options){.threads = 1});
    CHECK_INT(whole.slots, PLAN_DEFAULT_SLOTS);
    CHECK(whole.fits && whole.limit_bytes == 0 && whole.smallest_bytes < whole.total_bytes);
    for (uint32_t slots = 1; slots <= 4; slots++) {
        const struct engine_options asked = {.threads = 1, .slots = slots};
        const uint64_t need = kit_plan(path, 0, &asked).total_bytes;
        CHECK_INT(kit_plan(path, need, &(struct engine_options){.threads = 1}).slots, slots);
        const struct engine_plan less = kit_plan(path, need - 1, &asked);
        CHECK(!less.fits);
        CHECK_INT(less.slots, slots);
        struct engine_options o = asked;
        o.model_path = path;
        CHECK_OK(ledger_new(&o.ledger, need - 1, &e), &e);
        snprintf(part, sizeof(part), "(%llu bytes: process", (unsigned long long)need);
        CHECK_ERROR(engine_open(&en, &o, &e), &e, ERROR_BUDGET, part);
        snprintf(part, sizeof(part), "(%llu bytes). --memory", (unsigned long long)(need - 1));
        CHECK(strstr(e.text, part) && strstr(e.text, "--ctx"));
        if (slots > 1)
            CHECK(strstr(e.text, "--slots") != NULL);
        CHECK_INT(ledger_total(o.ledger), 0);
        ledger_free(o.ledger);
    }
}

TEST(local_opens_in_the_smallest_budget_and_refuses_one_byte_less)
{
    char path[4096];
    struct engine *en = NULL;
    struct error e = {0};
    struct engine_options o = {.model_path = kit_model("Q4_K", path), .threads = 1};
    const uint64_t least = kit_plan(path, 0, &o).smallest_bytes;
    CHECK_OK(ledger_new(&o.ledger, least, &e), &e);
    CHECK_OK(engine_open(&en, &o, &e), &e);
    engine_close(en);
    ledger_free(o.ledger);
    CHECK_OK(ledger_new(&o.ledger, least - 1, &e), &e);
    en = NULL;
    CHECK_ERROR(engine_open(&en, &o, &e), &e, ERROR_BUDGET,
                "is the least for one slot of 512 tokens");
    CHECK(en == NULL);
    CHECK(strstr(e.text, "--ctx 448 would fit") != NULL);
    o.ctx = 448;
    CHECK_OK(engine_open(&en, &o, &e), &e);
    engine_close(en);
    ledger_free(o.ledger);
    o.ctx = 513;
    CHECK_OK(ledger_new(&o.ledger, least, &e), &e);
    en = NULL;
    CHECK_ERROR(engine_open(&en, &o, &e), &e, ERROR_INVALID, "513, the model was made for 512");
    ledger_free(o.ledger);
}

/* The process term covers what this process really holds beside the ledger's blocks. */
TEST(local_process_term_covers_what_is_measured)
{
    char line[256];
    unsigned long long rss_kib = 0;
    struct engine_plan p;
    struct kit_engine k = open_made(4);
    struct kit_result *got = mem_array(4, sizeof(*got));
    const struct engine_request r[4] = {lively(1), lively(2), lively(3), lively(4)};
    kit_run(k.en, r, 4, got);
    engine_plan(k.en, &p);
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof(line), status))
        sscanf(line, "VmHWM: %llu", &rss_kib);
    fclose(status);
    CHECK(rss_kib > 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    test_note("resident at most %llu KiB, process term %llu KiB", rss_kib,
              (unsigned long long)p.process_bytes >> 10);
    CHECK(rss_kib << 10 <= p.total_bytes);
#endif
    mem_free(got);
    kit_close(&k);
}

/* ------------------------------------------------------------------ faults */

TEST(local_open_gives_everything_back_when_memory_is_refused)
{
    char path[4096];
    struct engine *en = NULL;
    struct error e = {0};
    struct engine_options o = {.model_path = kit_model("Q8_0", path), .threads = 1};
    CHECK_OK(ledger_new(&o.ledger, (uint64_t)1 << 30, &e), &e);
    int rc = -1;
    for (long k = 1; k < 20 && rc != 0; k++) {
        ledger_fail_after(o.ledger, k);
        rc = engine_open(&en, &o, &e);
        ledger_fail_after(o.ledger, 0);
        if (rc != 0) {
            CHECK_INT(rc, -ERROR_BUDGET);
            CHECK_INT(ledger_total(o.ledger), 0);
        }
    }
    CHECK_INT(rc, 0);
    engine_close(en);
    unsigned long before = mem_count();
    CHECK_OK(engine_open(&en, &o, &e), &e);
    const long n = (long)(mem_count() - before);
    engine_close(en);
    for (long k = 1; k <= n; k += 1 + n / 200) {
        mem_fail_after(k);
        rc = engine_open(&en, &o, &e);
        mem_fail_after(0);
        CHECK(rc < 0);
        CHECK_INT(ledger_total(o.ledger), 0);
    }
    ledger_free(o.ledger);
}

TEST(local_survives_any_allocation_that_fails_while_it_works)
{
    struct kit_engine k = open_made(1);
    struct engine_request r = lively(1);
    struct error e = {0};
    const struct str stop = str_of("never");
    r.stop = &stop;
    r.n_stop = 1;
    r.max_tokens = 12;
    int n_refused = 0;
    int n_failed = 0;
    for (long at = 1; at < 60; at++) {
        enum engine_admission admission;
        struct engine_event event = {.kind = ENGINE_EVENT_TOKEN};
        mem_fail_after(at);
        int rc = engine_submit(k.en, &r, &admission, &e);
        n_refused += rc < 0;
        while (rc == 0 && event.kind != ENGINE_EVENT_DONE && event.kind != ENGINE_EVENT_FAILED)
            CHECK_INT(engine_poll(k.en, &event, &e), 1);
        mem_fail_after(0);
        if (event.kind == ENGINE_EVENT_FAILED) {
            CHECK_INT(event.error.code, ERROR_NOMEM);
            n_failed++;
        }
        CHECK(engine_room(k.en));
    }
    CHECK(n_refused > 3);
    CHECK(n_failed > 0);
    kit_close(&k);
}

/* ------------------------------------------------------------------ the rows of a step */

static void check_share(const uint32_t *pending, size_t n, uint32_t chunk, const uint32_t *want)
{
    struct sequence s[8];
    struct sequence *running[8] = {NULL};
    memset(s, 0, sizeof(s));
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        s[i].n_tokens = 100 + pending[i];
        s[i].n_cached = 100;
        running[i] = &s[i];
        sum += want[i];
    }
    CHECK_INT(scheduler_share(running, (uint32_t)n, chunk), sum);
    for (size_t i = 0; i < n; i++)
        CHECK_INT(s[i].n_rows, want[i]);
}

TEST(local_shares_a_step_decoding_first_then_the_oldest_prompt)
{
    check_share((uint32_t[]){1, 1, 1}, 3, 256, (uint32_t[]){1, 1, 1});
    check_share((uint32_t[]){300}, 1, 256, (uint32_t[]){256});
    check_share((uint32_t[]){300, 1, 50}, 3, 256, (uint32_t[]){255, 1, 0});
    check_share((uint32_t[]){100, 1, 300, 1}, 4, 256, (uint32_t[]){100, 1, 154, 1});
    /* Prompts go on, one row at a time, also where decoding alone fills the step. */
    check_share((uint32_t[]){1, 9, 1, 1, 7}, 5, 3, (uint32_t[]){1, 1, 1, 1, 0});
    check_share((uint32_t[]){9, 7}, 2, 1, (uint32_t[]){1, 0});
    check_share(NULL, 0, 256, NULL);
}
