/*
 * Whether the weights are numbers: a NaN or an infinity anywhere would reach every later token.
 *
 * Floating-point tensors are looked at number by number, blocks by their scales (quant_finite): no codes
 * of a block with finite scales give anything else. It costs a pass over the loaded bytes.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "base/parallel.h"
#include "engine/model/arch.h"

/* A thread's share is no smaller: less is not worth waking it. */
#define GRAIN_BLOCKS 16384

struct finite_loop {
    const struct quant *quant;
    const char *blocks;
    atomic_bool bad;
};

static void finite_range(void *context, size_t first, size_t last, int thread)
{
    struct finite_loop *l = context;
    (void)thread;
    if (!quant_finite(l->quant, l->blocks + first * l->quant->block_bytes, last - first))
        atomic_store_explicit(&l->bad, true, memory_order_relaxed);
}

static size_t n_blocks_of(const struct tensor *t)
{
    return (size_t)(t->n_rows * (t->n_cols / t->quant->block_elems));
}

static bool is_finite(const struct tensor *t, bool alone)
{
    struct finite_loop loop = {.quant = t->quant, .blocks = t->data};
    if (!t->data)
        return true;
    if (alone)
        finite_range(&loop, 0, n_blocks_of(t), 0);
    else
        parallel_for(n_blocks_of(t), GRAIN_BLOCKS, finite_range, &loop);
    return !atomic_load_explicit(&loop.bad, memory_order_relaxed);
}

/* What was found so far. */
struct findings {
    bool alone; /* the calling thread only */
    size_t n_bad;
    const struct tensor *first;
};

static void look_at(struct findings *found, const struct tensor_row *rows, unsigned parts,
                    const void *owner)
{
    for (const struct tensor_row *row = rows; row->name; row++) {
        const struct tensor *t = (const struct tensor *)((const char *)owner + row->offset);
        if ((parts & row->parts) != row->parts || is_finite(t, found->alone))
            continue;
        if (!found->first)
            found->first = t;
        found->n_bad++;
    }
}

static int report(const struct model *m, const struct findings *found, struct error *e)
{
    const struct tensor *first = found->first;
    if (found->n_bad == 0)
        return 0;
    char more[48] = "";
    if (found->n_bad > 1)
        snprintf(more, sizeof(more), "; and %zu more", found->n_bad - 1);
    return error_set(e, ERROR_FORMAT, "%s: tensor '%.*s' holds what is not a finite number%s",
                     gguf_shard_path(m->gguf, first->file->shard), (int)first->file->name.len,
                     first->file->name.ptr, more);
}

int model_check_finite(const struct model *m, struct error *e)
{
    struct findings found = {0};
    look_at(&found, m->arch->tensors, 0, m);
    for (uint32_t il = 0; il < m->hp.n_layers; il++)
        look_at(&found, m->arch->layer_tensors, m->layers[il].parts, &m->layers[il]);
    return report(m, &found, e);
}

int model_check_layer(const struct model *m, const struct layer *l, struct error *e)
{
    struct findings found = {.alone = true};
    look_at(&found, m->arch->layer_tensors, l->parts, l);
    return report(m, &found, e);
}
