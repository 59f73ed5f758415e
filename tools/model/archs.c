/* The architectures as tables: keys, tensors, and dimensions of a model that a test can run. */
#include <string.h>

#include "tools/model/spec.h"

#define U32(text, member)                                                                          \
    {                                                                                              \
        .name = text, .kind = KEY_U32, .field = offsetof(struct spec, member)                      \
    }
#define U32_IF(facts, text, member)                                                                \
    {                                                                                              \
        .name = text, .kind = KEY_U32, .field = offsetof(struct spec, member), .when = facts       \
    }
#define F32(text, member)                                                                          \
    {                                                                                              \
        .name = text, .kind = KEY_F32, .field = offsetof(struct spec, member)                      \
    }
#define F32_IF(facts, text, member)                                                                \
    {                                                                                              \
        .name = text, .kind = KEY_F32, .field = offsetof(struct spec, member), .when = facts       \
    }

#define COMMON_KEYS                                                                                \
    U32("block_count", n_layers), U32("context_length", n_ctx), U32("embedding_length", n_embd),   \
        U32("feed_forward_length", n_ff), U32("attention.head_count", n_heads),                    \
        U32("vocab_size", n_vocab), F32("attention.layer_norm_rms_epsilon", rms_eps)
#define GQA_KEYS                                                                                   \
    U32("attention.head_count_kv", n_kv_heads), U32("attention.key_length", head_dim),             \
        U32("attention.value_length", head_dim), U32("rope.dimension_count", head_dim),            \
        F32("rope.freq_base", freq_base)
#define EXPERT_KEYS                                                                                \
    U32_IF(IF_EXPERTS, "expert_count", n_experts), U32_IF(IF_EXPERTS, "expert_used_count", n_used)
#define MLA_KEYS                                                                                   \
    U32_IF(IF_Q_LORA, "attention.q_lora_rank", q_lora), U32("attention.kv_lora_rank", kv_lora),    \
        U32("rope.dimension_count", rope)
#define SPARSE_KEYS                                                                                \
    EXPERT_KEYS, U32("expert_feed_forward_length", expert_ff),                                     \
        U32("leading_dense_block_count", dense_lead), U32("expert_shared_count", n_shared),        \
        F32("expert_weights_scale", expert_scale),                                                 \
        {.name = "expert_weights_norm",                                                            \
         .kind = KEY_BOOL,                                                                         \
         .field = offsetof(struct spec, renormalise)},                                             \
        U32("expert_gating_func", gating)
#define KIMI_KEYS                                                                                  \
    COMMON_KEYS, SPARSE_KEYS, MLA_KEYS, {.name = "attention.head_count_kv", .kind = KEY_KV_HEADS}, \
        U32("attention.key_length", kv_a_width), U32("attention.value_length", kv_lora),           \
        U32("attention.key_length_mla", mla_key), U32("attention.value_length_mla", v_dim),        \
        U32("ssm.conv_kernel", conv), U32("kda.head_dim", kda_dim)

static const struct key_row gqa_keys[] = {COMMON_KEYS, GQA_KEYS, EXPERT_KEYS, {0}};
static const struct key_row qwen3moe_keys[] = {
    COMMON_KEYS, GQA_KEYS, EXPERT_KEYS, U32("expert_feed_forward_length", expert_ff), {0},
};
/* The first files of this architecture had no absorbed form and none of its two keys. */
static const struct key_row deepseek2_keys[] = {
    COMMON_KEYS,
    SPARSE_KEYS,
    MLA_KEYS,
    U32("attention.head_count_kv", mla_kv_heads),
    U32("attention.key_length", cached_key),
    U32("attention.value_length", cached_value),
    U32_IF(IF_ABSORBED, "attention.key_length_mla", mla_key),
    U32_IF(IF_ABSORBED, "attention.value_length_mla", v_dim),
    U32_IF(IF_GROUPS, "expert_group_count", n_groups),
    U32_IF(IF_GROUPS, "expert_group_used_count", n_groups_used),
    F32("rope.freq_base", freq_base),
    {.name = "rope.scaling.type", .kind = KEY_TEXT, .when = IF_YARN, .text = "yarn"},
    F32_IF(IF_YARN, "rope.scaling.factor", yarn_factor),
    U32_IF(IF_YARN, "rope.scaling.original_context_length", yarn_ctx),
    F32_IF(IF_YARN, "rope.scaling.yarn_log_multiplier", yarn_log),
    {0},
};
static const struct key_row kimi_linear_keys[] = {KIMI_KEYS, {0}};
static const struct key_row kimi_k3_keys[] = {
    KIMI_KEYS,
    F32("kda.gate_lower_bound", gate_bound),
    U32("expert_latent_length", latent),
    F32("activation.situ_beta", situ_beta),
    F32("activation.situ_linear_beta", situ_linear_beta),
    U32("attn_res.block_size", res_block),
    {0},
};

