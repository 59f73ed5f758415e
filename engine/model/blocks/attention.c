/*
 * Grouped-query attention over paged keys and values.
 *
 * Each page (64 positions) gives (max, sum, weighted values) by itself; pages are merged in order of
 * position, so the result does not depend on how rows or heads are split over threads.
 */
#include <string.h>

#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

struct attention_loop {
    struct forward *f;
    const struct layer *l;
    const struct block *b;
    uint32_t il;
};

static void head_norms(const struct forward *f, const struct tensor *w, float *x, uint32_t n_heads)
{
    if (!w->data)
        return;
    uint32_t d = f->hp->head_dim;
    for (uint32_t h = 0; h < n_heads; h++)
        f->k->rms_norm(x + h * d, w->data, x + h * d, d, f->hp->rms_eps);
}

static void store(const struct forward *f, const float *row, void *page, uint32_t at, size_t dim)
{
    if (f->o.exact)
        memcpy((float *)page + at * dim, row, dim * sizeof(float));
    else
        f->k->to_f16(row, (uint16_t *)page + at * dim, dim);
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
        uint32_t page = row->position / KV_PAGE, at = row->position % KV_PAGE;

        head_norms(f, &a->l->q_norm, q, hp->n_heads);
        head_norms(f, &a->l->k_norm, key, hp->n_kv_heads);
        rope_apply(rope, cos_row, sin_row, q, hp->n_heads, hp->head_dim);
        rope_apply(rope, cos_row, sin_row, key, hp->n_kv_heads, hp->head_dim);
        store(f, key, kv_keys(f->o.kv, row->slot, a->il, page), at, k_dim);
        store(f, f->value + r * v_dim, kv_values(f->o.kv, row->slot, a->il, page), at, v_dim);
    }
}

/* One query head over all pages up to its own position; out [value_dim]. */
static void attend(struct forward *f, const struct step_row *row, uint32_t il, uint32_t head,
                   const float *q, float *out, float *page_acc)
{
    const struct hparams *hp = f->hp;
    uint32_t kv_head = head / (hp->n_heads / hp->n_kv_heads);
    size_t elem = f->o.exact ? sizeof(float) : sizeof(uint16_t);
    uint32_t n_keys = row->position + 1;
    struct attention_page p = {
        .q = q,
        .k_stride_bytes = (size_t)hp->n_kv_heads * hp->head_dim * elem,
        .v_stride_bytes = (size_t)hp->n_kv_heads * hp->value_dim * elem,
        .k_dim = hp->head_dim,
        .v_dim = hp->value_dim,
        .scale = hp->attention_scale,
    };
    float max = 0, sum = 0;
    for (uint32_t page = 0; page * KV_PAGE < n_keys; page++) {
        const char *keys = kv_keys(f->o.kv, row->slot, il, page);
        const char *values = kv_values(f->o.kv, row->slot, il, page);
        float page_max, page_sum;
        p.k = keys + kv_head * hp->head_dim * elem;
        p.v = values + kv_head * hp->value_dim * elem;
        p.n_keys = MIN_OF(n_keys - page * KV_PAGE, (uint32_t)KV_PAGE);
        f->attention_page(&p, &page_max, &page_sum, page ? page_acc : out);
        if (page == 0) {
            max = page_max;
            sum = page_sum;
            continue;
        }
        float top = MAX_OF(max, page_max);
        float old_scale = f->k->exp1(max - top), new_scale = f->k->exp1(page_max - top);
        f->k->merge(out, old_scale, page_acc, new_scale, hp->value_dim);
        sum = sum * old_scale + page_sum * new_scale;
        max = top;
    }
    float inverse = 1.0f / sum;
    for (uint32_t i = 0; i < hp->value_dim; i++)
        out[i] *= inverse;
}

static void attend_range(void *context, size_t first, size_t last, int thread)
{
    const struct attention_loop *a = context;
    struct forward *f = a->f;
    const struct hparams *hp = f->hp;
    for (size_t i = first; i < last; i++) { /* i counts (row, head) */
        size_t r = i / hp->n_heads;
        uint32_t head = (uint32_t)(i % hp->n_heads);
        attend(f, &a->b->rows[r], a->il, head, f->q + i * hp->head_dim, f->att + i * hp->value_dim,
               f->page_acc + (size_t)thread * hp->value_dim);
    }
}

void block_attention(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = &f->m->layers[il];
    struct attention_loop loop = {.f = f, .l = l, .b = b, .il = il};
    const struct linear qkv[] = {
        {&l->q, &l->q_bias, f->q, (size_t)hp->n_heads * hp->head_dim},
        {&l->k, &l->k_bias, f->key, (size_t)hp->n_kv_heads * hp->head_dim},
        {&l->v, &l->v_bias, f->value, (size_t)hp->n_kv_heads * hp->value_dim},
    };
    const struct linear out = {&l->out, &l->out_bias, f->delta, hp->n_embd};

    norm_rows(f, b->x, &l->attn_norm, f->norm, b->n);
    linear_group(f, f->norm, hp->n_embd, b->n, qkv, ARRAY_LEN(qkv));
    parallel_for(b->n, 1, prepare_range, &loop);
    parallel_for((size_t)b->n * hp->n_heads, 1, attend_range, &loop);
    linear_group(f, f->att, (size_t)hp->n_heads * hp->value_dim, b->n, &out, 1);
    add_rows(f, b->x, f->delta, b->n);
}
