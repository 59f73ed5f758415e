/*
 * Reads the trunk: every resident tensor, once, with direct reads straight into its place. Experts stay
 * in the files.
 *
 * Tensors that lie together in a file make a run, which stands in the block as it stands in the file,
 * shifted so that file offset and address agree modulo FILE_DIRECT_ALIGN: an aligned read lands where
 * it belongs, without a copy.
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

/* Every resident tensor, in order of place; a tensor that two rows name comes twice. */
static size_t resident(const struct model *m, const struct gguf_tensor **out)
{
    size_t n = add_rows_of(m->arch->tensors, m, out);
    for (uint32_t il = 0; il < m->hp.n_layers; il++)
        n += add_rows_of(m->arch->layer_tensors, &m->layers[il], out + n);
    qsort(out, n, sizeof(*out), by_place);
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

int model_lay_out_trunk(struct model *m, struct error *e)
{
    size_t most = n_rows_of(m->arch->tensors) + m->hp.n_layers * n_rows_of(m->arch->layer_tensors);
    const struct gguf_tensor **list = mem_array(most + 1, sizeof(const struct gguf_tensor *));
    m->runs = mem_array(most + 1, sizeof(*m->runs));
    if (!list || !m->runs) {
        mem_free(list);
        return error_set(e, ERROR_NOMEM, "no memory for the places of %zu tensors", most);
    }
    size_t n = resident(m, list);
    struct trunk_run *run = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct gguf_tensor *t = list[i];
        if (!run || run->shard != t->shard || t->offset > run->end + GAP_BYTES) {
            run = &m->runs[m->n_runs++];
            *run = (struct trunk_run){.shard = t->shard,
                                      .start = t->offset - t->offset % FILE_DIRECT_ALIGN};
        }
        run->end = MAX_OF(run->end, t->offset + t->bytes);
    }
    for (size_t i = 0; i < m->n_runs; i++) {
        m->runs[i].at = m->trunk_bytes;
        m->trunk_bytes += run_bytes(&m->runs[i]);
    }
    mem_free(list);
    return 0;
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

static int read_run(struct model *m, const struct file *f, const struct trunk_run *r,
                    uint64_t *done, const struct model_load_options *o, struct error *e)
{
    int rc = 0;
    for (uint64_t at = r->start; rc == 0 && at < r->end; at += LOAD_READ_BYTES) {
        size_t n = (size_t)MIN_OF((uint64_t)LOAD_READ_BYTES, r->end - at);
        void *place = (char *)m->trunk + r->at + (at - r->start), *first;
        if (o->interrupted && o->interrupted(o->interrupted_context))
            rc = error_set(e, ERROR_INTERRUPTED, "stopped while loading the model");
        else
            rc = file_read_direct(f, place, n, at, &first, e);
        *done += n;
        if (rc == 0 && o->loading)
            o->loading(o->loading_context, *done, m->trunk_bytes);
    }
    return rc;
}

static int read_runs(struct model *m, const struct model_load_options *o, struct error *e)
{
    struct file f = {0};
    uint64_t done = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n_runs; i++) {
        const struct trunk_run *r = &m->runs[i];
        if (i == 0 || r->shard != m->runs[i - 1].shard) {
            file_close(&f);
            rc = file_open_direct(&f, gguf_shard_path(m->gguf, r->shard), e);
            if (rc == 0)
                rc = gguf_shard_same(m->gguf, r->shard, &f, e);
        }
        if (rc == 0)
            rc = read_run(m, &f, r, &done, o, e);
    }
    file_close(&f);
    return rc;
}

static const struct trunk_run *run_of(const struct model *m, const struct gguf_tensor *t)
{
    size_t low = 0, high = m->n_runs;
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

static void settle_rows(const struct tensor_row *rows, void *owner, const struct model *m)
{
    for (const struct tensor_row *row = rows; row->name; row++) {
        struct tensor *t = (struct tensor *)((char *)owner + row->offset);
        if (!t->file || t->experts)
            continue;
        const struct trunk_run *r = run_of(m, t->file);
        t->data = (const char *)m->trunk + r->at + (t->file->offset - r->start);
    }
}

int model_load(struct model *m, const struct model_load_options *o, struct error *e)
{
    m->ledger = o->ledger;
    int rc = ledger_alloc(o->ledger, LEDGER_TRUNK, m->trunk_bytes, "weights", &m->trunk, e);
    if (rc == 0)
        rc = read_runs(m, o, e);
    if (rc != 0)
        return rc;
    settle_rows(m->arch->tensors, m, m);
    for (uint32_t il = 0; il < m->hp.n_layers; il++)
        settle_rows(m->arch->layer_tensors, &m->layers[il], m);
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
    mem_free(m->experts);
    m->runs = NULL;
    m->experts = NULL;
    m->trunk = NULL;
    m->repacked = NULL;
    m->layers = NULL;
    m->loaded = false;
}
