#include "batch/saved_logits.h"

#include <inttypes.h>
#include <string.h>

#include "base/sha256.h"

static const char magic[8] = {'N', 'O', 'C', 'T', 'L', 'O', 'G', '2'};

/* After each row; a flipped bit in a file of gigabytes must not become a figure. */
#define CHECK_BYTES 8u

struct header {
    char magic[sizeof(magic)];
    uint32_t n_vocab, window, n_windows, zero;
};

uint32_t saved_scored(uint32_t window)
{
    return window - 1 - window / 2;
}

static size_t ids_bytes(uint32_t window, uint32_t n_windows)
{
    return (size_t)window * n_windows * sizeof(int32_t);
}

bool saved_is(const char *path)
{
    struct file f = {0};
    char first[sizeof(magic)] = "";
    if (file_open(&f, path, NULL) < 0)
        return false;
    const bool read = file_read_at(&f, first, sizeof(first), 0, NULL) == 0;
    file_close(&f);
    /* Of any version: check_header tells them apart. */
    return read && memcmp(first, magic, sizeof(magic) - 1) == 0;
}

int saved_begin(struct file_replace *out, const char *path, const struct saved_shape *shape,
                const int32_t *ids, struct error *e)
{
    struct header h = {
        .n_vocab = shape->n_vocab, .window = shape->window, .n_windows = shape->n_windows};
    memcpy(h.magic, magic, sizeof(magic));
    int rc = file_replace_begin(out, path, e);
    if (rc < 0)
        return rc;
    rc = file_write_fd(out->fd, &h, sizeof(h), out->path, e);
    if (rc == 0)
        rc = file_write_fd(out->fd, ids, ids_bytes(shape->window, shape->n_windows), out->path, e);
    if (rc < 0)
        file_replace_abort(out);
    return rc;
}

static void row_check(const float *row, uint32_t n_vocab, uint8_t out[CHECK_BYTES])
{
    uint8_t digest[32];
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, row, n_vocab * sizeof(*row));
    sha256_end(&h, digest);
    memcpy(out, digest, CHECK_BYTES);
}

int saved_write(const struct file_replace *out, const float *row, uint32_t n_vocab, struct error *e)
{
    uint8_t check[CHECK_BYTES];
    row_check(row, n_vocab, check);
    int rc = file_write_fd(out->fd, row, n_vocab * sizeof(*row), out->path, e);
    if (rc == 0)
        rc = file_write_fd(out->fd, check, sizeof(check), out->path, e);
    return rc;
}

static int check_header(const struct header *h, const struct saved_shape *shape, const char *path,
                        struct error *e)
{
    if (memcmp(h->magic, magic, sizeof(magic)) != 0)
        return error_set(e, ERROR_FORMAT,
                         "%s: saved logits of version %c, this program reads %c; save them again",
                         path, h->magic[sizeof(magic) - 1], magic[sizeof(magic) - 1]);
    if (h->n_vocab != shape->n_vocab)
        return error_set(e, ERROR_INVALID,
                         "%s: logits of a vocabulary of %" PRIu32 ", the model has %" PRIu32, path,
                         h->n_vocab, shape->n_vocab);
    if (h->window != shape->window)
        return error_set(e, ERROR_INVALID,
                         "%s: logits of windows of %" PRIu32 " tokens, not %" PRIu32, path,
                         h->window, shape->window);
    if (h->n_windows < shape->n_windows)
        return error_set(e, ERROR_INVALID,
                         "%s: logits of %" PRIu32 " windows, %" PRIu32
                         " are wanted; was it another text? (--limit takes fewer)",
                         path, h->n_windows, shape->n_windows);
    return 0;
}

/* Compares in pieces, so that no long text is held twice. */
static int check_ids(const struct saved_reader *r, const int32_t *ids, size_t n_bytes,
                     struct error *e)
{
    char piece[4096];
    for (size_t at = 0; at < n_bytes; at += sizeof(piece)) {
        const size_t n = MIN_OF(sizeof(piece), n_bytes - at);
        int rc = file_read_at(&r->file, piece, n, sizeof(struct header) + at, e);
        if (rc < 0)
            return rc;
        if (memcmp(piece, (const char *)ids + at, n) != 0)
            return error_set(e, ERROR_INVALID,
                             "%s: logits of another text, or of another tokeniser's words of it",
                             r->file.path);
    }
    return 0;
}

/* Where its rows begin; refused unless all of them are there. */
static int find_rows(struct saved_reader *r, const struct header *h, struct error *e)
{
    const uint64_t row = (uint64_t)h->n_vocab * sizeof(float) + CHECK_BYTES;
    r->at = sizeof(*h) + ids_bytes(h->window, h->n_windows);
    const uint64_t want = r->at + row * saved_scored(h->window) * h->n_windows;
    if (r->file.size == want)
        return 0;
    return error_set(e, ERROR_FORMAT, "%s: %" PRIu64 " bytes, its header speaks of %" PRIu64,
                     r->file.path, r->file.size, want);
}

int saved_open(struct saved_reader *r, const char *path, const struct saved_shape *shape,
               const int32_t *ids, struct error *e)
{
    struct header h;
    int rc = file_open(&r->file, path, e);
    if (rc < 0)
        return rc;
    rc = file_read_at(&r->file, &h, sizeof(h), 0, e);
    if (rc == 0)
        rc = check_header(&h, shape, path, e);
    if (rc == 0)
        rc = check_ids(r, ids, ids_bytes(shape->window, shape->n_windows), e);
    if (rc == 0)
        rc = find_rows(r, &h, e);
    if (rc < 0)
        saved_close(r);
    return rc;
}

int saved_read(struct saved_reader *r, float *row, uint32_t n_vocab, struct error *e)
{
    const size_t n = n_vocab * sizeof(*row);
    uint8_t want[CHECK_BYTES], got[CHECK_BYTES];
    int rc = file_read_at(&r->file, row, n, r->at, e);
    if (rc == 0)
        rc = file_read_at(&r->file, want, sizeof(want), r->at + n, e);
    if (rc < 0)
        return rc;
    row_check(row, n_vocab, got);
    if (memcmp(got, want, sizeof(got)) != 0)
        return error_set(e, ERROR_FORMAT,
                         "%s: the row at byte %" PRIu64 " is not what was written; save it again",
                         r->file.path, r->at);
    r->at += n + sizeof(want);
    return 0;
}

void saved_close(struct saved_reader *r)
{
    file_close(&r->file);
}
