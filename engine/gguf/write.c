#include "engine/gguf/write.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "engine/gguf/internal.h"

struct row {
    char name[GGUF_NAME_BYTES_MAX + 1];
    const struct quant *quant;
    uint32_t n_dims;
    uint64_t ne[GGUF_DIMS_MAX];
    uint64_t bytes;
};

struct gguf_writer {
    char *path;
    uint32_t max_tensors_per_shard; /* 0: not split */
    struct buf keys;                /* encoded, without the split's */
    uint64_t n_keys;
    uint64_t alignment; /* of the first shard */
    struct row *rows;
    size_t n_rows, rows_cap;
    struct error first; /* the first failure of a put */
    /* Writing. */
    struct file_replace out;
    bool is_open;
    size_t shard, n_shards;
    size_t row;         /* whose bytes are next */
    uint64_t left;      /* of them */
    uint64_t file_size; /* of the shard so far */
};

int gguf_writer_new(struct gguf_writer **ret, const char *path, uint32_t max_tensors_per_shard,
                    struct error *e)
{
    struct gguf_writer *w = mem_zalloc(sizeof(*w));
    if (w)
        w->path = mem_strdup(path);
    if (!w || !w->path) {
        mem_free(w);
        return error_set(e, ERROR_NOMEM, "%s: no memory for the writer", path);
    }
    w->max_tensors_per_shard = max_tensors_per_shard;
    w->alignment = GGUF_ALIGNMENT_DEFAULT;
    buf_init(&w->keys, GGUF_HEADER_BYTES_MAX);
    *ret = w;
    return 0;
}

void gguf_writer_free(struct gguf_writer *w)
{
    if (!w)
        return;
    if (w->is_open)
        file_replace_abort(&w->out);
    buf_release(&w->keys);
    mem_free(w->rows);
    mem_free(w->path);
    mem_free(w);
}

static void put_integer(struct buf *b, uint64_t v, size_t bytes)
{
    uint8_t le[8];
    for (size_t i = 0; i < bytes; i++)
        le[i] = (uint8_t)(v >> (8 * i));
    (void)buf_append(b, le, bytes); /* failures stick: buf_check */
}

static void put_string(struct buf *b, struct str s)
{
    put_integer(b, s.len, 8);
    (void)buf_append_str(b, s);
}

static void put_key(struct buf *b, struct str key, enum gguf_type type)
{
    put_string(b, key);
    put_integer(b, (uint64_t)type, 4);
}

static void put_scalar(struct gguf_writer *w, const char *key, enum gguf_type type, uint64_t v)
{
    put_key(&w->keys, str_of(key), type);
    put_integer(&w->keys, v, gguf_type_bytes(type));
    w->n_keys++;
}

static void put_array(struct gguf_writer *w, const char *key, enum gguf_type elem, size_t n)
{
    put_key(&w->keys, str_of(key), GGUF_ARRAY);
    put_integer(&w->keys, (uint64_t)elem, 4);
    put_integer(&w->keys, n, 8);
    w->n_keys++;
}

static uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static void check_alignment(struct gguf_writer *w, uint32_t v)
{
    w->alignment = v;
    if ((v == 0 || (v & (v - 1)) != 0) && w->first.code == 0)
        error_set(&w->first, ERROR_INVALID,
                  "%s: key 'general.alignment': %" PRIu32 " is not a power of two", w->path, v);
}

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v)
{
    if (strcmp(key, "general.alignment") == 0)
        check_alignment(w, v);
    put_scalar(w, key, GGUF_U32, v);
}

void gguf_put_i32(struct gguf_writer *w, const char *key, int32_t v)
{
    put_scalar(w, key, GGUF_I32, (uint32_t)v);
}

void gguf_put_f32(struct gguf_writer *w, const char *key, float v)
{
    put_scalar(w, key, GGUF_F32, float_bits(v));
}

void gguf_put_bool(struct gguf_writer *w, const char *key, bool v)
{
    put_scalar(w, key, GGUF_BOOL, v);
}

