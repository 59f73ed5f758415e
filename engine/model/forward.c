/*
 * The loop: for each layer, for each block of at most BLOCK_ROWS rows. One block of scratch, laid out
 * once; nothing is allocated while a step runs.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "engine/model/arch.h"
#include "engine/model/blocks/blocks.h"

/* Columns of the widest matrix: no product has a longer input. */
static size_t widest_input(const struct model *m)
{
    size_t widest = MAX_OF(m->hp.n_embd, m->hp.head_dim); /* of k_b where it is made (absorb.c) */
    for (size_t i = 0; i < gguf_n_tensors(m->gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        if (t->ne[1] > 1)
            widest = MAX_OF(widest, (size_t)t->ne[0]);
    }
    return widest;
}

void *layout_take(struct layout *l, size_t count, size_t size)
{
    void *p = l->base ? l->base + l->at : NULL;
    l->at = ALIGN_UP(l->at + count * size, (size_t)64);
    return p;
}

void trace_rows(struct forward *f, const char *name, uint32_t il, const float *x, size_t n_cols,
                uint32_t n_rows)
{
    if (f->o.trace)
        f->o.trace(f->o.trace_context, name, il, x, n_cols, n_rows);
}

/* Lays the scratch out from f->scratch (NULL: only measures) and returns its size. */
static size_t lay_out(struct forward *f)
{
    const struct hparams *hp = &f->o.model->hp;
    size_t rows = f->o.max_rows, block = MIN_OF(rows, (size_t)BLOCK_ROWS);
    size_t threads = (size_t)f->n_threads, half = hp->rope.n_rot / 2;
    size_t kv_heads = hp->kv_lora ? 0 : hp->n_kv_heads; /* latent attention has its own arrays */
    struct layout l = {.base = f->scratch};
    size_t fl = sizeof(float);

    f->widest_input = widest_input(f->o.model);
    f->residual = layout_take(&l, rows * hp->n_embd, fl);
    f->rope_cos = layout_take(&l, rows * half, fl);
    f->rope_sin = layout_take(&l, rows * half, fl);
    f->rope_mix = layout_take(&l, half, fl);
    f->norm = layout_take(&l, MAX_OF(block, (size_t)f->o.max_logits) * hp->n_embd, fl);
    f->q = layout_take(&l, block * hp->n_heads * hp->head_dim, fl);
    f->key = layout_take(&l, block * kv_heads * hp->head_dim, fl);
    f->value = layout_take(&l, block * kv_heads * hp->value_dim, fl);
    f->att = layout_take(&l, block * hp->n_heads * hp->value_dim, fl);
    f->gate = layout_take(&l, block * MAX_OF(hp->n_ff, hp->shared_ff), fl);
    f->up = layout_take(&l, block * MAX_OF(hp->n_ff, hp->shared_ff), fl);
    f->delta = layout_take(&l, block * hp->n_embd, fl);
    for (int kind = 0; kind < ACT_KINDS; kind++) {
        size_t act = kind == ACT_F32 ? 0
                                     : act_row_bytes((enum act_kind)kind,
                                                     ALIGN_UP(f->widest_input, (size_t)256));
        f->act[kind] = layout_take(&l, MAX_OF(block, (size_t)f->o.max_logits) * act, 1);
    }
    f->decoded = layout_take(&l, f->o.exact ? threads * f->widest_input : 0, fl);
    f->page_acc = layout_take(
        &l, threads * attend_scratch_floats(hp->kv_lora ? hp->kv_lora : hp->value_dim), fl);
    mla_lay_out(f, &l, block);
    moe_lay_out(f, &l);
    kda_lay_out(f, &l, block);
    residual_lay_out(f, &l, block);
    f->logits = layout_take(&l, (size_t)f->o.max_logits * hp->n_vocab, fl);
    return l.at;
}

uint64_t forward_scratch_bytes(const struct forward_options *o)
{
    struct forward f = {.o = *o, .n_threads = parallel_threads()};
    return lay_out(&f);
}

int forward_new(struct forward **ret, const struct forward_options *o, struct error *e)
{
    struct forward *f = mem_zalloc(sizeof(*f));
    if (!f)
        return error_set(e, ERROR_NOMEM, "forward pass: no memory for its directory");
    f->o = *o;
    f->m = o->model;
    f->hp = &o->model->hp;
    f->k = o->exact ? &kernels_generic : o->kernels;
    f->attention_page = o->exact ? attention_page_exact : f->k->attention_page;
    f->n_threads = parallel_threads();
    f->scratch_bytes = lay_out(f);
    int rc =
        ledger_alloc(o->ledger, LEDGER_SCRATCH, f->scratch_bytes, "activations", &f->scratch, e);
    if (rc != 0) {
        mem_free(f);
        return rc;
    }
    lay_out(f);
    rope_prepare(f);
    *ret = f;
    return 0;
}

void forward_free(struct forward *f)
{
    if (!f)
        return;
    ledger_release(f->o.ledger, LEDGER_SCRATCH, f->scratch, f->scratch_bytes);
    mem_free(f);
}

static void embed(struct forward *f, const struct step_row *rows, uint32_t n)
{
    const struct tensor *t = &f->m->token_embd;
    for (uint32_t r = 0; r < n; r++) {
        const char *row = (const char *)t->data + (size_t)rows[r].token * t->row_bytes;
        t->quant->decode(row, f->residual + (size_t)r * f->hp->n_embd, f->hp->n_embd);
    }
}

static void turn(struct forward *f, const struct step_row *rows, uint32_t n)
{
    const size_t half = f->hp->rope.n_rot / 2;
    for (uint32_t r = 0; !f->hp->rope.none && r < n; r++)
        rope_angles(f, rows[r].position, f->rope_cos + r * half, f->rope_sin + r * half);
}

static int check_rows(const struct forward *f, const struct step_row *rows, uint32_t n,
                      struct error *e)
{
    uint32_t want = 0;
    if (n > f->o.max_rows)
        return error_set(e, ERROR_INVALID, "step of %u rows, planned for %u", n, f->o.max_rows);
    for (uint32_t r = 0; r < n; r++) {
        want += rows[r].want_logits;
        if (rows[r].token < 0 || (uint32_t)rows[r].token >= f->hp->n_vocab)
            return error_set(e, ERROR_INVALID, "token %d, the vocabulary has %u", rows[r].token,
                             f->hp->n_vocab);
    }
    if (want > f->o.max_logits)
        return error_set(e, ERROR_INVALID, "step wants logits of %u rows, planned for %u", want,
                         f->o.max_logits);
    return 0;
}

/* Final norm and output matrix of the rows that want logits. */
static void head(struct forward *f, const struct step_row *rows, uint32_t n)
{
    const struct model *m = f->m;
    size_t n_embd = f->hp->n_embd;
    f->n_logits = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (!rows[r].want_logits)
            continue;
        f->k->rms_norm(f->residual + r * n_embd, m->output_norm.data,
                       f->norm + f->n_logits++ * n_embd, n_embd, f->hp->rms_eps);
    }
    const struct linear out = {m->tied ? &m->token_embd : &m->output, &m->output_bias, f->logits,
                               f->hp->n_vocab};
    trace_rows(f, "result_norm", f->hp->n_layers, f->norm, n_embd, f->n_logits);
    if (f->n_logits > 0)
        linear_group(f, f->norm, n_embd, f->n_logits, &out, 1);
    trace_rows(f, "result_output", f->hp->n_layers, f->logits, f->hp->n_vocab, f->n_logits);
}

