/* Traces of experts: what is read is what was written, and a run's trace is what its routers chose. */
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/experts/trace.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

static const struct trace_header header = {
    .n_layers = 5, .n_experts = 300, .n_used = 4, .slot_bytes = (uint64_t)5 << 32};

static uint32_t some_ids(uint64_t i, uint32_t ids[40])
{
    const uint32_t n = 1 + (uint32_t)(rng_u64(1, i) % 40);
    for (uint32_t k = 0; k < n; k++)
        ids[k] = (uint32_t)((rng_u64(2, i) + k * 7) % 300);
    return n;
}

static int write_some(const char *path, uint64_t n_visits, struct error *e)
{
    struct trace_writer *w = NULL;
    struct trace_header h = header;
    uint32_t ids[40];
    memset(h.fingerprint, 'f', 64);
    int rc = trace_create(&w, path, &h, e);
    if (rc != 0)
        return rc;
    for (uint64_t i = 0; i < n_visits; i++) {
        const uint32_t n = some_ids(i, ids);
        trace_add(w, (uint32_t)(i % 5), 10 + (uint32_t)i, ids, n);
    }
    return trace_commit(w, e);
}

TEST(visits_are_read_as_they_were_written)
{
    static const uint64_t n_visits[] = {0, 1, 3000};
    for (size_t k = 0; k < ARRAY_LEN(n_visits); k++) {
        struct trace t;
        struct trace_visit v;
        struct error e = {0};
        uint32_t ids[40];
        size_t at = 0;
        CHECK_OK(write_some("t", n_visits[k], &e), &e);
        CHECK_OK(trace_read(&t, "t", &e), &e);
        CHECK_INT(t.header.n_layers, 5);
        CHECK_INT(t.header.n_experts, 300);
        CHECK_INT(t.header.n_used, 4);
        CHECK_INT(t.header.slot_bytes, header.slot_bytes);
        CHECK(strlen(t.header.fingerprint) == 64 && t.header.fingerprint[63] == 'f');
        CHECK_INT(t.n_visits, n_visits[k]);
        for (uint64_t i = 0; i < n_visits[k]; i++) {
            CHECK(trace_next(&t, &at, &v));
            CHECK_INT(v.layer, i % 5);
            CHECK_INT(v.n_rows, 10 + i);
            CHECK_INT(v.n, some_ids(i, ids));
            for (uint32_t n = 0; n < v.n; n++)
                CHECK_INT(v.ids[n], ids[n]);
        }
        CHECK(!trace_next(&t, &at, &v));
        trace_release(&t);
    }
}

static void put_file(const char *bytes, size_t n)
{
    FILE *f = fopen("bad", "wb");
    CHECK(f && fwrite(bytes, 1, n, f) == n);
    fclose(f);
}

static void check_refused(const char *bytes, size_t n, const char *why)
{
    struct trace t = {0};
    struct error e = {0};
    put_file(bytes, n);
    CHECK_ERROR(trace_read(&t, "bad", &e), &e, ERROR_FORMAT, why);
    CHECK(t.bytes.ptr == NULL);
}

/* A byte of a good file, changed. */
static void check_changed(const struct buf *good, size_t at, uint8_t value, const char *why)
{
    const char was = good->ptr[at];
    good->ptr[at] = (char)value;
    check_refused(good->ptr, good->len, why);
    good->ptr[at] = was;
}

TEST(visits_of_a_damaged_file_are_refused)
{
    struct buf good;
    struct error e = {0};
    CHECK_OK(write_some("t", 3, &e), &e);
    buf_init(&good, 1u << 20);
    CHECK_OK(file_read_all("t", good.max, &good, &e), &e);
    for (size_t n = 0; n < good.len; n++)
        check_refused(good.ptr, n, n < 96 ? "no trace of experts" : "cut off or damaged");
    check_changed(&good, 0, 'N', "no trace of experts");
    check_changed(&good, 8, 2, "trace of version 2, this program reads 1");
    check_changed(&good, 12, 0, "0 layers");
    check_changed(&good, 20, 0, "0 of 300 experts");
    check_changed(&good, 96, 5, "visit 0, at byte 96"); /* a layer too many */
    check_changed(&good, 98, 0, "visit 0");             /* no experts */
    check_changed(&good, 98, 41,
                  "cut off or damaged");       /* more than its rows use, or than there are */
    check_changed(&good, 105, 255, "visit 0"); /* an id too large */
    check_changed(&good, good.len - 4, 4, "visit 3"); /* the end counts another number */
    memcpy(good.ptr + 106, good.ptr + 104, 2);        /* twice the same */
    check_refused(good.ptr, good.len, "visit 0");
    buf_append_c(&good, "x");
    check_refused(good.ptr, good.len, "visit 0");
    buf_release(&good);
}

/* 0, or a failure that left no file, or one that is whole. */
static int write_with_faults(void)
{
    struct error e = {0};
    struct trace t;
    unlink("t");
    const int rc = write_some("t", 3000, &e);
    file_fail_after(0, FILE_FAULT_NONE);
    mem_fail_after(0);
    CHECK(rc == 0 || e.text[0] != '\0');
    CHECK(rc != 0 || access("t", F_OK) == 0);
    if (access("t", F_OK) == 0) {
        CHECK_OK(trace_read(&t, "t", &e), &e);
        CHECK_INT(t.n_visits, 3000);
        trace_release(&t);
    }
    return rc;
}

