/*
 * A request's state in a file: stopped anywhere, restored in another engine, it goes on with the same
 * bits; a file that is another's, or damaged, is refused and harms nothing.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "tests/engine/local_kit.h"
#include "tests/test.h"

#define PATH "state.snapshot"

static const char text[] =
    "The harbour was closed for three days after the storm; two cranes fell.";

static struct engine_request request(uint64_t tag)
{
    return (struct engine_request){.tag = tag,
                                   .prompt = {text, sizeof(text) - 1},
                                   .max_tokens = 20,
                                   .sampling = {.temperature = 0.9f, .top_p = 1, .seed = tag}};
}

static struct kit_engine open_engine(const char *model, bool exact)
{
    const struct engine_options o = {
        .model_path = model, .slots = 2, .chunk = 16, .threads = 1, .exact = exact};
    return kit_open(&o);
}

/* What of it was there when it was stopped. */
struct stopped {
    int32_t token[64];
    size_t n_tokens;
    uint32_t n_computed;
};

/* Runs the request for n events, keeps its state in PATH and drops it. */
static struct stopped stop_after(struct engine *en, const struct engine_request *r, int n)
{
    struct stopped ret = {0};
    struct error e = {0};
    enum engine_admission answer;
    struct engine_event event;
    CHECK_OK(engine_submit(en, r, &answer, &e), &e);
    CHECK_INT(answer, ENGINE_ADMITTED);
    for (int i = 0; i < n; i++) {
        CHECK_INT(engine_poll(en, &event, &e), 1);
        if (event.kind == ENGINE_EVENT_TOKEN)
            ret.token[ret.n_tokens++] = event.token;
    }
    CHECK(engine_snapshot_bytes(en, r->tag, &ret.n_computed) > 0);
    CHECK_OK(engine_snapshot(en, r->tag, PATH, &e), &e);
    engine_cancel(en, r->tag);
    return ret;
}

/* The rest of it, from PATH when the file is good; `want` code of the restoring. */
static void go_on(struct engine *en, struct engine_request r, const struct stopped *s, int want,
                  const char *why, struct kit_result *ret)
{
    struct error e = {0};
    enum engine_admission answer;
    struct engine_event event;
    uint32_t n_tokens = 77;
    memset(ret, 0, sizeof(*ret));
    r.resume = s->token;
    r.n_resume = s->n_tokens;
    memcpy(ret->token, s->token, s->n_tokens * sizeof(int32_t));
    ret->n_tokens = s->n_tokens;
    CHECK_OK(engine_submit(en, &r, &answer, &e), &e);
    if (want == 0)
        CHECK_OK(engine_restore(en, r.tag, PATH, &n_tokens, &e), &e);
    else
        CHECK_ERROR(engine_restore(en, r.tag, PATH, &n_tokens, &e), &e, want, why);
    CHECK_INT(n_tokens, want == 0 ? s->n_computed : 0);
    while (engine_poll(en, &event, &e) == 1) {
        if (event.kind == ENGINE_EVENT_TOKEN)
            ret->token[ret->n_tokens++] = event.token;
        if (event.kind == ENGINE_EVENT_DONE)
            ret->usage = event.usage;
    }
    CHECK_INT(ret->usage.restored_tokens, n_tokens);
}

static void check_tokens(const struct kit_result *got, const struct kit_result *want)
{
    CHECK_INT(got->n_tokens, want->n_tokens);
    CHECK(memcmp(got->token, want->token, want->n_tokens * sizeof(int32_t)) == 0);
}

static void check_model(const char *model, bool exact)
{
    struct kit_result *want = mem_alloc(sizeof(*want)), *got = mem_alloc(sizeof(*got));
    const struct engine_request r = request(5);
    struct kit_engine k = open_engine(model, exact);
    kit_run(k.en, &r, 1, want);
    CHECK_INT(want->n_tokens, 20);
    for (int n = 1; n < 20; n += 6) { /* in the prompt first, then in the answer */
        const struct stopped s = stop_after(k.en, &r, n);
        struct kit_engine other = open_engine(model, exact);
        go_on(other.en, r, &s, 0, NULL, got);
        check_tokens(got, want);
        kit_close(&other);
    }
    kit_close(&k);
    mem_free(want);
    mem_free(got);
}

TEST(snapshot_goes_on_with_the_same_bits)
{
    char path[4096];
    check_model(kit_model("Q4_K", path), false);
    check_model(kit_model("Q8_0", path), true);
}

