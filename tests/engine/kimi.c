/*
 * Files of kimi-linear and kimi-k3: what is missing, too much, misshapen or impossible is refused by name;
 * what is optional, fused or shaped in another way computes the same.
 */
#include "base/alloc.h"
#include "engine/model/arch.h"
#include "tests/engine/rewrite.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define SMALL " --layers 3 --mla-layers 2 --embd 64 --ff 32 --expert-ff 32 --vocab 264 --type F32 "
#define LINEAR "--arch kimi-linear --q-lora 0" SMALL
#define K3 "--arch kimi-k3 --latent 32" SMALL

static struct gguf *open_model(const char *path)
{
    struct error e = {0};
    struct gguf *g = NULL;
    CHECK_OK(gguf_open(&g, path, &e), &e);
    return g;
}

static struct gguf *original(const char *name, const char *arguments)
{
    char path[4096];
    return open_model(step_kit_model(name, arguments, path));
}

/* 0 or the error of binding the changed file. */
static int bind_changed(const struct gguf *from, const struct rewrite *r, struct error *e)
{
    struct model m;
    rewrite_model(from, "changed.gguf", r);
    struct gguf *g = open_model("changed.gguf");
    *e = (struct error){0};
    int rc = model_bind(&m, g, e);
    if (rc == 0)
        model_release(&m);
    gguf_close(g);
    return rc;
}

static void check_refused(const struct gguf *from, const struct rewrite *r, const char *part)
{
    struct error e;
    CHECK_ERROR(bind_changed(from, r, &e), &e, ERROR_FORMAT, part);
}

/* ------------------------------------------------------------------ tensors */

/* mutated.c has each tensor in turn; the selection bias is required here only. */
TEST(kimi_needs_the_selection_bias)
{
    static const char missing[] = "tensor 'blk.1.exp_probs_b.bias' is missing";
    const struct rewrite r = {.omit = "blk.1.exp_probs_b.bias"};
    struct gguf *linear = original("linear", LINEAR), *k3 = original("k3", K3);
    check_refused(linear, &r, missing);
    check_refused(k3, &r, missing);
    gguf_close(linear);
    gguf_close(k3);
}

TEST(kimi_refuses_tensors_of_the_other_kind_of_layer)
{
    static const char *const linear[] = {"blk.0.ssm_g.weight", "blk.2.ssm_a",
                                         "blk.2.attn_gate.weight", "blk.0.attn_kv_a_mqa.weight",
                                         "output_res_score.weight"};
    static const char *const k3[] = {"blk.0.ssm_g_a.weight", "blk.2.ssm_conv1d_q.weight",
                                     "blk.0.attn_gate.weight", "blk.0.ffn_routed_up.weight",
                                     "blk.0.attn_qkv.bias"};
    struct gguf *g = original("linear", LINEAR);
    for (size_t i = 0; i < ARRAY_LEN(linear); i++)
        check_refused(g, &(struct rewrite){.extra = linear[i]}, linear[i]);
    gguf_close(g);
    g = original("k3", K3);
    for (size_t i = 0; i < ARRAY_LEN(k3); i++)
        check_refused(g, &(struct rewrite){.extra = k3[i]}, k3[i]);
    gguf_close(g);
}

/* ------------------------------------------------------------------ keys */

struct bad_u32 {
    const char *key;
    uint32_t value;
};

struct bad_f32 {
    const char *key;
    float value;
};

TEST(kimi_refuses_missing_keys_by_name)
{
    static const char *const keys[] = {
        "attention.head_count_kv",    "attention.kv_lora_rank", "attention.key_length_mla",
        "attention.value_length_mla", "ssm.conv_kernel",        "kda.head_dim",
        "expert_used_count",          "expert_gating_func",     "expert_feed_forward_length",
        "attn_res.block_size",        "activation.situ_beta",   "activation.situ_linear_beta"};
    struct gguf *linear = original("linear", LINEAR), *k3 = original("k3", K3);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        char key[80];
        snprintf(key, sizeof(key), "kimi-k3.%s", keys[i]);
        check_refused(k3, &(struct rewrite){.omit_key = key}, keys[i]);
        snprintf(key, sizeof(key), "kimi-linear.%s", keys[i]);
        if (i < 9)
            check_refused(linear, &(struct rewrite){.omit_key = key}, keys[i]);
    }
    gguf_close(linear);
    gguf_close(k3);
}

