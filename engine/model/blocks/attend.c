/*
 * Queries over the pages of a layer's cache: the part that grouped-query and latent attention share.
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
struct tile {
    uint32_t first, n;
};

struct attend_loop {
    struct forward *f;
    const struct block *b;
    const struct attention *a;
    struct tile tiles[BLOCK_ROWS];
    uint32_t n_tiles;
};

/* What the pages so far gave for a query. */
struct query_sum {
    float max, sum;
    float *acc; /* [v_dim] of the thread: the result's place may be the query's */
};

/* Queries that share keys: the tile's rows, times heads [first, first + n) of one group. */
struct query_group {
    const struct tile *tile;
    uint32_t first_head, n_heads;
    struct query_sum *sums; /* [tile->n][n_heads] */
};

/* A thread's scratch: for each query what this page gave, then what all gave. */
static size_t scratch_floats(uint32_t v_dim)
{
    return (size_t)ATTENTION_QUERIES * ATTENTION_PADDED(v_dim);
}

size_t attend_scratch_floats(uint32_t v_dim)
{
    return 2 * scratch_floats(v_dim);
}

static void store(const struct forward *f, const float *row, void *page, uint32_t at, size_t dim)
{
    if (f->o.exact)
        memcpy((float *)page + at * dim, row, dim * sizeof(float));
    else
        f->k->to_f16(row, (uint16_t *)page + at * dim, dim);
}

void cache_keys(const struct forward *f, const struct step_row *row, uint32_t state,
                const float *key, size_t dim)
{
    void *page = kv_keys(f->o.kv, row->slot, state, row->position / KV_PAGE);
    store(f, key, page, row->position % KV_PAGE, dim);
}

void cache_values(const struct forward *f, const struct step_row *row, uint32_t state,
                  const float *value, size_t dim)
{
    void *page = kv_values(f->o.kv, row->slot, state, row->position / KV_PAGE);
    store(f, value, page, row->position % KV_PAGE, dim);
}

/* sum += page */
static void merge_page(const struct attend_loop *l, struct query_sum *s,
                       const struct attention_query *page)
{
    const struct kernels *k = l->f->k;
    float top = MAX_OF(s->max, page->max);
    float old_scale = k->exp1(s->max - top), new_scale = k->exp1(page->max - top);
    k->merge(s->acc, old_scale, page->acc, new_scale, l->a->v_dim);
    s->sum = s->sum * old_scale + page->sum * new_scale;
    s->max = top;
}

/* The queries of rows [first_row, n) of the group's tile, as far as page `page` goes. */
static size_t list_queries(const struct attend_loop *l, const struct query_group *g, uint32_t page,
                           uint32_t first_row, struct attention_query *queries)
{
    const struct attention *a = l->a;
    size_t n = 0;
    for (uint32_t r = first_row; r < g->tile->n; r++) {
        size_t row = g->tile->first + r;
        uint32_t n_keys = l->b->rows[row].position + 1 - page * KV_PAGE;
        for (uint32_t h = 0; h < g->n_heads; h++, n++) {
            const float *q = a->q + (row * a->n_heads + g->first_head + h) * a->k_dim;
            queries[n] =
                (struct attention_query){.q = q, .n_keys = MIN_OF(n_keys, (uint32_t)KV_PAGE)};
        }
    }
    return n;
}

/* Where the group's keys and values stand on a page. */
static struct attention_page page_of(const struct attend_loop *l, const struct query_group *g,
                                     uint32_t page)
{
    const struct forward *f = l->f;
    const struct attention *a = l->a;
    const int slot = l->b->rows[g->tile->first].slot;
    size_t elem = f->o.exact ? sizeof(float) : sizeof(uint16_t);
    uint32_t kv_head = g->first_head / (a->n_heads / a->n_kv_heads);
    const char *keys = kv_keys(f->o.kv, slot, a->state, page);
    struct attention_page p = {
        .k = keys + kv_head * a->k_dim * elem,
        .k_stride_bytes = (size_t)a->n_kv_heads * a->k_dim * elem,
        .v_stride_bytes = (size_t)a->n_kv_heads * a->v_dim * elem,
        .k_dim = a->k_dim,
        .v_dim = a->v_dim,
        .scale = f->hp->attention_scale,
    };
    if (a->latent) {
        p.v = p.k;
        p.v_stride_bytes = p.k_stride_bytes;
    } else {
        p.v = (const char *)kv_values(f->o.kv, slot, a->state, page) + kv_head * a->v_dim * elem;
    }
    return p;
}

