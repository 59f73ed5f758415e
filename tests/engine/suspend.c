/*
 * Steps that are suspended before any layer and go on there: at once, after others had the scratch, with
 * the same company or without. Always the same bits.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_IDS 40
#define CUT 27 /* rows of the first step: more than one of a page, fewer than a block */
#define N_OTHER 9
#define MAX_VOCAB 2048
#define CARRIED_BYTES (1u << 20)

static const char *const archs[] = {"llama", "qwen3moe", "kimi-linear", "kimi-k3"};

static bool stop_now(void *context)
{
    int *left = context;
    return *left > 0 && --*left == 0;
}

static void open_kit(struct step_kit *k, const char *arch, int *left)
{
    char path[4096], arguments[128];
    const struct step_kit_options o = {.isa = "auto",
                                       .max_rows = CUT + N_OTHER,
                                       .max_logits = 2,
                                       .positions = N_IDS,
                                       .interrupted = stop_now,
                                       .interrupted_context = left};
    snprintf(arguments, sizeof(arguments), "--arch %s --type Q8_0", arch);
    step_kit_open(k, step_kit_model(arch, arguments, path), &o);
    CHECK(k->model.hp.n_vocab <= MAX_VOCAB);
}

/* Rows of positions [first, first + n) of the text with that salt; the last one wants logits. */
static uint32_t put_rows(struct step_row *rows, int slot, uint32_t salt, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct step_row){.token = (int32_t)(rng_u64(salt, first + i) % 256),
                                    .position = first + i,
                                    .slot = slot,
                                    .want_logits = i + 1 == n};
    return n;
}

/* The undisturbed run: CUT rows, then one by one. */
static void run_calm(struct step_kit *k, uint32_t salt, uint32_t first, float *ret)
{
    struct step_row rows[CUT];
    struct error e = {0};
    const int slot = kv_reserve(k->kv, N_IDS);
    CHECK_OK(forward_step(k->forward, rows, put_rows(rows, slot, salt, 0, first), &e), &e);
    for (uint32_t at = first; at < N_IDS; at++)
        CHECK_OK(forward_step(k->forward, rows, put_rows(rows, slot, salt, at, 1), &e), &e);
    memcpy(ret, forward_logits(k->forward, 0), k->model.hp.n_vocab * sizeof(*ret));
    kv_release(k->kv, slot);
}

static void check_logits(const struct step_kit *k, uint32_t i, const float *want, const char *what,
                         uint32_t layer)
{
    if (memcmp(forward_logits(k->forward, i), want, k->model.hp.n_vocab * sizeof(*want)) != 0)
        test_fail(__FILE__, __LINE__, "%s, layer %u: other bits", what, layer);
}

/* A step that is stopped before that layer, at once and again, and taken up each time. */
static void step_with_a_stop(struct step_kit *k, int *left, const struct step_row *rows,
                             uint32_t n_rows, uint32_t layer)
{
    struct error e = {0};
    *left = (int)layer + 1;
    CHECK_ERROR(forward_step(k->forward, rows, n_rows, &e), &e, ERROR_INTERRUPTED, "layer");
    CHECK_INT(forward_layer(k->forward), layer);
    *left = 1;
    CHECK_ERROR(forward_resume(k->forward, rows, n_rows, layer, &e), &e, ERROR_INTERRUPTED,
                "layer");
    CHECK_INT(forward_layer(k->forward), layer);
    CHECK_OK(forward_resume(k->forward, rows, n_rows, layer, &e), &e);
    CHECK_INT(forward_layer(k->forward), k->model.hp.n_layers);
}

