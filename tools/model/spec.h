/*
 * What mkmodel writes: the dimensions of a model and, per architecture, tables of its keys and tensors.
 *
 * An architecture is one row of archs.c; dimensions, keys and tensors name fields of struct spec, so
 * that a new one is a table and, where it needs new numbers, new fields. A row that only some models
 * or layers have says which (enum fact). Weights are random but sane: a matrix turns unit-variance
 * input into output of standard deviation `gain`, so that activations stay finite, no gate sticks and
 * no few experts take all the tokens.
 */
#ifndef TOOLS_MODEL_SPEC_H
#define TOOLS_MODEL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/gguf/write.h"
#include "engine/quant/quant.h"

#define SPEC_LAYERS_MAX 1000u
#define SPEC_UNSET UINT32_MAX /* a dimension nobody chose yet: 0 may be a choice */

/* What is wrong with the file on purpose; NULL: nothing. Names of tensors and whole keys. */
struct defects {
    const char *omit;
    const char *extra;    /* one more, 32 numbers */
    const char *misshape; /* its last dimension is one too large */
    const char *poison;   /* all bits of its first block are ones: NaN in most formats */
    const char *omit_key;
    const char *set_key; /* "NAME=N": a u32 of another value */
};

struct spec {
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_ctx, n_vocab;
    uint32_t n_experts, n_used, n_shared, expert_ff, dense_lead, latent, n_groups, n_groups_used;
    uint32_t q_lora, kv_lora, nope, rope, v_dim; /* MLA */
    uint32_t kda_dim, conv, mla_every, res_block;
    uint32_t gating; /* 1 softmax, 2 sigmoid */
    uint32_t yarn_ctx;
    uint32_t n_topics; /* of the vocabulary (topics.h); 0: embeddings have nothing in common */
    float rms_eps, freq_base, expert_scale, gate_bound, situ_beta, situ_linear_beta;
    float yarn_factor, yarn_log;
    bool renormalise;
    bool tied;
    bool yarn;
    bool legacy; /* attn_kv_b instead of attn_k_b and attn_v_b */
    bool merged; /* ffn_gate_up_exps instead of ffn_gate_exps and ffn_up_exps */
    struct defects defects;

    /* What follows from the above: spec_complete. */
    uint32_t one, q_width, kv_width;
    uint32_t mla_key, mla_q_width, mla_kv_heads, kv_a_width, kv_b_width, mla_out_width;
    uint32_t cached_key, cached_value; /* attention.key_length, value_length of files with MLA */
    uint32_t kda_width, expert_in, shared_ff, both_ff, both_expert_ff;
    bool mla[SPEC_LAYERS_MAX]; /* which layers, where the architecture has KDA too */
};

/* What may be true of a model, or of a layer of it. */
enum fact {
    ALWAYS = 0,
    IF_UNTIED = 1 << 0,
    IF_MLA = 1 << 1,
    IF_KDA = 1 << 2,
    IF_DENSE = 1 << 3,
    IF_EXPERTS = 1 << 4,
    IF_SHARED = 1 << 5,
    IF_LATENT = 1 << 6,
    IF_Q_LORA = 1 << 7,
    IF_Q_WHOLE = 1 << 8,
    IF_ABSORBED = 1 << 9,
    IF_LEGACY = 1 << 10,
    IF_GROUPS = 1 << 11,
    IF_YARN = 1 << 12,
    IF_SIGMOID = 1 << 13,
    IF_APART = 1 << 14,
    IF_MERGED = 1 << 15,
};
/* Of the whole model; with a layer, of that layer too. */
unsigned spec_facts(const struct spec *s);
unsigned spec_layer_facts(const struct spec *s, uint32_t layer);

/* A dimension is the place of a number in struct spec; DIM_NONE ends a shape. */
#define DIM(field) (offsetof(struct spec, field) + 1)
enum { DIM_NONE = 0 };

enum fill {
    FILL_MATRIX,    /* random, rms gain / sqrt(columns), in the format asked for */
    FILL_EXPERTS,   /* the same, in the format asked for experts */
    FILL_FLOATS,    /* the same, F32: routers, attention residual scores */
    FILL_EMBEDDING, /* random, rms gain, in the format asked for */
    FILL_NORM,      /* about gain, F32 */
    FILL_BIAS,      /* about 0, rms gain, F32 */
    FILL_UNIFORM,   /* between gain and gain_tied, F32 */
    FILL_CONV /* rows of `conv` taps whose last one, the current token's, is the largest; F32 */
};

