/*
 * A mixture of experts in three parts: the choice for a block of rows, one visit of the experts for
 * all rows of the step, and what is left for a block of rows.
 *
 * The visit takes every chosen expert once. Its (row, expert) pairs, sorted by expert and row, go through
 * in batches that fit the scratch (one expert that more rows want is a batch by itself, in pieces); while
 * one is computed the experts of the next are read. Within a
 * batch experts are served as they come from the store, residents first. Outputs are cut over threads,
 * for all experts that are ready alike, so an expert of many rows holds up no one; when the batch is
 * whole, the results are added to a row in ascending id, each element by one thread. So what a row gets
 * depends neither on the other rows, nor on where batches end, nor on what was resident.
 */
#include <string.h>

#include "base/parallel.h"
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

/* Pairs of a batch: enough rows for an expert's weights to pay, few enough for the cache. */
#define BATCH_PAIRS 256
#define GRAIN 16

/* An expert's pairs in a batch, and its matrices once they are here. */
struct moe_group {
    uint32_t first, n;
    struct tensor gate, up, down;
};

/* Some pairs of a step, by expert, and the visit of these experts. */
struct moe_batch {
    struct forward *f;
    const struct layer *layer;
    uint32_t from;         /* of the step's sorted pairs */
    const uint32_t *pairs; /* [n] row * n_experts_used + rank */
    uint32_t n, n_groups;  /* n > BATCH_PAIRS: one group */
    struct expert_visit visit;
    uint32_t n_ready, n_served; /* experts in view; and all so far */
    bool complete;              /* with those in view, every expert of the batch */
    uint32_t ids[BATCH_PAIRS];  /* [n_groups] ascending */
    struct moe_group group[BATCH_PAIRS];
    struct expert_want want[BATCH_PAIRS];
    struct expert_view view[BATCH_PAIRS];
};

static size_t expert_width(const struct hparams *hp)
{
    return (size_t)arch_dim(hp, DIM_EXPERT_IN);
}

static size_t act_stride(const struct hparams *hp, enum act_kind kind)
{
    size_t widest = MAX_OF(expert_width(hp), (size_t)hp->expert_ff);
    return act_row_bytes(kind, ALIGN_UP(widest, (size_t)256));
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
    moe->batches = layout_take(l, 2, sizeof(*moe->batches));
    moe->gate = layout_take(l, batch * ff, fl);
    moe->up = layout_take(l, batch * ff, fl);
    moe->down = layout_take(l, batch * width, fl);
    for (int kind = 0; kind < ACT_KINDS; kind++)
        moe->act[kind] = layout_take(l, batch * act_stride(hp, (enum act_kind)kind), 1);
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
    const struct layer *l = f->layer;
    const struct linear down = {&l->down_shexp, NULL, f->delta, f->hp->n_embd};
    activate_rows(f, f->gate, f->up, f->hp->shared_ff, b->n);
    linear_group(f, f->gate, f->hp->shared_ff, b->n, &down, 1);
    trace_rows(f, "ffn_shexp", il, f->delta, f->hp->n_embd, b->n);
    add_rows(f, b->x, f->delta, b->n);
}

void block_moe(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = f->layer;
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

/* After sort_pairs counts are the ends of the experts' pairs; nobody needs them any more. */
static void tell_visited(struct forward *f, uint32_t il, uint32_t n_rows)
{
    uint32_t *ids = f->moe.counts, n = 0, before = 0;
    if (!f->o.visited)
        return;
    for (uint32_t e = 0; e < f->hp->n_experts; e++) {
        const uint32_t end = f->moe.counts[e];
        if (end > before)
            ids[n++] = e;
        before = end;
    }
    f->o.visited(f->o.visited_context, il, n_rows, ids, n);
}

/* Of pairs [0, n), those of the next batch: never a part of an expert's. */
static uint32_t batch_length(const struct moe *moe, const uint32_t *pairs, uint32_t n)
{
    if (n <= BATCH_PAIRS)
        return n;
    const uint32_t next = moe->routes[pairs[BATCH_PAIRS]].expert;
    uint32_t length = BATCH_PAIRS;
    while (length > 0 && moe->routes[pairs[length - 1]].expert == next)
        length--;
    if (length > 0)
        return length;
    while (length < n && moe->routes[pairs[length]].expert == next)
        length++;
    return length;
}

static void find_groups(struct moe_batch *b)
{
    b->n_groups = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t expert = b->f->moe.routes[b->pairs[i]].expert;
        if (i == 0 || expert != b->ids[b->n_groups - 1]) {
            b->group[b->n_groups] = (struct moe_group){.first = i};
            b->ids[b->n_groups++] = expert;
        }
        b->group[b->n_groups - 1].n++;
    }
}

