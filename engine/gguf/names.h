/*
 * Finds a name's index in constant time: an open-addressing hash table over slices.
 *
 * Owns its slots; the bytes of the names belong to the caller and must stay where they are.
 * Stays true: at most half of the slots are taken. Hashes are seeded from the kernel, so that a file
 * cannot be made to collide. Immutable once built: any thread.
 */
#ifndef ENGINE_GGUF_NAMES_H
#define ENGINE_GGUF_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct names_slot {
    struct str name;
    uint64_t index_plus_1; /* 0: free */
};

struct names {
    struct names_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n;
    uint64_t seed;
};

void names_release(struct names *t); /* a zeroed struct is fine; leaves one */
/* ERROR_NOMEM, or 0; *ret_added tells whether the name was new. */
int names_add(struct names *t, struct str name, size_t index, bool *ret_added);
bool names_find(const struct names *t, struct str name, size_t *ret_index);

#endif
