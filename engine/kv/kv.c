#include "engine/kv/kv.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/kernels/kernels.h"

/*
 * Pages are handed out in groups: one page of every layer for the same 64 positions. A sequence's
 * table then needs one entry per 64 positions, whatever the number of layers.
 */
struct kv_pool {
    struct ledger *ledger;
    struct kv_shape shape;
    size_t page_bytes;
    size_t keys_bytes; /* of a page; the values follow */
    uint32_t n_groups;
    uint32_t max_sequences;
    uint32_t max_pages; /* of one sequence */
    void *block;        /* the groups, then what is below */
    size_t block_bytes;
    char *recurrent;     /* [max_sequences][n_recurrent] of recurrent_stride bytes */
    uint32_t *table;     /* [max_sequences][max_pages] group of each page */
    uint32_t *held;      /* [max_sequences] pages reserved; 0: the handle is free */
    uint32_t *free_list; /* [n_groups] */
    uint32_t n_free;
};

static size_t page_bytes(const struct kv_shape *s, size_t *ret_keys)
{
    size_t elem = s->f32 ? sizeof(float) : sizeof(uint16_t);
    size_t keys = ALIGN_UP((size_t)KV_PAGE * s->k_dim * elem, (size_t)64);
    if (ret_keys)
        *ret_keys = keys;
    return keys + ALIGN_UP((size_t)KV_PAGE * s->v_dim * elem, (size_t)64);
}

static uint32_t pages_of(uint32_t n_positions)
{
    return n_positions / KV_PAGE + (n_positions % KV_PAGE != 0);
}

uint32_t kv_pages_needed(const struct kv_shape *shape, uint32_t n_positions)
{
    return pages_of(n_positions) * shape->n_layers;
}

uint64_t kv_sequence_bytes(const struct kv_shape *shape, uint32_t n_positions)
{
    return (uint64_t)kv_pages_needed(shape, n_positions) * page_bytes(shape, NULL);
}

static size_t recurrent_stride(const struct kv_shape *s)
{
    return ALIGN_UP((size_t)s->recurrent_floats * sizeof(float), (size_t)64);
}

uint64_t kv_recurrent_bytes(const struct kv_shape *shape)
{
    return (uint64_t)shape->n_recurrent * recurrent_stride(shape);
}

/* What follows the groups: recurrent states, then the tables. */
static size_t overhead_bytes(const struct kv_pool *p)
{
    return (size_t)p->max_sequences * kv_recurrent_bytes(&p->shape) +
           ((size_t)p->max_sequences * p->max_pages + p->max_sequences + p->n_groups) *
               sizeof(uint32_t);
}

/* Groups that `bytes` hold. A model without attention has groups without bytes: as many as it likes. */
static uint32_t groups_of(const struct kv_pool *p, uint64_t bytes)
{
    uint64_t group_bytes = (uint64_t)page_bytes(&p->shape, NULL) * p->shape.n_layers;
    uint64_t n = group_bytes ? bytes / group_bytes : (uint64_t)p->max_sequences * p->max_pages;
    return (uint32_t)MIN_OF(n, UINT32_MAX / 2);
}

int kv_pool_new(struct kv_pool **ret, struct ledger *l, const struct kv_shape *shape,
                uint64_t bytes, uint32_t max_sequences, uint32_t max_positions, struct error *e)
{
    struct kv_pool *p = mem_zalloc(sizeof(*p));
    if (!p)
        return error_set(e, ERROR_NOMEM, "state of sequences: no memory for its directory");
    p->ledger = l;
    p->shape = *shape;
    p->page_bytes = page_bytes(shape, &p->keys_bytes);
    p->max_sequences = max_sequences;
    p->max_pages = pages_of(max_positions);
    p->n_groups = groups_of(p, bytes);
    size_t pages_bytes = p->n_groups * p->page_bytes * shape->n_layers;
    p->block_bytes = pages_bytes + overhead_bytes(p);

    int rc = ledger_alloc(l, LEDGER_STATE, p->block_bytes, "state of sequences", &p->block, e);
    if (rc != 0) {
        mem_free(p);
        return rc;
    }
    p->recurrent = (char *)p->block + pages_bytes;
    p->table = (uint32_t *)(p->recurrent + max_sequences * kv_recurrent_bytes(shape));
    p->held = p->table + (size_t)max_sequences * p->max_pages;
    p->free_list = p->held + max_sequences;
    p->n_free = p->n_groups;
    for (uint32_t i = 0; i < p->n_groups; i++)
        p->free_list[i] = p->n_groups - 1 - i;
    *ret = p;
    return 0;
}

