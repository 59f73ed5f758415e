/*
 * Every architecture at the level of steps: the bits of a row's logits do not depend on how the prompt
 * was cut into steps, on the threads, on another sequence's rows in the same steps, or on a state that was
 * saved and restored on the way.
 */
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/parallel.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 70 /* more than a page and than a block of rows */
#define KEPT 4   /* last rows that are compared */

struct architecture {
    const char *name, *arguments;
};

/* Rows [first, first + n) of a sequence at the end of a step that is being put together. */
static void add_rows(struct step_row *rows, uint32_t *n_rows, const int32_t *ids, int slot,
                     uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++)
        rows[(*n_rows)++] = (struct step_row){
            .token = ids[i], .position = i, .slot = slot, .want_logits = i + KEPT >= N_IDS};
}

/* Logits of the step's last rows, as far as they are among a sequence's last ones. */
static void keep(const struct step_kit *k, const struct step_row *rows, uint32_t n_rows, int slot,
                 float *kept)
{
    const uint32_t n_vocab = k->model.hp.n_vocab;
    uint32_t at = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        if (!rows[r].want_logits)
            continue;
        const float *logits = forward_logits(k->forward, at++);
        if (rows[r].slot == slot)
            memcpy(kept + (size_t)(rows[r].position + KEPT - N_IDS) * n_vocab, logits,
                   n_vocab * sizeof(float));
    }
}

static void open_kit(struct step_kit *k, const struct architecture *a, const char *isa, int threads)
{
    char path[4096];
    const struct step_kit_options o = {
        .isa = isa, .max_rows = 2 * N_IDS, .max_logits = 2 * KEPT, .positions = N_IDS};
    CHECK_INT(parallel_set_threads(threads), 0);
    step_kit_open(k, step_kit_model(a->name, a->arguments, path), &o);
}

/* The last logits [KEPT][n_vocab] of one sequence in steps of `chunk` rows. */
static float *run_alone(struct step_kit *k, uint32_t salt, uint32_t chunk)
{
    int32_t ids[N_IDS];
    struct step_row rows[N_IDS];
    struct error e = {0};
    float *kept = mem_array((size_t)KEPT * k->model.hp.n_vocab, sizeof(*kept));
    step_kit_ids(ids, N_IDS, k->model.hp.n_vocab, salt);
    int slot = kv_reserve(k->kv, N_IDS);
    for (uint32_t at = 0; at < N_IDS; at += chunk) {
        uint32_t n = 0;
        add_rows(rows, &n, ids, slot, at, MIN_OF(chunk, N_IDS - at));
        CHECK_OK(forward_step(k->forward, rows, n, &e), &e);
        keep(k, rows, n, slot, kept);
    }
    kv_release(k->kv, slot);
    return kept;
}

/* Two sequences whose rows share steps, 3 of the first and 5 of the second as long as there are. */
static void run_together(struct step_kit *k, float *kept[2])
{
    static const uint32_t chunk[2] = {3, 5};
    int32_t ids[2][N_IDS];
    uint32_t at[2] = {0};
    int slot[2];
    struct step_row rows[8];
    struct error e = {0};
    for (int s = 0; s < 2; s++) {
        step_kit_ids(ids[s], N_IDS, k->model.hp.n_vocab, (uint32_t)s);
        slot[s] = kv_reserve(k->kv, N_IDS);
        kept[s] = mem_array((size_t)KEPT * k->model.hp.n_vocab, sizeof(float));
    }
    while (at[0] < N_IDS || at[1] < N_IDS) {
        uint32_t n_rows = 0;
        for (int s = 0; s < 2; s++) {
            uint32_t n = MIN_OF(chunk[s], N_IDS - at[s]);
            add_rows(rows, &n_rows, ids[s], slot[s], at[s], n);
            at[s] += n;
        }
        CHECK_OK(forward_step(k->forward, rows, n_rows, &e), &e);
        for (int s = 0; s < 2; s++)
            keep(k, rows, n_rows, slot[s], kept[s]);
    }
    kv_release(k->kv, slot[0]);
    kv_release(k->kv, slot[1]);
}

/* A saved state as one flat block, written or read from the front. */
struct saved {
    unsigned char *bytes;
    size_t at, size;
    bool restore;
};

static int copy_range(void *context, void *at, size_t bytes, struct error *e)
{
    struct saved *s = context;
    (void)e;
    CHECK(s->at + bytes <= s->size);
    memcpy(s->restore ? at : s->bytes + s->at, s->restore ? s->bytes + s->at : at, bytes);
    s->at += bytes;
    return 0;
}

static void visit_all(const struct step_kit *k, int slot, uint32_t n, struct saved *s)
{
    struct error e = {0};
    s->at = 0;
    for (uint32_t il = 0; il < k->model.hp.n_layers; il++) {
        const struct layer *l = &k->model.layers[il];
        if (l->parts & PART_KDA)
            CHECK_OK(kv_visit_recurrent(k->kv, slot, l->state, copy_range, s, &e), &e);
        else
            CHECK_OK(kv_visit(k->kv, slot, l->state, n, copy_range, s, &e), &e);
    }
    CHECK_INT(s->at, s->size);
}