static void for_blocks(struct forward *f, const struct step_row *rows, uint32_t n_rows, uint32_t il,
                       void (*fn)(struct forward *f, uint32_t il, const struct block *b))
{
    uint32_t half = f->hp->rope.n_rot / 2;
    for (uint32_t first = 0; first < n_rows; first += BLOCK_ROWS) {
        const struct block b = {
            .rows = rows + first,
            .first = first,
            .x = f->residual + (size_t)first * f->hp->n_embd,
            .in = f->residual + (size_t)first * f->hp->n_embd,
            .rope_cos = f->rope_cos + (size_t)first * half,
            .rope_sin = f->rope_sin + (size_t)first * half,
            .n = MIN_OF(n_rows - first, (uint32_t)BLOCK_ROWS),
        };
        fn(f, il, &b);
    }
}

/* What the head reads of models with attention residuals: one more mix. */
static void mix_output(struct forward *f, uint32_t il, const struct block *b)
{
    const float *mixed = residual_mix(f, il, f->hp->n_layers, b, &f->m->output_res);
    memcpy(b->x, mixed, b->n * f->hp->n_embd * sizeof(*mixed));
}

/* Layer il goes to work: its weights are in memory until layer_done. */
static int layer_begin(struct forward *f, uint32_t il, struct error *e)
{
    f->layer = &f->m->layers[il];
    if (il + f->m->n_streamed < f->hp->n_layers)
        return 0;
    return trunk_acquire(f->o.trunk, il, &f->layer, e);
}