#define MATRIX_IF(facts, text, g, cols, rows)                                                      \
    {                                                                                              \
        .name = text, .fill = FILL_MATRIX, .gain = g, .when = facts, .dims = {                     \
            DIM(cols),                                                                             \
            DIM(rows)                                                                              \
        }                                                                                          \
    }
#define MATRIX(text, g, cols, rows) MATRIX_IF(ALWAYS, text, g, cols, rows)
#define EXPERTS_IF(facts, text, g, cols, rows)                                                     \
    {                                                                                              \
        .name = text, .fill = FILL_EXPERTS, .gain = g, .when = IF_EXPERTS | (facts), .dims = {     \
            DIM(cols),                                                                             \
            DIM(rows),                                                                             \
            DIM(n_experts)                                                                         \
        }                                                                                          \
    }
#define NORM_IF(facts, text, cols)                                                                 \
    {                                                                                              \
        .name = text, .fill = FILL_NORM, .gain = 1.0f, .when = facts, .dims = { DIM(cols) }        \
    }
#define NORM(text, cols) NORM_IF(ALWAYS, text, cols)
#define BIAS_IF(facts, text, g, cols)                                                              \
    {                                                                                              \
        .name = text, .fill = FILL_BIAS, .gain = g, .when = facts, .dims = { DIM(cols) }           \
    }
#define BIAS(text, cols) BIAS_IF(ALWAYS, text, 0.3f, cols)
#define ROUTER                                                                                     \
    {                                                                                              \
        .name = "ffn_gate_inp.weight", .fill = FILL_FLOATS, .gain = 1.5f, .when = IF_EXPERTS,      \
        .dims = {                                                                                  \
            DIM(n_embd),                                                                           \
            DIM(n_experts)                                                                         \
        }                                                                                          \
    }
#define SCORE(text)                                                                                \
    {                                                                                              \
        .name = text, .fill = FILL_FLOATS, .gain = 1.5f, .dims = { DIM(n_embd) }                   \
    }
#define CONV(text)                                                                                 \
    {                                                                                              \
        .name = text, .fill = FILL_CONV, .gain = 0.35f, .when = IF_KDA, .dims = {                  \
            DIM(conv),                                                                             \
            DIM(one),                                                                              \
            DIM(kda_width),                                                                        \
            DIM(one)                                                                               \
        }                                                                                          \
    }
