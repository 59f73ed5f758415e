/* Grouped-query attention: projections, norms and rope of single heads; the rest is attend.c. */
#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

struct attention_loop {
    struct forward *f;
    const struct layer *l;
    const struct block *b;
};

static void head_norms(const struct forward *f, const struct tensor *w, float *x, uint32_t n_heads)
{
    if (!w->data)
        return;
    uint32_t d = f->hp->head_dim;
    for (uint32_t h = 0; h < n_heads; h++)
        f->k->rms_norm(x + h * d, w->data, x + h * d, d, f->hp->rms_eps);
}

/* Per-head norms and rope of q and k, then k and v go to the row's place in the cache. */
static void prepare_range(void *context, size_t first, size_t last, int thread)
{
    const struct attention_loop *a = context;
    struct forward *f = a->f;
    const struct hparams *hp = f->hp;
    const struct rope_params *rope = &hp->rope;
    size_t k_dim = (size_t)hp->n_kv_heads * hp->head_dim;
    size_t v_dim = (size_t)hp->n_kv_heads * hp->value_dim;
    (void)thread;
    for (size_t r = first; r < last; r++) {
        const struct step_row *row = &a->b->rows[r];
        const float *cos_row = a->b->rope_cos + r * (rope->n_rot / 2);
        const float *sin_row = a->b->rope_sin + r * (rope->n_rot / 2);
        float *q = f->q + r * hp->n_heads * hp->head_dim;
        float *key = f->key + r * k_dim;

        head_norms(f, &a->l->q_norm, q, hp->n_heads);
        head_norms(f, &a->l->k_norm, key, hp->n_kv_heads);
        rope_apply(rope, cos_row, sin_row, q, hp->n_heads, hp->head_dim);
        rope_apply(rope, cos_row, sin_row, key, hp->n_kv_heads, hp->head_dim);
        cache_keys(f, row, a->l->state, key, k_dim);
        cache_values(f, row, a->l->state, f->value + r * v_dim, v_dim);
    }
}

void block_attention(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = f->layer;
    struct attention_loop loop = {.f = f, .l = l, .b = b};
    const struct linear qkv[] = {
        {&l->q, &l->q_bias, f->q, (size_t)hp->n_heads * hp->head_dim},
        {&l->k, &l->k_bias, f->key, (size_t)hp->n_kv_heads * hp->head_dim},
        {&l->v, &l->v_bias, f->value, (size_t)hp->n_kv_heads * hp->value_dim},
    };
    const struct attention attention = {.q = f->q,
                                        .out = f->att,
                                        .out_stride = hp->value_dim,
                                        .state = l->state,
                                        .n_heads = hp->n_heads,
                                        .n_kv_heads = hp->n_kv_heads,
                                        .k_dim = hp->head_dim,
                                        .v_dim = hp->value_dim};
    const struct linear out = {&l->out, &l->out_bias, f->delta, hp->n_embd};

    norm_rows(f, b->in, &l->attn_norm, f->norm, b->n);
    trace_rows(f, "attn_norm", il, f->norm, hp->n_embd, b->n);
    linear_group(f, f->norm, hp->n_embd, b->n, qkv, ARRAY_LEN(qkv));
    parallel_for(b->n, 1, prepare_range, &loop);
    attend_rows(f, b, &attention);
    linear_group(f, f->att, (size_t)hp->n_heads * hp->value_dim, b->n, &out, 1);
    add_rows(f, b->x, f->delta, b->n);
}
