/*
 * A sequence's state in a file: what would otherwise have to be computed again.
 *
 * The file, little-endian: struct header; the ids that are through the model, whole or part of the way; the
 * state, layer by layer, each with the positions that it has taken; what the rows of the parts carry (step.h),
 * in order; then SHA-256 over all that comes before. It is written beside its name, fsynced and renamed, and
 * neither way leaves page cache behind. The rows of the parts are checked with the rest but stay in the
 * file until their step (suspended.h).
 */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/local/suspended.h"

#define MAGIC "NOCTSNAP"
#define VERSION 2u
#define DIGEST_BYTES 32u
/* Bytes that are in flight between file and page cache at once. */
#define PIECE_BYTES (4u << 20)
/* What only passes through: on the stack. */
#define COPY_BYTES (16u << 10)

struct header {
    char magic[8];
    uint32_t version;
    uint32_t n_positions; /* that are through every layer */
    uint64_t state_bytes; /* all between the ids and the checksum */
    char fingerprint[64];
    uint32_t n_parts, zero;
    struct sequence_part part[SEQUENCE_PARTS];
};

static uint32_t n_ids(const struct header *h)
{
    return h->n_positions + suspended_rows(h->part, h->n_parts);
}

/* Positions that layer il has taken. */
static uint32_t n_taken(const struct header *h, uint32_t il)
{
    return suspended_positions(h->n_positions, h->part, h->n_parts, il);
}

static uint64_t state_bytes(const struct engine *en, const struct header *h)
{
    const struct kv_shape shape = model_kv_shape(&en->model, en->o.exact);
    uint64_t bytes = suspended_carried_bytes(en, h->part, h->n_parts);
    for (uint32_t il = 0; il < en->model.hp.n_layers; il++)
        bytes += en->model.layers[il].parts & PART_KDA ? kv_recurrent_layer_bytes(&shape)
                                                       : kv_layer_bytes(&shape, n_taken(h, il));
    return bytes;
}

static uint64_t file_bytes(const struct engine *en, const struct header *h)
{
    return sizeof(*h) + (uint64_t)n_ids(h) * sizeof(int32_t) + state_bytes(en, h) + DIGEST_BYTES;
}

/* ERROR_NOTFOUND: there is nothing of it to keep. */
static int make_header(const struct engine *en, const struct sequence *s, struct header *ret,
                       struct error *e)
{
    struct suspended_parts parts = {0};
    if (s)
        suspended_parts(en, s, &parts);
    if (!s || (s->n_cached == 0 && parts.n == 0))
        return error_set(e, ERROR_NOTFOUND, "nothing has been computed yet");
    if (parts.too_many)
        return error_set(e, ERROR_UNSUPPORTED, "its rows are at more than %u layers",
                         SEQUENCE_PARTS);
    *ret = (struct header){.version = VERSION, .n_positions = s->n_cached, .n_parts = parts.n};
    memcpy(ret->magic, MAGIC, sizeof(ret->magic));
    memcpy(ret->fingerprint, en->resume_fingerprint, sizeof(ret->fingerprint));
    memcpy(ret->part, parts.part, parts.n * sizeof(*parts.part));
    ret->state_bytes = state_bytes(en, ret);
    return 0;
}

/* Each layer's state. */
static int visit_state(const struct engine *en, int slot, const struct header *h, kv_visit_fn *fn,
                       void *context, struct error *e)
{
    int rc = 0;
    for (uint32_t il = 0; rc == 0 && il < en->model.hp.n_layers; il++) {
        const struct layer *l = &en->model.layers[il];
        rc = l->parts & PART_KDA ? kv_visit_recurrent(en->kv, slot, l->state, fn, context, e)
                                 : kv_visit(en->kv, slot, l->state, n_taken(h, il), fn, context, e);
    }
    return rc;
}

/* The request's sequence while there is something to compute for it. */
static struct sequence *find_running(const struct engine *en, uint64_t tag)
{
    struct sequence *s = scheduler_find(en, tag);
    return s && s->state == SEQUENCE_RUNNING ? s : NULL;
}

uint64_t engine_snapshot_bytes(struct engine *en, uint64_t tag, uint32_t *ret_tokens)
{
    struct header h;
    *ret_tokens = 0;
    if (make_header(en, find_running(en, tag), &h, NULL) != 0)
        return 0;
    *ret_tokens = suspended_worth(en, h.n_positions, h.part, h.n_parts);
    return file_bytes(en, &h);
}

/* ------------------------------------------------------------------ writing */

struct writer {
    struct file_replace file;
    struct sha256 hash;
    size_t n_unflushed;
};

