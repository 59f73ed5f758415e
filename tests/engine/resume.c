/*
 * Steps of an engine that are interrupted before any layer: they go on in the process, and from snapshots in
 * engines with other budgets and shorter steps, with the same tokens and without computing anything twice.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "engine/local/sequence.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_REQUESTS 2
#define MAX_TOKENS 7
#define CHUNK 24

static const struct {
    const char *name, *arguments;
} models[] = {
    {"llama", "--arch llama --type Q8_0"},
    {"qwen3moe", "--arch qwen3moe --type Q8_0"},
    {"kimi-linear", "--arch kimi-linear --type Q8_0"},
    {"kimi-k3", "--arch kimi-k3 --type Q8_0"},
};

static const char *const prompts[N_REQUESTS] = {
    "The harbour was closed for three days after the storm; two cranes fell.",
    "Nobody had seen the ferry since Monday.",
};

/* Before which layer, counted over steps, the engine is interrupted; 0: never again. */
struct stopper {
    int left;
};

static bool stop_now(void *context)
{
    struct stopper *s = context;
    return s->left > 0 && --s->left == 0;
}

struct side {
    struct kit_engine k;
    struct stopper stop;
    uint64_t row_layers; /* as of the last look */
};

/* budget 0: ample. */
static void open_side(struct side *s, const char *path, uint64_t budget, uint32_t chunk)
{
    struct error e = {0};
    struct engine_options o = {.model_path = path,
                               .slots = N_REQUESTS,
                               .chunk = chunk,
                               .threads = 1,
                               .interrupted = stop_now,
                               .interrupted_context = &s->stop};
    *s = (struct side){0};
    CHECK_OK(ledger_new(&s->k.ledger, budget ? budget : (uint64_t)1 << 30, &e), &e);
    o.ledger = s->k.ledger;
    CHECK_OK(engine_open(&s->k.en, &o, &e), &e);
}

static uint64_t smallest_budget(const char *path, uint32_t chunk)
{
    const struct engine_options o = {.slots = N_REQUESTS, .chunk = chunk, .threads = 1};
    const struct engine_plan p = kit_plan(path, 0, &o);
    return p.smallest_bytes + p.per_sequence_bytes;
}

static uint64_t row_layers(struct side *s)
{
    struct engine_counters c;
    engine_counters(s->k.en, &c);
    const uint64_t more = c.row_layers - s->row_layers;
    s->row_layers = c.row_layers;
    return more;
}

/* What has come of the requests, over all lives. */
struct work {
    int32_t token[N_REQUESTS][MAX_TOKENS];
    size_t n_tokens[N_REQUESTS];
    bool done[N_REQUESTS];
    uint64_t row_layers;
};

static const char *file_of(size_t i, char name[32])
{
    snprintf(name, 32, "state.%zu", i);
    return name;
}

static void submit_one(struct side *s, const struct work *w, size_t i)
{
    struct error e = {0};
    enum engine_admission answer;
    char name[32];
    uint32_t n_tokens;
    const struct engine_request r = {.tag = i,
                                     .prompt = str_of(prompts[i]),
                                     .max_tokens = MAX_TOKENS,
                                     .sampling = {.temperature = 0.9f, .top_p = 1, .seed = i + 5},
                                     .resume = w->token[i],
                                     .n_resume = w->n_tokens[i]};
    CHECK_OK(engine_submit(s->k.en, &r, &answer, &e), &e);
    CHECK_INT(answer, ENGINE_ADMITTED);
    if (access(file_of(i, name), F_OK) != 0)
        return;
    CHECK_OK(engine_restore(s->k.en, i, name, &n_tokens, &e), &e);
    CHECK_INT(unlink(name), 0); /* it may go: its rows are still to come */
}

static void submit_all(struct side *s, const struct work *w)
{
    for (size_t i = 0; i < N_REQUESTS; i++) {
        if (!w->done[i])
            submit_one(s, w, i);
    }
}

/* Polls until nothing is left (true) or the engine was interrupted. */
static bool run(struct side *s, struct work *w)
{
    struct error e = {0};
    struct engine_event event;
    int rc;
    while ((rc = engine_poll(s->k.en, &event, &e)) == 1) {
        CHECK(event.kind != ENGINE_EVENT_FAILED && event.tag < N_REQUESTS);
        if (event.kind == ENGINE_EVENT_TOKEN)
            w->token[event.tag][w->n_tokens[event.tag]++] = event.token;
        w->done[event.tag] |= event.kind == ENGINE_EVENT_DONE;
    }
    if (rc < 0)
        CHECK_ERROR(rc, &e, ERROR_INTERRUPTED, "layer");
    w->row_layers += row_layers(s);
    return rc == 0;
}

