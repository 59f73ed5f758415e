/*
 * Layers that do not stay: whatever is streamed and whatever fails on the way, the bits are those of a model
 * that stays, and the bytes are counted.
 */
#include "engine/model/trunk.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 24

static const struct {
    const char *name, *arguments;
} archs[] = {
    {"llama", "--arch llama --layers 6 --type Q4_K"},
    {"qwen3moe", "--arch qwen3moe --layers 6 --type Q8_0"},
    {"kimi-linear", "--arch kimi-linear --layers 7 --type Q4_K"},
    {"kimi-k3", "--arch kimi-k3 --layers 7 --type Q8_0"},
    {"older", "--arch deepseek2 --layers 5 --legacy --type Q4_K"},
};

static void open_kit(struct step_kit *k, const char *path, uint32_t n_streamed)
{
    const struct step_kit_options o = {.isa = "auto",
                                       .n_streamed = n_streamed,
                                       .max_rows = N_IDS,
                                       .max_logits = N_IDS,
                                       .positions = N_IDS};
    step_kit_open(k, path, &o);
}

static float *logits(struct step_kit *k, uint32_t chunk)
{
    int32_t ids[N_IDS];
    step_kit_ids(ids, N_IDS, k->model.hp.n_vocab, 0);
    return step_kit_logits(k, ids, N_IDS, chunk);
}

static float *logits_of(const char *path, uint32_t n_streamed, uint32_t chunk)
{
    struct step_kit k;
    open_kit(&k, path, n_streamed);
    float *kept = logits(&k, chunk);
    step_kit_close(&k);
    return kept;
}

TEST(trunk_streamed_gives_the_same_bits)
{
    char path[4096];
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        step_kit_model(archs[a].name, archs[a].arguments, path);
        float *want = logits_of(path, 0, N_IDS);
        for (uint32_t n = 1; n <= 5; n++) {
            float *got = logits_of(path, n, n == 4 ? 1 : 5 + n);
            if (memcmp(got, want, 256 * sizeof(float)) != 0)
                test_fail(__FILE__, __LINE__, "%s, %u streamed: other bits", archs[a].name, n);
            mem_free(got);
        }
        mem_free(want);
    }
}

/* Bytes that have been read once everything that may be read ahead has been. */
static uint64_t settled_bytes(struct trunk *t, uint64_t want)
{
    struct trunk_counters c = {0};
    for (int i = 0; i < 2000 && c.bytes_read < want; i++) {
        trunk_counters(t, &c);
        usleep(1000);
    }
    usleep(20000);
    trunk_counters(t, &c);
    return c.bytes_read;
}

/* What reading these layers takes of the model's only file. */
static uint64_t bytes_of_layers(const struct step_kit *k, uint32_t first, uint32_t n)
{
    struct file f = {0};
    struct error e = {0};
    uint64_t bytes = 0;
    CHECK_OK(file_open_direct(&f, gguf_shard_path(k->gguf, 0), &e), &e);
    for (uint32_t il = first; il < first + n; il++) {
        const struct trunk_part *part = &k->model.parts[il];
        for (size_t i = part->first; i < part->first + part->n; i++) {
            const struct trunk_run *r = &k->model.runs[i];
            bytes += file_direct_span(r->start, (size_t)(r->end - r->start));
        }
    }
    file_close(&f);
    return bytes;
}

/* Whole steps, and the two layers after them that nobody has asked for yet. */
TEST(trunk_reads_each_layer_once_a_step)
{
    char path[4096];
    struct step_kit k;
    step_kit_model("llama", archs[0].arguments, path);
    open_kit(&k, path, 4);
    const uint64_t step = bytes_of_layers(&k, 2, 4), ahead = bytes_of_layers(&k, 2, 2);
    CHECK(step <= trunk_step_bytes(&k.model, 4));
    CHECK_INT(settled_bytes(k.trunk, ahead), ahead);
    mem_free(logits(&k, 4));
    const uint64_t want = N_IDS / 4 * step + ahead;
    CHECK_INT(settled_bytes(k.trunk, want), want);
    step_kit_close(&k);
}