void gguf_put_str(struct gguf_writer *w, const char *key, struct str v)
{
    put_key(&w->keys, str_of(key), GGUF_STRING);
    put_string(&w->keys, v);
    w->n_keys++;
}

void gguf_put_u32s(struct gguf_writer *w, const char *key, const uint32_t *v, size_t n)
{
    put_array(w, key, GGUF_U32, n);
    for (size_t i = 0; i < n; i++)
        put_integer(&w->keys, v[i], 4);
}

void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *v, size_t n)
{
    put_array(w, key, GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        put_integer(&w->keys, (uint32_t)v[i], 4);
}

void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *v, size_t n)
{
    put_array(w, key, GGUF_F32, n);
    for (size_t i = 0; i < n; i++)
        put_integer(&w->keys, float_bits(v[i]), 4);
}

void gguf_put_strs(struct gguf_writer *w, const char *key, const struct str *v, size_t n)
{
    put_array(w, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++)
        put_string(&w->keys, v[i]);
}

void gguf_put_value(struct gguf_writer *w, struct str key, const struct gguf_value *v)
{
    put_key(&w->keys, key, v->type);
    if (v->type == GGUF_ARRAY) {
        put_integer(&w->keys, (uint64_t)v->elem, 4);
        put_integer(&w->keys, v->count, 8);
    }
    (void)buf_append(&w->keys, v->bytes, v->n_bytes);
    w->n_keys++;
}

/* Fills the row and its size, or says what is wrong with it. */
static int make_row(struct row *r, const char *name, const struct quant *q, uint32_t n_dims,
                    const uint64_t *ne, struct error *e)
{
    size_t len = strlen(name);
    if (len == 0 || len > GGUF_NAME_BYTES_MAX)
        return error_set(e, ERROR_INVALID, "tensor '%s': name of %zu bytes, want 1 to %u", name,
                         len, GGUF_NAME_BYTES_MAX);
    if (n_dims == 0 || n_dims > GGUF_DIMS_MAX)
        return error_set(e, ERROR_INVALID, "tensor '%s': %" PRIu32 " dimensions, want 1 to %u",
                         name, n_dims, GGUF_DIMS_MAX);
    if (ne[0] % q->block_elems != 0)
        return error_set(e, ERROR_INVALID,
                         "tensor '%s': %" PRIu64 " columns, a block of %s has %" PRIu32, name,
                         ne[0], q->name, q->block_elems);
    *r = (struct row){.quant = q, .n_dims = n_dims, .bytes = q->block_bytes};
    memcpy(r->name, name, len);
    for (uint32_t i = 0; i < n_dims; i++) {
        uint64_t n = i == 0 ? ne[0] / q->block_elems : ne[i];
        if (n == 0 || n > INT64_MAX / r->bytes)
            return error_set(e, ERROR_INVALID, "tensor '%s': dimension %" PRIu32 " is %" PRIu64,
                             name, i, ne[i]);
        r->bytes *= n;
        r->ne[i] = ne[i];
    }
    return 0;
}

void gguf_put_tensor(struct gguf_writer *w, const char *name, const struct quant *q,
                     uint32_t n_dims, const uint64_t *ne)
{
    if (w->first.code != 0)
        return;
    if (w->n_rows == w->rows_cap) {
        size_t cap = w->rows_cap ? 2 * w->rows_cap : 64;
        struct row *rows = mem_regrow(w->rows, cap, sizeof(*rows));
        if (!rows) {
            error_set(&w->first, ERROR_NOMEM, "tensor '%s': out of memory", name);
            return;
        }
        w->rows = rows;
        w->rows_cap = cap;
    }
    if (make_row(&w->rows[w->n_rows], name, q, n_dims, ne, &w->first) == 0)
        w->n_rows++;
}

static size_t shard_first_row(const struct gguf_writer *w, size_t shard)
{
    return w->max_tensors_per_shard ? MIN_OF(shard * w->max_tensors_per_shard, w->n_rows) : 0;
}