/* Whatever has been computed goes into files; nothing stays in the engine. */
static void keep_all(struct side *s, const struct work *w)
{
    struct error e = {0};
    struct stat st;
    char name[32];
    for (size_t i = 0; i < N_REQUESTS; i++) {
        uint32_t n_tokens;
        const uint64_t bytes = engine_snapshot_bytes(s->k.en, i, &n_tokens);
        if (!w->done[i] && bytes > 0) {
            CHECK_OK(engine_snapshot(s->k.en, i, file_of(i, name), &e), &e);
            CHECK_INT(stat(name, &st), 0);
            CHECK_INT((uint64_t)st.st_size, bytes);
        }
        engine_cancel(s->k.en, i);
    }
    CHECK(!engine_busy(s->k.en));
}

static void check_same(const struct work *got, const struct work *want, const char *what, int at)
{
    if (memcmp(got->token, want->token, sizeof(got->token)) != 0)
        test_fail(__FILE__, __LINE__, "%s, interrupted at %d: other tokens", what, at);
    if (got->row_layers != want->row_layers)
        test_fail(__FILE__, __LINE__, "%s, interrupted at %d: %llu rows of layers, not %llu", what,
                  at, (unsigned long long)got->row_layers, (unsigned long long)want->row_layers);
}

static void run_calm(struct side *s, struct work *ret)
{
    *ret = (struct work){0};
    submit_all(s, ret);
    CHECK(run(s, ret));
}

TEST(resume_in_the_process_before_every_layer)
{
    char path[4096];
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        struct side s;
        struct work want, got = {0};
        int n = 0;
        open_side(&s, step_kit_model(models[m].name, models[m].arguments, path), 0, CHUNK);
        run_calm(&s, &want);
        submit_all(&s, &got);
        for (s.stop.left = 1; !run(&s, &got); n++) {
            struct engine_step step;
            engine_step(s.k.en, &step);
            CHECK(step.n_layers == 0 || (step.layer > 0 && step.layer < step.n_layers));
            s.stop.left = 1 + (n % 2 == 0); /* stays where it is, or goes one layer on */
        }
        CHECK(n > 20);
        check_same(&got, &want, models[m].name, -1);
        kit_close(&s.k);
    }
}

/* Stopped there, taken up with short steps in the smallest budget, stopped again, taken up at the first. */
static bool through_three_lives(struct side *large, struct side *small, int at, struct work *w)
{
    *w = (struct work){0};
    large->stop.left = at;
    submit_all(large, w);
    if (run(large, w))
        return false;
    keep_all(large, w);
    small->stop.left = 2 + at % 5;
    submit_all(small, w);
    if (!run(small, w))
        keep_all(small, w);
    small->stop.left = 0;
    submit_all(large, w);
    CHECK(run(large, w));
    return true;
}

TEST(resume_from_snapshots_at_every_layer_and_another_budget)
{
    char path[4096];
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        struct side large, small;
        struct work want, got;
        int at = 1;
        step_kit_model(models[m].name, models[m].arguments, path);
        open_side(&large, path, 0, CHUNK);
        open_side(&small, path, smallest_budget(path, 5), 5);
        run_calm(&large, &want);
        const int step = m == 0 ? 1 : 5; /* every layer in turn */
        for (; through_three_lives(&large, &small, at, &got); at += step)
            check_same(&got, &want, models[m].name, at);
        CHECK(at > 12);
        kit_close(&large.k);
        kit_close(&small.k);
    }
}

/* One of two leaves while their step is suspended; another takes its place before it goes on. */
TEST(resume_without_a_sequence_that_left)
{
    char path[4096];
    struct side s;
    struct work want, got;
    struct error e = {0};
    open_side(&s, step_kit_model(models[3].name, models[3].arguments, path), 0, 64);
    run_calm(&s, &want);
    for (size_t leaves = 0; leaves < N_REQUESTS; leaves++) {
        got = (struct work){0};
        submit_all(&s, &got);
        s.stop.left = 3;
        CHECK(!run(&s, &got));
        CHECK_ERROR(engine_score(s.k.en, &(int32_t){1}, 1, 0, NULL, NULL, &e), &e, ERROR_BUSY,
                    "suspended");
        engine_cancel(s.k.en, leaves);
        submit_one(&s, &got, leaves);
        CHECK(run(&s, &got));
        got.row_layers = want.row_layers;
        check_same(&got, &want, "one that left", (int)leaves);
    }
    got = (struct work){0};
    submit_all(&s, &got);
    s.stop.left = 3;
    CHECK(!run(&s, &got));
    keep_all(&s, &got); /* nobody is left of it */
    struct engine_step step;
    engine_step(s.k.en, &step);
    CHECK_INT(step.n_rows, 0);
    got.row_layers = 0;
    submit_all(&s, &got);
    CHECK(run(&s, &got));
    CHECK(memcmp(got.token, want.token, sizeof(got.token)) == 0);
    kit_close(&s.k);
}

