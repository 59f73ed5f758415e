/*
 * An architecture: tables (keys, tensors) and one layer function. Adding one: arch_x.c and a line in
 * archs.def; nothing else changes.
 *
 * Sources: engine-spec 2 (keys) and 3 (tensors), read from llama.cpp's loaders.
 */
#ifndef ENGINE_MODEL_ARCH_H
#define ENGINE_MODEL_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/model/model.h"

struct forward;
struct block;

/* A dimension of a tensor, computed from the hyper-parameters. */
enum dim {
    DIM_ONE,
    DIM_EMBD,     /* n_embd */
    DIM_VOCAB,    /* n_vocab */
    DIM_Q,        /* n_heads * head_dim */
    DIM_K,        /* n_kv_heads * head_dim */
    DIM_V,        /* n_kv_heads * value_dim */
    DIM_OUT,      /* n_heads * value_dim */
    DIM_HEAD,     /* head_dim */
    DIM_FF,       /* n_ff */
    DIM_ROT_HALF, /* n_rot / 2 */
    DIM_HEADS,
    DIM_Q_LORA,
    DIM_KV_LORA,
    DIM_KV_ROW,    /* kv_lora + n_rot: the latent row of a position */
    DIM_NOPE,      /* head_dim - n_rot */
    DIM_VALUE,     /* value_dim */
    DIM_KV_B,      /* n_heads * (nope + value_dim) */
    DIM_CONV,      /* conv_kernel */
    DIM_INNER,     /* n_heads * kda_head_dim */
    DIM_QKV_INNER, /* 3 * n_heads * kda_head_dim */
    DIM_KDA_HEAD,
    DIM_EXPERTS,
    DIM_EXPERT_IN, /* what an expert reads and writes: expert_latent, else n_embd */
    DIM_EXPERT_FF,
    DIM_EXPERT_GATE_UP, /* 2 * expert_ff */
    DIM_SHARED_FF,
};

/* A key of the file beside those that every architecture has, and its field of struct hparams. */
enum key_type { KEY_U32, KEY_U32_OR_0, KEY_F32, KEY_BOOL };

struct key_row {
    const char *name; /* without "<arch>." */
    enum key_type type;
    bool required;
    size_t offset;
};

enum tensor_flags {
    TENSOR_REQUIRED = 0,
    TENSOR_OPTIONAL = 1,
    TENSOR_EXPERTS = 4, /* slices that a router picks: read when they are wanted, not at load */
    TENSOR_F32 = 2,     /* norms and biases: used as they are, so they must be F32 */
};

/* A tensor of the model (offset in struct model) or of a layer (offset in struct layer). */
struct tensor_row {
    const char *name; /* "attn_q.weight"; of a layer without "blk.N." */
    size_t offset;
    enum dim cols, rows, slices;
    unsigned flags;
    unsigned parts; /* of enum layer_part: the layers that have it */
};

struct arch {
    const char *name; /* general.architecture */
    bool rope_neox;
    bool experts;                     /* layers may have them */
    bool hybrid;                      /* head_count_kv may differ by layer */
    const struct key_row *keys;       /* ends with a NULL name; NULL: the common ones only */
    const struct tensor_row *tensors; /* of the model; ends with a NULL name */
    const struct tensor_row *layer_tensors;
    /*
     * After the keys: the parts of every layer, what follows from the keys, and relations that the
     * tables cannot say. NULL: grouped-query attention and a dense network everywhere.
     */
    int (*configure)(struct model *m, struct error *e);
    /*
     * The rows of a block through layer il, on the residual stream: layer_plain, or what stands around
     * its halves. In a layer with experts it ends with their choice; the visit and the rest are
     * forward_step's.
     */
    void (*layer)(struct forward *f, uint32_t il, const struct block *b);
};

/* The tensor rows that every architecture here shares. */
#define TENSOR_ROW(type, field, tensor_name, cols_, rows_, flags_)                                 \
    {                                                                                              \
        .name = tensor_name, .offset = offsetof(struct type, field), .cols = cols_, .rows = rows_, \
        .flags = flags_                                                                            \
    }
/* A row of some layers only: those that have all these parts. */
#define TENSOR_PART(parts_, field, tensor_name, cols_, rows_, flags_)                              \
    {                                                                                              \
        .name = tensor_name, .offset = offsetof(struct layer, field), .cols = cols_,               \
        .rows = rows_, .flags = flags_, .parts = parts_                                            \
    }
/* The same with slices: experts or heads. */
#define TENSOR_SLICES(parts_, field, tensor_name, cols_, rows_, slices_, flags_)                   \
    {                                                                                              \
        .name = tensor_name, .offset = offsetof(struct layer, field), .cols = cols_,               \
        .rows = rows_, .slices = slices_, .flags = flags_, .parts = parts_                         \
    }