static size_t shard_end_row(const struct gguf_writer *w, size_t shard)
{
    return w->max_tensors_per_shard ? shard_first_row(w, shard + 1) : w->n_rows;
}

static uint64_t shard_alignment(const struct gguf_writer *w)
{
    return w->shard == 0 ? w->alignment : GGUF_ALIGNMENT_DEFAULT;
}

static void put_split_keys(const struct gguf_writer *w, struct buf *b)
{
    put_key(b, str_of("split.no"), GGUF_U16);
    put_integer(b, w->shard, 2);
    put_key(b, str_of("split.count"), GGUF_U16);
    put_integer(b, w->n_shards, 2);
    put_key(b, str_of("split.tensors.count"), GGUF_I32);
    put_integer(b, w->n_rows, 4);
}

/* The shard's bytes up to where its data starts. */
static void put_header(const struct gguf_writer *w, struct buf *b)
{
    size_t first = shard_first_row(w, w->shard);
    size_t end = shard_end_row(w, w->shard);
    bool split = w->max_tensors_per_shard > 0;
    (void)buf_append_c(b, "GGUF");
    put_integer(b, 3, 4);
    put_integer(b, end - first, 8);
    put_integer(b, (w->shard == 0 ? w->n_keys : 0) + (split ? 3 : 0), 8);
    if (w->shard == 0)
        (void)buf_append_str(b, buf_str(&w->keys));
    if (split)
        put_split_keys(w, b);
    uint64_t offset = 0;
    for (size_t i = first; i < end; i++) {
        const struct row *r = &w->rows[i];
        put_string(b, str_of(r->name));
        put_integer(b, r->n_dims, 4);
        for (uint32_t d = 0; d < r->n_dims; d++)
            put_integer(b, r->ne[d], 8);
        put_integer(b, r->quant->ggml_id, 4);
        put_integer(b, offset, 8);
        offset += ALIGN_UP(r->bytes, shard_alignment(w));
    }
}

/* The name of the shard that is being written; the caller gives PATH_MAX bytes. */
static int shard_name(const struct gguf_writer *w, char *out, struct error *e)
{
    size_t len = strlen(w->path);
    int n = snprintf(out, PATH_MAX, "%s", w->path);
    if (w->max_tensors_per_shard > 0) {
        static const char ending[] = ".gguf";
        size_t ending_len = sizeof(ending) - 1;
        if (len > ending_len && strcmp(w->path + len - ending_len, ending) == 0)
            len -= ending_len;
        n = snprintf(out, PATH_MAX, "%.*s-%05zu-of-%05zu.gguf", (int)MIN_OF(len, (size_t)PATH_MAX),
                     w->path, w->shard + 1, w->n_shards);
    }
    if (n >= PATH_MAX)
        return error_set(e, ERROR_INVALID, "%.64s...: path of %d bytes, limit %d", w->path, n,
                         PATH_MAX - 1);
    return 0;
}

static int write_bytes(struct gguf_writer *w, const void *bytes, size_t n, struct error *e)
{
    w->file_size += n;
    return file_write_fd(w->out.fd, bytes, n, w->out.temp, e);
}

static int write_padding(struct gguf_writer *w, struct error *e)
{
    static const uint8_t zeros[4096];
    uint64_t left = ALIGN_UP(w->file_size, shard_alignment(w)) - w->file_size;
    int rc = 0;
    while (rc == 0 && left > 0) {
        size_t n = (size_t)MIN_OF(left, (uint64_t)sizeof(zeros));
        rc = write_bytes(w, zeros, n, e);
        left -= n;
    }
    return rc;
}

static int begin_shard(struct gguf_writer *w, struct error *e)
{
    char name[PATH_MAX];
    struct buf header;
    buf_init(&header, GGUF_HEADER_BYTES_MAX);
    put_header(w, &header);
    int rc = buf_check(&header, "GGUF header", e);
    if (rc == 0)
        rc = shard_name(w, name, e);
    if (rc == 0)
        rc = file_replace_begin(&w->out, name, e);
    if (rc == 0) {
        w->is_open = true;
        w->file_size = 0;
        rc = write_bytes(w, header.ptr, header.len, e);
    }
    if (rc == 0)
        rc = write_padding(w, e);
    buf_release(&header);
    return rc;
}

