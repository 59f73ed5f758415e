/*
 * Lays the trunk out and reads what stays of it: every resident tensor, once, with direct reads straight
 * into its place. Experts stay in the files, and so do layers that are streamed.
 *
 * Tensors of a layer that lie together in a file make a run, which stands in memory as it stands in the
 * file, shifted so that file offset and address agree modulo FILE_DIRECT_ALIGN: an aligned read lands
 * where it belongs, without a copy. Runs end with their layer, so that each layer can be read alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/model/arch.h"

#define LOAD_READ_BYTES (8u << 20)

/* A gap between resident tensors that is cheaper to read than to skip. */
#define GAP_BYTES (64u << 10)

/* ------------------------------------------------------------------ layout */

static int by_place(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a;
    const struct gguf_tensor *y = *(const struct gguf_tensor *const *)b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static size_t add_rows_of(const struct tensor_row *rows, const void *owner,
                          const struct gguf_tensor **out)
{
    size_t n = 0;
    for (const struct tensor_row *row = rows; row->name; row++) {
        const struct tensor *t = (const struct tensor *)((const char *)owner + row->offset);
        if (t->file && !t->experts)
            out[n++] = t->file;
    }
    return n;
}

static size_t n_rows_of(const struct tensor_row *rows)
{
    size_t n = 0;
    while (rows[n].name)
        n++;
    return n;
}

static size_t run_bytes(const struct trunk_run *r)
{
    return ALIGN_UP((size_t)(r->end - r->start), (size_t)FILE_DIRECT_ALIGN);
}

/* A tensor that two rows name comes twice. */
static void lay_out_part(struct model *m, struct trunk_part *part, const struct tensor_row *rows,
                         const void *owner, const struct gguf_tensor **list)
{
    const size_t n = add_rows_of(rows, owner, list);
    struct trunk_run *run = NULL;
    qsort(list, n, sizeof(*list), by_place);
    *part = (struct trunk_part){.first = m->n_runs};
    for (size_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = list[i];
        if (!run || run->shard != t->shard || t->offset > run->end + GAP_BYTES) {
            run = &m->runs[m->n_runs++];
            *run = (struct trunk_run){.shard = t->shard,
                                      .start = t->offset - t->offset % FILE_DIRECT_ALIGN};
        }
        run->end = MAX_OF(run->end, t->offset + t->bytes);
    }
    part->n = m->n_runs - part->first;
    for (size_t i = 0; i < part->n; i++) {
        m->runs[part->first + i].at = part->bytes;
        part->bytes += run_bytes(&m->runs[part->first + i]);
    }
}

int model_lay_out_trunk(struct model *m, struct error *e)
{
    const uint32_t n_layers = m->hp.n_layers;
    const size_t own = n_rows_of(m->arch->tensors), of_layer = n_rows_of(m->arch->layer_tensors);
    const struct gguf_tensor **list =
        mem_array(MAX_OF(own, of_layer) + 1, sizeof(const struct gguf_tensor *));
    m->runs = mem_array(own + n_layers * of_layer + 1, sizeof(*m->runs));
    m->parts = mem_array((size_t)n_layers + 1, sizeof(*m->parts));
    if (!list || !m->runs || !m->parts) {
        mem_free(list);
        return error_set(e, ERROR_NOMEM, "no memory for the places of %zu tensors",
                         own + n_layers * of_layer);
    }
    for (uint32_t il = 0; il < n_layers; il++)
        lay_out_part(m, &m->parts[il], m->arch->layer_tensors, &m->layers[il], list);
    lay_out_part(m, &m->parts[n_layers], m->arch->tensors, m, list);
    mem_free(list);
    return 0;
}

uint64_t model_trunk_bytes(const struct model *m, uint32_t n_streamed)
{
    uint64_t bytes = m->parts[m->hp.n_layers].bytes;
    for (uint32_t il = 0; il + n_streamed < m->hp.n_layers; il++)
        bytes += m->parts[il].bytes;
    return bytes;
}

uint64_t model_n_params(const struct model *m)
{
    uint64_t total = 0;
    for (size_t i = 0; i < gguf_n_tensors(m->gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        total += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    }
    return total;
}

/* ------------------------------------------------------------------ reading */

/* A part on its way into the block. */
struct load {
    struct model *m;
    const struct model_load_options *o;
    struct file file;
    uint32_t shard; /* the file's */
    uint64_t done_bytes;
};

static int open_shard(struct load *l, uint32_t shard, struct error *e)
{
    if (l->file.path && l->shard == shard)
        return 0;
    file_close(&l->file);
    l->shard = shard;
    int rc = file_open_direct(&l->file, gguf_shard_path(l->m->gguf, shard), e);
    return rc == 0 ? gguf_shard_same(l->m->gguf, shard, &l->file, e) : rc;
}

static int read_run(struct load *l, const struct trunk_run *r, char *place, struct error *e)
{
    const struct model_load_options *o = l->o;
    int rc = open_shard(l, r->shard, e);
    for (uint64_t at = r->start; rc == 0 && at < r->end; at += LOAD_READ_BYTES) {
        size_t n = (size_t)MIN_OF((uint64_t)LOAD_READ_BYTES, r->end - at);
        if (o->interrupted && o->interrupted(o->interrupted_context))
            rc = error_set(e, ERROR_INTERRUPTED, "stopped while loading the model");
        else
            rc = file_read_direct(&l->file, place + (at - r->start), n, at, e);
        l->done_bytes += n;
        if (rc == 0 && o->loading)
            o->loading(o->loading_context, l->done_bytes, l->m->trunk_bytes);
    }
    return rc;
}

static const struct trunk_run *run_of(const struct model *m, const struct trunk_part *part,
                                      const struct gguf_tensor *t)
{
    size_t low = part->first, high = part->first + part->n;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        const struct trunk_run *r = &m->runs[middle];
        if (r->shard > t->shard || (r->shard == t->shard && r->start > t->offset))
            high = middle;
        else
            low = middle;
    }
    return &m->runs[low];
}

static void settle_rows(const struct model *m, const struct trunk_part *part,
                        const struct tensor_row *rows, void *owner, const char *base)
{
    for (const struct tensor_row *row = rows; row->name; row++) {
        struct tensor *t = (struct tensor *)((char *)owner + row->offset);
        if (!t->file || t->experts)
            continue;
        const struct trunk_run *r = run_of(m, part, t->file);
        t->data = base + r->at + (t->file->offset - r->start);
    }
}

void model_settle_layer(const struct model *m, uint32_t il, const void *base, struct layer *l)
{
    settle_rows(m, &m->parts[il], m->arch->layer_tensors, l, base);
}

/* Every part that stays, one after another. */
static int read_parts(struct load *l, struct error *e)
{
    struct model *m = l->m;
    const uint32_t n_layers = m->hp.n_layers;
    char *base = m->trunk;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i <= n_layers; i++) {
        const struct trunk_part *part = &m->parts[i];
        if (i < n_layers && i + m->n_streamed >= n_layers)
            continue;
        for (size_t k = 0; rc == 0 && k < part->n; k++) {
            const struct trunk_run *r = &m->runs[part->first + k];
            rc = read_run(l, r, base + r->at, e);
        }
        if (i < n_layers)
            model_settle_layer(m, i, base, &m->layers[i]);
        else
            settle_rows(m, part, m->arch->tensors, m, base);
        base += part->bytes;
    }
    file_close(&l->file);
    return rc;
}