TEST(suspend_before_any_layer_goes_on_with_the_same_bits)
{
    float want[MAX_VOCAB];
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        struct step_kit k;
        struct step_row rows[CUT];
        int left = 0;
        open_kit(&k, archs[a], &left);
        run_calm(&k, 3, CUT, want);
        for (uint32_t layer = 0; layer < k.model.hp.n_layers; layer++) {
            const int slot = kv_reserve(k.kv, N_IDS);
            step_with_a_stop(&k, &left, rows, put_rows(rows, slot, 3, 0, CUT), layer);
            for (uint32_t at = CUT; at < N_IDS; at++)
                step_with_a_stop(&k, &left, rows, put_rows(rows, slot, 3, at, 1), layer);
            check_logits(&k, 0, want, archs[a], layer);
            kv_release(k.kv, slot);
        }
        step_kit_close(&k);
    }
}

struct kept {
    char *bytes;
    size_t at;
    bool back;
};

static int keep(void *context, void *at, size_t bytes, struct error *e)
{
    struct kept *kept = context;
    (void)e;
    CHECK(kept->at + bytes <= CARRIED_BYTES);
    memcpy(kept->back ? at : kept->bytes + kept->at, kept->back ? kept->bytes + kept->at : at,
           bytes);
    kept->at += bytes;
    return 0;
}

/*
 * Two sequences share a step. Stopped there, the second's rows are kept elsewhere, the first goes on alone;
 * the second comes back in two pieces, after the scratch was others'.
 */
static void part_ways(struct step_kit *k, int *left, uint32_t layer, float *const want[2])
{
    struct step_row rows[CUT + N_OTHER];
    struct error e = {0};
    struct kept kept = {.bytes = mem_alloc(CARRIED_BYTES)};
    const int slot[2] = {kv_reserve(k->kv, N_IDS), kv_reserve(k->kv, N_IDS)};
    const uint32_t size = (uint32_t)forward_carried_bytes(&k->model, layer);
    put_rows(rows, slot[0], 3, 0, N_OTHER);
    put_rows(rows + N_OTHER, slot[1], 4, 0, CUT);
    *left = (int)layer + 1;
    CHECK_ERROR(forward_step(k->forward, rows, N_OTHER + CUT, &e), &e, ERROR_INTERRUPTED, "layer");
    CHECK_OK(forward_carried_visit(k->forward, layer, N_OTHER, CUT, keep, &kept, &e), &e);
    CHECK_INT(kept.at, CUT * size);
    CHECK_OK(forward_resume(k->forward, rows, N_OTHER, layer, &e), &e);
    for (uint32_t at = N_OTHER; at < N_IDS; at++)
        CHECK_OK(forward_step(k->forward, rows, put_rows(rows, slot[0], 3, at, 1), &e), &e);
    check_logits(k, 0, want[0], "the first", layer);

    kept.at = 0;
    kept.back = true;
    put_rows(rows, slot[1], 4, 0, CUT);
    CHECK_OK(forward_carried_visit(k->forward, layer, 2, 5, keep, &kept, &e), &e);
    forward_carried_move(k->forward, 0, 2, 5);
    rows[4].want_logits = false;
    CHECK_OK(forward_resume(k->forward, rows, 5, layer, &e), &e);
    CHECK_OK(forward_carried_visit(k->forward, layer, 0, CUT - 5, keep, &kept, &e), &e);
    CHECK_OK(forward_resume(k->forward, rows + 5, CUT - 5, layer, &e), &e);
    for (uint32_t at = CUT; at < N_IDS; at++)
        CHECK_OK(forward_step(k->forward, rows, put_rows(rows, slot[1], 4, at, 1), &e), &e);
    check_logits(k, 0, want[1], "the second", layer);
    kv_release(k->kv, slot[0]);
    kv_release(k->kv, slot[1]);
    mem_free(kept.bytes);
}

TEST(suspend_lets_sequences_of_a_step_part_ways)
{
    float first[MAX_VOCAB], second[MAX_VOCAB];
    float *const want[2] = {first, second};
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        struct step_kit k;
        int left = 0;
        open_kit(&k, archs[a], &left);
        run_calm(&k, 3, N_OTHER, first);
        run_calm(&k, 4, CUT, second);
        for (uint32_t layer = 1; layer < k.model.hp.n_layers; layer++)
            part_ways(&k, &left, layer, want);
        step_kit_close(&k);
    }
}