TEST(kimi_refuses_impossible_keys_by_name)
{
    static const struct bad_u32 counts[] = {
        {"ssm.conv_kernel", 0},
        {"ssm.conv_kernel", 65},
        {"kda.head_dim", 0},
        {"kda.head_dim", 4097},
        {"attn_res.block_size", 0},
        {"attention.kv_lora_rank", 0},
        {"rope.dimension_count", 0},
        {"rope.dimension_count", 15},
        {"rope.dimension_count", 48},
        {"attention.key_length_mla", 0},
        {"attention.value_length_mla", 0},
        {"leading_dense_block_count", 4},
        {"expert_used_count", 13},
        {"head_count", 0},
    };
    static const struct bad_f32 numbers[] = {
        {"kda.gate_lower_bound", 0.0f},  {"kda.gate_lower_bound", 5.0f},
        {"kda.gate_lower_bound", NAN},   {"activation.situ_beta", 0.0f},
        {"activation.situ_beta", -4.0f}, {"activation.situ_linear_beta", INFINITY},
    };
    struct gguf *g = original("k3", K3);
    char key[80];
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        const bool heads = strcmp(counts[i].key, "head_count") == 0;
        snprintf(key, sizeof(key), "kimi-k3.%s%s", heads ? "attention." : "", counts[i].key);
        check_refused(g, &(struct rewrite){.u32_key = key, .u32_value = counts[i].value},
                      counts[i].key);
    }
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        snprintf(key, sizeof(key), "kimi-k3.%s", numbers[i].key);
        check_refused(g, &(struct rewrite){.f32_key = key, .f32_value = numbers[i].value},
                      numbers[i].key);
    }
    gguf_close(g);
}

/* ------------------------------------------------------------------ other forms of the same */

enum { N_IDS = 9 };

static float *logits_of(const char *path, const char *isa)
{
    const struct step_kit_options o = {
        .isa = isa, .max_rows = N_IDS, .max_logits = N_IDS, .positions = N_IDS};
    int32_t ids[N_IDS];
    struct step_kit k;
    step_kit_open(&k, path, &o);
    const size_t n = (size_t)N_IDS * k.model.hp.n_vocab;
    for (int32_t i = 0; i < N_IDS; i++)
        ids[i] = 11 + 13 * i;
    step_kit_run(&k, kv_reserve(k.kv, N_IDS), ids, 0, N_IDS, N_IDS);
    float *out = mem_array(n + 1, sizeof(*out));
    memcpy(out, forward_logits(k.forward, 0), n * sizeof(*out));
    for (size_t i = 0; i < n; i++)
        CHECK(isfinite(out[i]));
    out[n] = (float)n;
    step_kit_close(&k);
    return out;
}

/* Of the changed file against the original: the same bits, or not at all. */
static void check_logits(const char *name, const char *arguments, const struct rewrite *r,
                         bool same)
{
    static const char *const isas[] = {NULL, "generic"};
    char path[4096];
    struct gguf *g = original(name, arguments);
    rewrite_model(g, "other.gguf", r);
    gguf_close(g);
    for (size_t i = 0; i < ARRAY_LEN(isas); i++) {
        float *want = logits_of(step_kit_model(name, arguments, path), isas[i]);
        float *got = logits_of("other.gguf", isas[i]);
        const size_t n = (size_t)N_IDS * 264;
        CHECK_INT(want[n], n);
        CHECK_INT(got[n], n);
        CHECK((memcmp(got, want, n * sizeof(*got)) == 0) == same);
        mem_free(want);
        mem_free(got);
    }
}

TEST(kimi_fused_projections_and_fewer_dimensions_are_the_same)
{
    check_logits("linear", LINEAR, &(struct rewrite){.fuse_qkv = true}, true);
    check_logits("k3-q8", K3 " --type Q8_0", &(struct rewrite){.fuse_qkv = true}, true);
    check_logits("linear", LINEAR, &(struct rewrite){.fewer_dims = true}, true);
    check_logits("k3", K3, &(struct rewrite){.fewer_dims = true}, true);
}

/* Older files of kimi-k3 have no value_length; nothing else says the width of the cached row either. */
TEST(kimi_k3_without_value_length_is_the_same)
{
    check_logits("k3", K3, &(struct rewrite){.omit_key = "kimi-k3.attention.value_length"}, true);
    check_logits("k3", K3, &(struct rewrite){.omit_key = "kimi-k3.attention.key_length"}, true);
}

/* Without a lower bound the gate is the softplus one; without the optional tensors something else. */
TEST(kimi_k3_without_its_options)
{
    check_logits("k3", K3, &(struct rewrite){.omit_key = "kimi-k3.kda.gate_lower_bound"}, false);
    check_logits("k3", K3, &(struct rewrite){.omit = "blk.2.attn_gate.weight"}, false);
    check_logits("k3", K3, &(struct rewrite){.omit = "blk.1.ffn_routed_norm.weight"}, false);
    check_logits(
        "k3", K3,
        &(struct rewrite){.f32_key = "kimi-k3.activation.situ_linear_beta", .f32_value = -1.0f},
        false);
    check_logits("k3-whole", K3 " --latent 0", &(struct rewrite){.omit = "none"}, true);
}