uint64_t kv_pool_overhead_bytes(const struct kv_shape *shape, uint64_t bytes,
                                uint32_t max_sequences, uint32_t max_positions)
{
    struct kv_pool p = {
        .shape = *shape, .max_sequences = max_sequences, .max_pages = pages_of(max_positions)};
    p.n_groups = groups_of(&p, bytes);
    return overhead_bytes(&p);
}

void kv_pool_free(struct kv_pool *p)
{
    if (!p)
        return;
    ledger_release(p->ledger, LEDGER_STATE, p->block, p->block_bytes);
    mem_free(p);
}

void kv_clear(struct kv_pool *p, int slot)
{
    size_t recurrent = kv_recurrent_bytes(&p->shape);
    if (recurrent > 0)
        memset(p->recurrent + (size_t)slot * recurrent, 0, recurrent);
}

int kv_reserve(struct kv_pool *p, uint32_t n_positions)
{
    uint32_t n = MAX_OF(pages_of(n_positions), 1u);
    if (n > p->n_free || n > p->max_pages)
        return -1;
    for (uint32_t slot = 0; slot < p->max_sequences; slot++) {
        if (p->held[slot])
            continue;
        for (uint32_t i = 0; i < n; i++)
            p->table[(size_t)slot * p->max_pages + i] = p->free_list[--p->n_free];
        p->held[slot] = n;
        kv_clear(p, (int)slot);
        return (int)slot;
    }
    return -1;
}

void kv_release(struct kv_pool *p, int slot)
{
    if (slot < 0)
        return;
    for (uint32_t i = 0; i < p->held[slot]; i++)
        p->free_list[p->n_free++] = p->table[(size_t)slot * p->max_pages + i];
    p->held[slot] = 0;
}

void *kv_keys(const struct kv_pool *p, int slot, uint32_t layer, uint32_t page)
{
    assert(page < p->held[slot]);
    size_t group = p->table[(size_t)slot * p->max_pages + page];
    return (char *)p->block + (group * p->shape.n_layers + layer) * p->page_bytes;
}

void *kv_values(const struct kv_pool *p, int slot, uint32_t layer, uint32_t page)
{
    return (char *)kv_keys(p, slot, layer, page) + p->keys_bytes;
}

float *kv_recurrent(const struct kv_pool *p, int slot, uint32_t layer)
{
    assert(p->held[slot] > 0 && layer < p->shape.n_recurrent);
    return (float *)(p->recurrent + (size_t)slot * kv_recurrent_bytes(&p->shape) +
                     layer * recurrent_stride(&p->shape));
}

static size_t row_bytes(const struct kv_shape *s, uint32_t dim)
{
    return (size_t)dim * (s->f32 ? sizeof(float) : sizeof(uint16_t));
}

uint64_t kv_layer_bytes(const struct kv_shape *shape, uint32_t n_positions)
{
    return n_positions *
           ((uint64_t)row_bytes(shape, shape->k_dim) + row_bytes(shape, shape->v_dim));
}

uint64_t kv_recurrent_layer_bytes(const struct kv_shape *shape)
{
    return (uint64_t)shape->recurrent_floats * sizeof(float);
}

/* The first n positions of a page. */
static int visit_page(const struct kv_pool *p, char *page, uint32_t n, kv_visit_fn *fn,
                      void *context, struct error *e)
{
    size_t keys = n * row_bytes(&p->shape, p->shape.k_dim);
    size_t values = n * row_bytes(&p->shape, p->shape.v_dim);
    int rc = fn(context, page, keys, e);
    if (rc == 0 && values > 0)
        rc = fn(context, page + p->keys_bytes, values, e);
    return rc;
}

int kv_visit(const struct kv_pool *p, int slot, uint32_t layer, uint32_t n_positions,
             kv_visit_fn *fn, void *context, struct error *e)
{
    int rc = 0;
    assert(pages_of(n_positions) <= p->held[slot] && layer < p->shape.n_layers);
    for (uint32_t at = 0; rc == 0 && at < n_positions; at += KV_PAGE)
        rc = visit_page(p, kv_keys(p, slot, layer, at / KV_PAGE),
                        MIN_OF(n_positions - at, (uint32_t)KV_PAGE), fn, context, e);
    return rc;
}

int kv_visit_recurrent(const struct kv_pool *p, int slot, uint32_t layer, kv_visit_fn *fn,
                       void *context, struct error *e)
{
    return fn(context, kv_recurrent(p, slot, layer), kv_recurrent_layer_bytes(&p->shape), e);
}