/* Every read fails once, at every place: it is tried again and nobody notices. */
TEST(trunk_reads_again_what_failed_once)
{
    char path[4096];
    step_kit_model("llama", archs[0].arguments, path);
    float *want = logits_of(path, 0, N_IDS);
    for (long at = 1; at <= 14; at++) {
        struct step_kit k;
        open_kit(&k, path, 5);
        file_fail_once(at, at % 2 ? FILE_FAULT_EIO : FILE_FAULT_SHORT);
        float *got = logits(&k, 8);
        file_fail_after(0, FILE_FAULT_NONE);
        CHECK(memcmp(got, want, 256 * sizeof(float)) == 0);
        CHECK(trunk_failures(k.trunk, 0) <= 1);
        mem_free(got);
        step_kit_close(&k);
    }
    mem_free(want);
}

static int run_step(struct step_kit *k, int slot, struct error *e)
{
    int32_t ids[N_IDS];
    struct step_row rows[N_IDS];
    step_kit_ids(ids, N_IDS, k->model.hp.n_vocab, 0);
    for (uint32_t i = 0; i < N_IDS; i++)
        rows[i] = (struct step_row){
            .token = ids[i], .position = i, .slot = slot, .want_logits = i + 1 == N_IDS};
    return forward_step(k->forward, rows, N_IDS, e);
}

static void refuse_step(struct step_kit *k, enum error_code code, const char *part)
{
    struct error e = {0};
    const int slot = kv_reserve(k->kv, N_IDS);
    CHECK_ERROR(run_step(k, slot, &e), &e, code, part);
    kv_release(k->kv, slot);
}

/* A disk that goes away fails the step with file and offset; when it is back, all is as before. */
TEST(trunk_fails_the_step_whose_layer_fails_twice)
{
    char path[4096];
    step_kit_model("llama", archs[0].arguments, path);
    float *want = logits_of(path, 0, N_IDS);
    for (long at = 1; at <= 3; at++) {
        struct step_kit k;
        struct error e = {0};
        open_kit(&k, path, 5);
        mem_free(logits(&k, N_IDS));
        int slot = kv_reserve(k.kv, N_IDS);
        file_fail_after(at, FILE_FAULT_EIO);
        CHECK_ERROR(run_step(&k, slot, &e), &e, ERROR_IO, "llama.gguf");
        CHECK(strstr(e.text, "layer ") != NULL && strstr(e.text, " at offset ") != NULL);
        CHECK_ERROR(run_step(&k, slot, &e), &e, ERROR_IO, "llama.gguf");
        CHECK(trunk_failures(k.trunk, 0) >= 4);
        file_fail_after(0, FILE_FAULT_NONE);
        CHECK_OK(run_step(&k, slot, &e), &e);
        CHECK(memcmp(forward_logits(k.forward, 0), want, 256 * sizeof(float)) == 0);
        kv_release(k.kv, slot);
        step_kit_close(&k);
    }
    mem_free(want);
}

/* Cut while it is in use: the bytes that are gone are not made up. */
TEST(trunk_of_a_file_that_was_cut_is_refused)
{
    char path[4096];
    struct step_kit k;
    step_kit_model("cut", archs[0].arguments, path);
    open_kit(&k, path, 6);
    mem_free(logits(&k, N_IDS));
    CHECK_INT(truncate(path, 400000), 0);
    refuse_step(&k, ERROR_IO, "cut.gguf");
    step_kit_close(&k);
}

/* What is no number does not pass only because its layer is read late. */
TEST(trunk_streamed_is_checked_like_what_stays)
{
    char path[4096];
    struct step_kit k;
    step_kit_model("poisoned", "--arch llama --layers 6 --poison blk.4.ffn_up.weight", path);
    open_kit(&k, path, 5);
    refuse_step(&k, ERROR_FORMAT, "blk.4.ffn_up.weight");
    step_kit_close(&k);
}

