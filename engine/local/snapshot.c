/*
 * A sequence's state in a file: what would otherwise have to be computed again.
 *
 * The file, little-endian: struct header, the ids that are through the model, the state in the order
 * of kv_range, then SHA-256 over all that comes before. It is written beside its name, fsynced and
 * renamed; both ways go through a buffer of the planned I/O and leave no page cache behind.
 */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/local/local.h"

#define MAGIC "NOCTSNAP"
#define VERSION 1u
#define DIGEST_BYTES 32u
/* Bytes that are in flight between file and page cache at once. */
#define PIECE_BYTES (4u << 20)

struct header {
    char magic[8];
    uint32_t version;
    uint32_t n_positions;
    uint64_t state_bytes;
    char fingerprint[64];
};

static struct header header_of(const struct engine *en, uint32_t n_positions)
{
    const struct kv_shape shape = model_kv_shape(&en->model, en->o.exact);
    struct header h = {.version = VERSION,
                       .n_positions = n_positions,
                       .state_bytes = kv_saved_bytes(&shape, n_positions)};
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    memcpy(h.fingerprint, en->resume_fingerprint, sizeof(h.fingerprint));
    return h;
}

static uint64_t file_bytes(const struct header *h)
{
    return sizeof(*h) + (uint64_t)h->n_positions * sizeof(int32_t) + h->state_bytes + DIGEST_BYTES;
}

/* The request's sequence while there is something to compute for it. */
static struct sequence *find_running(const struct engine *en, uint64_t tag)
{
    struct sequence *s = scheduler_find(en, tag);
    return s && s->state == SEQUENCE_RUNNING ? s : NULL;
}

uint64_t engine_snapshot_bytes(struct engine *en, uint64_t tag, uint32_t *ret_tokens)
{
    const struct sequence *s = find_running(en, tag);
    *ret_tokens = s ? s->n_cached : 0;
    if (*ret_tokens == 0)
        return 0;
    const struct header h = header_of(en, s->n_cached);
    return file_bytes(&h);
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

static int put_all(struct writer *w, const struct engine *en, const struct sequence *s,
                   struct error *e)
{
    struct header h = header_of(en, s->n_cached);
    uint8_t digest[DIGEST_BYTES];
    int rc = put(w, &h, sizeof(h), e);
    if (rc == 0)
        rc = put(w, s->tokens, h.n_positions * sizeof(int32_t), e);
    if (rc == 0)
        rc = kv_visit(en->kv, s->slot, h.n_positions, put, w, e);
    if (rc != 0)
        return rc;
    sha256_end(&w->hash, digest);
    return file_write_fd(w->file.fd, digest, sizeof(digest), w->file.temp, e);
}

int engine_snapshot(struct engine *en, uint64_t tag, const char *path, struct error *e)
{
    const struct sequence *s = find_running(en, tag);
    struct writer w;
    if (!s || s->n_cached == 0)
        return error_set(e, ERROR_NOTFOUND, "snapshot %s: nothing has been computed yet", path);
    int rc = file_replace_begin(&w.file, path, e);
    if (rc != 0)
        return rc;
    sha256_init(&w.hash);
    w.n_unflushed = 0;
    rc = put_all(&w, en, s, e);
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
    /* One token at least must go through the model: it says what comes next. */
    if (h->n_positions == 0 || h->n_positions >= s->n_tokens)
        return error_set(e, ERROR_CONFLICT, "snapshot %s has %u tokens, the request %u", path,
                         h->n_positions, s->n_tokens);
    const struct header mine = header_of(en, h->n_positions);
    if (h->state_bytes != mine.state_bytes || r->file.size != file_bytes(&mine))
        return error_set(e, ERROR_FORMAT,
                         "snapshot %s has %" PRIu64 " bytes, its header and the model say %" PRIu64,
                         path, r->file.size, file_bytes(&mine));
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

static int get_state(struct engine *en, const struct sequence *s, struct reader *r, uint32_t n,
                     struct error *e)
{
    uint8_t digest[DIGEST_BYTES], stored[DIGEST_BYTES];
    int rc = kv_visit(en->kv, s->slot, n, get, r, e);
    if (rc != 0)
        return rc;
    sha256_end(&r->hash, digest);
    rc = file_read_at(&r->file, stored, sizeof(stored), r->at, e);
    if (rc == 0 && memcmp(digest, stored, sizeof(digest)) != 0)
        rc = error_set(e, ERROR_FORMAT, "snapshot %s is damaged: its checksum does not match",
                       r->file.path);
    return rc;
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
    if (!s || s->n_cached > 0)
        return error_set(e, ERROR_INVALID, "snapshot %s: the request is not about to begin", path);
    sha256_init(&r.hash);
    int rc = file_open(&r.file, path, e);
    if (rc == 0)
        rc = get(&r, &h, sizeof(h), e);
    if (rc == 0)
        rc = check_header(en, s, &r, &h, e);
    if (rc == 0)
        rc = check_ids(&r, s, h.n_positions, e);
    if (rc == 0) {
        rc = get_state(en, s, &r, h.n_positions, e);
        if (rc != 0)
            kv_clear(en->kv, s->slot); /* recurrent states begin at zero */
    }
    file_close(&r.file);
    if (rc == 0)
        *ret_tokens = s->n_cached = s->n_restored = h.n_positions;
    return rc;
}
