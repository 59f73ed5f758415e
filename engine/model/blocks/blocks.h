/*
 * The parts that layers are made of, and what they share while a step runs.
 *
 * Owns `struct forward` (private to engine/model). Everything planned per row of the step is indexed
 * by the row of the step; everything else is scratch for a block of at most BLOCK_ROWS rows.
 * Stays true: nothing here allocates; each output element is computed by one thread in one order.
 */
#ifndef ENGINE_MODEL_BLOCKS_BLOCKS_H
#define ENGINE_MODEL_BLOCKS_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/parallel.h"
#include "engine/model/step.h"

/* R of the loop: rows whose activations are live at once. Measured on 2 cores: bench/tokens. */
#define BLOCK_ROWS 64

/* Scratch is laid out once: each part takes its arrays in turn. base NULL: only measures. */
struct layout {
    char *base;
    size_t at;
};
void *layout_take(struct layout *l, size_t count, size_t size);

/* What the router chose for a row, and how much of its result the row gets. */
struct route {
    uint32_t expert;
    float weight;
};

/* What a mixture of experts adds to the scratch; "width" is what an expert reads and writes. */
struct moe {
    /* per row of the step */
    float *in;            /* [max_rows][width] */
    float *out;           /* [max_rows][width] sums, in ascending expert id */
    struct route *routes; /* [max_rows][n_experts_used] best first */
    uint32_t *pairs;      /* [max_rows * n_experts_used] indices of routes, by expert */
    /* per block of rows */
    float *probs;  /* [BLOCK_ROWS][n_experts] logits, then probabilities */
    float *scores; /* [BLOCK_ROWS][n_experts] what the choice is made by */
    /* per batch of pairs */
    uint32_t *counts;          /* [n_experts] */
    struct moe_batch *batches; /* [2] the one at work and the one whose experts are being read */
    float *gate, *up;          /* [pairs][expert_ff] */
    float *down;               /* [pairs][width] */
    uint8_t *act[ACT_KINDS];   /* [pairs][act_row_bytes] */
};

struct forward {
    struct forward_options o;
    const struct model *m;
    const struct layer *layer; /* the one at work, its weights in memory */
    const struct hparams *hp;
    const struct kernels *k;
    int n_threads;
    void (*attention_page)(const struct attention_page *a);

    void *scratch; /* one block of the ledger; all below point into it */
    size_t scratch_bytes;

    /* per row of the step */
    float *residual; /* [max_rows][n_embd] */
    float *rope_cos; /* [max_rows][n_rot / 2] */
    float *rope_sin;
    float *rope_mix; /* [n_rot / 2] share of the unscaled angle (YaRN), 0 without */

    /* per block of rows */
    float *norm;  /* [BLOCK_ROWS][n_embd] */
    float *q;     /* [BLOCK_ROWS][n_heads * head_dim] */
    float *key;   /* [BLOCK_ROWS][n_kv_heads * head_dim] */
    float *value; /* [BLOCK_ROWS][n_kv_heads * value_dim] */
    float *att;   /* [BLOCK_ROWS][n_heads * value_dim] */
    float *gate;  /* [BLOCK_ROWS][the wider of n_ff and shared_ff] */
    float *up;    /* the same */
    float *delta; /* [BLOCK_ROWS][n_embd] */
    uint8_t *act
        [ACT_KINDS]; /* [BLOCK_ROWS][act_row_bytes]; ACT_F32 has none: rows are used as they are */

    struct moe moe; /* without experts: all NULL */

    /* per thread */
    float *decoded; /* [threads][widest_input], exact mode */
    size_t widest_input;
    float *page_acc; /* [threads][attend_scratch_floats] */

    /* latent attention; per block of rows but act */
    struct {
        float *q_low; /* [BLOCK_ROWS][q_lora] */
        float *row;   /* [BLOCK_ROWS][kv_lora + n_rot] */
        float *heads; /* [BLOCK_ROWS][n_heads][kv_lora + n_rot] queries, then weighted rows */
        float *gate;  /* [BLOCK_ROWS][n_heads * value_dim] */
        uint8_t *act; /* [threads][act_stride] one head's inputs */
        size_t act_stride;
    } mla;

