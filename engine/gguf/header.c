/*
 * One shard's header: bytes to keys and tensor rows, with every rule that one file can break.
 *
 * How long a header is stands nowhere: the file is read in growing steps and parsed again from the
 * start after each, until the bytes held are exactly the header's. Each step at least doubles, so the
 * whole costs about three passes. A claim is believed only if the file has room for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cursor.h"
#include "engine/gguf/internal.h"

#define FIRST_READ_BYTES (256u << 10)

/* Shortest possible records: one byte of name, one of value; no dimensions. */
#define KEY_BYTES_MIN 14u
#define TENSOR_BYTES_MIN 25u

/* What the steps of parsing return when the bytes held end before the file does. */
enum { PARSE_MORE = 1 };

struct parser {
    struct cursor c;
    struct gguf_shard *s;
    uint32_t shard_number;
    char what[GGUF_SHOWN_BYTES + 16]; /* "key 'general.name'" */
    uint64_t needed_bytes;            /* after PARSE_MORE */
    uint64_t next_offset;             /* where the next tensor has to stand */
    struct error *e;
};

#define REFUSE(p, fmt, ...)                                                                        \
    error_set((p)->e, ERROR_FORMAT, "%s: %s: " fmt, (p)->s->file.path, (p)->what, __VA_ARGS__)

static int no_memory(struct parser *p)
{
    return error_set(p->e, ERROR_NOMEM, "%s: %s: out of memory", p->s->file.path, p->what);
}

static uint64_t file_left(const struct parser *p)
{
    return p->s->file.size - p->c.pos;
}

/* 0, or what to do about a cursor that ran out of bytes. */
static int check_cursor(struct parser *p)
{
    if (!p->c.failed)
        return 0;
    uint64_t left = p->s->file.size - p->c.failed_at;
    if (p->c.wanted > left)
        return REFUSE(p, "%zu bytes wanted at offset %zu, the file has %" PRIu64 " more",
                      p->c.wanted, p->c.failed_at, left);
    p->needed_bytes = p->c.failed_at + p->c.wanted;
    return PARSE_MORE;
}

