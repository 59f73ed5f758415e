/*
 * The arithmetic of the engine, one table of functions per instruction set.
 *
 * Owns nothing; every buffer is the caller's. Chosen once at start (kernels_pick).
 *
 * Stays true (this is what makes a row's result independent of who shares its step):
 *  - One documented order of summation per output element for each format and ISA: it depends on the
 *    number of columns only, never on how many rows there are, which range of outputs a call gets, or
 *    how many threads run. Matrix and vector forms obey the same order, bit for bit.
 *  - Activation rows are quantised one by one.
 *  - From libm only sqrt; explicit FMA only; vector tails use the body's polynomials; exp is kernels'
 *    own. Each ISA agrees with itself to the bit, two ISAs only within rounding.
 *  - `exact` (the engine's yardstick) uses weights decoded to f32 and f32 activations, generic code.
 *
 * The order, for block formats on every ISA: the integer dot product of a block (with its integer
 * scales) is exact; then, over blocks in ascending order from 0,
 *     acc += d_act * (d_w * dot + min_w * sum_act)
 * one accumulator per output. (nvfp4, whose scales are for 16 elements, has d_w0 * dot0 + d_w1 * dot1
 * in place of d_w * dot.) The generic table rounds each product. The others round once where they can:
 * acc = fma(d_act, t, acc) with t = fma(d_w, dot, min_w * sum_act) for blocks of 32 and, as for nvfp4,
 * t = fma(min_w, sum_act, d_w * dot) for super-blocks; so their bits are the same. For f32, f16 and bf16 an
 * ISA says its lanes in its dense.h. Attention's order is in cpu/attention.h. tests/engine/kernels_order.c
 * has models of it all but attention.
 *
 * Called from inside parallel_for ranges: nothing here starts threads.
 */
#ifndef ENGINE_KERNELS_KERNELS_H
#define ENGINE_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/error.h"
#include "engine/quant/quant.h"

/*
 * An activation row for formats of 32 elements (and of 64 and 128, by parts of 32): x = d * q, q in
 * -127..127. d is f32 (not rounded to f16:
 * more accurate than ggml's and still inside the golden's tolerance). qsum = q0 + ... + q31, exact,
 * for formats with an offset or a minimum. A block that holds a NaN or an infinity has such a d.
 */
struct act_q8 {
    float d;
    float qsum;
    int8_t q[32];
};

/* The same for 256-element formats; bsums[i] = sum of q[16i .. 16i+15]. */
struct act_q8k {
    float d;
    int16_t bsums[16];
    int8_t q[256];
};

/* Bytes of an activation row of n columns in that form. */
size_t act_row_bytes(enum act_kind kind, size_t n);

/* y[r][i] = sum_k w[i][k] * x[r][k] for weight rows i in a range and all activation rows r. */
struct matmul {
    const struct quant *quant;
    const void *w; /* [n_out] rows of quant_row_bytes(quant, n_cols) each */
    size_t w_row_bytes;
    const void *x; /* [n_rows] activation rows in the form quant->act (exact: f32) */
    size_t x_row_bytes;
    size_t n_cols;
    size_t n_rows;
    float *y;        /* [n_rows][y_stride], written at columns i */
    size_t y_stride; /* in floats */
};

/* One query of one head: in q and n_keys, out the rest. */
struct attention_query {
    const float *q; /* [k_dim], not scaled */
    size_t n_keys;  /* it sees keys [0, n_keys) of the page; 1..KV_PAGE */
    float max;      /* the largest score = scale * (q . k) */
    float sum;      /* of exp(score - max) */
    float *
        acc; /* [ATTENTION_PADDED(v_dim)] sum of exp(score - max) * v; what is beyond v_dim is junk */
};

/*
 * Attention over one page of keys (kv/kv.h has the layout) by queries that share them: grouped heads,
 * rows of one sequence, all heads of a latent cache (whose values are the first v_dim numbers of a
 * key's row: v == k). A query's result is the same to the bit whatever else is in the call.
 */
struct attention_page {
    struct attention_query *queries;
    size_t n_queries; /* 1..ATTENTION_QUERIES */
    const void *k;    /* rows of keys, k_stride_bytes apart; f16 (exact: f32) */
    const void *v;    /* the same for values */
    size_t k_stride_bytes;
    size_t v_stride_bytes;
    size_t k_dim; /* of q and k; any */
    size_t v_dim;
    float scale;
};

#define ATTENTION_QUERIES 64
#define ATTENTION_PADDED(dim) (((dim) + 15) / 16 * 16)
#define KV_PAGE 64 /* positions in a page of the attention cache: attention's block of keys */

