/*
 * Multi-head latent attention, absorbed (engine-spec 4.3): the cache has one row a position, [latent |
 * part with the position], which is every head's key and, without its end, every head's value.
 *
 * A head's query goes through its slice of k_b into the space of that row, attention takes place there,
 * and the head's slice of v_b brings the result back. Keys and values of single heads never exist.
 */
#include <string.h>

#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

/* Outputs of the heads' matrices are cut between threads in multiples of this. */
#define HEADS_GRAIN 16

struct mla_loop {
    struct forward *f;
    const struct layer *l;
    const struct block *b;
};

/* y[r][head] = slice(head) x[r][head] for every head; strides in floats. */
struct head_loop {
    struct forward *f;
    const struct tensor *w; /* slices are heads */
    const float *x;
    size_t x_stride, x_head_stride;
    float *y;
    size_t y_stride, y_head_stride;
    const float *gate; /* as y: y *= sigmoid(gate); NULL: none */
    uint32_t n;
};

static uint32_t row_floats(const struct hparams *hp)
{
    return hp->kv_lora + hp->rope.n_rot;
}

static size_t act_bytes(const struct hparams *hp)
{
    size_t widest = ALIGN_UP((size_t)MAX_OF(hp->head_dim, hp->kv_lora), (size_t)256);
    return MAX_OF(act_row_bytes(ACT_Q8, widest), act_row_bytes(ACT_Q8K, widest));
}

void mla_lay_out(struct forward *f, struct layout *l, size_t block)
{
    const struct hparams *hp = &f->o.model->hp;
    size_t threads = (size_t)f->n_threads, fl = sizeof(float);
    if (hp->kv_lora == 0)
        return;
    f->mla.q_low = layout_take(l, block * hp->q_lora, fl);
    f->mla.row = layout_take(l, block * row_floats(hp), fl);
    f->mla.heads = layout_take(l, block * hp->n_heads * row_floats(hp), fl);
    f->mla.gate = layout_take(l, block * hp->n_heads * hp->value_dim, fl);
    f->mla.act_stride = f->o.exact ? 0 : block * act_bytes(hp);
    f->mla.act = layout_take(l, threads * f->mla.act_stride, 1);
}

static void apply_gate(const struct head_loop *l, size_t head, size_t first, size_t last)
{
    for (uint32_t r = 0; r < l->n; r++) {
        size_t at = r * l->y_stride + head * l->y_head_stride + first;
        l->f->k->sigmoid_gate(l->y + at, l->gate + at, last - first);
    }
}

/* Outputs [first, last) of one head, for all rows. */
static void multiply_head(const struct head_loop *l, size_t head, size_t first, size_t last,
                          int thread)
{
    struct forward *f = l->f;
    const struct tensor w = tensor_slice(l->w, (uint32_t)head);
    const float *x = l->x + head * l->x_head_stride;
    struct matmul mm = {
        .x = x,
        .x_row_bytes = l->x_stride * sizeof(float),
        .n_rows = l->n,
        .y = l->y + head * l->y_head_stride,
        .y_stride = l->y_stride,
    };
    enum act_kind kind = tensor_act(f, &w);
    if (kind != ACT_F32) {
        uint8_t *act = f->mla.act + (size_t)thread * f->mla.act_stride;
        mm.x = act;
        mm.x_row_bytes = act_row_bytes(kind, w.n_cols);
        for (uint32_t r = 0; r < l->n; r++)
            f->k->act_quantise[kind](x + r * l->x_stride, act + r * mm.x_row_bytes, w.n_cols);
    }
    tensor_multiply(f, &w, &mm, first, last, thread);
    if (l->gate)
        apply_gate(l, head, first, last);
}

/*
 * [first, last) counts the outputs of all heads, one after another. A head that is cut between threads
 * has its inputs quantised by each: cheaper than one more region.
 */
static void heads_range(void *context, size_t first, size_t last, int thread)
{
    const struct head_loop *l = context;
    size_t each = l->w->n_rows / l->w->n_slices;
    while (first < last) {
        size_t from = first % each, to = MIN_OF(each, from + (last - first));
        multiply_head(l, first / each, from, to, thread);
        first += to - from;
    }
}