static int parse_string(struct parser *p, const char *part, uint64_t max, struct str *ret)
{
    uint64_t len = cursor_u64(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (len > max)
        return REFUSE(p, "%s of %" PRIu64 " bytes, limit %" PRIu64, part, len, max);
    *ret = cursor_bytes(&p->c, len);
    return check_cursor(p);
}

static int parse_array(struct parser *p, struct gguf_value *v)
{
    uint32_t elem = cursor_u32(&p->c);
    v->count = cursor_u64(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (elem >= GGUF_TYPES || elem == GGUF_ARRAY)
        return REFUSE(p, "array of type %" PRIu32 ", which is not one of 0..8 and 10..12", elem);
    v->elem = (enum gguf_type)elem;
    if (v->count > GGUF_ARRAY_COUNT_MAX)
        return REFUSE(p, "array of %" PRIu64 " elements, limit %llu", v->count,
                      GGUF_ARRAY_COUNT_MAX);
    size_t elem_bytes = elem == GGUF_STRING ? sizeof(uint64_t) : gguf_type_bytes(v->elem);
    if (v->count > file_left(p) / elem_bytes)
        return REFUSE(p,
                      "array of %" PRIu64 " elements of at least %zu bytes, the file has %" PRIu64
                      " more bytes",
                      v->count, elem_bytes, file_left(p));
    size_t start = p->c.pos;
    if (elem != GGUF_STRING)
        cursor_skip(&p->c, v->count * elem_bytes);
    struct str text;
    for (uint64_t i = 0; rc == 0 && elem == GGUF_STRING && i < v->count; i++)
        rc = parse_string(p, "string", GGUF_STRING_BYTES_MAX, &text);
    v->bytes = p->c.start + start;
    v->n_bytes = p->c.pos - start;
    return rc != 0 ? rc : check_cursor(p);
}

static int parse_value(struct parser *p, struct gguf_value *v)
{
    uint32_t type = cursor_u32(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (type >= GGUF_TYPES)
        return REFUSE(p, "value of type %" PRIu32 ", types are 0..%d", type, GGUF_TYPES - 1);
    *v = (struct gguf_value){.type = (enum gguf_type)type, .count = 1};
    v->elem = v->type;
    if (v->type == GGUF_ARRAY)
        return parse_array(p, v);
    size_t start = p->c.pos;
    struct str text;
    if (v->type == GGUF_STRING)
        rc = parse_string(p, "string", GGUF_STRING_BYTES_MAX, &text);
    else
        cursor_skip(&p->c, gguf_type_bytes(v->type));
    v->bytes = p->c.start + start;
    v->n_bytes = p->c.pos - start;
    return rc != 0 ? rc : check_cursor(p);
}

/* Makes room for one more of `n` elements, doubling. */
static int reserve_one(struct parser *p, void **array, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return 0;
    size_t bigger_cap = *cap ? *cap * 2 : 32;
    void *bigger = mem_regrow(*array, bigger_cap, size);
    if (!bigger)
        return no_memory(p);
    *array = bigger;
    *cap = bigger_cap;
    return 0;
}

/* Says what is being read, for the messages. */
static void set_what(struct parser *p, const char *kind, struct str name)
{
    char shown[GGUF_SHOWN_BYTES];
    snprintf(p->what, sizeof(p->what), "%s '%s'", kind, gguf_show(name, shown));
}

static int parse_key(struct parser *p)
{
    struct gguf_shard *s = p->s;
    void *array = s->keys;
    int rc = reserve_one(p, &array, &s->keys_cap, s->n_keys, sizeof(*s->keys));
    s->keys = array;
    if (rc != 0)
        return rc;
    struct gguf_kv *kv = &s->keys[s->n_keys];
    snprintf(p->what, sizeof(p->what), "key %zu", s->n_keys);
    rc = parse_string(p, "name", GGUF_KEY_BYTES_MAX, &kv->name);
    if (rc != 0)
        return rc;
    if (kv->name.len == 0)
        return REFUSE(p, "name of %d bytes, want at least 1", 0);
    set_what(p, "key", kv->name);
    bool added = false;
    if (names_add(&s->key_index, kv->name, s->n_keys, &added) < 0)
        return no_memory(p);
    if (!added)
        return REFUSE(p, "stands in the file twice, again as number %zu", s->n_keys);
    rc = parse_value(p, &kv->value);
    if (rc == 0)
        s->n_keys++;
    return rc;
}

static int parse_alignment(struct parser *p)
{
    struct gguf_value v;
    p->s->alignment = GGUF_ALIGNMENT_DEFAULT;
    if (!gguf_shard_find(p->s, "general.alignment", &v))
        return 0;
    set_what(p, "key", str_of("general.alignment"));
    if (v.type != GGUF_U32)
        return REFUSE(p, "type %s, want %s", gguf_type_name(v.type), gguf_type_name(GGUF_U32));
    uint64_t alignment = (uint64_t)gguf_array_int(&v, 0);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
        return REFUSE(p, "%" PRIu64 " is not a power of two", alignment);
    p->s->alignment = alignment;
    return 0;
}

static int parse_shape(struct parser *p, struct gguf_tensor *t, uint64_t *ret_elems)
{
    t->n_dims = cursor_u32(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (t->n_dims > GGUF_DIMS_MAX)
        return REFUSE(p, "%" PRIu32 " dimensions, limit %u", t->n_dims, GGUF_DIMS_MAX);
    *ret_elems = 1;
    for (uint32_t i = 0; i < GGUF_DIMS_MAX; i++) {
        t->ne[i] = i < t->n_dims ? cursor_u64(&p->c) : 1;
        rc = check_cursor(p);
        if (rc != 0)
            return rc;
        if (t->ne[i] == 0 || t->ne[i] > INT64_MAX)
            return REFUSE(p, "dimension %" PRIu32 " is %" PRId64 ", want at least 1", i,
                          (int64_t)t->ne[i]);
        if (t->ne[i] > INT64_MAX / *ret_elems)
            return REFUSE(p, "%" PRIu64 " x %" PRIu64 " elements, limit %" PRId64, *ret_elems,
                          t->ne[i], INT64_MAX);
        *ret_elems *= t->ne[i];
    }
    return 0;
}

static int parse_type(struct parser *p, struct gguf_tensor *t, uint64_t elems, uint64_t *ret_bytes)
{
    struct gguf_layout layout;
    t->ggml_id = cursor_u32(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (!gguf_layout_of(t->ggml_id, &layout))
        return REFUSE(p, "type %" PRIu32 " is unknown or was removed from the format", t->ggml_id);
    if (t->ne[0] % layout.block_elems != 0)
        return REFUSE(p,
                      "%" PRIu64 " columns are not a multiple of the %" PRIu32
                      " elements of a block of type %" PRIu32,
                      t->ne[0], layout.block_elems, t->ggml_id);
    uint64_t blocks = elems / layout.block_elems;
    if (blocks > INT64_MAX / layout.block_bytes)
        return REFUSE(p, "%" PRIu64 " blocks of %" PRIu32 " bytes, limit %" PRId64 " bytes", blocks,
                      layout.block_bytes, INT64_MAX);
    *ret_bytes = blocks * layout.block_bytes;
    t->quant = quant_by_id(t->ggml_id);
    t->bytes = t->quant ? *ret_bytes : 0;
    return 0;
}

/* Tensors follow each other without holes, each padded to the alignment. */
static int parse_offset(struct parser *p, struct gguf_tensor *t, uint64_t bytes)
{
    t->offset = cursor_u64(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (t->offset % p->s->alignment != 0)
        return REFUSE(p, "offset %" PRIu64 " is not a multiple of the alignment, %" PRIu64,
                      t->offset, p->s->alignment);
    if (t->offset != p->next_offset)
        return REFUSE(p, "offset %" PRIu64 ", the tensors before it end at %" PRIu64, t->offset,
                      p->next_offset);
    if (t->offset > p->s->file.size || bytes > p->s->file.size - t->offset)
        return REFUSE(p, "%" PRIu64 " bytes at offset %" PRIu64 ", the file has %" PRIu64, bytes,
                      t->offset, p->s->file.size);
    p->next_offset = ALIGN_UP(t->offset + bytes, p->s->alignment);
    return 0;
}

static int parse_tensor(struct parser *p)
{
    struct gguf_shard *s = p->s;
    void *array = s->tensors;
    int rc = reserve_one(p, &array, &s->tensors_cap, s->n_tensors, sizeof(*s->tensors));
    s->tensors = array;
    if (rc != 0)
        return rc;
    struct gguf_tensor *t = &s->tensors[s->n_tensors];
    *t = (struct gguf_tensor){.shard = p->shard_number};
    snprintf(p->what, sizeof(p->what), "tensor %zu", s->n_tensors);
    rc = parse_string(p, "name", GGUF_NAME_BYTES_MAX, &t->name);
    if (rc != 0)
        return rc;
    if (t->name.len == 0)
        return REFUSE(p, "name of %d bytes, want at least 1", 0);
    set_what(p, "tensor", t->name);
    uint64_t elems = 0;
    uint64_t bytes = 0;
    rc = parse_shape(p, t, &elems);
    if (rc == 0)
        rc = parse_type(p, t, elems, &bytes);
    if (rc == 0)
        rc = parse_offset(p, t, bytes);
    if (rc == 0)
        s->n_tensors++;
    return rc;
}

/* Offsets become the file's own; every tensor has to end inside it. */
static int place_tensors(struct parser *p)
{
    struct gguf_shard *s = p->s;
    s->data_start = ALIGN_UP((uint64_t)p->c.pos, s->alignment);
    for (size_t i = 0; i < s->n_tensors; i++) {
        struct gguf_tensor *t = &s->tensors[i];
        uint64_t end = s->data_start + t->offset + gguf_tensor_disk_bytes(t);
        set_what(p, "tensor", t->name);
        if (end > s->file.size)
            return REFUSE(p, "ends at byte %" PRIu64 ", the file has %" PRIu64, end, s->file.size);
        t->offset += s->data_start;
    }
    return 0;
}

static int parse_magic(struct parser *p)
{
    struct str magic = cursor_bytes(&p->c, 4);
    uint32_t version = cursor_u32(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (!str_equal_c(magic, "GGUF")) {
        char shown[GGUF_SHOWN_BYTES];
        return REFUSE(p, "not a GGUF file: it starts with '%s', want 'GGUF'",
                      gguf_show(magic, shown));
    }
    if (version != 0 && (version & 0xffff) == 0)
        return REFUSE(p, "version 0x%08" PRIx32 ": a big-endian file, want little-endian", version);
    if (version != 2 && version != 3)
        return REFUSE(p, "version %" PRIu32 ", want 2 or 3", version);
    return 0;
}

static int parse_count(struct parser *p, const char *of, uint64_t record_bytes, uint64_t max,
                       uint64_t *ret)
{
    *ret = cursor_u64(&p->c);
    int rc = check_cursor(p);
    if (rc != 0)
        return rc;
    if (*ret > file_left(p) / record_bytes)
        return REFUSE(
            p, "%" PRId64 " %s of at least %" PRIu64 " bytes, the file has %" PRIu64 " more bytes",
            (int64_t)*ret, of, record_bytes, file_left(p));
    if (*ret > max)
        return REFUSE(p, "%" PRIu64 " %s, limit %" PRIu64, *ret, of, max);
    return 0;
}

static int parse(struct parser *p)
{
    uint64_t n_tensors = 0;
    uint64_t n_keys = 0;
    snprintf(p->what, sizeof(p->what), "header");
    int rc = parse_magic(p);
    if (rc == 0)
        rc = parse_count(p, "tensors", TENSOR_BYTES_MIN, GGUF_TENSORS_MAX, &n_tensors);
    if (rc == 0)
        rc = parse_count(p, "keys", KEY_BYTES_MIN, GGUF_KEYS_MAX, &n_keys);
    for (uint64_t i = 0; rc == 0 && i < n_keys; i++)
        rc = parse_key(p);
    if (rc == 0)
        rc = parse_alignment(p);
    for (uint64_t i = 0; rc == 0 && i < n_tensors; i++)
        rc = parse_tensor(p);
    if (rc == 0)
        rc = place_tensors(p);
    if (rc == 0)
        p->needed_bytes = p->c.pos;
    return rc;
}

/* Makes the header's buffer `want` bytes long; `have` of them are read already. */
static int hold(struct gguf_shard *s, size_t have, size_t want, struct error *e)
{
    uint8_t *header = mem_regrow(s->header, MAX_OF(want, (size_t)1), 1);
    if (!header)
        return error_set(e, ERROR_NOMEM, "%s: no memory for %zu bytes of header", s->file.path,
                         want);
    s->header = header;
    s->header_bytes = want;
    return want > have ? file_read_at(&s->file, header + have, want - have, have, e) : 0;
}

int gguf_header_read(struct gguf_shard *s, uint32_t number, struct error *e)
{
    uint64_t want = MIN_OF(s->file.size, (uint64_t)FIRST_READ_BYTES);
    for (;;) {
        int rc = hold(s, s->header_bytes, (size_t)want, e);
        if (rc < 0)
            return rc;
        s->n_keys = s->n_tensors = 0;
        names_release(&s->key_index);
        struct parser p = {.s = s, .shard_number = number, .e = e};
        cursor_init(&p.c, s->header, s->header_bytes);
        rc = parse(&p);
        if (rc < 0)
            return rc;
        if (rc == 0 && p.needed_bytes == s->header_bytes)
            return 0;
        if (p.needed_bytes > GGUF_HEADER_BYTES_MAX)
            return REFUSE(&p, "the header needs %" PRIu64 " bytes, limit %llu", p.needed_bytes,
                          GGUF_HEADER_BYTES_MAX);
        want = p.needed_bytes;
        if (rc == PARSE_MORE) /* at least twice as much, but no more than there is */
            want = MAX_OF(want, MIN_OF(2 * want, MIN_OF(s->file.size, GGUF_HEADER_BYTES_MAX)));
    }
}