int model_load(struct model *m, const struct model_load_options *o, struct error *e)
{
    struct load l = {.m = m, .o = o};
    m->ledger = o->ledger;
    m->n_streamed = o->n_streamed;
    m->trunk_bytes = (size_t)model_trunk_bytes(m, m->n_streamed);
    int rc = ledger_alloc(o->ledger, LEDGER_TRUNK, m->trunk_bytes, "weights", &m->trunk, e);
    if (rc == 0)
        rc = read_parts(&l, e);
    if (rc == 0)
        rc = model_check_finite(m, e);
    if (rc == 0)
        rc = model_absorb(m, e);
    m->loaded = rc == 0;
    return rc;
}

void model_release(struct model *m)
{
    if (m->trunk)
        ledger_release(m->ledger, LEDGER_TRUNK, m->trunk, m->trunk_bytes);
    if (m->repacked)
        ledger_release(m->ledger, LEDGER_TRUNK, m->repacked, m->repacked_bytes);
    mem_free(m->layers);
    mem_free(m->runs);
    mem_free(m->parts);
    mem_free(m->experts);
    m->runs = NULL;
    m->parts = NULL;
    m->experts = NULL;
    m->trunk = NULL;
    m->repacked = NULL;
    m->layers = NULL;
    m->loaded = false;
}
