/*
 * A model: hyper-parameters and bound tensors of one architecture, immutable after model_load.
 *
 * Owns the weights (trunk blocks taken through the ledger). An architecture is tables (keys, tensors)
 * plus a layer function (arch.h); binding resolves every name once, checks every shape and reports all
 * problems together.
 * Stays true: unknown or missing tensors and keys are errors; an absent optional tensor is NULL data.
 */
#ifndef ENGINE_MODEL_MODEL_H
#define ENGINE_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ledger.h"
#include "engine/gguf/gguf.h"
#include "engine/quant/quant.h"

/* A weight: shape, format, place on disk, and the bytes when resident. */
struct tensor {
    const struct quant *quant;
    uint64_t n_cols; /* ne[0]: inputs */
    uint64_t n_rows; /* ne[1] * ne[2]: outputs */
    size_t row_bytes;
    const void *data; /* NULL: absent */
    const struct gguf_tensor *file;
};

struct rope_params {
    uint32_t n_rot;
    bool neox; /* pairs (i, i + n_rot/2); otherwise (2i, 2i+1) */
    float freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
    uint32_t n_ctx_orig;
};

struct hparams {
    uint32_t n_layers, n_embd, n_vocab, n_ctx;
    uint32_t n_heads, n_kv_heads, head_dim, value_dim, n_ff;
    float rms_eps, attention_scale;
    struct rope_params rope;
};

struct layer {
    struct tensor attn_norm, q, k, v, q_bias, k_bias, v_bias, q_norm, k_norm, out, out_bias;
    struct tensor ffn_norm, gate, up, down, gate_bias, up_bias, down_bias;
};

struct arch;

struct model {
    const struct arch *arch;
    struct gguf *gguf; /* borrowed: outlives the model */
    struct hparams hp;
    struct tensor token_embd, output_norm, output, output_bias, rope_freqs;
    bool tied;            /* output is token_embd */
    struct layer *layers; /* [n_layers] */
    struct ledger *ledger;
    void *trunk; /* one block holding every resident tensor */
    size_t trunk_bytes;
    bool loaded;
};

/* Binds and checks without reading weights; every problem of the file in one message. */
int model_bind(struct model *m, struct gguf *g, struct error *e);
/* Bytes of the trunk block that model_load will take. */
uint64_t model_trunk_bytes(const struct model *m);
uint64_t model_n_params(const struct model *m);

struct model_load_options {
    struct ledger *ledger;
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
