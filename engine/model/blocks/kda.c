/*
 * Kimi delta attention (engine-spec 4.4): short convolutions, then a recurrence whose state is a matrix a
 * head. A sequence advances token by token and in place; heads and sequences go side by side.
 *
 * The recurrent block of a layer and sequence is, for each head: S [key][value], then for q, k and v in turn
 * the last conv_kernel - 1 inputs of their convolution [tap][channel], the oldest first. Zeros start a
 * sequence. What a head needs is together, and what a token changes does not depend on the chunk it came in.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

#define GATE_GRAIN 1024 /* numbers of the output gate that are worth a thread */

struct kda_loop {
    struct forward *f;
    const struct layer *l;
    const struct block *b;
    uint32_t run[BLOCK_ROWS + 1]; /* where the rows of each sequence start, then n */
    uint32_t n_runs;
};

static size_t inner_width(const struct hparams *hp)
{
    return (size_t)hp->n_heads * hp->kda_head_dim;
}

void kda_lay_out(struct forward *f, struct layout *l, size_t block)
{
    const struct hparams *hp = &f->o.model->hp;
    const size_t inner = inner_width(hp), fl = sizeof(float);
    f->kda.q = layout_take(l, block * inner, fl);
    f->kda.k = layout_take(l, block * inner, fl);
    f->kda.v = layout_take(l, block * inner, fl);
    f->kda.log_decay = layout_take(l, block * inner, fl);
    f->kda.decay = layout_take(l, block * inner, fl);
    f->kda.gate = layout_take(l, block * inner, fl);
    f->kda.out = layout_take(l, block * inner, fl);
    f->kda.low_decay = layout_take(l, block * hp->kda_head_dim, fl);
    f->kda.low_gate = layout_take(l, block * hp->kda_head_dim, fl);
    f->kda.beta = layout_take(l, inner ? block * hp->n_heads : 0, fl);
}

/* All that is linear in h; q, k and v may be one matrix, the output gate of full rank or not. */
static void project(struct forward *f, const struct layer *l, const float *h, uint32_t n)
{
    const struct hparams *hp = f->hp;
    const size_t inner = inner_width(hp);
    const bool fused = l->parts & PART_QKV_FUSED, full = l->g.data;
    struct tensor third[3] = {l->q, l->k, l->v};
    struct tensor all = l->qkv;
    all.n_slices = 3;
    all.slice_bytes = inner * all.row_bytes;
    for (uint32_t i = 0; fused && i < 3; i++)
        third[i] = tensor_slice(&all, i);
    const struct linear inputs[] = {
        {&third[0], NULL, f->kda.q, inner},
        {&third[1], NULL, f->kda.k, inner},
        {&third[2], NULL, f->kda.v, inner},
        {&l->f_a, NULL, f->kda.low_decay, hp->kda_head_dim},
        {&l->beta, NULL, f->kda.beta, hp->n_heads},
        {full ? &l->g : &l->g_a, NULL, full ? f->kda.gate : f->kda.low_gate,
         full ? inner : hp->kda_head_dim},
    };
    const struct linear decay = {&l->f_b, NULL, f->kda.log_decay, inner};
    const struct linear gate = {&l->g_b, NULL, f->kda.gate, inner};

    linear_group(f, h, hp->n_embd, n, inputs, ARRAY_LEN(inputs));
    linear_group(f, f->kda.low_decay, hp->kda_head_dim, n, &decay, 1);
    if (!full)
        linear_group(f, f->kda.low_gate, hp->kda_head_dim, n, &gate, 1);
}

static void find_runs(struct kda_loop *loop)
{
    const struct block *b = loop->b;
    for (uint32_t r = 0; r < b->n; r++) {
        if (r == 0 || b->rows[r].slot != b->rows[r - 1].slot)
            loop->run[loop->n_runs++] = r;
    }
    loop->run[loop->n_runs] = b->n;
}

/* Item i: heads outside, sequences inside, so that every thread gets as many tokens. */
struct item {
    uint32_t head;
    uint32_t first, last; /* rows of the block */
    float *state;         /* of the head */
    float *taps;          /* [3][conv_kernel - 1][d] */
};

static struct item item_of(const struct kda_loop *loop, size_t i)
{
    const struct hparams *hp = loop->f->hp;
    const size_t d = hp->kda_head_dim, run = i % loop->n_runs;
    struct item it = {
        .head = (uint32_t)(i / loop->n_runs), .first = loop->run[run], .last = loop->run[run + 1]};
    it.state = kv_recurrent(loop->f->o.kv, loop->b->rows[it.first].slot, loop->l->state) +
               it.head * (d * d + 3 * (hp->conv_kernel - 1) * d);
    it.taps = it.state + d * d;
    return it;
}

/* One token of d channels, in place: the sum over the oldest input first; then the inputs move up. */
static void convolve(float *x, float *taps, const float *w, size_t n_taps, size_t d)
{
    const size_t past = (n_taps - 1) * d;
    for (size_t c = 0; c < d; c++) {
        const float input = x[c];
        float sum = 0;
        for (size_t m = 0; m + 1 < n_taps; m++)
            sum += w[c * n_taps + m] * taps[m * d + c];
        x[c] = sum + w[c * n_taps + n_taps - 1] * input;
        for (size_t m = d; m < past; m += d)
            taps[m - d + c] = taps[m + c];
        if (past > 0)
            taps[past - d + c] = input;
    }
}