TEST(visits_are_written_whole_or_not_at_all)
{
    long n_failed = 0, at = 0;
    do {
        file_fail_after(++at, FILE_FAULT_ENOSPC);
        n_failed++;
    } while (write_with_faults() != 0);
    CHECK(n_failed > 3);
    at = 0;
    do
        mem_fail_after(++at);
    while (write_with_faults() != 0);
    CHECK(at > 3);
}

/* ------------------------------------------------------------------ of a run */

#define N_IDS 24
#define MODEL_ARGUMENTS "--arch kimi-linear --experts 24 --used 4 --type Q8_0"

/* What the routers of each layer chose for each row. */
struct chosen {
    uint32_t n_rows[64];
    uint32_t expert[64][N_IDS][4];
};

static void watch(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows)
{
    struct chosen *c = context;
    if (strcmp(name, "ffn_moe_topk") != 0)
        return;
    for (uint32_t r = 0; r < n_rows; r++, c->n_rows[layer]++) {
        for (size_t i = 0; i < n_cols; i++)
            c->expert[layer][c->n_rows[layer]][i] = (uint32_t)x[r * n_cols + i];
    }
}

static void choose(const char *path, const int32_t *ids, struct chosen *ret)
{
    struct step_kit k;
    const struct step_kit_options o = {.max_rows = N_IDS,
                                       .max_logits = 1,
                                       .positions = N_IDS,
                                       .trace = watch,
                                       .trace_context = ret};
    step_kit_open(&k, path, &o);
    step_kit_run(&k, kv_reserve(k.kv, N_IDS), ids, 0, N_IDS, 1);
    step_kit_close(&k);
}

static bool wants(const struct trace_visit *v, uint32_t expert)
{
    uint32_t i = 0;
    while (i < v->n && v->ids[i] != expert)
        i++;
    return i < v->n;
}

/* The visit of rows [first, first + n_rows) of its layer has what they chose, and no more. */
static void check_visit(const struct trace_visit *v, const struct chosen *c, uint32_t first)
{
    for (uint32_t r = first; r < first + v->n_rows; r++) {
        for (int i = 0; i < 4; i++)
            CHECK(wants(v, c->expert[v->layer][r][i]));
    }
    for (uint32_t i = 0; i < v->n; i++) {
        bool chosen = false;
        for (uint32_t r = first; r < first + v->n_rows; r++) {
            for (int k = 0; k < 4; k++)
                chosen |= c->expert[v->layer][r][k] == v->ids[i];
        }
        CHECK(chosen);
    }
}

static void trace_run(const char *path, const int32_t *ids, uint32_t chunk, uint64_t budget)
{
    struct kit_engine k = {0};
    struct error e = {0};
    const struct engine_options o = {.model_path = path,
                                     .exact = true,
                                     .threads = 2,
                                     .slots = 1,
                                     .chunk = chunk,
                                     .trace_path = "run.trace"};
    CHECK_OK(ledger_new(&k.ledger, budget, &e), &e);
    struct engine_options with_ledger = o;
    with_ledger.ledger = k.ledger;
    CHECK_OK(engine_open(&k.en, &with_ledger, &e), &e);
    CHECK_OK(engine_score(k.en, ids, N_IDS, 0, NULL, NULL, &e), &e);
    CHECK_OK(engine_trace(k.en, &e), &e);
    CHECK_ERROR(engine_trace(k.en, &e), &e, ERROR_INVALID, "without a trace");
    kit_close(&k);
}

TEST(visits_of_a_run_are_what_its_routers_chose)
{
    static const uint32_t chunks[] = {1, 5, N_IDS};
    char path[4096];
    int32_t ids[N_IDS];
    struct chosen *c = mem_zalloc(sizeof(*c));
    struct trace t;
    struct trace_visit v;
    struct error e = {0};
    step_kit_model("engine", MODEL_ARGUMENTS, path);
    for (int i = 0; i < N_IDS; i++)
        ids[i] = 3 + 11 * i;
    choose(path, ids, c);
    const uint64_t least =
        kit_plan(path, 0, &(struct engine_options){.exact = true, .threads = 2, .slots = 1})
            .smallest_bytes;
    for (size_t k = 0; k < ARRAY_LEN(chunks); k++) {
        uint32_t first[64] = {0}, n_visits = 0;
        trace_run(path, ids, chunks[k], k == 0 ? least : (uint64_t)1 << 30);
        CHECK_OK(trace_read(&t, "run.trace", &e), &e);
        for (size_t at = 0; trace_next(&t, &at, &v); n_visits++) {
            check_visit(&v, c, first[v.layer]);
            first[v.layer] += v.n_rows;
        }
        for (uint32_t il = 0; il < t.header.n_layers; il++)
            CHECK_INT(first[il], c->n_rows[il]);
        CHECK(n_visits >= 2 * (N_IDS + chunks[k] - 1) / chunks[k]);
        trace_release(&t);
    }
    mem_free(c);
}

TEST(visits_of_a_model_without_experts_are_refused)
{
    char path[4096];
    struct error e = {0};
    struct kit_engine k = {0};
    kit_model("Q8_0", path);
    CHECK_OK(ledger_new(&k.ledger, (uint64_t)1 << 30, &e), &e);
    const struct engine_options o = {
        .model_path = path, .ledger = k.ledger, .threads = 1, .trace_path = "run.trace"};
    CHECK_ERROR(engine_open(&k.en, &o, &e), &e, ERROR_UNSUPPORTED, "without experts");
    CHECK_INT(ledger_total(k.ledger), 0);
    ledger_free(k.ledger);
    CHECK(access("run.trace", F_OK) != 0);
}