/* Each life has half of the rows of the one before it and is stopped at once. */
TEST(resume_of_too_many_parts_is_refused)
{
    char path[4096];
    struct work got = {0};
    struct error e = {0};
    uint32_t chunk = 32, n_parts = 0;
    step_kit_model(models[3].name, models[3].arguments, path);
    for (;; chunk /= 2) {
        struct side s;
        uint32_t n_tokens;
        open_side(&s, path, 0, chunk);
        submit_one(&s, &got, 0);
        s.stop.left = 2;
        CHECK(!run(&s, &got));
        n_parts++;
        const uint64_t bytes = engine_snapshot_bytes(s.k.en, 0, &n_tokens);
        if (n_parts > SEQUENCE_PARTS) {
            CHECK_INT(bytes, 0);
            CHECK_ERROR(engine_snapshot(s.k.en, 0, "state.0", &e), &e, ERROR_UNSUPPORTED,
                        "more than");
            CHECK(access("state.0", F_OK) != 0);
            kit_close(&s.k);
            break;
        }
        CHECK(bytes > 0);
        CHECK_OK(engine_snapshot(s.k.en, 0, "state.0", &e), &e);
        kit_close(&s.k);
    }
}

/* A snapshot out of the middle of a step with one byte that is wrong: refused, and the answer is right. */
TEST(resume_refuses_a_damaged_part_and_begins_again)
{
    char path[4096];
    struct side s;
    struct work want, kept = {0};
    struct buf good;
    struct error e = {0};
    open_side(&s, step_kit_model(models[3].name, models[3].arguments, path), 0, CHUNK);
    run_calm(&s, &want);
    submit_all(&s, &kept);
    s.stop.left = 3;
    CHECK(!run(&s, &kept));
    keep_all(&s, &kept);
    buf_init(&good, 64u << 20);
    CHECK_OK(file_read_all("state.0", 64u << 20, &good, &e), &e);
    const struct {
        size_t at;
        int code;
        const char *why;
    } cases[] = {
        {88, ERROR_CONFLICT, "parts, the request"},  /* their number */
        {96, ERROR_CONFLICT, "parts, the request"},  /* rows of the first */
        {100, ERROR_CONFLICT, "parts, the request"}, /* its layers */
        {good.len - 40, ERROR_FORMAT, "damaged"},    /* what its last row carries */
        {good.len - 1, ERROR_FORMAT, "damaged"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct file_replace f;
        struct work got = {0};
        uint32_t n_tokens;
        CHECK_OK(file_replace_begin(&f, "bad", &e), &e);
        good.ptr[cases[i].at] ^= 0x40;
        CHECK_OK(file_write_fd(f.fd, good.ptr, good.len, "bad", &e), &e);
        good.ptr[cases[i].at] ^= 0x40;
        CHECK_OK(file_replace_commit(&f, &e), &e);
        (void)unlink("state.0");
        (void)unlink("state.1");
        submit_one(&s, &got, 0);
        CHECK_ERROR(engine_restore(s.k.en, 0, "bad", &n_tokens, &e), &e, cases[i].code,
                    cases[i].why);
        CHECK(run(&s, &got));
        CHECK(memcmp(got.token[0], want.token[0], sizeof(want.token[0])) == 0);
    }
    buf_release(&good);
    kit_close(&s.k);
}

/* The rows of a part cannot be read when their turn comes: the step fails, nothing wrong comes of it. */
TEST(resume_fails_when_the_rows_cannot_be_read)
{
    char path[4096];
    struct side s;
    struct work got = {0}, want;
    struct error e = {0};
    struct engine_event event;
    open_side(&s, step_kit_model(models[0].name, models[0].arguments, path), 0, CHUNK);
    run_calm(&s, &want);
    submit_one(&s, &got, 0);
    s.stop.left = 2;
    CHECK(!run(&s, &got));
    keep_all(&s, &got);
    submit_one(&s, &got, 0);
    file_fail_after(1, FILE_FAULT_EIO);
    CHECK_ERROR(engine_poll(s.k.en, &event, &e), &e, ERROR_IO, "rows of a suspended step");
    file_fail_after(0, FILE_FAULT_NONE);
    CHECK(!engine_busy(s.k.en));
    submit_one(&s, &got, 0);
    CHECK(run(&s, &got));
    CHECK(memcmp(got.token[0], want.token[0], sizeof(want.token[0])) == 0);
    kit_close(&s.k);
}
