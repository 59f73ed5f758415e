#include <string.h>

#include "tools/model/spec.h"

#define KEY_U32(text, member)                                                                      \
    {                                                                                              \
        .name = text, .field = offsetof(struct spec, member)                                       \
    }
#define KEY_F32(text, member)                                                                      \
    {                                                                                              \
        .name = text, .is_float = true, .field = offsetof(struct spec, member)                     \
    }

static const struct key_row gqa_keys[] = {
    KEY_U32("block_count", n_layers),
    KEY_U32("context_length", n_ctx),
    KEY_U32("embedding_length", n_embd),
    KEY_U32("feed_forward_length", n_ff),
    KEY_U32("attention.head_count", n_heads),
    KEY_U32("attention.head_count_kv", n_kv_heads),
    KEY_U32("attention.key_length", head_dim),
    KEY_U32("attention.value_length", head_dim),
    KEY_F32("attention.layer_norm_rms_epsilon", rms_eps),
    KEY_U32("rope.dimension_count", head_dim),
    KEY_F32("rope.freq_base", freq_base),
    KEY_U32("vocab_size", n_vocab),
    {0},
};

#define MATRIX(text, g, cols, rows)                                                                \
    {                                                                                              \
        .name = text, .fill = FILL_MATRIX, .gain = g, .dims = { DIM(cols), DIM(rows) }             \
    }
#define NORM(text, cols)                                                                           \
    {                                                                                              \
        .name = text, .fill = FILL_NORM, .gain = 1.0f, .dims = { DIM(cols) }                       \
    }
#define BIAS(text, cols)                                                                           \
    {                                                                                              \
        .name = text, .fill = FILL_BIAS, .gain = 0.3f, .dims = { DIM(cols) }                       \
    }

/* Tied embeddings are small, so that the input token does not dominate its own logit. */
static const struct tensor_row dense_globals[] = {
    {.name = "token_embd.weight",
     .fill = FILL_EMBEDDING,
     .gain = 1.0f,
     .gain_tied = 0.11f,
     .dims = {DIM(n_embd), DIM(n_vocab)}},
    {.name = "output_norm.weight",
     .fill = FILL_NORM,
     .gain = 1.0f,
     .gain_tied = 1.7f,
     .dims = {DIM(n_embd)}},
    {.name = "output.weight",
     .fill = FILL_MATRIX,
     .gain = 3.0f,
     .when = IF_UNTIED,
     .dims = {DIM(n_embd), DIM(n_vocab)}},
    {0},
};

#define ATTENTION                                                                                  \
    NORM("attn_norm.weight", n_embd), MATRIX("attn_q.weight", 1.5f, n_embd, q_width),              \
        MATRIX("attn_k.weight", 1.2f, n_embd, kv_width),                                           \
        MATRIX("attn_v.weight", 1.0f, n_embd, kv_width),                                           \
        MATRIX("attn_output.weight", 0.8f, q_width, n_embd)
#define DENSE_FFN                                                                                  \
    NORM("ffn_norm.weight", n_embd), MATRIX("ffn_gate.weight", 1.2f, n_embd, n_ff),                \
        MATRIX("ffn_up.weight", 1.2f, n_embd, n_ff), MATRIX("ffn_down.weight", 1.0f, n_ff, n_embd)

static const struct tensor_row llama_layer[] = {ATTENTION, DENSE_FFN, {0}};
static const struct tensor_row qwen2_layer[] = {
    ATTENTION,
    BIAS("attn_q.bias", q_width),
    BIAS("attn_k.bias", kv_width),
    BIAS("attn_v.bias", kv_width),
    DENSE_FFN,
    {0},
};
static const struct tensor_row qwen3_layer[] = {
    ATTENTION,
    NORM("attn_q_norm.weight", head_dim),
    NORM("attn_k_norm.weight", head_dim),
    DENSE_FFN,
    {0},
};

static const struct model_arch archs[] = {
    {.name = "llama",
     .pre = "gpt-2",
     .defaults = {.n_layers = 2,
                  .n_embd = 256,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 64,
                  .n_ff = 512,
                  .n_ctx = 4096,
                  .n_vocab = 1024,
                  .rms_eps = 1e-5f,
                  .freq_base = 500000.0f},
     .keys = gqa_keys,
     .globals = dense_globals,
     .layer = llama_layer},
    {.name = "qwen2",
     .pre = "gpt-2",
     .defaults = {.n_layers = 2,
                  .n_embd = 256,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 64,
                  .n_ff = 512,
                  .n_ctx = 4096,
                  .n_vocab = 1024,
                  .rms_eps = 1e-6f,
                  .freq_base = 1000000.0f,
                  .tied = true},
     .keys = gqa_keys,
     .globals = dense_globals,
     .layer = qwen2_layer},
    {.name = "qwen3",
     .pre = "gpt-2",
     .defaults = {.n_layers = 2,
                  .n_embd = 256,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 128,
                  .n_ff = 512,
                  .n_ctx = 4096,
                  .n_vocab = 1024,
                  .rms_eps = 1e-6f,
                  .freq_base = 1000000.0f,
                  .tied = true},
     .keys = gqa_keys,
     .globals = dense_globals,
     .layer = qwen3_layer},
};

const struct model_arch *model_arch_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        if (strcmp(archs[i].name, name) == 0)
            return &archs[i];
    }
    return NULL;
}