/* The row's place in the cache gets [norm(latent) | position]; queries get their end. */
static void prepare_range(void *context, size_t first, size_t last, int thread)
{
    const struct mla_loop *m = context;
    struct forward *f = m->f;
    const struct hparams *hp = f->hp;
    const struct rope_params *rope = &hp->rope;
    const uint32_t row_dim = row_floats(hp), nope = hp->head_dim - rope->n_rot;
    (void)thread;
    for (size_t r = first; r < last; r++) {
        const float *q = f->q + r * hp->n_heads * hp->head_dim;
        float *row = f->mla.row + r * row_dim;
        float *heads = f->mla.heads + r * hp->n_heads * row_dim;
        f->k->rms_norm(row, m->l->kv_a_norm.data, row, hp->kv_lora, hp->rms_eps);
        for (uint32_t h = 0; h < hp->n_heads; h++)
            memcpy(heads + h * row_dim + hp->kv_lora, q + h * hp->head_dim + nope,
                   rope->n_rot * sizeof(float));
        if (!rope->none) {
            const float *cos_row = m->b->rope_cos + r * (rope->n_rot / 2);
            const float *sin_row = m->b->rope_sin + r * (rope->n_rot / 2);
            rope_apply(rope, cos_row, sin_row, row + hp->kv_lora, 1, row_dim);
            rope_apply(rope, cos_row, sin_row, heads + hp->kv_lora, hp->n_heads, row_dim);
        }
        cache_keys(f, &m->b->rows[r], m->l->state, row, row_dim);
    }
}

/* f->q = queries of all heads; also the latent rows and the gate, which share their input. */
static void project(struct forward *f, const struct layer *l, uint32_t n)
{
    const struct hparams *hp = f->hp;
    const size_t q_floats = (size_t)hp->n_heads * hp->head_dim;
    const bool low = l->parts & PART_Q_LORA;
    const struct linear inputs[] = {
        {low ? &l->q_a : &l->q, NULL, low ? f->mla.q_low : f->q, low ? hp->q_lora : q_floats},
        {&l->kv_a, NULL, f->mla.row, row_floats(hp)},
        {&l->attn_gate, NULL, f->mla.gate, (size_t)hp->n_heads * hp->value_dim},
    };
    const struct linear q_b = {&l->q_b, NULL, f->q, q_floats};

    linear_group(f, f->norm, hp->n_embd, n, inputs, l->attn_gate.data ? 3 : 2);
    if (!low)
        return;
    norm_rows(f, f->mla.q_low, &l->q_a_norm, f->mla.q_low, n);
    linear_group(f, f->mla.q_low, hp->q_lora, n, &q_b, 1);
}

void block_mla(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = f->layer;
    const size_t row_dim = row_floats(hp), heads_stride = hp->n_heads * row_dim;
    const size_t out_stride = (size_t)hp->n_heads * hp->value_dim;
    struct mla_loop loop = {.f = f, .l = l, .b = b};
    struct head_loop keys = {.f = f,
                             .w = &l->k_b,
                             .n = b->n,
                             .x = f->q,
                             .x_stride = (size_t)hp->n_heads * hp->head_dim,
                             .x_head_stride = hp->head_dim,
                             .y = f->mla.heads,
                             .y_stride = heads_stride,
                             .y_head_stride = row_dim};
    struct head_loop values = {.f = f,
                               .w = &l->v_b,
                               .n = b->n,
                               .x = f->mla.heads,
                               .x_stride = heads_stride,
                               .x_head_stride = row_dim,
                               .y = f->att,
                               .y_stride = out_stride,
                               .y_head_stride = hp->value_dim,
                               .gate = l->attn_gate.data ? f->mla.gate : NULL};
    const struct attention attention = {.q = f->mla.heads,
                                        .out = f->mla.heads,
                                        .out_stride = row_dim,
                                        .state = l->state,
                                        .n_heads = hp->n_heads,
                                        .n_kv_heads = 1,
                                        .k_dim = (uint32_t)row_dim,
                                        .v_dim = hp->kv_lora,
                                        .latent = true};
    const struct linear out = {&l->out, NULL, f->delta, hp->n_embd};

    norm_rows(f, b->in, &l->attn_norm, f->norm, b->n);
    trace_rows(f, "attn_norm", il, f->norm, hp->n_embd, b->n);
    project(f, l, b->n);
    for_rows(b->n, prepare_range, &loop);
    parallel_for(l->k_b.n_rows, HEADS_GRAIN, heads_range, &keys);
    attend_rows(f, b, &attention);
    parallel_for(l->v_b.n_rows, HEADS_GRAIN, heads_range, &values);
    trace_rows(f, l->attn_gate.data ? "mla_gated" : "mla_heads", il, f->att, out_stride, b->n);
    linear_group(f, f->att, out_stride, b->n, &out, 1);
    trace_rows(f, "mla_out", il, f->delta, hp->n_embd, b->n);
    add_rows(f, b->x, f->delta, b->n);
}
