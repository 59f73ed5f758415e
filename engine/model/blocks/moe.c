/*
 * A mixture of experts in three parts: the choice for a block of rows, one visit of the experts for
 * all rows of the step, and what is left for a block of rows.
 *
 * The visit takes every chosen expert once, in ascending id. Its (row, expert) pairs, sorted by expert
 * and row, go through in batches that fit the scratch. Outputs of a batch are cut over threads, for all
 * its experts alike, so an expert of many rows holds up no one; the results are added to a row in
 * ascending id, each element by one thread. So what a row gets depends neither on the other rows nor on
 * where batches end.
 */
#include <string.h>

#include "base/parallel.h"
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

/* Pairs of a batch: enough rows for an expert's weights to pay, few enough for the cache. */
#define BATCH_PAIRS 256
#define GRAIN 16

/* An expert's pairs in a batch, and its matrices. */
struct moe_group {
    uint32_t expert, first, n;
    struct tensor gate, up, down;
};

static size_t expert_width(const struct hparams *hp)
{
    return hp->expert_latent ? hp->expert_latent : hp->n_embd;
}

void moe_lay_out(struct forward *f, struct layout *l)
{
    const struct hparams *hp = &f->o.model->hp;
    struct moe *moe = &f->moe;
    if (hp->n_experts == 0)
        return;
    size_t rows = f->o.max_rows, block = MIN_OF(rows, (size_t)BLOCK_ROWS);
    size_t width = expert_width(hp), ff = hp->expert_ff, fl = sizeof(float);
    size_t pairs = rows * hp->n_experts_used, batch = MIN_OF(pairs, (size_t)BATCH_PAIRS);

    moe->in = layout_take(l, rows * width, fl);
    moe->out = layout_take(l, rows * width, fl);
    moe->routes = layout_take(l, pairs, sizeof(*moe->routes));
    moe->probs = layout_take(l, block * hp->n_experts, fl);
    moe->scores = layout_take(l, block * hp->n_experts, fl);
    moe->counts = layout_take(l, hp->n_experts, sizeof(*moe->counts));
    moe->pairs = layout_take(l, pairs, sizeof(*moe->pairs));
    moe->groups = layout_take(l, MIN_OF(batch, (size_t)hp->n_experts), sizeof(*moe->groups));
    moe->gate = layout_take(l, batch * ff, fl);
    moe->up = layout_take(l, batch * ff, fl);
    moe->down = layout_take(l, batch * width, fl);
    for (int kind = 0; kind < ACT_KINDS; kind++) {
        size_t widest = ALIGN_UP(MAX_OF(width, ff), (size_t)256);
        moe->act[kind] = layout_take(l, batch * act_row_bytes((enum act_kind)kind, widest), 1);
    }
}

/* ------------------------------------------------------------------ a block: the choice */

struct route_loop {
    struct forward *f;
    const struct layer *l;
    struct route *routes; /* of the block */
};

static void route_range(void *context, size_t first, size_t last, int thread)
{
    const struct route_loop *loop = context;
    const struct hparams *hp = loop->f->hp;
    const struct moe *moe = &loop->f->moe;
    (void)thread;
    for (size_t r = first; r < last; r++)
        router_choose(hp, loop->f->k, loop->l->router_bias.data, moe->probs + r * hp->n_experts,
                      moe->scores + r * hp->n_experts, loop->routes + r * hp->n_experts_used);
}

/* Ids and weights as rows of floats, in place of the scores, which nobody needs any more. */
static void trace_routes(struct forward *f, uint32_t il, const struct route *routes, uint32_t n)
{
    uint32_t used = f->hp->n_experts_used;
    float *x = f->moe.scores;
    if (!f->o.trace)
        return;
    for (uint32_t i = 0; i < n * used; i++)
        x[i] = (float)routes[i].expert;
    trace_rows(f, "ffn_moe_topk", il, x, used, n);
    for (uint32_t i = 0; i < n * used; i++)
        x[i] = f->moe.probs[i / used * f->hp->n_experts + routes[i].expert];
    trace_rows(f, "ffn_moe_weights", il, x, used, n);
    for (uint32_t i = 0; i < n * used; i++)
        x[i] = routes[i].weight;
    trace_rows(f, f->hp->expert_scale > 0.0f ? "ffn_moe_weights_scaled" : "ffn_moe_weights_norm",
               il, x, used, n);
}

