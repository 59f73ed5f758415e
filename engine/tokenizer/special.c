#include "engine/tokenizer/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"

static bool is_special(const struct vocab *v, int32_t id)
{
    uint8_t type = v->type[id];
    bool kind = type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_USER_DEFINED;
    return kind && texts_at(&v->texts, (uint32_t)id).len > 0;
}

/* What qsort sees: the order needs the length, and qsort has no room for a context. */
struct ranked {
    size_t len;
    int32_t id;
};

static int compare_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa;
    const struct ranked *b = pb;
    if (a->len != b->len)
        return a->len > b->len ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int rank(struct specials *s, const struct vocab *v, struct error *e)
{
    struct ranked *ranked = mem_array(s->n, sizeof *ranked);
    if (!ranked)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %u special tokens", s->n);
    uint32_t n = 0;
    for (int32_t id = 0; id < v->n; id++) {
        if (is_special(v, id))
            ranked[n++] = (struct ranked){texts_at(&v->texts, (uint32_t)id).len, id};
    }
    qsort(ranked, n, sizeof *ranked, compare_ranked);
    for (uint32_t i = 0; i < n; i++)
        s->ids[i] = ranked[i].id;
    mem_free(ranked);
    return 0;
}

static uint8_t first_byte(const struct specials *s, const struct vocab *v, uint32_t i)
{
    return (uint8_t)texts_at(&v->texts, (uint32_t)s->ids[i]).ptr[0];
}

static void group(struct specials *s, const struct vocab *v)
{
    uint32_t fill[256];
    for (uint32_t i = 0; i < s->n; i++)
        s->first[first_byte(s, v, i) + 1u]++;
    for (size_t byte = 0; byte < 256; byte++) {
        s->first[byte + 1] += s->first[byte];
        fill[byte] = s->first[byte];
    }
    for (uint32_t i = 0; i < s->n; i++)
        s->by_byte[fill[first_byte(s, v, i)]++] = i;
}

int specials_init(struct specials *s, const struct vocab *v, struct error *e)
{
    for (int32_t id = 0; id < v->n; id++)
        s->n += is_special(v, id);
    s->ids = mem_array(s->n, sizeof *s->ids);
    s->by_byte = mem_array(s->n, sizeof *s->by_byte);
    if (!s->ids || !s->by_byte)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %u special tokens", s->n);
    int rc = rank(s, v, e);
    if (rc == 0)
        group(s, v);
    return rc;
}

void specials_release(struct specials *s)
{
    mem_free(s->ids);
    mem_free(s->by_byte);
    *s = (struct specials){0};
}

size_t specials_memory_bytes(const struct specials *s)
{
    return s->n * (sizeof *s->ids + sizeof *s->by_byte);
}

void fragments_release(struct fragments *f)
{
    mem_free(f->at);
    *f = (struct fragments){0};
}

/* Appends unless it is empty. */
static int put(struct fragments *f, struct str text, int32_t id, struct error *e)
{
    if (text.len == 0)
        return 0;
    if (f->n == f->cap) {
        size_t cap = MAX_OF(f->cap * 2, (size_t)16);
        struct fragment *at = mem_regrow(f->at, cap, sizeof *at);
        if (!at)
            return error_set(e, ERROR_NOMEM, "tokenizer: no memory for %zu fragments", cap);
        f->at = at;
        f->cap = cap;
    }
    f->at[f->n++] = (struct fragment){text, id};
    return 0;
}

/*
 * Marks in seen [s->n] which special texts occur at all: one look at the text, so that the passes
 * below are only made for those, usually none.
 */
static uint32_t scan(const struct specials *s, const struct vocab *v, struct str text, bool all,
                     uint8_t *seen)
{
    uint32_t n_seen = 0;
    for (size_t at = 0; at < text.len; at++) {
        uint8_t byte = (uint8_t)text.ptr[at];
        for (uint32_t k = s->first[byte]; k < s->first[byte + 1u]; k++) {
            uint32_t i = s->by_byte[k];
            struct str special = texts_at(&v->texts, (uint32_t)s->ids[i]);
            if (seen[i] || special.len > text.len - at ||
                memcmp(text.ptr + at, special.ptr, special.len) != 0)
                continue;
            if (!all && v->type[s->ids[i]] != TOKEN_USER_DEFINED)
                continue;
            seen[i] = 1;
            n_seen++;
        }
    }
    return n_seen;
}

/* Cuts one plain fragment at every occurrence of a special text, leftmost first. */
static int cut(struct str text, struct str special, int32_t id, struct fragments *out,
               struct error *e)
{
    for (;;) {
        const char *hit = memmem(text.ptr, text.len, special.ptr, special.len);
        if (!hit)
            return put(out, text, -1, e);
        size_t before = (size_t)(hit - text.ptr);
        int rc = put(out, str_slice(text.ptr, before), -1, e);
        if (rc == 0)
            rc = put(out, str_slice(hit, special.len), id, e);
        if (rc < 0)
            return rc;
        text = str_slice(hit + special.len, text.len - before - special.len);
        if (text.len == 0)
            return 0;
    }
}

/* One pass: every plain fragment of `from` cut at one special text, into `to`. */
static int pass(const struct vocab *v, int32_t id, const struct fragments *from,
                struct fragments *to, struct error *e)
{
    struct str special = texts_at(&v->texts, (uint32_t)id);
    int rc = 0;
    to->n = 0;
    for (size_t i = 0; rc == 0 && i < from->n; i++) {
        struct fragment f = from->at[i];
        rc = f.id >= 0 ? put(to, f.text, f.id, e) : cut(f.text, special, id, to, e);
    }
    return rc;
}

int specials_split(const struct specials *s, const struct vocab *v, struct str text, bool all,
                   struct fragments *out, struct error *e)
{
    struct fragments other = {0};
    int rc = 0;
    uint8_t *seen = mem_zalloc(s->n);
    if (!seen)
        return error_set(e, ERROR_NOMEM, "tokenizer: no memory for %u marks", s->n);
    uint32_t left = scan(s, v, text, all, seen);
    out->n = 0;
    rc = put(out, text, -1, e);
    for (uint32_t i = 0; rc == 0 && left > 0; i++) {
        if (!seen[i])
            continue;
        left--;
        rc = pass(v, s->ids[i], out, &other, e);
        struct fragments swap = *out;
        *out = other;
        other = swap;
    }
    fragments_release(&other);
    mem_free(seen);
    return rc;
}
