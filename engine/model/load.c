/*
 * Reads the trunk: every resident tensor, once, with direct reads straight into its place.
 *
 * A shard's tensors stand in the block as they stand in the file, shifted so that file offset and
 * address agree modulo FILE_DIRECT_ALIGN: an aligned read lands where it belongs, without a copy.
 */
#include <string.h>

#include "base/alloc.h"
#include "engine/model/arch.h"

#define LOAD_READ_BYTES (8u << 20)

/* The bytes of one shard that are wanted: [start, end), start aligned. */
struct span {
    uint64_t start, end;
    size_t at; /* in the trunk block */
};

static void span_of(const struct model *m, size_t shard, struct span *s)
{
    *s = (struct span){.start = UINT64_MAX};
    for (size_t i = 0; i < gguf_n_tensors(m->gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(m->gguf, i);
        if (t->shard != shard)
            continue;
        s->start = MIN_OF(s->start, t->offset);
        s->end = MAX_OF(s->end, t->offset + t->bytes);
    }
    if (s->end == 0)
        s->start = 0;
    s->start -= s->start % FILE_DIRECT_ALIGN;
}

static size_t span_bytes(const struct span *s)
{
    return ALIGN_UP((size_t)(s->end - s->start), (size_t)FILE_DIRECT_ALIGN);
}

uint64_t model_trunk_bytes(const struct model *m)
{
    uint64_t total = 0;
    for (size_t shard = 0; shard < gguf_n_shards(m->gguf); shard++) {
        struct span s;
        span_of(m, shard, &s);
        total += span_bytes(&s);
    }
    return total;
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

static int read_span(struct model *m, size_t shard, const struct span *s, uint64_t *done,
                     const struct model_load_options *o, struct error *e)
{
    struct file f = {0};
    int rc = file_open_direct(&f, gguf_shard_path(m->gguf, shard), e);
    for (uint64_t at = s->start; rc == 0 && at < s->end; at += LOAD_READ_BYTES) {
        size_t n = (size_t)MIN_OF((uint64_t)LOAD_READ_BYTES, s->end - at);
        void *place = (char *)m->trunk + s->at + (at - s->start), *first;
        if (o->interrupted && o->interrupted(o->interrupted_context))
            rc = error_set(e, ERROR_INTERRUPTED, "stopped while loading the model");
        else
            rc = file_read_direct(&f, place, n, at, &first, e);
        *done += n;
        if (rc == 0 && o->loading)
            o->loading(o->loading_context, *done, m->trunk_bytes);
    }
    file_close(&f);
    return rc;
}

static void settle(struct tensor *t, const struct model *m, const struct span *spans)
{
    if (!t->file)
        return;
    const struct span *s = &spans[t->file->shard];
    t->data = (const char *)m->trunk + s->at + (t->file->offset - s->start);
}

static void settle_rows(const struct tensor_row *rows, void *owner, const struct model *m,
                        const struct span *spans)
{
    for (const struct tensor_row *row = rows; row->name; row++)
        settle((struct tensor *)((char *)owner + row->offset), m, spans);
}

int model_load(struct model *m, const struct model_load_options *o, struct error *e)
{
    size_t n_shards = gguf_n_shards(m->gguf), at = 0;
    uint64_t done = 0;
    struct span *spans = mem_array(n_shards, sizeof(*spans));
    if (!spans)
        return error_set(e, ERROR_NOMEM, "no memory for %zu shards", n_shards);
    for (size_t i = 0; i < n_shards; i++) {
        span_of(m, i, &spans[i]);
        spans[i].at = at;
        at += span_bytes(&spans[i]);
    }
    m->ledger = o->ledger;
    m->trunk_bytes = at;
    int rc = ledger_alloc(o->ledger, LEDGER_TRUNK, at, "weights", &m->trunk, e);
    for (size_t i = 0; rc == 0 && i < n_shards; i++)
        rc = read_span(m, i, &spans[i], &done, o, e);
    if (rc == 0) {
        settle_rows(m->arch->tensors, m, m, spans);
        for (uint32_t il = 0; il < m->hp.n_layers; il++)
            settle_rows(m->arch->layer_tensors, &m->layers[il], m, spans);
        rc = model_check_finite(m, e);
        if (rc == 0)
            rc = model_absorb(m, e);
        m->loaded = rc == 0;
    }
    mem_free(spans);
    return rc;
}

void model_release(struct model *m)
{
    if (m->trunk)
        ledger_release(m->ledger, LEDGER_TRUNK, m->trunk, m->trunk_bytes);
    if (m->repacked)
        ledger_release(m->ledger, LEDGER_TRUNK, m->repacked, m->repacked_bytes);
    mem_free(m->layers);
    m->trunk = NULL;
    m->repacked = NULL;
    m->layers = NULL;
    m->loaded = false;
}