/* Each byte that is wrong is found, and what was tried leaves no trace in the answer. */
TEST(snapshot_damaged_is_refused_and_harms_nothing)
{
    char path[4096];
    struct error e = {0};
    struct kit_result *want = mem_alloc(sizeof(*want)), *got = mem_alloc(sizeof(*got));
    const struct engine_request r = request(6);
    struct kit_engine k = open_engine(kit_model("Q4_K", path), false);
    kit_run(k.en, &r, 1, want);
    const struct stopped s = stop_after(k.en, &r, 8);
    struct buf good;
    buf_init(&good, 64u << 20);
    CHECK_OK(file_read_all(PATH, 64u << 20, &good, &e), &e);
    const struct {
        size_t at;
        int code;
        const char *why;
    } cases[] = {
        {0, ERROR_FORMAT, "no snapshot of version"},
        {8, ERROR_FORMAT, "no snapshot of version"},
        {12, ERROR_CONFLICT, "tokens and 0 parts, the request"},
        {16, ERROR_FORMAT, "its header and the model say"},
        {30, ERROR_CONFLICT, "another model"},
        {88, ERROR_CONFLICT, "parts, the request"},
        {132, ERROR_CONFLICT, "another text"},
        {good.len / 2, ERROR_FORMAT, "damaged"},
        {good.len - 33, ERROR_FORMAT, "damaged"},
        {good.len - 1, ERROR_FORMAT, "damaged"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct file_replace f;
        CHECK_OK(file_replace_begin(&f, PATH, &e), &e);
        good.ptr[cases[i].at] ^= 0x40;
        CHECK_OK(file_write_fd(f.fd, good.ptr, good.len, PATH, &e), &e);
        good.ptr[cases[i].at] ^= 0x40;
        CHECK_OK(file_replace_commit(&f, &e), &e);
        go_on(k.en, r, &s, cases[i].code, cases[i].why, got);
        check_tokens(got, want);
    }
    CHECK_OK(truncate(PATH, (off_t)good.len - 1) ? -1 : 0, &e);
    go_on(k.en, r, &s, ERROR_FORMAT, "its header and the model say", got);
    check_tokens(got, want);
    CHECK_INT(unlink(PATH), 0);
    go_on(k.en, r, &s, ERROR_NOTFOUND, PATH, got);
    check_tokens(got, want);
    buf_release(&good);
    kit_close(&k);
    mem_free(want);
    mem_free(got);
}

TEST(snapshot_of_another_request_or_arithmetic_is_refused)
{
    char path[4096];
    struct kit_result *got = mem_alloc(sizeof(*got));
    struct engine_request r = request(7);
    struct kit_engine k = open_engine(kit_model("Q4_K", path), false);
    struct stopped s = stop_after(k.en, &r, 8);
    struct kit_engine exact = open_engine(path, true);
    go_on(exact.en, r, &s, ERROR_CONFLICT, "another model", got);
    kit_close(&exact);
    char other[sizeof(text)] = {0};
    memcpy(other, text, sizeof(text));
    other[1] = 'H';
    r.prompt.ptr = other;
    go_on(k.en, r, &s, ERROR_CONFLICT, "another text", got);
    kit_close(&k);
    mem_free(got);
}

/* Writing fails anywhere: an error, and under the name nothing or the whole. */
TEST(snapshot_that_cannot_be_written_leaves_nothing)
{
    char path[4096];
    struct error e = {0};
    enum engine_admission answer;
    struct engine_event event;
    const struct engine_request r = request(8);
    struct kit_engine k = open_engine(kit_model("Q4_K", path), false);
    CHECK_OK(engine_submit(k.en, &r, &answer, &e), &e);
    CHECK_ERROR(engine_snapshot(k.en, r.tag, PATH, &e), &e, ERROR_NOTFOUND, "nothing");
    CHECK_INT(engine_poll(k.en, &event, &e), 1);
    int rc = -1;
    for (long at = 1; rc != 0; at++) {
        CHECK(at < 1000);
        file_fail_after(at, FILE_FAULT_ENOSPC);
        rc = engine_snapshot(k.en, r.tag, PATH, &e);
        file_fail_after(0, FILE_FAULT_NONE);
        struct stat st;
        const bool there = stat(PATH, &st) == 0;
        uint32_t n_tokens;
        CHECK(there || rc != 0);
        CHECK(!there || (uint64_t)st.st_size == engine_snapshot_bytes(k.en, r.tag, &n_tokens));
    }
    kit_close(&k);
}