/* Convolutions and the gates of the recurrence. */
static void prepare_range(void *context, size_t first, size_t last, int thread)
{
    const struct kda_loop *loop = context;
    struct forward *f = loop->f;
    const struct hparams *hp = f->hp;
    const struct layer *l = loop->l;
    const size_t d = hp->kda_head_dim, inner = inner_width(hp), n_taps = hp->conv_kernel;
    float *const channels[] = {f->kda.q, f->kda.k, f->kda.v};
    const float *const kernels[] = {l->conv_q.data, l->conv_k.data, l->conv_v.data};
    (void)thread;
    for (size_t i = first; i < last; i++) {
        const struct item it = item_of(loop, i);
        const struct kda_gate gate = {.bias = (const float *)l->dt_bias.data + it.head * d,
                                      .rate = ((const float *)l->a.data)[it.head],
                                      .bounded = isfinite(hp->kda_gate_lower_bound),
                                      .bound = hp->kda_gate_lower_bound};
        for (uint32_t r = it.first; r < it.last; r++) {
            const size_t at = r * inner + it.head * d;
            float *beta = &f->kda.beta[r * hp->n_heads + it.head];
            for (size_t which = 0; which < ARRAY_LEN(channels); which++) {
                float *x = channels[which] + at;
                convolve(x, it.taps + which * (n_taps - 1) * d,
                         kernels[which] + it.head * d * n_taps, n_taps, d);
                f->k->sigmoid_gate(x, x, d);
            }
            f->k->kda_decay(f->kda.log_decay + at, &gate, f->kda.decay + at, d);
            *beta = 1.0f / (1.0f + f->k->exp1(-*beta));
        }
    }
}

/* x / max(|x|, eps); the sum in f64, in four lanes. */
static void l2_norm(float *x, size_t n, float eps)
{
    double sum[4] = {0};
    for (size_t i = 0; i < n; i++)
        sum[i % 4] += (double)x[i] * (double)x[i];
    float size = sqrtf((float)((sum[0] + sum[1]) + (sum[2] + sum[3])));
    float scale = 1.0f / MAX_OF(size, eps);
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

/* The recurrence, and the norm of what it gives. */
static void scan_range(void *context, size_t first, size_t last, int thread)
{
    const struct kda_loop *loop = context;
    struct forward *f = loop->f;
    const struct hparams *hp = f->hp;
    const size_t d = hp->kda_head_dim, inner = inner_width(hp);
    (void)thread;
    for (size_t i = first; i < last; i++) {
        const struct item it = item_of(loop, i);
        const size_t at = it.first * inner + it.head * d;
        const struct kda_scan scan = {.state = it.state,
                                      .q = f->kda.q + at,
                                      .k = f->kda.k + at,
                                      .v = f->kda.v + at,
                                      .decay = f->kda.decay + at,
                                      .beta = f->kda.beta + it.first * hp->n_heads + it.head,
                                      .out = f->kda.out + at,
                                      .n_tokens = it.last - it.first,
                                      .dim = d,
                                      .stride = inner,
                                      .beta_stride = hp->n_heads,
                                      .scale = 1.0f / sqrtf((float)d)};
        for (size_t t = 0; t < scan.n_tokens; t++) {
            l2_norm(f->kda.q + at + t * inner, d, hp->rms_eps);
            l2_norm(f->kda.k + at + t * inner, d, hp->rms_eps);
        }
        f->k->kda_scan(&scan);
        for (size_t t = 0; t < scan.n_tokens; t++)
            f->k->rms_norm(scan.out + t * inner, loop->l->ssm_norm.data, scan.out + t * inner, d,
                           hp->rms_eps);
    }
}

static void gate_range(void *context, size_t first, size_t last, int thread)
{
    const struct forward *f = context;
    (void)thread;
    f->k->sigmoid_gate(f->kda.out + first, f->kda.gate + first, last - first);
}

static void trace_inputs(struct forward *f, uint32_t il, uint32_t n)
{
    const size_t inner = inner_width(f->hp);
    trace_rows(f, "kda_q_conv", il, f->kda.q, inner, n);
    trace_rows(f, "kda_k_conv", il, f->kda.k, inner, n);
    trace_rows(f, "kda_v_conv", il, f->kda.v, inner, n);
    trace_rows(f, "kda_g1", il, f->kda.log_decay, inner, n);
    trace_rows(f, "kda_beta", il, f->kda.beta, f->hp->n_heads, n);
    trace_rows(f, "kda_g2", il, f->kda.gate, inner, n);
}

void block_kda(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = f->layer;
    const size_t inner = inner_width(hp);
    struct kda_loop loop = {.f = f, .l = l, .b = b};
    const struct linear out = {&l->out, NULL, f->delta, hp->n_embd};

    find_runs(&loop);
    norm_rows(f, b->in, &l->attn_norm, f->norm, b->n);
    trace_rows(f, "attn_norm", il, f->norm, hp->n_embd, b->n);
    project(f, l, f->norm, b->n);
    parallel_for((size_t)loop.n_runs * hp->n_heads, 1, prepare_range, &loop);
    trace_inputs(f, il, b->n);
    parallel_for((size_t)loop.n_runs * hp->n_heads, 1, scan_range, &loop);
    trace_rows(f, "kda_normed", il, f->kda.out, inner, b->n);
    parallel_for(b->n * inner, GATE_GRAIN, gate_range, f);
    linear_group(f, f->kda.out, inner, b->n, &out, 1);
    trace_rows(f, "kda_out", il, f->delta, hp->n_embd, b->n);
    add_rows(f, b->x, f->delta, b->n);
}
