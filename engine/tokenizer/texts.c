#include "engine/tokenizer/texts.h"

#include <string.h>

#include "base/alloc.h"

#define TEXTS_FIRST 64u
/* Indices are int32_t outside and index + 1 has to fit a slot; offsets are 32 bits wide. */
#define TEXTS_MAX 0x40000000u
#define TEXTS_MAX_BYTES 0xFFFFFFFFu

/* FNV-1a, folded: the texts are short. */
static uint32_t hash_of(struct str s)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < s.len; i++)
        h = (h ^ (uint8_t)s.ptr[i]) * 0x100000001B3u;
    return (uint32_t)(h ^ (h >> 32));
}

struct str texts_at(const struct texts *t, uint32_t i)
{
    uint32_t start = i > 0 ? t->end[i - 1] : 0;
    return str_slice(t->bytes + start, t->end[i] - start);
}

/* The slot that holds this text, or the free one where it belongs. n_slots > n, so there is one. */
static uint32_t *slot_for(const struct texts *t, struct str text)
{
    uint32_t at = hash_of(text) & (t->n_slots - 1);
    while (t->slot[at] != 0 && !str_equal(texts_at(t, t->slot[at] - 1), text))
        at = (at + 1) & (t->n_slots - 1);
    return &t->slot[at];
}

/* At most two thirds of the slots are ever taken. */
static int grow_slots(struct texts *t, size_t n, struct error *e)
{
    uint32_t wanted = t->n_slots ? t->n_slots : TEXTS_FIRST;
    while (wanted / 3 * 2 < n)
        wanted *= 2;
    if (wanted == t->n_slots)
        return 0;
    uint32_t *slot = mem_array(wanted, sizeof *slot);
    if (!slot)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for an index of %zu texts", n);
    mem_free(t->slot);
    t->slot = slot;
    t->n_slots = wanted;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t *s = slot_for(t, texts_at(t, i));
        if (*s == 0)
            *s = i + 1;
    }
    return 0;
}

static int grow_list(struct texts *t, size_t n, struct error *e)
{
    if (n <= t->cap)
        return 0;
    uint32_t *end = mem_regrow(t->end, n, sizeof *end);
    if (!end)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %zu texts", n);
    t->end = end;
    t->cap = (uint32_t)n;
    return 0;
}

static int grow_bytes(struct texts *t, size_t n_bytes, struct error *e)
{
    if (n_bytes <= t->cap_bytes)
        return 0;
    char *bytes = mem_regrow(t->bytes, n_bytes, 1);
    if (!bytes)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %zu bytes of text", n_bytes);
    t->bytes = bytes;
    t->cap_bytes = n_bytes;
    return 0;
}

int texts_reserve(struct texts *t, size_t n, size_t n_bytes, struct error *e)
{
    if (n > TEXTS_MAX || n_bytes > TEXTS_MAX_BYTES)
        return error_set(e, ERROR_FORMAT,
                         "vocabulary: %zu texts of %zu bytes, limits are %u and %u", n, n_bytes,
                         TEXTS_MAX, TEXTS_MAX_BYTES);
    int rc = grow_bytes(t, n_bytes, e);
    if (rc == 0)
        rc = grow_list(t, n, e);
    return rc == 0 ? grow_slots(t, n, e) : rc;
}

void texts_release(struct texts *t)
{
    mem_free(t->bytes);
    mem_free(t->end);
    mem_free(t->slot);
    *t = (struct texts){0};
}

/* Reserves by doubling, for those that come one at a time. */
static int make_room(struct texts *t, size_t n_bytes, struct error *e)
{
    size_t n = t->n + (size_t)1;
    size_t need = t->n_bytes + n_bytes;
    if (n <= t->cap && need <= t->cap_bytes)
        return 0;
    size_t more = n <= t->cap ? t->cap : MAX_OF(t->cap * (size_t)2, TEXTS_FIRST);
    size_t more_bytes = need <= t->cap_bytes ? t->cap_bytes : need + t->cap_bytes;
    return texts_reserve(t, more, MIN_OF(more_bytes, MAX_OF(need, TEXTS_MAX_BYTES)), e);
}

int texts_add(struct texts *t, struct str text, struct error *e)
{
    int rc = make_room(t, text.len, e);
    if (rc < 0)
        return rc;
    if (text.len > 0)
        memcpy(t->bytes + t->n_bytes, text.ptr, text.len);
    uint32_t *slot = slot_for(t, text);
    t->n_bytes += text.len;
    t->end[t->n] = (uint32_t)t->n_bytes;
    t->n++;
    if (*slot == 0)
        *slot = t->n;
    return 0;
}

int texts_intern(struct texts *t, struct str text, int32_t *ret, struct error *e)
{
    int32_t found = texts_find(t, text);
    if (found < 0) {
        int rc = texts_add(t, text, e);
        if (rc < 0)
            return rc;
        found = (int32_t)(t->n - 1);
    }
    *ret = found;
    return 0;
}

int32_t texts_find(const struct texts *t, struct str text)
{
    return t->n_slots > 0 ? (int32_t)*slot_for(t, text) - 1 : -1;
}

size_t texts_memory_bytes(const struct texts *t)
{
    return t->cap_bytes + ((size_t)t->cap + t->n_slots) * sizeof(uint32_t);
}