/* A step that stopped on its way: the next one begins at the first layer again. */
TEST(trunk_goes_on_from_any_layer)
{
    char path[4096];
    struct step_kit k;
    struct error e = {0};
    const struct layer *l = NULL;
    step_kit_model("llama", archs[0].arguments, path);
    float *want = logits_of(path, 0, N_IDS);
    open_kit(&k, path, 5);
    for (uint32_t stop = 1; stop < 6; stop++) {
        for (uint32_t il = 1; il <= stop; il++) {
            CHECK_OK(trunk_acquire(k.trunk, il, &l, &e), &e);
            CHECK(l->q.data != NULL && l->q.file == k.model.layers[il].q.file);
            if (il < stop)
                trunk_release(k.trunk);
        }
        float *got = logits(&k, N_IDS);
        CHECK(memcmp(got, want, 256 * sizeof(float)) == 0);
        mem_free(got);
    }
    step_kit_close(&k);
    mem_free(want);
}

TEST(trunk_counts_reads_as_they_come_back)
{
    char path[4096];
    struct step_kit k;
    struct error e = {0};
    struct trunk *t = NULL;
    _Atomic uint64_t came_back = 0;
    step_kit_model("llama", archs[0].arguments, path);
    open_kit(&k, path, 4);
    CHECK_OK(trunk_open(&t, &k.model, k.ledger, &came_back, &e), &e);
    const uint64_t ahead = bytes_of_layers(&k, 2, 2);
    CHECK_INT(settled_bytes(t, ahead), ahead);
    trunk_close(t);
    uint32_t n = 0;
    for (uint32_t il = 2; il < 4; il++)
        n += k.model.parts[il].n;
    CHECK(n > 0);
    CHECK_INT(came_back, n); /* small ones, each in one piece */
    step_kit_close(&k);
}

TEST(trunk_survives_every_failing_allocation)
{
    char path[4096];
    struct step_kit k;
    struct error e = {0};
    int rc = -1;
    step_kit_model("older", archs[4].arguments, path);
    open_kit(&k, path, 4);
    const uint64_t used = ledger_total(k.ledger);
    for (long n = 1; rc != 0; n++) {
        struct trunk *t = NULL;
        CHECK(n < 100);
        mem_fail_after(n);
        rc = trunk_open(&t, &k.model, k.ledger, NULL, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        trunk_close(t);
        CHECK_INT(ledger_total(k.ledger), used);
    }
    step_kit_close(&k);
}

static uint64_t takes(const struct model *m, uint32_t n)
{
    return model_trunk_bytes(m, n) + ALIGN_UP(model_repacked_bytes(m, n), 4096u) +
           trunk_ring_bytes(m, n);
}

/* For any room: the fewest layers that fit it, or else what takes least. */
TEST(trunk_streams_no_more_than_it_must)
{
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        char path[4096];
        struct step_kit k;
        step_kit_model(archs[a].name, archs[a].arguments, path);
        open_kit(&k, path, 0);
        const struct model *m = &k.model;
        uint64_t least = UINT64_MAX;
        for (uint32_t n = 0; n <= m->hp.n_layers; n++)
            least = MIN_OF(least, takes(m, n));
        CHECK_INT(takes(m, trunk_choose_streamed(m, 0)), least);
        for (uint64_t room = least; room <= takes(m, 0); room += 8192) {
            const uint32_t n = trunk_choose_streamed(m, room);
            CHECK(takes(m, n) <= room);
            for (uint32_t fewer = 0; fewer < n; fewer++)
                CHECK(takes(m, fewer) > room);
        }
        CHECK_INT(trunk_choose_streamed(m, takes(m, 0)), 0);
        step_kit_close(&k);
    }
}

/* ------------------------------------------------------------------ the engine within its budget */

static struct engine_plan plan_within(const char *path, uint64_t limit)
{
    return kit_plan(path, limit, &(struct engine_options){.threads = 2, .slots = 2, .ctx = 128});
}