    /* delta attention; per block of rows, inner = n_heads * kda_head_dim */
    struct {
        float *q, *k, *v;  /* [BLOCK_ROWS][inner] each */
        float *log_decay;  /* the same: at most 0 */
        float *decay;      /* the same: its exponential */
        float *gate, *out; /* the same */
        float *low_decay;  /* [BLOCK_ROWS][kda_head_dim] */
        float *low_gate;   /* the same */
        float *beta;       /* [BLOCK_ROWS][n_heads] */
    } kda;

    /* attention residuals */
    struct {
        float *checkpoints; /* [max_rows][of a model][n_embd], per row of the step */
        float *mixed;       /* [BLOCK_ROWS][n_embd] */
        float *probs;       /* [BLOCK_ROWS][checkpoints, the stream] */
        float *normed;      /* [threads][n_embd] */
    } res;

    float *logits; /* [max_logits][n_vocab] */
    uint32_t n_logits;
    uint32_t reached; /* the layer that the step is at, or was interrupted before */
};

/* Rows [first, first + n) of the running step. */
struct block {
    const struct step_row *rows; /* [n], the block's own */
    uint32_t first;              /* of the step's rows */
    float *x;                    /* [n][n_embd] residual stream: blocks add to it */
    const float *in;             /* [n][n_embd] what blocks norm and read: x, or a mix with it */
    const float *rope_cos, *rope_sin; /* [n][n_rot / 2] */
    uint32_t n;
};

/* One matrix of a group that shares its input: y[n][y_stride] = W x (+ bias). */
struct linear {
    const struct tensor *w;
    const struct tensor *bias; /* data NULL: none */
    float *y;
    size_t y_stride; /* in floats */
};

/* Brings x [n][x_stride] to the formats' activation forms once, then multiplies all; one region. */
void linear_group(struct forward *f, const float *x, size_t x_stride, uint32_t n,
                  const struct linear *group, size_t n_group);

/* The form that w's inputs take. */
enum act_kind tensor_act(const struct forward *f, const struct tensor *w);
/* Outputs [first, last) of w for the rows that mm says: x, x_row_bytes, n_rows, y, y_stride. */
void tensor_multiply(struct forward *f, const struct tensor *w, struct matmul *mm, size_t first,
                     size_t last, int thread);

/* fn over n rows: by this thread alone where waking the others would cost more. */
void for_rows(uint32_t n, parallel_fn *fn, void *context);

/* out[r] = rms_norm(x[r]) * w for n rows as wide as w. */
void norm_rows(struct forward *f, const float *x, const struct tensor *w, float *out, uint32_t n);
/* x[r] += y[r], stride n_embd. */
void add_rows(struct forward *f, float *x, const float *y, uint32_t n);

/* Angles; formulas: engine-spec 4.1. */
void rope_prepare(struct forward *f); /* once: what does not depend on the position */
void rope_angles(const struct forward *f, uint32_t position, float *ret_cos, float *ret_sin);
/* Rotates n_heads heads of head_dim each, in place. */
void rope_apply(const struct rope_params *p, const float *cos_row, const float *sin_row, float *x,
                uint32_t n_heads, uint32_t head_dim);

/* Gives the tensor's values of n rows to whoever traces the step (options.trace). */
void trace_rows(struct forward *f, const char *name, uint32_t il, const float *x, size_t n_cols,
                uint32_t n_rows);

/* The row's keys or values of one layer go to its place in the cache. */
void cache_keys(const struct forward *f, const struct step_row *row, uint32_t state,
                const float *key, size_t dim);
void cache_values(const struct forward *f, const struct step_row *row, uint32_t state,
                  const float *value, size_t dim);