#define KEY_ROW(type_, field, key_name, required_)                                                 \
    {                                                                                              \
        .name = key_name, .type = type_, .required = required_,                                    \
        .offset = offsetof(struct hparams, field)                                                  \
    }
#define KEY_ROWS_END TENSOR_ROWS_END
#define TENSOR_ROWS_END                                                                            \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* Embedding, final norm and output, the output tied to the embedding where it is missing. */
#define TENSOR_ROWS_MODEL                                                                          \
    TENSOR_ROW(model, token_embd, "token_embd.weight", DIM_EMBD, DIM_VOCAB, TENSOR_REQUIRED),      \
        TENSOR_ROW(model, output_norm, "output_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),       \
        TENSOR_ROW(model, output, "output.weight", DIM_EMBD, DIM_VOCAB, TENSOR_OPTIONAL)

/* Grouped-query attention without biases and head norms. */
#define TENSOR_ROWS_ATTENTION                                                                      \
    TENSOR_ROW(layer, attn_norm, "attn_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),               \
        TENSOR_ROW(layer, q, "attn_q.weight", DIM_EMBD, DIM_Q, TENSOR_REQUIRED),                   \
        TENSOR_ROW(layer, k, "attn_k.weight", DIM_EMBD, DIM_K, TENSOR_REQUIRED),                   \
        TENSOR_ROW(layer, v, "attn_v.weight", DIM_EMBD, DIM_V, TENSOR_REQUIRED),                   \
        TENSOR_ROW(layer, out, "attn_output.weight", DIM_OUT, DIM_EMBD, TENSOR_REQUIRED)

#define TENSOR_ROWS_QKV_BIAS(flags_)                                                               \
    TENSOR_ROW(layer, q_bias, "attn_q.bias", DIM_Q, DIM_ONE, flags_),                              \
        TENSOR_ROW(layer, k_bias, "attn_k.bias", DIM_K, DIM_ONE, flags_),                          \
        TENSOR_ROW(layer, v_bias, "attn_v.bias", DIM_V, DIM_ONE, flags_)

/* Gated feed-forward network, in the layers that are dense. */
#define TENSOR_ROWS_FFN                                                                            \
    TENSOR_ROW(layer, ffn_norm, "ffn_norm.weight", DIM_EMBD, DIM_ONE, TENSOR_F32),                 \
        TENSOR_PART(PART_DENSE, gate, "ffn_gate.weight", DIM_EMBD, DIM_FF, TENSOR_REQUIRED),       \
        TENSOR_PART(PART_DENSE, up, "ffn_up.weight", DIM_EMBD, DIM_FF, TENSOR_REQUIRED),           \
        TENSOR_PART(PART_DENSE, down, "ffn_down.weight", DIM_FF, DIM_EMBD, TENSOR_REQUIRED)

/*
 * Mixture of experts, in the layers that have one (arch_experts says which). Keys: of every mixture; of
 * those whose router is described by the file.
 */
#define KEY_ROWS_MOE                                                                               \
    KEY_ROW(KEY_U32, n_experts_used, "expert_used_count", false),                                  \
        KEY_ROW(KEY_U32, expert_ff, "expert_feed_forward_length", false)
#define KEY_ROWS_ROUTER                                                                            \
    KEY_ROW(KEY_U32, n_expert_groups, "expert_group_count", false),                                \
        KEY_ROW(KEY_U32, n_expert_groups_used, "expert_group_used_count", false),                  \
        KEY_ROW(KEY_U32, expert_gating, "expert_gating_func", false),                              \
        KEY_ROW(KEY_BOOL, expert_norm, "expert_weights_norm", false),                              \
        KEY_ROW(KEY_F32, expert_scale, "expert_weights_scale", false),                             \
        KEY_ROW(KEY_U32, n_experts_shared, "expert_shared_count", false),                          \
        KEY_ROW(KEY_U32, n_dense_layers, "leading_dense_block_count", false)

/* Router and experts, gate and up apart or merged. The norm before them is TENSOR_ROWS_FFN's. */
#define TENSOR_ROWS_MOE                                                                            \
    TENSOR_PART(PART_MOE, router, "ffn_gate_inp.weight", DIM_EMBD, DIM_EXPERTS, TENSOR_F32),       \
        TENSOR_SLICES(PART_MOE | PART_GATE_AND_UP, gate_exps, "ffn_gate_exps.weight",              \
                      DIM_EXPERT_IN, DIM_EXPERT_FF, DIM_EXPERTS, TENSOR_EXPERTS),                  \
        TENSOR_SLICES(PART_MOE | PART_GATE_AND_UP, up_exps, "ffn_up_exps.weight", DIM_EXPERT_IN,   \
                      DIM_EXPERT_FF, DIM_EXPERTS, TENSOR_EXPERTS),                                 \
        TENSOR_SLICES(PART_MOE | PART_GATE_UP, gate_up_exps, "ffn_gate_up_exps.weight",            \
                      DIM_EXPERT_IN, DIM_EXPERT_GATE_UP, DIM_EXPERTS, TENSOR_EXPERTS),             \
        TENSOR_SLICES(PART_MOE, down_exps, "ffn_down_exps.weight", DIM_EXPERT_FF, DIM_EXPERT_IN,   \
                      DIM_EXPERTS, TENSOR_EXPERTS)
/* What is added to the scores for the choice only. */
#define TENSOR_ROW_ROUTER_BIAS(flags_)                                                             \
    TENSOR_PART(PART_MOE, router_bias, "exp_probs_b.bias", DIM_EXPERTS, DIM_ONE,                   \
                TENSOR_F32 | (flags_))
#define TENSOR_ROWS_SHARED                                                                         \
    TENSOR_PART(PART_SHARED, gate_shexp, "ffn_gate_shexp.weight", DIM_EMBD, DIM_SHARED_FF,         \
                TENSOR_REQUIRED),                                                                  \
        TENSOR_PART(PART_SHARED, up_shexp, "ffn_up_shexp.weight", DIM_EMBD, DIM_SHARED_FF,         \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_SHARED, down_shexp, "ffn_down_shexp.weight", DIM_SHARED_FF, DIM_EMBD,     \
                    TENSOR_REQUIRED)
/* Experts at the latent width (key expert_latent_length). */
#define TENSOR_ROWS_LATENT                                                                         \
    TENSOR_PART(PART_LATENT, routed_down, "ffn_routed_down.weight", DIM_EMBD, DIM_EXPERT_IN,       \
                TENSOR_REQUIRED),                                                                  \
        TENSOR_PART(PART_LATENT, routed_up, "ffn_routed_up.weight", DIM_EXPERT_IN, DIM_EMBD,       \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_LATENT, routed_norm, "ffn_routed_norm.weight", DIM_EXPERT_IN, DIM_ONE,    \
                    TENSOR_OPTIONAL | TENSOR_F32)

/* Latent attention without the norm before it. Layers have PART_MLA and what mla_configure adds. */
#define TENSOR_ROWS_MLA                                                                            \
    TENSOR_PART(PART_MLA | PART_Q_FULL, q, "attn_q.weight", DIM_EMBD, DIM_Q, TENSOR_REQUIRED),     \
        TENSOR_PART(PART_MLA | PART_Q_LORA, q_a, "attn_q_a.weight", DIM_EMBD, DIM_Q_LORA,          \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_MLA | PART_Q_LORA, q_a_norm, "attn_q_a_norm.weight", DIM_Q_LORA, DIM_ONE, \
                    TENSOR_F32),                                                                   \
        TENSOR_PART(PART_MLA | PART_Q_LORA, q_b, "attn_q_b.weight", DIM_Q_LORA, DIM_Q,             \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_MLA, kv_a, "attn_kv_a_mqa.weight", DIM_EMBD, DIM_KV_ROW,                  \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_MLA, kv_a_norm, "attn_kv_a_norm.weight", DIM_KV_LORA, DIM_ONE,            \
                    TENSOR_F32),                                                                   \
        TENSOR_SLICES(PART_MLA | PART_ABSORBED, k_b, "attn_k_b.weight", DIM_NOPE, DIM_KV_LORA,     \
                      DIM_HEADS, TENSOR_REQUIRED),                                                 \
        TENSOR_SLICES(PART_MLA | PART_ABSORBED, v_b, "attn_v_b.weight", DIM_KV_LORA, DIM_VALUE,    \
                      DIM_HEADS, TENSOR_REQUIRED),                                                 \
        TENSOR_PART(PART_MLA | PART_EXPANDED, kv_b, "attn_kv_b.weight", DIM_KV_LORA, DIM_KV_B,     \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_MLA, out, "attn_output.weight", DIM_OUT, DIM_EMBD, TENSOR_REQUIRED)

#define KEY_ROWS_MLA                                                                               \
    KEY_ROW(KEY_U32, q_lora, "attention.q_lora_rank", false),                                      \
        KEY_ROW(KEY_U32, kv_lora, "attention.kv_lora_rank", true),                                 \
        KEY_ROW(KEY_U32_OR_0, head_dim, "attention.key_length_mla", false),                        \
        KEY_ROW(KEY_U32_OR_0, value_dim, "attention.value_length_mla", false)

/* Delta attention without the norm before it and without its output gate, which has two forms. */
#define TENSOR_ROWS_KDA                                                                            \
    TENSOR_PART(PART_KDA | PART_QKV_SPLIT, q, "attn_q.weight", DIM_EMBD, DIM_INNER,                \
                TENSOR_REQUIRED),                                                                  \
        TENSOR_PART(PART_KDA | PART_QKV_SPLIT, k, "attn_k.weight", DIM_EMBD, DIM_INNER,            \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_KDA | PART_QKV_SPLIT, v, "attn_v.weight", DIM_EMBD, DIM_INNER,            \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_KDA | PART_QKV_FUSED, qkv, "attn_qkv.weight", DIM_EMBD, DIM_QKV_INNER,    \
                    TENSOR_REQUIRED),                                                              \
        TENSOR_PART(PART_KDA, conv_q, "ssm_conv1d_q.weight", DIM_CONV, DIM_INNER, TENSOR_F32),     \
        TENSOR_PART(PART_KDA, conv_k, "ssm_conv1d_k.weight", DIM_CONV, DIM_INNER, TENSOR_F32),     \
        TENSOR_PART(PART_KDA, conv_v, "ssm_conv1d_v.weight", DIM_CONV, DIM_INNER, TENSOR_F32),     \
        TENSOR_PART(PART_KDA, f_a, "ssm_f_a.weight", DIM_EMBD, DIM_KDA_HEAD, TENSOR_REQUIRED),     \
        TENSOR_PART(PART_KDA, f_b, "ssm_f_b.weight", DIM_KDA_HEAD, DIM_INNER, TENSOR_REQUIRED),    \
        TENSOR_PART(PART_KDA, beta, "ssm_beta.weight", DIM_EMBD, DIM_HEADS, TENSOR_REQUIRED),      \
        TENSOR_PART(PART_KDA, a, "ssm_a", DIM_HEADS, DIM_ONE, TENSOR_F32),                         \
        TENSOR_PART(PART_KDA, dt_bias, "ssm_dt.bias", DIM_INNER, DIM_ONE, TENSOR_F32),             \
        TENSOR_PART(PART_KDA, ssm_norm, "ssm_norm.weight", DIM_KDA_HEAD, DIM_ONE, TENSOR_F32),     \
        TENSOR_PART(PART_KDA, out, "attn_output.weight", DIM_INNER, DIM_EMBD, TENSOR_REQUIRED)

#define KEY_ROWS_KDA                                                                               \
    KEY_ROW(KEY_U32, conv_kernel, "ssm.conv_kernel", true),                                        \
        KEY_ROW(KEY_U32, kda_head_dim, "kda.head_dim", true)

/*
 * From configure of the Kimi family: layers whose head_count_kv is 0 are of delta attention, the others of
 * latent attention without rope; both kinds' keys are checked and their parts given.
 */
int kimi_configure(struct model *m, struct error *e);

/* From configure: checks latent attention's keys and gives layers with PART_MLA their other parts. */
int mla_configure(struct model *m, struct error *e);
/* From model_load: older tensors of latent attention in the form that is computed with. */
int model_absorb(struct model *m, struct error *e);
/* The same for a layer that has them, into keys [model_absorbed_bytes]; row [kv_lora] is scratch. */
void model_absorb_layer(const struct hparams *hp, struct layer *l, float *keys, float *row);
size_t model_absorbed_bytes(const struct model *m, uint32_t il); /* 0: it has none */
/* The layer's tensors stand in `base`, laid out as its part says: sets their data. */
void model_settle_layer(const struct model *m, uint32_t il, const void *base, struct layer *l);
/* At load: ERROR_FORMAT with the name of the first tensor that holds a NaN or an infinity. */
int model_check_finite(const struct model *m, struct error *e);
/* The same of one layer, by the calling thread alone. */
int model_check_layer(const struct model *m, const struct layer *l, struct error *e);

const struct arch *arch_find(struct str name); /* NULL: unknown */
/* "llama, qwen2, qwen3" into out; returns out. */
const char *arch_names(char *out, size_t size);
/* The same parts for every layer. */
void arch_parts_all(struct model *m, unsigned parts);
/*
 * For configure, once the keys of a mixture of experts are what they will be: checks them, derives
 * shared_ff, and adds to each layer's parts PART_DENSE or PART_MOE with what belongs to it.
 */
int arch_experts(struct model *m, struct error *e);
uint64_t arch_dim(const struct hparams *hp, enum dim d);

#endif