/* x += shared expert of h, whose gate and up are done. */
static void add_shared(struct forward *f, uint32_t il, const struct block *b)
{
    const struct layer *l = &f->m->layers[il];
    const struct linear down = {&l->down_shexp, NULL, f->delta, f->hp->n_embd};
    activate_rows(f, f->gate, f->up, f->hp->shared_ff, b->n);
    linear_group(f, f->gate, f->hp->shared_ff, b->n, &down, 1);
    trace_rows(f, "ffn_shexp", il, f->delta, f->hp->n_embd, b->n);
    add_rows(f, b->x, f->delta, b->n);
}

void block_moe(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = &f->m->layers[il];
    size_t width = expert_width(hp);
    float *in = f->moe.in + b->first * width;
    struct route_loop loop = {
        .f = f, .l = l, .routes = f->moe.routes + (size_t)b->first * hp->n_experts_used};
    struct linear group[4] = {{&l->router, NULL, f->moe.probs, hp->n_experts}};
    size_t n = 1;
    if (l->parts & PART_LATENT)
        group[n++] = (struct linear){&l->routed_down, NULL, in, width};
    if (l->parts & PART_SHARED) {
        group[n++] = (struct linear){&l->gate_shexp, NULL, f->gate, hp->shared_ff};
        group[n++] = (struct linear){&l->up_shexp, NULL, f->up, hp->shared_ff};
    }
    norm_rows(f, b->in, &l->ffn_norm, f->norm, b->n);
    trace_rows(f, "ffn_norm", il, f->norm, hp->n_embd, b->n);
    linear_group(f, f->norm, hp->n_embd, b->n, group, n);
    trace_rows(f, "ffn_moe_logits", il, f->moe.probs, hp->n_experts, b->n);
    for_rows(b->n, route_range, &loop);
    trace_routes(f, il, loop.routes, b->n);
    if (!(l->parts & PART_LATENT))
        memcpy(in, f->norm, b->n * width * sizeof(*in));
    memset(f->moe.out + b->first * width, 0, b->n * width * sizeof(*in));
    if (l->parts & PART_SHARED)
        add_shared(f, il, b);
}

/* ------------------------------------------------------------------ the step: the visit */

/* A counting sort: the step's pairs by expert, then row. */
static void sort_pairs(struct moe *moe, uint32_t n, uint32_t n_experts)
{
    uint32_t *at = moe->counts, sum = 0;
    memset(at, 0, n_experts * sizeof(*at));
    for (uint32_t p = 0; p < n; p++)
        at[moe->routes[p].expert]++;
    for (uint32_t e = 0; e < n_experts; e++) {
        uint32_t count = at[e];
        at[e] = sum;
        sum += count;
    }
    for (uint32_t p = 0; p < n; p++)
        moe->pairs[at[moe->routes[p].expert]++] = p;
}

/* Where an expert's matrices are: all are resident. Merged ones have the gate before the up. */
static void find_expert(const struct layer *l, uint32_t e, struct moe_group *ret)
{
    if (l->parts & PART_GATE_UP) {
        struct tensor halves = l->gate_up_exps;
        halves.n_slices *= 2;
        halves.slice_bytes /= 2;
        ret->gate = tensor_slice(&halves, 2 * e);
        ret->up = tensor_slice(&halves, 2 * e + 1);
    } else {
        ret->gate = tensor_slice(&l->gate_exps, e);
        ret->up = tensor_slice(&l->up_exps, e);
    }
    ret->down = tensor_slice(&l->down_exps, e);
}

struct batch {
    struct forward *f;
    const uint32_t *pairs; /* [n] row * n_experts_used + rank, by expert */
    uint32_t n;
    uint32_t n_groups; /* of moe->groups */
};

static void find_groups(struct batch *b, const struct layer *l)
{
    const struct moe *moe = &b->f->moe;
    struct moe_group *g = moe->groups;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t expert = moe->routes[b->pairs[i]].expert;
        if (i == 0 || expert != g->expert) {
            g = &moe->groups[b->n_groups++];
            *g = (struct moe_group){.expert = expert, .first = i};
            find_expert(l, expert, g);
        }
        g->n++;
    }
}

/* Row i of the batch in the form that w's format takes. */
static void prepare(const struct batch *b, const struct tensor *w, const float *x, size_t i)
{
    enum act_kind kind = tensor_act(b->f, w);
    size_t bytes = act_row_bytes(kind, w->n_cols);
    b->f->k->act_quantise[kind](x, b->f->moe.act[kind] + i * bytes, w->n_cols);
}