/* Attention of a block's rows over what one layer has cached of their sequences. */
struct attention {
    const float *q;    /* [n][n_heads][k_dim] */
    float *out;        /* [n][n_heads] results, out_stride apart; may start where q does */
    size_t out_stride; /* in floats, at least v_dim */
    uint32_t state;    /* of the layer (struct layer) */
    uint32_t n_heads, n_kv_heads, k_dim, v_dim;
    bool latent; /* a value is the first v_dim numbers of its key */
};
void attend_rows(struct forward *f, const struct block *b, const struct attention *a);
size_t attend_scratch_floats(uint32_t v_dim); /* of a thread */

/* x += Wo attention(norm(in)); engine-spec 4.2. Optional per-head norms and biases. */
void block_attention(struct forward *f, uint32_t il, const struct block *b);
/*
 * x += Wo latent_attention(norm(in)); engine-spec 4.3. Turns positions unless hp->rope.none; gates the
 * heads' results where the layer has attn_gate.
 */
void block_mla(struct forward *f, uint32_t il, const struct block *b);
void mla_lay_out(struct forward *f, struct layout *l, size_t block);
/* gate[i] = act(gate[i], up[i]): SwiGLU, or SiTU where the model has it. */
void activate(const struct forward *f, float *gate, const float *up, size_t n);
void activate_rows(struct forward *f, float *gate, const float *up, size_t n_ff, uint32_t n);
/* x += down(act(gate h, up h)) of h = norm(in). */
void block_ffn(struct forward *f, uint32_t il, const struct block *b);

/*
 * Mixture of experts; engine-spec 4.6. block_moe, of h = norm(in): chooses the experts of the block's rows,
 * keeps what they will read (h, or its latent) and adds the shared expert to x. moe_visit, once for all
 * rows of the step (forward_step calls it): moe.out = the chosen experts, weighted, in ascending id.
 * moe_finish, in blocks again: x += moe.out, normed and brought up from the latent width.
 * So x = (x + shared) + routed.
 */
void block_moe(struct forward *f, uint32_t il, const struct block *b);
int moe_visit(struct forward *f, uint32_t il, uint32_t n_rows, struct error *e);
void moe_finish(struct forward *f, uint32_t il, const struct block *b);
/* After layer il of a step of one row: tells the store what the next may want of it. No bit depends on it. */
void moe_expect(struct forward *f, uint32_t il, const struct block *b);
void moe_lay_out(struct forward *f, struct layout *l);
/*
 * One row: probs [n_experts] are logits and become probabilities, scores [n_experts] what the choice was
 * made by. bias NULL: none. Equal scores: the lower id.
 */
void router_choose(const struct hparams *hp, const struct kernels *k, const float *bias,
                   float *probs, float *scores, struct route *routes);

/* x += Wo delta_attention(norm(in)); engine-spec 4.4. Advances the states of the rows' sequences. */
void block_kda(struct forward *f, uint32_t il, const struct block *b);
void kda_lay_out(struct forward *f, struct layout *l, size_t block);

/*
 * Attention residuals; engine-spec 4.5. residual_mix gives what a block reads after the first n_begun layers
 * had their turn to bank: [n][n_embd], good until the next mix. residual_bank: where layer il banks, x
 * becomes a checkpoint and starts anew from 0.
 */
const float *residual_mix(struct forward *f, uint32_t il, uint32_t n_begun, const struct block *b,
                          const struct tensor *w);
void residual_bank(struct forward *f, uint32_t il, const struct block *b);
void residual_lay_out(struct forward *f, struct layout *l, size_t block);
/* Checkpoints that a row has after the first n_begun layers had their turn; where its first is. */
uint32_t residual_begun(const struct hparams *hp, uint32_t n_begun);
float *residual_checkpoints(const struct forward *f, size_t row);

/* The halves of a layer, each the block that its parts name; and both, as most architectures have them. */
void layer_attention(struct forward *f, uint32_t il, const struct block *b);
void layer_feed_forward(struct forward *f, uint32_t il, const struct block *b);
void layer_plain(struct forward *f, uint32_t il, const struct block *b);

#endif