/* How fast a head's state fades in Kimi delta attention, by key. */
struct kda_gate {
    const float *bias; /* [n] */
    float rate;        /* of the head: -exp(A_log) */
    bool bounded;      /* g = bound * sigmoid(-rate * z), else rate * softplus(z) */
    float bound;
};

/*
 * The recurrence of Kimi delta attention: one head, consecutive tokens of one sequence in order. With
 * S [dim keys][dim values], for each token (rows of dim numbers, `stride` floats apart):
 *     S[i] *= decay[i];  e = beta * (v - sum_i k[i] S[i]);  S[i] += k[i] e;  out = scale * sum_i q[i] S[i]
 * Bits do not depend on how a sequence is cut into calls.
 */
struct kda_scan {
    float *state; /* S, in place */
    const float *q, *k, *v, *decay;
    const float *beta; /* one a token, beta_stride floats apart */
    float *out;
    size_t n_tokens, dim, stride, beta_stride;
    float scale;
};

struct kernels {
    const char *name;                      /* "generic", "avx2", "avx512", "neon", "neon-i8mm" */
    int (*supported)(const struct cpu *c); /* boolean */

    /* x [n] -> one activation row of that kind. n is a multiple of 32 (ACT_Q8) or 256 (ACT_Q8K). */
    void (*act_quantise[ACT_KINDS])(const float *x, void *out, size_t n);
    /*
     * Weight rows [first, last). The activation rows of a call are taken in groups that fit the
     * first-level cache, so any n_rows is good; ranges that start at multiples of 8 waste nothing.
     */
    void (*matmul[QUANT_COUNT])(const struct matmul *m, size_t first, size_t last);

    /* out[i] = x[i] / sqrt(mean(x^2) + eps) * w[i]; the sum in f64. w NULL: all ones. May be in place. */
    void (*rms_norm)(const float *x, const float *w, float *out, size_t n, float eps);
    /* out[i] = silu(gate[i]) * up[i] */
    void (*swiglu)(const float *gate, const float *up, float *out, size_t n);
    /*
     * out[i] = beta tanh(gate[i] / beta) sigmoid(gate[i]) * (linear_beta > 0 ?
     * linear_beta tanh(up[i] / linear_beta) : up[i]); divided by multiplying with the f32 reciprocals.
     */
    void (*situ)(const float *gate, const float *up, float *out, size_t n, float beta,
                 float linear_beta);
    /* x[i] += y[i] */
    void (*add)(float *x, const float *y, size_t n);
    /* f32 -> f16 cache row */
    void (*to_f16)(const float *x, uint16_t *out, size_t n);
    /* Fills max, sum and acc of every query; attention (model/blocks) merges pages in order. */
    void (*attention_page)(const struct attention_page *a);
    /* acc[i] = acc[i] * scale_acc + page[i] * scale_page (merging pages) */
    void (*merge)(float *acc, float scale_acc, const float *page, float scale_page, size_t n);
    /* kernels' exp: 0 below -104, infinity above 88.73, relative error under 2^-23 between */
    float (*exp1)(float x);
    /* x[i] *= sigmoid(gate[i]); gate may be x, which gives silu */
    void (*sigmoid_gate)(float *x, const float *gate, size_t n);
    /* z[i] = the gate's g of z[i] + bias[i], at most 0; decay[i] = exp(g) */
    void (*kda_decay)(float *z, const struct kda_gate *gate, float *decay, size_t n);
    void (*kda_scan)(const struct kda_scan *s);
};

/* Every table compiled in, best last; NULL-terminated. All entries of each are filled. */
extern const struct kernels *const kernels_all[];

/* isa NULL or "auto": the best this CPU has. A name this CPU lacks or that is unknown: ERROR_UNSUPPORTED. */
int kernels_pick(const char *isa, const struct kernels **ret, struct error *e);

/*
 * The yardstick. matmul_exact decodes each weight row once into scratch [n_cols] (one a thread);
 * x rows are f32. attention_page_exact takes f32 keys and values. Both accumulate in f64.
 */
void matmul_exact(const struct matmul *m, size_t first, size_t last, float *scratch);
void attention_page_exact(const struct attention_page *a);
extern const struct kernels kernels_generic;
extern const struct kernels kernels_avx2; /* x86-64 only, as the next */
extern const struct kernels kernels_avx512;
extern const struct kernels kernels_neon; /* aarch64 only, as the next */
extern const struct kernels kernels_neon_i8mm;

#endif