#define UNIFORM(text, from, to, ...)                                                               \
    {                                                                                              \
        .name = text, .fill = FILL_UNIFORM, .gain = from, .gain_tied = to, .when = IF_KDA,         \
        .dims = {                                                                                  \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* Tied embeddings are small, so that the input token does not dominate its own logit. */
#define GLOBALS                                                                                    \
    {.name = "token_embd.weight",                                                                  \
     .fill = FILL_EMBEDDING,                                                                       \
     .gain = 1.0f,                                                                                 \
     .gain_tied = 0.11f,                                                                           \
     .dims = {DIM(n_embd), DIM(n_vocab)}},                                                         \
        {.name = "output_norm.weight",                                                             \
         .fill = FILL_NORM,                                                                        \
         .gain = 1.0f,                                                                             \
         .gain_tied = 1.7f,                                                                        \
         .dims = {DIM(n_embd)}},                                                                   \
        MATRIX_IF(IF_UNTIED, "output.weight", 3.0f, n_embd, n_vocab)

static const struct tensor_row globals[] = {GLOBALS, {0}};
static const struct tensor_row kimi_k3_globals[] = {GLOBALS, SCORE("output_res_score.weight"), {0}};

#define GQA                                                                                        \
    NORM("attn_norm.weight", n_embd), MATRIX("attn_q.weight", 1.5f, n_embd, q_width),              \
        MATRIX("attn_k.weight", 1.2f, n_embd, kv_width),                                           \
        MATRIX("attn_v.weight", 1.0f, n_embd, kv_width),                                           \
        MATRIX("attn_output.weight", 0.8f, q_width, n_embd)
#define DENSE_FFN                                                                                  \
    MATRIX_IF(IF_DENSE, "ffn_gate.weight", 1.2f, n_embd, n_ff),                                    \
        MATRIX_IF(IF_DENSE, "ffn_up.weight", 1.2f, n_embd, n_ff),                                  \
        MATRIX_IF(IF_DENSE, "ffn_down.weight", 1.0f, n_ff, n_embd)
#define SHARED_EXPERT                                                                              \
    MATRIX_IF(IF_EXPERTS | IF_SHARED, "ffn_gate_shexp.weight", 1.2f, n_embd, shared_ff),           \
        MATRIX_IF(IF_EXPERTS | IF_SHARED, "ffn_up_shexp.weight", 1.2f, n_embd, shared_ff),         \
        MATRIX_IF(IF_EXPERTS | IF_SHARED, "ffn_down_shexp.weight", 0.8f, shared_ff, n_embd)
/* The keys' half of the expansion is stored transposed for the absorbed form. */
#define MLA(attn_output_gain)                                                                      \
    MATRIX_IF(IF_MLA | IF_Q_LORA, "attn_q_a.weight", 1.0f, n_embd, q_lora),                        \
        NORM_IF(IF_MLA | IF_Q_LORA, "attn_q_a_norm.weight", q_lora),                               \
        MATRIX_IF(IF_MLA | IF_Q_LORA, "attn_q_b.weight", 1.4f, q_lora, mla_q_width),               \
        MATRIX_IF(IF_MLA | IF_Q_WHOLE, "attn_q.weight", 1.4f, n_embd, mla_q_width),                \
        MATRIX_IF(IF_MLA, "attn_kv_a_mqa.weight", 1.2f, n_embd, kv_a_width),                       \
        NORM_IF(IF_MLA, "attn_kv_a_norm.weight", kv_lora),                                         \
        {.name = "attn_k_b.weight",                                                                \
         .fill = FILL_MATRIX,                                                                      \
         .gain = 1.2f,                                                                             \
         .when = IF_MLA | IF_ABSORBED,                                                             \
         .dims = {DIM(nope), DIM(kv_lora), DIM(n_heads)},                                          \
         .fan_in = DIM(kv_lora)},                                                                  \
        {.name = "attn_v_b.weight",                                                                \
         .fill = FILL_MATRIX,                                                                      \
         .gain = 1.0f,                                                                             \
         .when = IF_MLA | IF_ABSORBED,                                                             \
         .dims = {DIM(kv_lora), DIM(v_dim), DIM(n_heads)}},                                        \
        MATRIX_IF(IF_MLA | IF_LEGACY, "attn_kv_b.weight", 1.1f, kv_lora, kv_b_width),              \
        MATRIX_IF(IF_MLA, "attn_output.weight", attn_output_gain, mla_out_width, n_embd)
/* The decay's bias is well below 0, so that the state remembers more than a token or two. */
#define KDA                                                                                        \
    MATRIX_IF(IF_KDA, "attn_q.weight", 1.2f, n_embd, kda_width), CONV("ssm_conv1d_q.weight"),      \
        MATRIX_IF(IF_KDA, "attn_k.weight", 1.2f, n_embd, kda_width), CONV("ssm_conv1d_k.weight"),  \
        MATRIX_IF(IF_KDA, "attn_v.weight", 1.2f, n_embd, kda_width), CONV("ssm_conv1d_v.weight"),  \
        MATRIX_IF(IF_KDA, "ssm_f_a.weight", 1.0f, n_embd, kda_dim),                                \
        MATRIX_IF(IF_KDA, "ssm_f_b.weight", 0.8f, kda_dim, kda_width),                             \
        MATRIX_IF(IF_KDA, "ssm_beta.weight", 1.0f, n_embd, n_heads),                               \
        UNIFORM("ssm_dt.bias", -5.0f, -1.0f, DIM(kda_width)),                                      \
        NORM_IF(IF_KDA, "ssm_norm.weight", kda_dim),                                               \
        MATRIX_IF(IF_KDA, "attn_output.weight", 1.2f, kda_width, n_embd)
/* The rows of the gates stand before those of the ups where both are one tensor. */
#define EXPERTS_OF(inner, both, down_gain)                                                         \
    EXPERTS_IF(IF_APART, "ffn_gate_exps.weight", 1.5f, expert_in, inner),                          \
        EXPERTS_IF(IF_APART, "ffn_up_exps.weight", 1.5f, expert_in, inner),                        \
        EXPERTS_IF(IF_MERGED, "ffn_gate_up_exps.weight", 1.5f, expert_in, both),                   \
        EXPERTS_IF(ALWAYS, "ffn_down_exps.weight", down_gain, inner, expert_in)
#define SELECTION_BIAS(facts) BIAS_IF(IF_EXPERTS | (facts), "exp_probs_b.bias", 0.15f, n_experts)

static const struct tensor_row llama_layer[] = {
    GQA, NORM("ffn_norm.weight", n_embd), DENSE_FFN, ROUTER, EXPERTS_OF(n_ff, both_ff, 0.6f), {0},
};
static const struct tensor_row qwen2_layer[] = {
    GQA,
    BIAS("attn_q.bias", q_width),
    BIAS("attn_k.bias", kv_width),
    BIAS("attn_v.bias", kv_width),
    NORM("ffn_norm.weight", n_embd),
    DENSE_FFN,
    {0},
};
#define QK_NORMS NORM("attn_q_norm.weight", head_dim), NORM("attn_k_norm.weight", head_dim)
static const struct tensor_row qwen3_layer[] = {
    GQA, QK_NORMS, NORM("ffn_norm.weight", n_embd), DENSE_FFN, {0},
};
static const struct tensor_row qwen3moe_layer[] = {
    GQA,
    QK_NORMS,
    NORM("ffn_norm.weight", n_embd),
    ROUTER,
    EXPERTS_OF(expert_ff, both_expert_ff, 0.6f),
    {0},
};
#define NORMS NORM("attn_norm.weight", n_embd), NORM("ffn_norm.weight", n_embd)
static const struct tensor_row deepseek2_layer[] = {
    NORMS,
    MLA(1.2f),
    DENSE_FFN,
    ROUTER,
    SELECTION_BIAS(IF_SIGMOID),
    EXPERTS_OF(expert_ff, both_expert_ff, 0.25f),
    SHARED_EXPERT,
    {0},
};
static const struct tensor_row kimi_linear_layer[] = {
    NORMS,
    KDA,
    UNIFORM("ssm_a", -2.0f, -0.5f, DIM(one), DIM(n_heads), DIM(one), DIM(one)),
    MATRIX_IF(IF_KDA, "ssm_g_a.weight", 1.0f, n_embd, kda_dim),
    MATRIX_IF(IF_KDA, "ssm_g_b.weight", 1.5f, kda_dim, kda_width),
    MLA(1.2f),
    DENSE_FFN,
    ROUTER,
    SELECTION_BIAS(ALWAYS),
    EXPERTS_OF(expert_ff, both_expert_ff, 0.25f),
    SHARED_EXPERT,
    {0},
};
static const struct tensor_row kimi_k3_layer[] = {
    NORMS,
    SCORE("attn_res_score.weight"),
    SCORE("ffn_res_score.weight"),
    KDA,
    UNIFORM("ssm_a", -1.5f, -0.5f, DIM(n_heads)),
    MATRIX_IF(IF_KDA, "ssm_g.weight", 1.5f, n_embd, kda_width),
    MLA(1.2f),
    MATRIX_IF(IF_MLA, "attn_gate.weight", 1.5f, n_embd, mla_out_width),
    DENSE_FFN,
    ROUTER,
    SELECTION_BIAS(ALWAYS),
    MATRIX_IF(IF_EXPERTS | IF_LATENT, "ffn_routed_down.weight", 1.0f, n_embd, latent),
    NORM_IF(IF_EXPERTS | IF_LATENT, "ffn_routed_norm.weight", latent),
    MATRIX_IF(IF_EXPERTS | IF_LATENT, "ffn_routed_up.weight", 0.3f, latent, n_embd),
    EXPERTS_OF(expert_ff, both_expert_ff, 1.0f),
    SHARED_EXPERT,
    {0},
};

#define TINY                                                                                       \
    .n_layers = 2, .n_embd = 256, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ff = 512,      \
    .n_ctx = 4096, .n_vocab = 1024, .gating = 1
#define TINY_MLA                                                                                   \
    .n_embd = 256, .n_ff = 512, .n_ctx = 4096, .n_vocab = 1024, .kv_lora = 64, .nope = 32,         \
    .rope = 16, .v_dim = 32, .expert_ff = 256, .gating = 2, .renormalise = true

static const struct model_arch archs[] = {
    {.name = "llama",
     .pre = "gpt-2",
     .defaults = {TINY, .n_used = 2, .rms_eps = 1e-5f, .freq_base = 500000.0f},
     .keys = gqa_keys,
     .globals = globals,
     .layer = llama_layer},
    {.name = "qwen2",
     .pre = "gpt-2",
     .defaults = {TINY, .rms_eps = 1e-6f, .freq_base = 1000000.0f, .tied = true},
     .keys = gqa_keys,
     .globals = globals,
     .layer = qwen2_layer},
    {.name = "qwen3",
     .pre = "gpt-2",
     .defaults = {TINY, .rms_eps = 1e-6f, .freq_base = 1000000.0f, .tied = true},
     .keys = gqa_keys,
     .globals = globals,
     .layer = qwen3_layer},
    {.name = "qwen3moe",
     .pre = "gpt-2",
     .defaults = {TINY, .n_experts = 8, .n_used = 3, .expert_ff = 256, .rms_eps = 1e-6f,
                  .freq_base = 1000000.0f, .tied = true},
     .keys = qwen3moe_keys,
     .globals = globals,
     .layer = qwen3moe_layer},
    {.name = "deepseek2",
     .pre = "deepseek-v3",
     .defaults = {TINY_MLA, .n_layers = 3, .n_heads = 4, .n_experts = 8, .n_used = 3, .n_shared = 1,
                  .dense_lead = 2, .n_groups = 4, .n_groups_used = 2, .q_lora = 64,
                  .expert_scale = 2.5f, .rms_eps = 1e-6f, .freq_base = 10000.0f, .yarn = true,
                  .yarn_ctx = 64, .yarn_factor = 40.0f, .yarn_log = 0.1f},
     .keys = deepseek2_keys,
     .globals = globals,
     .layer = deepseek2_layer},
    {.name = "kimi-linear",
     .pre = "kimi-k2",
     .defaults = {TINY_MLA, .n_layers = 4, .n_heads = 2, .n_experts = 6, .n_used = 2, .n_shared = 1,
                  .dense_lead = 1, .kda_dim = 32, .conv = 4, .mla_every = 2, .expert_scale = 2.446f,
                  .rms_eps = 1e-5f},
     .keys = kimi_linear_keys,
     .globals = globals,
     .layer = kimi_linear_layer},
    {.name = "kimi-k3",
     .pre = "kimi-k2",
     .defaults = {TINY_MLA, .n_layers = 6, .n_heads = 2, .n_experts = 12, .n_used = 3,
                  .n_shared = 2, .dense_lead = 1, .latent = 256, .q_lora = 64, .kda_dim = 32,
                  .conv = 4, .mla_every = 3, .res_block = 2, .expert_scale = 2.827f,
                  .rms_eps = 1e-5f, .gate_bound = -5.0f, .situ_beta = 4.0f,
                  .situ_linear_beta = 25.0f},
     .keys = kimi_k3_keys,
     .globals = kimi_k3_globals,
     .layer = kimi_k3_layer},
};

const struct model_arch *model_arch_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    }
    return NULL;
}
