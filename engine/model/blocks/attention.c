/*
 * Grouped-query attention over paged keys and values.
 *
 * Each page (64 positions) gives (max, sum, weighted values) by itself; pages are merged in order of
 * position. Rows of one sequence and heads of one group share a page's keys: they go through it
 * together as far as a thread's range has them side by side. A query's result does not depend on its
 * company, so not on how rows or heads are split over threads.
 */
#include <math.h>
#include <string.h>

#include "base/parallel.h"
#include "engine/model/blocks/blocks.h"

#define TILE_ROWS 16 /* rows of a sequence that go together: more leave less to share out */

/* Rows [first, first + n) of the block, of one sequence. */
struct attention_tile {
    uint32_t first, n;
};

struct attention_loop {
    struct forward *f;
    const struct layer *l;
    const struct block *b;
    uint32_t il;
    struct attention_tile tiles[BLOCK_ROWS];
    uint32_t n_tiles;
};

/* Queries that share keys: the tile's rows, times heads [first, first + n) of one group. */
struct attention_group {
    const struct attention_tile *tile;
    uint32_t first_head, n_heads;
};

/* What the pages so far gave for a query; out [value_dim] is theirs, too. */
struct attention_sum {
    float max, sum;
    float *out;
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
        store(f, key, kv_keys(f->o.kv, row->slot, a->l->state, page), at, k_dim);
        store(f, f->value + r * v_dim, kv_values(f->o.kv, row->slot, a->l->state, page), at, v_dim);
    }
}

/* sum += page */
static void merge_page(const struct forward *f, struct attention_sum *s,
                       const struct attention_query *page)
{
    float top = MAX_OF(s->max, page->max);
    float old_scale = f->k->exp1(s->max - top), new_scale = f->k->exp1(page->max - top);
    f->k->merge(s->out, old_scale, page->acc, new_scale, f->hp->value_dim);
    s->sum = s->sum * old_scale + page->sum * new_scale;
    s->max = top;
}

/* The queries of rows [first_row, n) of the group's tile, as far as page `page` goes. */
static size_t list_queries(const struct attention_loop *a, const struct attention_group *g,
                           uint32_t page, uint32_t first_row, struct attention_query *queries)
{
    const struct hparams *hp = a->f->hp;
    size_t n = 0;
    for (uint32_t r = first_row; r < g->tile->n; r++) {
        size_t row = g->tile->first + r;
        uint32_t n_keys = a->b->rows[row].position + 1 - page * KV_PAGE;
        for (uint32_t h = 0; h < g->n_heads; h++, n++) {
            queries[n].q = a->f->q + (row * hp->n_heads + g->first_head + h) * hp->head_dim;
            queries[n].n_keys = MIN_OF(n_keys, (uint32_t)KV_PAGE);
        }
    }
    return n;
}

/* One page, by the rows of the tile that see it: all but the first ones. */
static void attend_page(const struct attention_loop *a, const struct attention_group *g,
                        uint32_t page, float *acc, struct attention_sum *sums)
{
    struct forward *f = a->f;
    const struct hparams *hp = f->hp;
    const struct step_row *rows = a->b->rows + g->tile->first;
    uint32_t kv_head = g->first_head / (hp->n_heads / hp->n_kv_heads);
    size_t elem = f->o.exact ? sizeof(float) : sizeof(uint16_t);
    const char *keys = kv_keys(f->o.kv, rows->slot, a->l->state, page);
    const char *values = kv_values(f->o.kv, rows->slot, a->l->state, page);
    struct attention_query queries[ATTENTION_QUERIES];
    struct attention_page p = {
        .queries = queries,
        .k = keys + kv_head * hp->head_dim * elem,
        .v = values + kv_head * hp->value_dim * elem,
        .k_stride_bytes = (size_t)hp->n_kv_heads * hp->head_dim * elem,
        .v_stride_bytes = (size_t)hp->n_kv_heads * hp->value_dim * elem,
        .k_dim = hp->head_dim,
        .v_dim = hp->value_dim,
        .scale = hp->attention_scale,
    };
    uint32_t first_row = 0;
    while (rows[first_row].position < page * KV_PAGE)
        first_row++;
    p.n_queries = list_queries(a, g, page, first_row, queries);
    for (size_t i = 0; i < p.n_queries; i++)
        queries[i].acc = acc + i * ATTENTION_PADDED(hp->value_dim);
    f->attention_page(&p);
    for (size_t i = 0; i < p.n_queries; i++)
        merge_page(f, &sums[first_row * g->n_heads + i], &queries[i]);
}

