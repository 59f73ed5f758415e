/* Typed reads of the keys, and the numbers and strings inside their arrays. */
#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"
#include "engine/gguf/internal.h"

struct type_info {
    const char *name;
    size_t bytes;
};

static const struct type_info types[GGUF_TYPES] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

size_t gguf_type_bytes(enum gguf_type type)
{
    return types[type].bytes;
}

const char *gguf_type_name(enum gguf_type type)
{
    return types[type].name;
}

const char *gguf_show(struct str text, char out[GGUF_SHOWN_BYTES])
{
    size_t n = MIN_OF(text.len, (size_t)GGUF_SHOWN_BYTES - 1);
    for (size_t i = 0; i < n; i++)
        out[i] = text.ptr[i];
    out[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (out[i] < ' ' || out[i] > '~')
            out[i] = '?';
    }
    return out;
}

static bool is_integer(enum gguf_type type)
{
    return type <= GGUF_I32 || type == GGUF_U64 || type == GGUF_I64;
}

size_t gguf_n_keys(const struct gguf *g)
{
    return g->shards[0].n_keys;
}

struct str gguf_key(const struct gguf *g, size_t i, struct gguf_value *ret_value)
{
    const struct gguf_kv *kv = &g->shards[0].keys[i];
    *ret_value = kv->value;
    return kv->name;
}

bool gguf_shard_find(const struct gguf_shard *s, const char *key, struct gguf_value *ret_value)
{
    size_t i;
    bool found = names_find(&s->key_index, str_of(key), &i);
    if (found)
        *ret_value = s->keys[i].value;
    return found;
}

bool gguf_find(const struct gguf *g, const char *key, struct gguf_value *ret_value)
{
    return gguf_shard_find(&g->shards[0], key, ret_value);
}

/* 1 found, 0 missing and not required, or an error. */
static int lookup(const struct gguf_shard *s, const char *key, bool required, struct gguf_value *v,
                  struct error *e)
{
    if (gguf_shard_find(s, key, v))
        return 1;
    return required ? error_set(e, ERROR_FORMAT, "%s: key '%s' is missing", s->file.path, key) : 0;
}

static int wrong_type(const struct gguf_shard *s, const char *key, const struct gguf_value *v,
                      const char *want, struct error *e)
{
    bool array = v->type == GGUF_ARRAY;
    return error_set(e, ERROR_FORMAT, "%s: key '%s' has type %s%s, want %s", s->file.path, key,
                     array ? "array of " : "", gguf_type_name(v->elem), want);
}

/* Element i as u32. */
static int to_u32(const struct gguf_shard *s, const char *key, const struct gguf_value *v,
                  uint64_t i, uint32_t *ret, struct error *e)
{
    int64_t n = gguf_array_int(v, i);
    if (v->elem == GGUF_U64 && n < 0)
        return error_set(e, ERROR_FORMAT, "%s: key '%s' is %" PRIu64 ", limit %" PRIu32,
                         s->file.path, key, (uint64_t)n, UINT32_MAX);
    if (n < 0 || n > UINT32_MAX)
        return error_set(e, ERROR_FORMAT, "%s: key '%s' is %" PRId64 ", want 0 to %" PRIu32,
                         s->file.path, key, n, UINT32_MAX);
    *ret = (uint32_t)n;
    return 0;
}

int gguf_shard_u32(const struct gguf_shard *s, const char *key, bool required, uint32_t *ret,
                   struct error *e)
{
    struct gguf_value v = {0};
    int rc = lookup(s, key, required, &v, e);
    if (rc <= 0)
        return rc;
    if (!is_integer(v.type))
        return wrong_type(s, key, &v, "an integer", e);
    return to_u32(s, key, &v, 0, ret, e);
}

int gguf_u32(const struct gguf *g, const char *key, bool required, uint32_t *ret, struct error *e)
{
    return gguf_shard_u32(&g->shards[0], key, required, ret, e);
}

int gguf_f32(const struct gguf *g, const char *key, bool required, float *ret, struct error *e)
{
    struct gguf_value v = {0};
    int rc = lookup(&g->shards[0], key, required, &v, e);
    if (rc <= 0)
        return rc;
    if (v.type != GGUF_F32)
        return wrong_type(&g->shards[0], key, &v, "f32", e);
    *ret = (float)gguf_array_float(&v, 0);
    return 0;
}

