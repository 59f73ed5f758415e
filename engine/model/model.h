/*
 * A model: hyper-parameters and bound tensors of one architecture, immutable after model_load.
 *
 * Owns the weights that stay (trunk blocks taken through the ledger): all but the routed experts, or,
 * where memory is short, all but the last layers, which a ring reads for every step (trunk.h). An
 * architecture is tables (keys, tensors) plus a layer function (arch.h); binding resolves every name
 * once, checks every shape and reports all problems together.
 * Stays true: unknown or missing tensors and keys are errors; an absent optional tensor is NULL data.
 */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ledger.h"
#include "engine/experts/store.h"
#include "engine/gguf/gguf.h"
#include "engine/kv/kv.h"
#include "engine/quant/quant.h"

/* A weight: shape, format, place on disk, and the bytes when resident. */
struct tensor {
    const struct quant *quant;
    uint64_t n_cols;   /* ne[0]: inputs */
    uint64_t n_rows;   /* outputs, of all slices together */
    uint32_t n_slices; /* matrices of equal shape, one after another: experts, heads; else 1 */
    size_t row_bytes;
    size_t slice_bytes; /* from one slice to the next */
    const void *data;   /* NULL: absent, or not resident: experts, and layers that are streamed */
    bool experts;       /* slices stay on disk until they are wanted (engine/experts) */
    const struct gguf_tensor *file;
};

struct rope_params {
    uint32_t n_rot;
    bool none; /* nothing turns: n_rot is but a width */
    bool neox; /* pairs (i, i + n_rot/2); otherwise (2i, 2i+1) */
    float freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
    float log_multiplier; /* YaRN: as the file has it, 0.1 * mscale_all_dim; 0: none */
    uint32_t n_ctx_orig;
};

#define EXPERTS_MAX 1024u

enum expert_gating { GATING_NONE, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_SELECTED };

/* 0 stands for "has none" everywhere. */
struct hparams {
    uint32_t n_layers, n_embd, n_vocab, n_ctx;
    uint32_t n_heads, n_kv_heads, head_dim, value_dim, n_ff;
    float rms_eps, attention_scale;
    struct rope_params rope;

    /* multi-head latent attention: head_dim = its part without position + rope.n_rot */
    uint32_t q_lora, kv_lora;
    /* Kimi delta attention */
    uint32_t conv_kernel, kda_head_dim;
    float kda_gate_lower_bound; /* -inf: the softplus gate */
    /* mixture of experts */
    uint32_t n_experts, n_experts_used, n_expert_groups, n_expert_groups_used;
    uint32_t n_experts_shared, n_dense_layers;
    uint32_t expert_ff, shared_ff, expert_latent;
    uint32_t expert_gating; /* enum expert_gating */
    bool expert_norm;
    float expert_scale;
    /* Kimi-K3 */
    uint32_t attn_res_block;
    float situ_beta, situ_linear_beta; /* situ_beta 0: SwiGLU */
};

/* What a layer is made of. A tensor's row applies to the layers that have all the parts it names. */
enum layer_part {
    PART_GQA = 1u << 0, /* grouped-query attention: keys and values in pages */
    PART_MLA = 1u << 1, /* latent attention: one latent row a position in pages */
    PART_KDA = 1u << 2, /* delta attention: a recurrent state */
    PART_Q_FULL = 1u << 3,
    PART_Q_LORA = 1u << 4, /* of MLA: queries through a low rank */
    PART_DENSE = 1u << 5,
    PART_MOE = 1u << 6,
    PART_LATENT = 1u << 7,       /* of MOE: experts at the latent width */
    PART_SHARED = 1u << 8,       /* of MOE: shared experts */
    PART_ABSORBED = 1u << 9,     /* of MLA: attn_k_b, attn_v_b */
    PART_EXPANDED = 1u << 10,    /* of MLA: attn_kv_b, brought to the other form at load */
    PART_GATE_AND_UP = 1u << 11, /* of MOE: the experts' gate and up in two tensors */
    PART_GATE_UP = 1u << 12,     /* of MOE: in one */
    PART_QKV_SPLIT = 1u << 13,   /* of KDA: q, k and v in three tensors */
    PART_QKV_FUSED = 1u << 14,   /* of KDA: in one */
};

struct layer {
    unsigned parts;      /* of enum layer_part */
    uint32_t n_kv_heads; /* as the file says it for this layer */
    uint32_t
        state; /* its place among the layers with pages, or among those with a recurrent state */