/* The first sequence, saved after a third of it and taken up again in another slot after others ran. */
static float *run_restored(struct step_kit *k, const struct kv_shape *shape)
{
    const uint32_t first = N_IDS / 3;
    int32_t ids[N_IDS];
    struct saved s = {.size = shape->n_layers * kv_layer_bytes(shape, first) +
                              shape->n_recurrent * kv_recurrent_layer_bytes(shape)};
    float *kept = mem_array((size_t)KEPT * k->model.hp.n_vocab, sizeof(*kept));
    s.bytes = mem_array(s.size, 1);
    step_kit_ids(ids, N_IDS, k->model.hp.n_vocab, 0);
    int slot = kv_reserve(k->kv, N_IDS);
    step_kit_run(k, slot, ids, 0, first, 0);
    visit_all(k, slot, first, &s);
    step_kit_run(k, slot, ids, first, N_IDS - first, 0);
    int other = kv_reserve(k->kv, N_IDS);
    kv_release(k->kv, slot);
    step_kit_run(k, other, ids, 0, 7, 0); /* what was there before must not matter */
    s.restore = true;
    visit_all(k, other, first, &s);
    step_kit_run(k, other, ids, first, N_IDS - first, KEPT);
    memcpy(kept, forward_logits(k->forward, 0), KEPT * k->model.hp.n_vocab * sizeof(*kept));
    kv_release(k->kv, other);
    mem_free(s.bytes);
    return kept;
}

static void check_same(const struct step_kit *k, const float *got, const float *want,
                       const char *what, const char *isa, uint32_t chunk)
{
    const size_t n = (size_t)KEPT * k->model.hp.n_vocab;
    for (size_t i = 0; i < n; i++)
        CHECK(isfinite(want[i]));
    if (memcmp(got, want, n * sizeof(float)) != 0)
        test_fail(__FILE__, __LINE__, "%s, %s, chunk %u: other bits", what, isa ? isa : "exact",
                  chunk);
}

static void check_architecture(const struct architecture *a, const char *isa)
{
    static const uint32_t chunks[] = {1, 2, 3, 5, 64};
    struct step_kit k;
    open_kit(&k, a, isa, 1);
    float *want[2] = {run_alone(&k, 0, N_IDS), run_alone(&k, 1, N_IDS)};
    CHECK(memcmp(want[0], want[1], KEPT * k.model.hp.n_vocab * sizeof(float)) != 0);
    for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
        step_kit_close(&k);
        open_kit(&k, a, isa, chunks[c] == 64 ? 3 : 1);
        float *got = run_alone(&k, 0, chunks[c]);
        check_same(&k, got, want[0], a->name, isa, chunks[c]);
        mem_free(got);
    }
    const struct kv_shape shape = model_kv_shape(&k.model, !isa);
    float *restored = run_restored(&k, &shape);
    check_same(&k, restored, want[0], a->name, isa, N_IDS / 3);
    mem_free(restored);
    float *together[2];
    run_together(&k, together);
    for (int s = 0; s < 2; s++) {
        check_same(&k, together[s], want[s], a->name, isa, 0);
        mem_free(together[s]);
        mem_free(want[s]);
    }
    step_kit_close(&k);
}

static void check_every_mode(const char *name, const char *arguments)
{
    const struct architecture a = {name, arguments};
    struct cpu cpu;
    cpu_detect(&cpu);
    check_architecture(&a, NULL);
    for (size_t i = 0; kernels_all[i]; i++) {
        if (kernels_all[i]->supported(&cpu))
            check_architecture(&a, kernels_all[i]->name);
    }
}

TEST(steps_same_bits_of_llama_with_experts)
{
    check_every_mode("llama-experts", "--arch llama --vocab 300 --experts 4 --used 2 --type Q4_0");
}

TEST(steps_same_bits_of_qwen3moe)
{
    check_every_mode(
        "qwen3moe",
        "--arch qwen3moe --vocab 300 --experts 4 --expert-ff 64 --type Q5_0 --expert-type IQ1_S");
}

TEST(steps_same_bits_of_deepseek2)
{
    check_every_mode("deepseek2", "--arch deepseek2 --vocab 300 --experts 8 --groups 2 "
                                  "--groups-used 1 --expert-ff 64 --type Q4_K");
}

TEST(steps_same_bits_of_deepseek2_in_older_files)
{
    check_every_mode("old", "--arch deepseek2 --vocab 300 --experts 4 --groups 1 --groups-used 1 "
                            "--expert-ff 64 --legacy --q-lora 0 --softmax --type Q8_0");
}

TEST(steps_same_bits_of_kimi_linear)
{
    check_every_mode("kimi-linear",
                     "--arch kimi-linear --embd 96 --heads 3 --vocab 300 --type Q8_0");
}

TEST(steps_same_bits_of_kimi_k3)
{
    check_every_mode("kimi-k3", "--arch kimi-k3 --embd 96 --heads 3 --vocab 300 --latent 64"
                                " --expert-ff 64 --type Q4_0 --expert-type MXFP4");
}
