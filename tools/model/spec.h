/*
 * What mkmodel writes: the dimensions of a model and, per architecture, tables of its keys and tensors.
 *
 * An architecture is one row of archs.c; dimensions and keys name fields of struct spec, so that a new
 * one is a table and, where it needs new numbers, new fields. Weights are random but sane: a matrix
 * turns unit-variance input into output of standard deviation `gain`.
 */
#ifndef TOOLS_MODEL_SPEC_H
#define TOOLS_MODEL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/gguf/write.h"
#include "engine/quant/quant.h"

struct spec {
    uint32_t n_layers, n_embd, n_heads, n_kv_heads, head_dim, n_ff, n_ctx, n_vocab;
    uint32_t q_width, kv_width; /* derived: heads x head_dim */
    float rms_eps, freq_base;
    bool tied;
};

/* A dimension is the place of a number in struct spec; DIM_NONE ends a shape. */
#define DIM(field) (offsetof(struct spec, field) + 1)
enum { DIM_NONE = 0 };

enum fill {
    FILL_MATRIX,    /* random, rms gain / sqrt(columns), in the format asked for */
    FILL_EMBEDDING, /* random, rms gain, in the format asked for */
    FILL_NORM,      /* about gain, F32 */
    FILL_BIAS       /* about 0, rms gain, F32 */
};

enum when { ALWAYS, IF_UNTIED };

struct tensor_row {
    const char *name; /* "attn_q.weight"; layers get "blk.N." before it */
    enum fill fill;
    float gain;
    float gain_tied; /* 0: the same */
    enum when when;
    size_t dims[4]; /* DIM(...) */
};

struct key_row {
    const char *name; /* the architecture's name and a dot come before it */
    bool is_float;
    size_t field; /* offset in struct spec */
};

struct model_arch {
    const char *name;
    const char *pre; /* pre-tokenizer of the vocabulary that is made here */
    struct spec defaults;
    const struct key_row *keys;       /* ends with a NULL name */
    const struct tensor_row *globals; /* ends with a NULL name */
    const struct tensor_row *layer;
};

const struct model_arch *model_arch_find(const char *name); /* NULL: unknown */

/* Calls visit for each tensor in file order; stops at the first error. */
typedef int (*tensor_visit)(void *context, const struct tensor_row *row, const char *name,
                            const uint64_t ne[4], uint32_t n_dims, struct error *e);
int model_each_tensor(const struct model_arch *a, const struct spec *s, tensor_visit visit,
                      void *context, struct error *e);

/* The format of a tensor: `wanted`, or what it falls back to where rows are no multiple of a block. */
const struct quant *model_tensor_quant(const struct tensor_row *row, const struct quant *wanted,
                                       uint64_t columns);
struct model_size {
    uint64_t bytes; /* of the tensors, without padding */
    uint64_t n_params;
    uint32_t n_tensors;
};
struct model_size model_size(const struct model_arch *a, const struct spec *s,
                             const struct quant *wanted);
/* Fills what is 0 in *s so that the tensors have about that many bytes. */
int model_scale(const struct model_arch *a, struct spec *s, const struct quant *wanted,
                uint64_t bytes, struct error *e);
/* Fills what is 0 in *s from the defaults, then what follows from it. */
int model_complete(const struct model_arch *a, struct spec *s, struct error *e);

void model_put_keys(struct gguf_writer *w, const struct model_arch *a, const struct spec *s);
int model_put_tensors(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                      const struct quant *wanted, struct error *e);
int model_write_weights(struct gguf_writer *w, const struct model_arch *a, const struct spec *s,
                        const struct quant *wanted, uint64_t seed, struct error *e);

/* A working byte-level BPE vocabulary of n tokens: bytes, merges of letters, three special tokens. */
#define VOCAB_TOKENS_MIN 259u
#define VOCAB_TOKENS_MAX 400000u
int vocab_put_made(struct gguf_writer *w, uint32_t n, const char *pre, struct error *e);
/* From another GGUF file: tokens, all tokenizer keys (its template only if asked for), template. */
int vocab_count(const char *path, uint32_t *ret_n, struct error *e);
int vocab_put_copied(struct gguf_writer *w, const char *path, bool with_template, struct error *e);
int vocab_put_template(struct gguf_writer *w, const char *path, struct error *e);

#endif