/* One page, by the rows of the tile that see it: all but the first ones. */
static void attend_page(const struct attend_loop *l, const struct query_group *g, uint32_t page,
                        float *acc)
{
    const struct step_row *rows = l->b->rows + g->tile->first;
    struct attention_query queries[ATTENTION_QUERIES];
    struct attention_page p = page_of(l, g, page);
    uint32_t first_row = 0;
    while (rows[first_row].position < page * KV_PAGE)
        first_row++;
    p.queries = queries;
    const size_t n = list_queries(l, g, page, first_row, queries);
    p.n_queries = n;
    for (size_t i = 0; i < n; i++)
        queries[i].acc = acc + i * ATTENTION_PADDED(l->a->v_dim);
    l->f->attention_page(&p);
    for (size_t i = 0; i < n; i++)
        merge_page(l, &g->sums[first_row * g->n_heads + i], &queries[i]);
}

/* Only now is the query no longer needed. */
static void put_results(const struct attend_loop *l, const struct query_group *g)
{
    const struct attention *a = l->a;
    const struct query_sum *sums = g->sums;
    for (uint32_t r = 0; r < g->tile->n; r++) {
        for (uint32_t h = 0; h < g->n_heads; h++, sums++) {
            size_t head = (size_t)(g->tile->first + r) * a->n_heads + g->first_head + h;
            float *out = a->out + head * a->out_stride;
            float inverse = 1.0f / sums->sum;
            for (uint32_t d = 0; d < a->v_dim; d++)
                out[d] = sums->acc[d] * inverse;
        }
    }
}

/*
 * The heads that a thread has of a tile, up to as many queries as there is scratch for. Pages outside,
 * groups inside: a page's rows of all groups are then read one after another as they stand in memory.
 * Returns how many heads that were.
 */
static uint32_t attend(const struct attend_loop *l, const struct tile *tile, uint32_t head,
                       size_t n_heads, float *scratch)
{
    const uint32_t v_dim = l->a->v_dim, per_group = l->a->n_heads / l->a->n_kv_heads;
    const size_t room = ATTENTION_QUERIES / tile->n;
    uint32_t end = head + (uint32_t)MIN_OF(n_heads, room);
    if (room < n_heads && end - head > end % per_group)
        end -= end % per_group; /* whole groups, where there is one */
    float *acc = scratch, *sum_acc = scratch + scratch_floats(v_dim);
    struct query_sum sums[ATTENTION_QUERIES];
    struct query_group groups[ATTENTION_QUERIES];
    uint32_t n_groups = 0;
    for (size_t i = 0; i < ATTENTION_QUERIES; i++)
        sums[i] = (struct query_sum){-INFINITY, 0, sum_acc + i * v_dim};
    for (uint32_t h = head; h < end; h += groups[n_groups++].n_heads) {
        uint32_t n = MIN_OF(per_group - h % per_group, end - h);
        groups[n_groups] = (struct query_group){tile, h, n, sums + (h - head) * tile->n};
    }
    memset(sum_acc, 0, (size_t)tile->n * (end - head) * v_dim * sizeof(float));
    uint32_t last = l->b->rows[tile->first + tile->n - 1].position;
    for (uint32_t page = 0; page <= last / KV_PAGE; page++) {
        for (uint32_t g = 0; g < n_groups; g++)
            attend_page(l, &groups[g], page, acc);
    }
    for (uint32_t g = 0; g < n_groups; g++)
        put_results(l, &groups[g]);
    return end - head;
}

/* [first, last) counts (tile, head). */
static void attend_range(void *context, size_t first, size_t last, int thread)
{
    const struct attend_loop *l = context;
    const uint32_t n_heads = l->a->n_heads;
    float *scratch = l->f->page_acc + (size_t)thread * attend_scratch_floats(l->a->v_dim);
    while (first < last) {
        uint32_t head = (uint32_t)(first % n_heads);
        first += attend(l, &l->tiles[first / n_heads], head,
                        MIN_OF((size_t)(n_heads - head), last - first), scratch);
    }
}

/* Cuts the block where the sequence changes, and into pieces that one call of the kernel takes. */
static void cut_tiles(struct attend_loop *l)
{
    uint32_t group = l->a->n_heads / l->a->n_kv_heads;
    uint32_t most = MAX_OF(1u, MIN_OF((uint32_t)TILE_ROWS, ATTENTION_QUERIES / group));
    const struct step_row *rows = l->b->rows;
    for (uint32_t r = 0; r < l->b->n; r++) {
        struct tile *tile = l->n_tiles ? &l->tiles[l->n_tiles - 1] : NULL;
        if (tile && tile->n < most && rows[r].slot == rows[tile->first].slot)
            tile->n++;
        else
            l->tiles[l->n_tiles++] = (struct tile){r, 1};
    }
}

void attend_rows(struct forward *f, const struct block *b, const struct attention *a)
{
    struct attend_loop l = {.f = f, .b = b, .a = a};
    cut_tiles(&l);
    parallel_for((size_t)l.n_tiles * a->n_heads, 1, attend_range, &l);
}
