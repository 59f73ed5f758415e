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

static bool is_finite(const struct tensor *t)
{
    struct finite_loop loop = {.quant = t->quant, .blocks = t->data};
    if (!t->data)
        return true;
    parallel_for(t->n_rows * (t->n_cols / t->quant->block_elems), GRAIN_BLOCKS, finite_range,
                 &loop);
    return !atomic_load_explicit(&loop.bad, memory_order_relaxed);
}

/* Counts the bad ones; the first is *ret_first. */
static size_t count_bad(const struct tensor_row *rows, unsigned parts, const void *owner,
                        const struct tensor **ret_first)
{
    size_t n = 0;
    for (const struct tensor_row *row = rows; row->name; row++) {
        const struct tensor *t = (const struct tensor *)((const char *)owner + row->offset);
        if ((parts & row->parts) != row->parts || is_finite(t))
            continue;
        if (!*ret_first)
            *ret_first = t;
        n++;
    }
    return n;
}

int model_check_finite(const struct model *m, struct error *e)
{
    const struct tensor *first = NULL;
    size_t n = count_bad(m->arch->tensors, 0, m, &first);
    for (uint32_t il = 0; il < m->hp.n_layers; il++)
        n += count_bad(m->arch->layer_tensors, m->layers[il].parts, &m->layers[il], &first);
    if (n == 0)
        return 0;
    char more[48] = "";
    if (n > 1)
        snprintf(more, sizeof(more), "; and %zu more", n - 1);
    return error_set(e, ERROR_FORMAT, "%s: tensor '%.*s' holds what is not a finite number%s",
                     gguf_shard_path(m->gguf, first->file->shard), (int)first->file->name.len,
                     first->file->name.ptr, more);
}