/* The pairs from `from` on, as many as a batch takes, and the reads of what is not here. */
static void begin_batch(struct moe_batch *b, struct forward *f, uint32_t il, uint32_t from,
                        uint32_t n)
{
    b->f = f;
    b->layer = f->layer;
    b->from = from;
    b->pairs = f->moe.pairs + from;
    b->n = batch_length(&f->moe, b->pairs, n - from);
    find_groups(b);
    experts_begin(f->o.experts, &b->visit, il, b->ids, b->n_groups, b->want);
}

/* The first slice of a layer's matrix, standing where this expert was read to. */
static struct tensor slice_at(const struct tensor *t, const void *data)
{
    struct tensor first = *t;
    first.data = data;
    return tensor_slice(&first, 0);
}

static void place_group(const struct layer *l, const struct expert_view *view,
                        struct moe_group *ret)
{
    const void *const *down = &view->slice[1];
    if (l->parts & PART_GATE_UP) { /* merged: the gate before the up */
        struct tensor halves = slice_at(&l->gate_up_exps, view->slice[0]);
        halves.n_slices = 2;
        halves.slice_bytes /= 2;
        ret->gate = tensor_slice(&halves, 0);
        ret->up = tensor_slice(&halves, 1);
    } else {
        ret->gate = slice_at(&l->gate_exps, view->slice[0]);
        ret->up = slice_at(&l->up_exps, view->slice[1]);
        down++;
    }
    ret->down = slice_at(&l->down_exps, *down);
}

/*
 * Pair i's row, the input of gate and up, later of down: pairs have their places whatever the width,
 * since some may be at the one while others are at the other.
 */
static uint8_t *act_at(const struct forward *f, enum act_kind kind, size_t i)
{
    return f->moe.act[kind] + i * act_stride(f->hp, kind);
}

/* Row i of the batch in the form that w's format takes. */
static void prepare(const struct moe_batch *b, const struct tensor *w, const float *x, size_t i)
{
    enum act_kind kind = tensor_act(b->f, w);
    b->f->k->act_quantise[kind](x, act_at(b->f, kind, i), w->n_cols);
}

static void input_range(void *context, size_t first, size_t last, int thread)
{
    const struct moe_batch *b = context;
    const struct layer *l = b->layer;
    const bool merged = l->parts & PART_GATE_UP;
    const struct tensor *gate = merged ? &l->gate_up_exps : &l->gate_exps;
    const struct tensor *up = merged ? gate : &l->up_exps;
    const float *in = b->f->moe.in;
    (void)thread;
    for (size_t i = first; i < last; i++) {
        size_t row = b->pairs[i] / b->f->hp->n_experts_used;
        prepare(b, gate, in + row * gate->n_cols, i);
        if (tensor_act(b->f, gate) != tensor_act(b->f, up))
            prepare(b, up, in + row * gate->n_cols, i);
    }
}

/* Outputs [first, last) of w for the group's rows of the batch. */
static void multiply(const struct moe_batch *b, const struct moe_group *g, const struct tensor *w,
                     float *y, size_t first, size_t last, int thread)
{
    enum act_kind kind = tensor_act(b->f, w);
    struct matmul mm = {.x = act_at(b->f, kind, g->first),
                        .x_row_bytes = act_stride(b->f->hp, kind),
                        .n_rows = g->n,
                        .y = y + g->first * w->n_rows,
                        .y_stride = w->n_rows};
    if (first < last)
        tensor_multiply(b->f, w, &mm, first, last, thread);
}

/* [first, last) counts the outputs of an expert's gate, then of its up. */
static void gate_up_range(void *context, size_t first, size_t last, int thread)
{
    const struct moe_batch *b = context;
    const struct moe *moe = &b->f->moe;
    size_t ff = b->f->hp->expert_ff;
    for (uint32_t i = 0; i < b->n_ready; i++) {
        const struct moe_group *g = &b->group[b->view[i].index];
        multiply(b, g, &g->gate, moe->gate, first, MIN_OF(last, ff), thread);
        multiply(b, g, &g->up, moe->up, MAX_OF(first, ff) - ff, MAX_OF(last, ff) - ff, thread);
    }
}

