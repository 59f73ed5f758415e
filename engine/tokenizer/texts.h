/*
 * A list of byte strings and its inverse: index to text, text to index.
 *
 * Owns its copies of the bytes. Stays true: an index never changes; of equal texts texts_find
 * answers the first. Immutable while only texts_find and texts_at are called: any thread.
 */
#ifndef ENGINE_TOKENIZER_TEXTS_H
#define ENGINE_TOKENIZER_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct texts {
    char *bytes;
    size_t n_bytes;
    size_t cap_bytes;
    uint32_t *end; /* [cap]: where the i-th text ends in bytes */
    uint32_t n;
    uint32_t cap;
    uint32_t *slot; /* [n_slots] open addressing: index + 1, 0 is free */
    uint32_t n_slots;
};

/* Room for n texts of n_bytes together, so that adding them moves nothing. */
int texts_reserve(struct texts *t, size_t n, size_t n_bytes, struct error *e);
void texts_release(struct texts *t);
/* Appends, equal text or not; its index is the n before. */
int texts_add(struct texts *t, struct str text, struct error *e);
/* The index of an equal text, which is appended if there is none. */
int texts_intern(struct texts *t, struct str text, int32_t *ret, struct error *e);
int32_t texts_find(const struct texts *t, struct str text); /* -1: none */
struct str texts_at(const struct texts *t, uint32_t i);
size_t texts_memory_bytes(const struct texts *t);

#endif
