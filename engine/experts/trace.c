#include "engine/experts/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/file.h"

#define MAGIC "nocttrac"
#define HEADER_BYTES 96u
#define FINGERPRINT_BYTES 64u
#define END_LAYER TRACE_LAYERS_MAX
#define FLUSH_BYTES (32u << 10)
#define FILE_BYTES_MAX ((size_t)4 << 30)

/* ------------------------------------------------------------------ writing */

struct trace_writer {
    struct file_replace file;
    struct buf out;
    uint32_t n_visits;
    struct error failure; /* the first one */
};

static void put(struct trace_writer *w, uint64_t value, size_t n_bytes)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    buf_append(&w->out, bytes, n_bytes);
}

static int flush(struct trace_writer *w, struct error *e)
{
    int rc = buf_check(&w->out, w->file.path, e);
    if (rc == 0)
        rc = file_write_fd(w->file.fd, w->out.ptr, w->out.len, w->file.path, e);
    buf_clear(&w->out);
    return rc;
}

int trace_create(struct trace_writer **ret, const char *path, const struct trace_header *h,
                 struct error *e)
{
    struct trace_writer *w = mem_zalloc(sizeof(*w));
    if (!w)
        return error_set(e, ERROR_NOMEM, "%s: no memory to write it", path);
    int rc = file_replace_begin(&w->file, path, e);
    if (rc != 0) {
        mem_free(w);
        return rc;
    }
    /* What is waiting and one visit more. */
    buf_init(&w->out, FLUSH_BYTES + 8 + TRACE_EXPERTS_MAX * sizeof(uint16_t));
    buf_append(&w->out, MAGIC, 8);
    put(w, TRACE_VERSION, 4);
    put(w, h->n_layers, 4);
    put(w, h->n_experts, 4);
    put(w, h->n_used, 4);
    put(w, h->slot_bytes, 8);
    buf_append(&w->out, h->fingerprint, FINGERPRINT_BYTES);
    *ret = w;
    return 0;
}

void trace_add(struct trace_writer *w, uint32_t layer, uint32_t n_rows, const uint32_t *ids,
               uint32_t n)
{
    if (w->failure.code != ERROR_NONE)
        return;
    put(w, layer, 2);
    put(w, n, 2);
    put(w, n_rows, 4);
    for (uint32_t i = 0; i < n; i++)
        put(w, ids[i], 2);
    w->n_visits++;
    if (w->out.failed || w->out.len >= FLUSH_BYTES)
        (void)flush(w, &w->failure);
}

int trace_commit(struct trace_writer *w, struct error *e)
{
    int rc = -(int)w->failure.code;
    put(w, END_LAYER, 2);
    put(w, 0, 2);
    put(w, w->n_visits, 4);
    if (rc != 0 && e)
        *e = w->failure;
    if (rc == 0)
        rc = flush(w, e);
    if (rc == 0)
        rc = file_replace_commit(&w->file, e);
    trace_abort(w);
    return rc;
}

void trace_abort(struct trace_writer *w)
{
    if (!w)
        return;
    file_replace_abort(&w->file);
    buf_release(&w->out);
    mem_free(w);
}

/* ------------------------------------------------------------------ reading */

static int read_header(struct trace *t, struct cursor *c, const char *path, struct error *e)
{
    struct trace_header *h = &t->header;
    const struct str magic = cursor_bytes(c, 8);
    const uint32_t version = cursor_u32(c);
    h->n_layers = cursor_u32(c);
    h->n_experts = cursor_u32(c);
    h->n_used = cursor_u32(c);
    h->slot_bytes = cursor_u64(c);
    const struct str fingerprint = cursor_bytes(c, FINGERPRINT_BYTES);
    if (c->failed || memcmp(magic.ptr, MAGIC, 8) != 0)
        return error_set(e, ERROR_FORMAT, "%s: is no trace of experts", path);
    memcpy(h->fingerprint, fingerprint.ptr, FINGERPRINT_BYTES);
    if (version != TRACE_VERSION)
        return error_set(e, ERROR_FORMAT, "%s: trace of version %u, this program reads %u", path,
                         version, TRACE_VERSION);
    if (h->n_layers == 0 || h->n_layers > TRACE_LAYERS_MAX || h->n_experts == 0 ||
        h->n_experts > TRACE_EXPERTS_MAX || h->n_used == 0 || h->n_used > h->n_experts)
        return error_set(e, ERROR_FORMAT, "%s: a trace of %u layers, %u of %u experts", path,
                         h->n_layers, h->n_used, h->n_experts);
    return 0;
}

/* Whether they are below n_experts and none comes twice; `seen` has no bit set, before and after. */
static bool ids_good(const struct trace_visit *v, uint32_t n_experts, uint8_t *seen)
{
    uint32_t n = 0;
    bool good = true;
    for (; good && n < v->n; n++) {
        const uint32_t id = v->ids[n];
        good = id < n_experts && !(seen[id / 8] >> (id % 8) & 1);
        seen[id / 8] |= (uint8_t)(1u << (id % 8));
    }
    while (n-- > 0)
        seen[v->ids[n] / 8] = 0;
    return good;
}

static bool visit_good(const struct trace_header *h, const struct trace_visit *v, uint8_t *seen)
{
    return v->layer < h->n_layers && v->n > 0 && v->n <= (uint64_t)v->n_rows * h->n_used &&
           ids_good(v, h->n_experts, seen);
}

static struct trace_visit take_visit(struct cursor *c)
{
    struct trace_visit v;
    v.layer = cursor_u16(c);
    v.n = cursor_u16(c);
    v.n_rows = cursor_u32(c);
    /* Every field before has an even number of bytes, and the block begins aligned. */
    v.ids = (const uint16_t *)(const void *)cursor_bytes(c, (uint64_t)v.n * sizeof(*v.ids)).ptr;
    return v;
}

static int check(struct trace *t, const char *path, struct error *e)
{
    uint8_t seen[TRACE_EXPERTS_MAX / 8 + 1] = {0};
    struct cursor c;
    cursor_init(&c, t->bytes.ptr, t->bytes.len);
    int rc = read_header(t, &c, path, e);
    if (rc != 0)
        return rc;
    for (;;) {
        const size_t at = c.pos;
        const struct trace_visit v = take_visit(&c);
        if (!c.failed && v.layer == END_LAYER && v.n == 0 && v.n_rows == t->n_visits &&
            cursor_left(&c) == 0)
            return 0;
        if (c.failed || !visit_good(&t->header, &v, seen))
            return error_set(e, ERROR_FORMAT, "%s: visit %u, at byte %zu, is cut off or damaged",
                             path, t->n_visits, at);
        t->n_visits++;
    }
}

int trace_read(struct trace *ret, const char *path, struct error *e)
{
    struct trace t = {0};
    buf_init(&t.bytes, FILE_BYTES_MAX);
    int rc = file_read_all(path, FILE_BYTES_MAX, &t.bytes, e);
    if (rc == 0)
        rc = check(&t, path, e);
    if (rc != 0) {
        buf_release(&t.bytes);
        return rc;
    }
    *ret = t;
    return 0;
}

void trace_release(struct trace *t)
{
    buf_release(&t->bytes);
    *t = (struct trace){0};
}

bool trace_next(const struct trace *t, size_t *at, struct trace_visit *ret)
{
    struct cursor c;
    cursor_init(&c, t->bytes.ptr, t->bytes.len);
    c.pos = *at ? *at : HEADER_BYTES;
    *ret = take_visit(&c);
    *at = c.pos;
    return ret->n > 0;
}