static void attend(const struct attention_loop *a, const struct attention_group *g, float *acc)
{
    const struct hparams *hp = a->f->hp;
    struct attention_sum sums[ATTENTION_QUERIES];
    size_t n = 0;
    for (uint32_t r = 0; r < g->tile->n; r++) {
        for (uint32_t h = 0; h < g->n_heads; h++, n++) {
            size_t head = (size_t)(g->tile->first + r) * hp->n_heads + g->first_head + h;
            sums[n] = (struct attention_sum){-INFINITY, 0, a->f->att + head * hp->value_dim};
            memset(sums[n].out, 0, hp->value_dim * sizeof(float));
        }
    }
    uint32_t last = a->b->rows[g->tile->first + g->tile->n - 1].position;
    for (uint32_t page = 0; page <= last / KV_PAGE; page++)
        attend_page(a, g, page, acc, sums);
    for (size_t i = 0; i < n; i++) {
        float inverse = 1.0f / sums[i].sum;
        for (uint32_t d = 0; d < hp->value_dim; d++)
            sums[i].out[d] *= inverse;
    }
}

/* [first, last) counts (tile, head); heads of a group that the range has side by side go together. */
static void attend_range(void *context, size_t first, size_t last, int thread)
{
    const struct attention_loop *a = context;
    const struct hparams *hp = a->f->hp;
    uint32_t group = hp->n_heads / hp->n_kv_heads;
    size_t acc_floats = (size_t)ATTENTION_QUERIES * ATTENTION_PADDED(hp->value_dim);
    float *acc = a->f->page_acc + (size_t)thread * acc_floats;
    while (first < last) {
        const struct attention_tile *tile = &a->tiles[first / hp->n_heads];
        uint32_t head = (uint32_t)(first % hp->n_heads);
        size_t n_heads = MIN_OF(group - head % group, ATTENTION_QUERIES / tile->n);
        n_heads = MIN_OF(n_heads, last - first);
        struct attention_group g = {tile, head, (uint32_t)n_heads};
        attend(a, &g, acc);
        first += n_heads;
    }
}

/* Cuts the block where the sequence changes, and into pieces that one call of the kernel takes. */
static void cut_tiles(struct attention_loop *a)
{
    uint32_t group = a->f->hp->n_heads / a->f->hp->n_kv_heads;
    uint32_t most = MAX_OF(1u, MIN_OF((uint32_t)TILE_ROWS, ATTENTION_QUERIES / group));
    const struct step_row *rows = a->b->rows;
    for (uint32_t r = 0; r < a->b->n; r++) {
        struct attention_tile *tile = a->n_tiles ? &a->tiles[a->n_tiles - 1] : NULL;
        if (tile && tile->n < most && rows[r].slot == rows[tile->first].slot)
            tile->n++;
        else
            a->tiles[a->n_tiles++] = (struct attention_tile){r, 1};
    }
}

void block_attention(struct forward *f, uint32_t il, const struct block *b)
{
    const struct hparams *hp = f->hp;
    const struct layer *l = &f->m->layers[il];
    struct attention_loop loop = {.f = f, .l = l, .b = b};
    const struct linear qkv[] = {
        {&l->q, &l->q_bias, f->q, (size_t)hp->n_heads * hp->head_dim},
        {&l->k, &l->k_bias, f->key, (size_t)hp->n_kv_heads * hp->head_dim},
        {&l->v, &l->v_bias, f->value, (size_t)hp->n_kv_heads * hp->value_dim},
    };
    const struct linear out = {&l->out, &l->out_bias, f->delta, hp->n_embd};

    norm_rows(f, b->in, &l->attn_norm, f->norm, b->n);
    linear_group(f, f->norm, hp->n_embd, b->n, qkv, ARRAY_LEN(qkv));
    parallel_for(b->n, 1, prepare_range, &loop);
    cut_tiles(&loop);
    parallel_for((size_t)loop.n_tiles * hp->n_heads, 1, attend_range, &loop);
    linear_group(f, f->att, (size_t)hp->n_heads * hp->value_dim, b->n, &out, 1);
    add_rows(f, b->x, f->delta, b->n);
}