static int end_shard(struct gguf_writer *w, struct error *e)
{
    int rc = file_replace_commit(&w->out, e);
    if (rc == 0)
        w->is_open = false;
    return rc;
}

int gguf_writer_begin(struct gguf_writer *w, struct error *e)
{
    if (w->first.code != 0)
        return error_set(e, (enum error_code)w->first.code, "%s", w->first.text);
    int rc = buf_check(&w->keys, "GGUF keys", e);
    if (rc < 0)
        return rc;
    size_t per_shard = w->max_tensors_per_shard ? w->max_tensors_per_shard : SIZE_MAX;
    w->n_shards = w->n_rows == 0 ? 1 : 1 + (w->n_rows - 1) / per_shard;
    if (w->n_shards > UINT16_MAX)
        return error_set(e, ERROR_INVALID, "%s: %zu shards, limit %d", w->path, w->n_shards,
                         UINT16_MAX);
    w->left = w->n_rows > 0 ? w->rows[0].bytes : 0;
    return begin_shard(w, e);
}

/* After a tensor's last byte: padding, and the next file where this one is full. */
static int finish_tensor(struct gguf_writer *w, struct error *e)
{
    int rc = write_padding(w, e);
    w->row++;
    w->left = w->row < w->n_rows ? w->rows[w->row].bytes : 0;
    if (rc < 0 || w->row == w->n_rows || w->row < shard_end_row(w, w->shard))
        return rc;
    rc = end_shard(w, e);
    w->shard++;
    return rc < 0 ? rc : begin_shard(w, e);
}

int gguf_writer_data(struct gguf_writer *w, const void *bytes, size_t n, struct error *e)
{
    const uint8_t *next = bytes;
    int rc = 0;
    while (rc == 0 && n > 0) {
        if (w->row == w->n_rows)
            return error_set(e, ERROR_INVALID, "%s: %zu bytes beyond the last of %zu tensors",
                             w->path, n, w->n_rows);
        size_t part = (size_t)MIN_OF((uint64_t)n, w->left);
        rc = write_bytes(w, next, part, e);
        next += part;
        n -= part;
        w->left -= part;
        if (rc == 0 && w->left == 0)
            rc = finish_tensor(w, e);
    }
    return rc;
}

static int make_hole(struct gguf_writer *w, uint64_t n, struct error *e)
{
    w->file_size += n;
    if (ftruncate(w->out.fd, (off_t)w->file_size) != 0 || lseek(w->out.fd, 0, SEEK_END) < 0)
        return error_set(e, ERROR_IO, "%s: a hole of %" PRIu64 " bytes: %s", w->out.temp, n,
                         strerror(errno));
    return 0;
}

int gguf_writer_hole(struct gguf_writer *w, uint64_t n, struct error *e)
{
    int rc = 0;
    while (rc == 0 && n > 0) {
        if (w->row == w->n_rows)
            return error_set(e, ERROR_INVALID,
                             "%s: a hole of %" PRIu64 " bytes beyond the last of %zu tensors",
                             w->path, n, w->n_rows);
        const uint64_t part = MIN_OF(n, w->left);
        rc = make_hole(w, part, e);
        n -= part;
        w->left -= part;
        if (rc == 0 && w->left == 0)
            rc = finish_tensor(w, e);
    }
    return rc;
}

int gguf_writer_end(struct gguf_writer *w, struct error *e)
{
    if (w->row < w->n_rows)
        return error_set(e, ERROR_INVALID,
                         "%s: tensor '%s': %" PRIu64 " of %" PRIu64 " bytes missing", w->path,
                         w->rows[w->row].name, w->left, w->rows[w->row].bytes);
    return end_shard(w, e);
}