/* [first, last) counts the pairs of the experts that are ready. */
static void hidden_range(void *context, size_t first, size_t last, int thread)
{
    const struct moe_batch *b = context;
    const struct moe *moe = &b->f->moe;
    size_t ff = b->f->hp->expert_ff, start = 0;
    (void)thread;
    for (uint32_t k = 0; k < b->n_ready && start < last; k++) {
        const struct moe_group *g = &b->group[b->view[k].index];
        const size_t from = MAX_OF(first, start) - start + g->first;
        for (size_t i = from; i < g->first + MIN_OF(last - start, (size_t)g->n); i++) {
            activate(b->f, moe->gate + i * ff, moe->up + i * ff, ff);
            prepare(b, &b->layer->down_exps, moe->gate + i * ff, i);
        }
        start += g->n;
    }
}

/* Columns [first, last) of what the experts that are ready give; with the last ones, of the rows' sums. */
static void down_range(void *context, size_t first, size_t last, int thread)
{
    const struct moe_batch *b = context;
    const struct moe *moe = &b->f->moe;
    size_t width = expert_width(b->f->hp), used = b->f->hp->n_experts_used;
    for (uint32_t i = 0; i < b->n_ready; i++) {
        const struct moe_group *g = &b->group[b->view[i].index];
        multiply(b, g, &g->down, moe->down, first, last, thread);
    }
    for (uint32_t i = 0; b->complete && i < b->n; i++) {
        float *out = moe->out + b->pairs[i] / used * width;
        b->f->k->merge(out + first, 1.0f, moe->down + i * width + first,
                       moe->routes[b->pairs[i]].weight, last - first);
    }
}

static void compute(struct moe_batch *b, uint32_t n_pairs)
{
    parallel_for((size_t)2 * b->f->hp->expert_ff, GRAIN, gate_up_range, b);
    for_rows(n_pairs, hidden_range, b);
    parallel_for(expert_width(b->f->hp), GRAIN, down_range, b);
}

/* One expert, more pairs than the scratch holds. */
static void compute_pieces(struct moe_batch *b)
{
    const uint32_t *all = b->pairs;
    const uint32_t n = b->n;
    for (uint32_t at = 0; at < n; at += b->n) {
        b->pairs = all + at;
        b->n = b->group[0].n = MIN_OF(n - at, (uint32_t)BATCH_PAIRS);
        for_rows(b->n, input_range, b);
        compute(b, b->n);
    }
    b->pairs = all;
    b->n = n;
}

/* What the experts in b->view give for their pairs. */
static void serve(struct moe_batch *b)
{
    uint32_t n_pairs = 0;
    for (uint32_t i = 0; i < b->n_ready; i++) {
        struct moe_group *g = &b->group[b->view[i].index];
        place_group(b->layer, &b->view[i], g);
        n_pairs += g->n;
    }
    b->n_served += b->n_ready;
    b->complete = b->n_served == b->n_groups;
    if (b->n > BATCH_PAIRS)
        compute_pieces(b);
    else
        compute(b, n_pairs);
}

/*
 * Serves a batch as its experts come, residents first. `next` begins once all reads of this one have
 * been begun: the disk works while this one computes.
 */
static int run_batch(struct moe_batch *b, struct moe_batch *next, uint32_t il, uint32_t n,
                     struct error *e)
{
    const uint32_t after = b->from + b->n;
    bool begun = after == n;
    int rc = 0;
    b->n_served = 0;
    if (b->n <= BATCH_PAIRS)
        for_rows(b->n, input_range, b);
    while (rc == 0 && b->n_served < b->n_groups) {
        rc = experts_next(&b->visit, b->view, &b->n_ready, e);
        if (rc == 0 && !begun && experts_started(&b->visit)) {
            begin_batch(next, b->f, il, after, n);
            begun = true;
        }
        if (rc == 0)
            serve(b);
    }
    experts_end(&b->visit);
    return rc;
}

int moe_visit(struct forward *f, uint32_t il, uint32_t n_rows, struct error *e)
{
    const struct hparams *hp = f->hp;
    const uint32_t n = n_rows * hp->n_experts_used;
    struct moe_batch *b = &f->moe.batches[0], *next = &f->moe.batches[1];
    int rc = 0;
    sort_pairs(&f->moe, n, hp->n_experts);
    tell_visited(f, il, n_rows);
    begin_batch(b, f, il, 0, n);
    for (uint32_t done = 0; rc == 0 && done < n;) {
        rc = run_batch(b, next, il, n, e);
        done += b->n;
        struct moe_batch *was = b;
        b = next;
        next = was;
    }
    experts_end(&f->moe.batches[0].visit);
    experts_end(&f->moe.batches[1].visit);
    return rc == 0 ? 0 : error_wrap(e, "layer %u", il);
}

/* ------------------------------------------------------------------ a block: the rest */

void moe_finish(struct forward *f, uint32_t il, const struct block *b)
{
    const struct layer *l = f->layer;
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