struct tensor_row {
    const char *name; /* "attn_q.weight"; layers get "blk.N." before it */
    enum fill fill;
    float gain;
    float gain_tied; /* 0: the same */
    unsigned when;   /* every one of these facts */
    size_t dims[4];  /* DIM(...) */
    size_t fan_in; /* DIM(...) to take the root of instead of the columns; DIM_NONE: the columns */
};

enum key_kind { KEY_U32, KEY_F32, KEY_BOOL, KEY_TEXT, KEY_KV_HEADS };

struct key_row {
    const char *name; /* the architecture's name and a dot come before it */
    enum key_kind kind;
    size_t field; /* offset in struct spec */
    unsigned when;
    const char *text; /* KEY_TEXT */
};

struct model_arch {
    const char *name;
    const char *pre; /* pre-tokenizer of the vocabulary that is made here */
    struct spec defaults;
    const struct key_row *keys;       /* ends with a NULL name */
    const struct tensor_row *globals; /* ends with a NULL name */
    const struct tensor_row *layer;
};

/* A published model, for files of its dimensions. */
struct model_like {
    const char *name;
    const char *arch;
    struct spec spec;
};

const struct model_arch *model_arch_find(const char *name); /* NULL: unknown */
const struct model_like *model_like_find(const char *name);

/* The numbers that a command line may choose. */
struct spec_dimension {
    const char *option;
    size_t field;
    uint32_t min, max;
};
enum { SPEC_DIMENSIONS = 27 };
extern const struct spec_dimension spec_dimensions[SPEC_DIMENSIONS];
uint32_t spec_u32(const struct spec *s, size_t field);
void spec_set_u32(struct spec *s, size_t field, uint32_t value);
/* Every dimension SPEC_UNSET. */
void spec_init(struct spec *s);
/*
 * Fills what is unset in *s from the defaults, then what follows from it. mla_layers "3,5": the layers
 * with MLA where the architecture has KDA too; NULL: every mla_every-th and the last one.
 */
int spec_complete(const struct spec *defaults, struct spec *s, const char *mla_layers,
                  struct error *e);

/* The formats asked for; the embedding's is what can be written of it. */
struct formats {
    const struct quant *trunk, *experts, *embedding;
};

/* Calls visit for each tensor in file order; stops at the first error. */
typedef int (*tensor_visit)(void *context, const struct tensor_row *row, const char *name,
                            const uint64_t ne[4], uint32_t n_dims, struct error *e);
int model_each_tensor(const struct model_arch *a, const struct spec *s, tensor_visit visit,
                      void *context, struct error *e);

/* The format of a tensor: the wanted one, or what it falls back to where rows fit no block. */
const struct quant *model_tensor_quant(const struct tensor_row *row, const struct formats *wanted,
                                       uint64_t columns);
struct model_size {
    uint64_t bytes; /* of the tensors, without padding */
    uint64_t n_params;
    uint32_t n_tensors;
};
struct model_size model_size(const struct model_arch *a, const struct spec *s,
                             const struct formats *wanted);
/* As spec_complete, with what is unset chosen so that the tensors have about that many bytes. */
int model_scale(const struct model_arch *a, struct spec *s, const struct formats *wanted,
                uint64_t bytes, struct error *e);

void model_put_keys(struct gguf_writer *w, const struct model_arch *a, const struct spec *s);
int model_put_tensors(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                      const struct formats *wanted, struct error *e);
/* sparse: holes, which read as zeros, instead of weights. */
int model_write_weights(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                        const struct formats *wanted, uint64_t seed, bool sparse, struct error *e);

/* A working byte-level BPE vocabulary of n tokens: bytes, merges of letters, special tokens. */
#define VOCAB_TOKENS_MIN 264u
#define VOCAB_TOKENS_MAX 400000u
int vocab_put_made(struct gguf_writer *w, uint32_t n, const char *pre, struct error *e);
/* From another GGUF file: tokens, all tokenizer keys (its template only if asked for), template. */
int vocab_count(const char *path, uint32_t *ret_n, struct error *e);
int vocab_put_copied(struct gguf_writer *w, const char *path, bool with_template, struct error *e);
int vocab_put_template(struct gguf_writer *w, const char *path, struct error *e);

#endif