    struct tensor attn_norm, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, out, out_bias;
    struct tensor ffn_norm, gate, up, down, gate_bias, up_bias, down_bias;
    /* MLA */
    struct tensor q_a, q_a_norm, q_b, kv_a, kv_a_norm, k_b, v_b, kv_b, attn_gate;
    /* KDA */
    struct tensor qkv, conv_q, conv_k, conv_v, f_a, f_b, beta, a, dt_bias, g, g_a, g_b, ssm_norm;
    /* MoE; slices are experts */
    struct tensor router, router_bias, gate_exps, up_exps, gate_up_exps, down_exps;
    struct tensor gate_shexp, up_shexp, down_shexp, routed_down, routed_up, routed_norm;
    /* attention residuals */
    struct tensor attn_res, ffn_res;
};

/* Bytes of one shard that are read together: [start, end), start aligned. */
struct trunk_run {
    uint32_t shard;
    uint64_t start, end;
    size_t at; /* in the memory of its part */
};

/* What is laid out together: a layer's tensors, or those of the model itself. */
struct trunk_part {
    size_t first, n; /* runs */
    size_t bytes;    /* in memory, whole blocks */
};

struct arch;

struct model {
    const struct arch *arch;
    struct gguf *gguf; /* borrowed: outlives the model */
    struct hparams hp;
    struct tensor token_embd, output_norm, output, output_bias, rope_freqs, output_res;
    bool tied;            /* output is token_embd */
    struct layer *layers; /* [n_layers] */
    struct ledger *ledger;
    struct expert_layer *experts; /* [n_layers] where they are in the files; NULL: none */
    uint64_t n_experts;           /* of all layers */
    struct trunk_run *runs;       /* [n_runs] of each part by place in the files */
    size_t n_runs;
    struct trunk_part *parts; /* [n_layers + 1] the model's own is the last */
    uint32_t n_streamed;      /* the last layers, which do not stay */
    void *trunk;              /* one block holding every resident tensor */
    size_t trunk_bytes;
    void *repacked; /* tensors that are brought to another form at load; NULL: none */
    size_t repacked_bytes;
    bool loaded;
};

/* Binds and checks without reading weights; every problem of the file in one message. */
int model_bind(struct model *m, struct gguf *g, struct error *e);
/* Lays out where tensors stand once they are read (model_bind calls it): sets runs and parts. */
int model_lay_out_trunk(struct model *m, struct error *e);
/* Bytes of the block of resident tensors when the last n_streamed layers are not. */
uint64_t model_trunk_bytes(const struct model *m, uint32_t n_streamed);
/* Bytes of the block beside it for tensors that are brought to another form. */
uint64_t model_repacked_bytes(const struct model *m, uint32_t n_streamed);
uint64_t model_n_params(const struct model *m);
/* The tensors of a layer's experts, as an expert's slices stand in its slot; NULL beyond the last. */
const struct tensor *model_expert_tensor(const struct layer *l, uint32_t i);
/* Finds the experts in the files (model_bind calls it): sets experts and n_experts. */
int model_find_experts(struct model *m, struct error *e);
/* Bytes that a store with so many slots takes. */
uint64_t model_experts_bytes(const struct model *m, uint64_t n_slots);
struct model_experts_options {
    struct ledger *ledger;
    uint64_t n_slots;                   /* at most one each is taken */
    const char *io;                     /* how to read, as io_open takes it */
    const struct expert_policy *policy; /* NULL: the default */
    bool lookahead;
    void (*reading)(void *context, const struct expert_read *r); /* as the store's */
    void *reading_context;
    _Atomic uint64_t *n_reads; /* as the store's */
};
/* A store over them; *ret NULL: the model has none. */
int model_experts_open(const struct model *m, const struct model_experts_options *o,
                       struct expert_store **ret, struct error *e);
/* What a sequence carries, by kind of layer. */
struct kv_shape model_kv_shape(const struct model *m, bool exact);
/* Slice i as a matrix of its own. */
struct tensor tensor_slice(const struct tensor *t, uint32_t i);

struct model_load_options {
    struct ledger *ledger;
    uint32_t n_streamed; /* the last layers stay in the files */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    void (*loading)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *loading_context;
};
/* Page cache that model_load may cause at once where O_DIRECT is refused: a read and its read-ahead. */
#define MODEL_LOAD_BUFFER_BYTES (16u << 20)
int model_load(struct model *m, const struct model_load_options *o, struct error *e);
void model_release(struct model *m);

#endif