static void input_range(void *context, size_t first, size_t last, int thread)
{
    const struct batch *b = context;
    const struct moe_group *g = b->f->moe.groups;
    const float *in = b->f->moe.in;
    bool differ = tensor_act(b->f, &g->gate) != tensor_act(b->f, &g->up);
    (void)thread;
    for (size_t i = first; i < last; i++) {
        size_t row = b->pairs[i] / b->f->hp->n_experts_used;
        prepare(b, &g->gate, in + row * g->gate.n_cols, i);
        if (differ)
            prepare(b, &g->up, in + row * g->gate.n_cols, i);
    }
}

/* Outputs [first, last) of w for the group's rows of the batch. */
static void multiply(const struct batch *b, const struct moe_group *g, const struct tensor *w,
                     float *y, size_t first, size_t last, int thread)
{
    enum act_kind kind = tensor_act(b->f, w);
    size_t bytes = act_row_bytes(kind, w->n_cols);
    struct matmul mm = {.x = b->f->moe.act[kind] + g->first * bytes,
                        .x_row_bytes = bytes,
                        .n_rows = g->n,
                        .y = y + g->first * w->n_rows,
                        .y_stride = w->n_rows};
    if (first < last)
        tensor_multiply(b->f, w, &mm, first, last, thread);
}

/* [first, last) counts the outputs of an expert's gate, then of its up. */
static void gate_up_range(void *context, size_t first, size_t last, int thread)
{
    const struct batch *b = context;
    const struct moe *moe = &b->f->moe;
    size_t ff = b->f->hp->expert_ff;
    for (uint32_t i = 0; i < b->n_groups; i++) {
        const struct moe_group *g = &moe->groups[i];
        multiply(b, g, &g->gate, moe->gate, first, MIN_OF(last, ff), thread);
        multiply(b, g, &g->up, moe->up, MAX_OF(first, ff) - ff, MAX_OF(last, ff) - ff, thread);
    }
}

static void hidden_range(void *context, size_t first, size_t last, int thread)
{
    const struct batch *b = context;
    const struct moe *moe = &b->f->moe;
    size_t ff = b->f->hp->expert_ff;
    (void)thread;
    for (size_t i = first; i < last; i++) {
        activate(b->f, moe->gate + i * ff, moe->up + i * ff, ff);
        prepare(b, &moe->groups[0].down, moe->gate + i * ff, i);
    }
}

/* Columns [first, last) of what the experts give, and of the rows' sums. */
static void down_range(void *context, size_t first, size_t last, int thread)
{
    const struct batch *b = context;
    const struct moe *moe = &b->f->moe;
    size_t width = expert_width(b->f->hp), used = b->f->hp->n_experts_used;
    for (uint32_t i = 0; i < b->n_groups; i++)
        multiply(b, &moe->groups[i], &moe->groups[i].down, moe->down, first, last, thread);
    for (uint32_t i = 0; i < b->n; i++) {
        float *out = moe->out + b->pairs[i] / used * width;
        b->f->k->merge(out + first, 1.0f, moe->down + i * width + first,
                       moe->routes[b->pairs[i]].weight, last - first);
    }
}

void moe_visit(struct forward *f, uint32_t il, uint32_t n_rows)
{
    const struct hparams *hp = f->hp;
    uint32_t n = n_rows * hp->n_experts_used;
    sort_pairs(&f->moe, n, hp->n_experts);
    for (uint32_t first = 0; first < n; first += BATCH_PAIRS) {
        struct batch b = {
            .f = f, .pairs = f->moe.pairs + first, .n = MIN_OF(n - first, (uint32_t)BATCH_PAIRS)};
        find_groups(&b, &f->m->layers[il]);
        for_rows(b.n, input_range, &b);
        parallel_for((size_t)2 * hp->expert_ff, GRAIN, gate_up_range, &b);
        for_rows(b.n, hidden_range, &b);
        parallel_for(expert_width(hp), GRAIN, down_range, &b);
    }
}

/* ------------------------------------------------------------------ a block: the rest */

void moe_finish(struct forward *f, uint32_t il, const struct block *b)
{
    const struct layer *l = &f->m->layers[il];
    size_t width = expert_width(f->hp);
    float *out = f->moe.out + b->first * width;
    const struct linear up = {&l->routed_up, NULL, f->delta, f->hp->n_embd};

    trace_rows(f, "ffn_moe_out", il, out, width, b->n);
    if (!(l->parts & PART_LATENT)) {
        add_rows(f, b->x, out, b->n);
        return;
    }
    if (l->routed_norm.data)
        norm_rows(f, out, &l->routed_norm, out, b->n);
    linear_group(f, out, width, b->n, &up, 1);
    add_rows(f, b->x, f->delta, b->n);
}