static int put(void *context, void *bytes, size_t n, struct error *e)
{
    struct writer *w = context;
    sha256_add(&w->hash, bytes, n);
    for (size_t at = 0; at < n; at += PIECE_BYTES) {
        const size_t piece = MIN_OF(n - at, (size_t)PIECE_BYTES);
        int rc = file_write_fd(w->file.fd, (const char *)bytes + at, piece, w->file.temp, e);
        w->n_unflushed += piece;
        if (rc == 0 && w->n_unflushed >= PIECE_BYTES) {
            rc = file_flush(w->file.fd, w->file.temp, e);
            w->n_unflushed = 0;
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* What rows of parts carry that are still in the snapshot they came from. */
static int put_kept(struct writer *w, const struct engine *en, const struct sequence *s,
                    struct error *e)
{
    char bytes[COPY_BYTES];
    uint64_t at = s->kept.at, left = suspended_carried_bytes(en, s->kept.part, s->kept.n_parts);
    int rc = 0;
    while (rc == 0 && left > 0) {
        const size_t piece = (size_t)MIN_OF(left, (uint64_t)sizeof(bytes));
        rc = file_read_at(&s->kept.file, bytes, piece, at, e);
        if (rc == 0)
            rc = put(w, bytes, piece, e);
        file_forget(&s->kept.file, piece, at);
        at += piece;
        left -= piece;
    }
    return rc;
}

static int put_all(struct writer *w, const struct engine *en, const struct sequence *s,
                   struct header *h, struct error *e)
{
    uint8_t digest[DIGEST_BYTES];
    int rc = put(w, h, sizeof(*h), e);
    if (rc == 0)
        rc = put(w, s->tokens, n_ids(h) * sizeof(int32_t), e);
    if (rc == 0)
        rc = visit_state(en, s->slot, h, put, w, e);
    if (rc == 0 && en->suspended > 0)
        rc = forward_carried_visit(en->forward, en->suspended, s->first_row, s->n_rows, put, w, e);
    if (rc == 0)
        rc = put_kept(w, en, s, e);
    if (rc != 0)
        return rc;
    sha256_end(&w->hash, digest);
    return file_write_fd(w->file.fd, digest, sizeof(digest), w->file.temp, e);
}

int engine_snapshot(struct engine *en, uint64_t tag, const char *path, struct error *e)
{
    const struct sequence *s = find_running(en, tag);
    struct writer w = {0};
    struct header h;
    int rc = make_header(en, s, &h, e);
    if (rc != 0)
        return error_wrap(e, "snapshot %s", path);
    rc = file_replace_begin(&w.file, path, e);
    if (rc != 0)
        return rc;
    sha256_init(&w.hash);
    rc = put_all(&w, en, s, &h, e);
    if (rc == 0)
        rc = file_replace_commit(&w.file, e);
    file_replace_abort(&w.file);
    return rc;
}

/* ------------------------------------------------------------------ reading */

struct reader {
    struct file file;
    uint64_t at;
    struct sha256 hash;
};

static int get(void *context, void *out, size_t n, struct error *e)
{
    struct reader *r = context;
    for (size_t done = 0; done < n;) {
        const size_t piece = MIN_OF(n - done, (size_t)PIECE_BYTES);
        int rc = file_read_at(&r->file, (char *)out + done, piece, r->at, e);
        if (rc != 0)
            return rc;
        file_forget(&r->file, piece, r->at);
        r->at += piece;
        done += piece;
    }
    sha256_add(&r->hash, out, n);
    return 0;
}

/* Whether there can be so many rows, whole and at those layers: one at least is to go through the last. */
static bool check_parts(const struct engine *en, const struct sequence *s, const struct header *h)
{
    uint64_t n = h->n_positions;
    uint32_t above = en->model.hp.n_layers;
    if (h->n_parts > SEQUENCE_PARTS)
        return false;
    for (uint32_t i = 0; i < h->n_parts; i++) {
        const struct sequence_part *part = &h->part[i];
        if (part->n_rows == 0 || part->n_layers == 0 || part->n_layers >= above)
            return false;
        above = part->n_layers;
        n += part->n_rows;
    }
    return n > 0 && n <= s->n_tokens && h->n_positions < s->n_tokens;
}

/* Whose state it is: this model's, with this arithmetic, and of a size that can be. */
static int check_header(const struct engine *en, const struct sequence *s, const struct reader *r,
                        const struct header *h, struct error *e)
{
    const char *path = r->file.path;
    if (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 || h->version != VERSION)
        return error_set(e, ERROR_FORMAT, "%s is no snapshot of version %u", path, VERSION);
    if (memcmp(h->fingerprint, en->resume_fingerprint, sizeof(h->fingerprint)) != 0)
        return error_set(e, ERROR_CONFLICT,
                         "snapshot %s is of another model, other settings or another program",
                         path);
    if (!check_parts(en, s, h))
        return error_set(e, ERROR_CONFLICT,
                         "snapshot %s has %u tokens and %u parts, the request %u", path,
                         h->n_positions, h->n_parts, s->n_tokens);
    if (h->state_bytes != state_bytes(en, h) || r->file.size != file_bytes(en, h))
        return error_set(e, ERROR_FORMAT,
                         "snapshot %s has %" PRIu64 " bytes, its header and the model say %" PRIu64,
                         path, r->file.size, file_bytes(en, h));
    return 0;
}

static int check_ids(struct reader *r, const struct sequence *s, uint32_t n, struct error *e)
{
    int32_t ids[256];
    for (uint32_t at = 0; at < n;) {
        const uint32_t piece = MIN_OF(n - at, (uint32_t)ARRAY_LEN(ids));
        int rc = get(r, ids, piece * sizeof(*ids), e);
        if (rc != 0)
            return rc;
        if (memcmp(ids, s->tokens + at, piece * sizeof(*ids)) != 0)
            return error_set(e, ERROR_CONFLICT, "snapshot %s is of another text", r->file.path);
        at += piece;
    }
    return 0;
}

/* What the rows of the parts carry is only checked. */
static int pass_carried(const struct engine *en, struct reader *r, const struct header *h,
                        struct error *e)
{
    char bytes[COPY_BYTES];
    uint64_t left = suspended_carried_bytes(en, h->part, h->n_parts);
    int rc = 0;
    while (rc == 0 && left > 0) {
        const size_t piece = (size_t)MIN_OF(left, (uint64_t)sizeof(bytes));
        rc = get(r, bytes, piece, e);
        left -= piece;
    }
    return rc;
}

static int get_state(struct engine *en, const struct sequence *s, struct reader *r,
                     const struct header *h, struct error *e)
{
    uint8_t digest[DIGEST_BYTES], stored[DIGEST_BYTES];
    int rc = visit_state(en, s->slot, h, get, r, e);
    if (rc == 0)
        rc = pass_carried(en, r, h, e);
    if (rc != 0)
        return rc;
    sha256_end(&r->hash, digest);
    rc = file_read_at(&r->file, stored, sizeof(stored), r->at, e);
    if (rc == 0 && memcmp(digest, stored, sizeof(digest)) != 0)
        rc = error_set(e, ERROR_FORMAT, "snapshot %s is damaged: its checksum does not match",
                       r->file.path);
    return rc;
}

/* The sequence stands where the snapshot does; with parts the file is its own now. */
static void stand(const struct engine *en, struct sequence *s, struct reader *r,
                  const struct header *h)
{
    s->n_cached = h->n_positions;
    s->n_restored = suspended_worth(en, h->n_positions, h->part, h->n_parts);
    if (h->n_parts == 0)
        return;
    s->kept.n_parts = h->n_parts;
    memcpy(s->kept.part, h->part, sizeof(h->part));
    s->kept.at = r->at - suspended_carried_bytes(en, h->part, h->n_parts);
    s->kept.file = r->file;
    r->file = (struct file){0};
}

int engine_restore(struct engine *en, uint64_t tag, const char *path, uint32_t *ret_tokens,
                   struct error *e)
{
    struct sequence *s = find_running(en, tag);
    struct reader r = {0};
    struct header h;
    *ret_tokens = 0;
    if (!s &&
        scheduler_find(en, tag)) /* what was resumed was the whole answer: nothing is to compute */
        return 0;
    if (!s || s->n_cached > 0 || s->n_rows > 0 || s->kept.n_parts > 0)
        return error_set(e, ERROR_INVALID, "snapshot %s: the request is not about to begin", path);
    sha256_init(&r.hash);
    int rc = file_open(&r.file, path, e);
    if (rc == 0)
        rc = get(&r, &h, sizeof(h), e);
    if (rc == 0)
        rc = check_header(en, s, &r, &h, e);
    if (rc == 0)
        rc = check_ids(&r, s, n_ids(&h), e);
    if (rc == 0) {
        rc = get_state(en, s, &r, &h, e);
        if (rc != 0)
            kv_clear(en->kv, s->slot); /* recurrent states begin at zero */
    }
    if (rc == 0)
        stand(en, s, &r, &h);
    file_close(&r.file);
    *ret_tokens = rc == 0 ? s->n_restored : 0;
    return rc;
}