static void run_within(const char *path, uint64_t limit, struct kit_result *ret)
{
    struct error e = {0};
    struct kit_engine k = {0};
    struct engine_plan p;
    struct engine_counters c;
    struct engine_options o = {.model_path = path, .threads = 2, .slots = 2, .ctx = 128};
    CHECK_OK(ledger_new(&k.ledger, limit, &e), &e);
    o.ledger = k.ledger;
    CHECK_OK(engine_open(&k.en, &o, &e), &e);
    engine_plan(k.en, &p);
    CHECK_INT(ledger_used(k.ledger, LEDGER_TRUNK), p.trunk_bytes + p.repacked_bytes + p.ring_bytes);
    const struct engine_request r[2] = {
        {.tag = 1, .prompt = str_of("The harbour was closed."), .max_tokens = 9},
        {.tag = 2,
         .prompt = str_of("Two cranes fell; the ferry waits."),
         .max_tokens = 7,
         .sampling = {.temperature = 0.8f, .top_p = 1, .seed = 4}}};
    kit_run(k.en, r, 2, ret);
    CHECK(ledger_total_peak(k.ledger) <= p.total_bytes && p.total_bytes <= limit);
    engine_counters(k.en, &c);
    const uint64_t shared = ret[0].usage.bytes_read + ret[1].usage.bytes_read;
    /* streamed_bytes is in whole blocks, of up to two runs a layer */
    const uint64_t least = c.steps * (p.streamed_bytes - 4ull * 4096 * p.streamed_layers);
    CHECK(c.bytes_read >= least && shared <= c.bytes_read && shared + 2 * c.steps >= least);
    kit_close(&k);
}

/* From the smallest to where every layer stays, in as many steps as there are layers to stream. */
TEST(trunk_gives_the_same_tokens_at_every_budget)
{
    struct kit_result *got = mem_array(2, sizeof(*got)), *want = mem_array(2, sizeof(*want));
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        char path[4096];
        char name[64];
        snprintf(name, sizeof(name), "%s-within", archs[a].name);
        step_kit_model(name, archs[a].arguments, path);
        const struct engine_plan all = plan_within(path, 0);
        CHECK_INT(all.streamed_layers, 0);
        run_within(path, all.total_bytes + (64u << 20), want);
        uint64_t limit = plan_within(path, 1).total_bytes;
        CHECK(limit < all.total_bytes);
        uint32_t n_streamed = UINT32_MAX;
        for (; n_streamed > 0; limit += 262144) {
            const struct engine_plan p = plan_within(path, limit);
            CHECK(p.fits && p.streamed_layers <= n_streamed);
            if (p.streamed_layers == n_streamed)
                continue;
            n_streamed = p.streamed_layers;
            run_within(path, limit, got);
            for (int i = 0; i < 2; i++)
                kit_check_same(&got[i], &want[i], archs[a].name);
        }
    }
    mem_free(got);
    mem_free(want);
}

/* Each failed read counts for its file, whether it was for a layer or for an expert. */
TEST(trunk_failures_and_those_of_experts_are_of_one_file)
{
    char path[4096];
    struct kit_engine k = {0};
    struct error e = {0};
    struct engine_event event;
    struct engine_counters c;
    enum engine_admission admission;
    struct engine_options o = {.threads = 2, .slots = 2, .ctx = 128};
    const struct engine_request r = {
        .tag = 1, .prompt = str_of("The harbour was closed."), .max_tokens = 60};
    o.model_path = step_kit_model("both", archs[3].arguments, path);
    CHECK_OK(ledger_new(&k.ledger, plan_within(path, 1).total_bytes, &e), &e);
    o.ledger = k.ledger;
    CHECK_OK(engine_open(&k.en, &o, &e), &e);
    CHECK_OK(engine_submit(k.en, &r, &admission, &e), &e);
    do
        CHECK_INT(engine_poll(k.en, &event, &e), 1);
    while (engine_has_event(k.en));
    for (long i = 1; i <= 12; i++) {
        file_fail_once(i, FILE_FAULT_EIO);
        CHECK_INT(engine_poll(k.en, &event, &e), 1);
        file_fail_after(0, FILE_FAULT_NONE);
        CHECK_INT(engine_poll(k.en, &event, &e), 1); /* what failed in reading ahead is here then */
        CHECK(event.kind == ENGINE_EVENT_TOKEN && !engine_has_event(k.en));
    }
    engine_counters(k.en, &c);
    CHECK_INT(c.worst_file_failures, 12);
    kit_close(&k);
}