int gguf_bool(const struct gguf *g, const char *key, bool required, bool *ret, struct error *e)
{
    struct gguf_value v = {0};
    int rc = lookup(&g->shards[0], key, required, &v, e);
    if (rc <= 0)
        return rc;
    if (v.type != GGUF_BOOL)
        return wrong_type(&g->shards[0], key, &v, "bool", e);
    *ret = v.bytes[0] != 0;
    return 0;
}

int gguf_str(const struct gguf *g, const char *key, bool required, struct str *ret, struct error *e)
{
    struct gguf_value v = {0};
    int rc = lookup(&g->shards[0], key, required, &v, e);
    if (rc <= 0)
        return rc;
    if (v.type != GGUF_STRING)
        return wrong_type(&g->shards[0], key, &v, "string", e);
    struct gguf_strings it = {.at = v.bytes, .end = v.bytes + v.n_bytes, .left = 1};
    (void)gguf_strings_next(&it, ret);
    return 0;
}

int gguf_u32_layers(const struct gguf *g, const char *key, bool required, uint32_t *out, size_t n,
                    struct error *e)
{
    const struct gguf_shard *s = &g->shards[0];
    struct gguf_value v = {0};
    int rc = lookup(s, key, required, &v, e);
    if (rc <= 0)
        return rc;
    if (!is_integer(v.elem))
        return wrong_type(s, key, &v, "an integer or an array of them", e);
    bool array = v.type == GGUF_ARRAY;
    if (array && v.count != n)
        return error_set(e, ERROR_FORMAT, "%s: key '%s' has %" PRIu64 " entries, want %zu",
                         s->file.path, key, v.count, n);
    rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = to_u32(s, key, &v, array ? i : 0, &out[i], e);
    return rc;
}

int gguf_strings_begin(const struct gguf *g, const char *key, struct gguf_strings *it,
                       uint64_t *ret_n, struct error *e)
{
    const struct gguf_shard *s = &g->shards[0];
    struct gguf_value v = {0};
    if (!gguf_find(g, key, &v))
        return error_set(e, ERROR_NOTFOUND, "%s: key '%s' is missing", s->file.path, key);
    if (v.type != GGUF_ARRAY || v.elem != GGUF_STRING)
        return wrong_type(s, key, &v, "array of strings", e);
    *it = (struct gguf_strings){.at = v.bytes, .end = v.bytes + v.n_bytes, .left = v.count};
    *ret_n = v.count;
    return 0;
}

bool gguf_strings_next(struct gguf_strings *it, struct str *ret)
{
    if (it->left == 0)
        return false;
    struct cursor c;
    cursor_init(&c, it->at, (size_t)(it->end - it->at));
    uint64_t len = cursor_u64(&c);
    *ret = cursor_bytes(&c, len);
    it->at += c.pos;
    it->left--;
    return true;
}

int64_t gguf_array_int(const struct gguf_value *v, uint64_t i)
{
    if (i >= v->count || !(is_integer(v->elem) || v->elem == GGUF_BOOL))
        return 0;
    size_t bytes = gguf_type_bytes(v->elem);
    uint64_t n = 0;
    for (size_t k = 0; k < bytes; k++)
        n |= (uint64_t)v->bytes[i * bytes + k] << (8 * k);
    bool has_sign = v->elem == GGUF_I8 || v->elem == GGUF_I16 || v->elem == GGUF_I32;
    uint64_t sign = has_sign ? 1ull << (8 * bytes - 1) : 0;
    return (int64_t)((n ^ sign) - sign);
}

double gguf_array_float(const struct gguf_value *v, uint64_t i)
{
    if (v->elem != GGUF_F32 && v->elem != GGUF_F64)
        return (double)gguf_array_int(v, i);
    if (i >= v->count)
        return 0;
    struct cursor c;
    size_t bytes = gguf_type_bytes(v->elem);
    cursor_init(&c, v->bytes + i * bytes, bytes);
    return v->elem == GGUF_F32 ? (double)cursor_f32(&c) : cursor_f64(&c);
}