static void layer_done(struct forward *f, uint32_t il)
{
    if (il + f->m->n_streamed >= f->hp->n_layers)
        trunk_release(f->o.trunk);
}

/* All rows through one layer. */
static int run_layer(struct forward *f, uint32_t il, const struct step_row *rows, uint32_t n_rows,
                     struct error *e)
{
    int rc = layer_begin(f, il, e);
    if (rc != 0)
        return rc;
    for_blocks(f, rows, n_rows, il, f->m->arch->layer);
    if (f->layer->parts & PART_MOE) {
        rc = moe_visit(f, il, n_rows, e);
        if (rc != 0)
            return rc;
        for_blocks(f, rows, n_rows, il, moe_finish);
    }
    layer_done(f, il);
    if (f->o.lookahead && n_rows == 1)
        for_blocks(f, rows, n_rows, il, moe_expect);
    trace_rows(f, "l_out", il, f->residual, f->hp->n_embd, n_rows);
    return 0;
}

/* The layers that are left, and what comes after them. */
static int run(struct forward *f, const struct step_row *rows, uint32_t n_rows, struct error *e)
{
    const uint32_t n_layers = f->hp->n_layers;
    for (; f->reached < n_layers; f->reached++) {
        if (f->o.interrupted && f->o.interrupted(f->o.interrupted_context))
            return error_set(e, ERROR_INTERRUPTED, "stopped at layer %u of %u", f->reached,
                             n_layers);
        int rc = run_layer(f, f->reached, rows, n_rows, e);
        if (rc != 0)
            return rc;
    }
    if (f->m->output_res.data)
        for_blocks(f, rows, n_rows, n_layers, mix_output);
    head(f, rows, n_rows);
    /* What was read while the file was being written to must not become a token. */
    return f->o.experts || f->o.trunk ? gguf_unchanged(f->m->gguf, e) : 0;
}

int forward_step(struct forward *f, const struct step_row *rows, uint32_t n_rows, struct error *e)
{
    f->reached = 0;
    int rc = check_rows(f, rows, n_rows, e);
    if (rc != 0)
        return rc;
    embed(f, rows, n_rows);
    turn(f, rows, n_rows);
    return run(f, rows, n_rows, e);
}

int forward_resume(struct forward *f, const struct step_row *rows, uint32_t n_rows, uint32_t layer,
                   struct error *e)
{
    f->reached = layer;
    int rc = check_rows(f, rows, n_rows, e);
    if (rc != 0)
        return rc;
    turn(f, rows, n_rows);
    return run(f, rows, n_rows, e);
}

uint32_t forward_layer(const struct forward *f)
{
    return f->reached;
}

const float *forward_logits(const struct forward *f, uint32_t i)
{
    return f->logits + (size_t)i * f->hp->n_vocab;
}
