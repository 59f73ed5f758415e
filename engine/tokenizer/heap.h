/*
 * A binary heap of 64-bit keys, the smallest first: which merge comes next.
 *
 * The high half says how good a merge is, the low half where it starts, so that equals go leftmost
 * first. Entries whose merge is no longer possible stay in it; whoever pops checks.
 */
#ifndef ENGINE_TOKENIZER_HEAP_H
#define ENGINE_TOKENIZER_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct heap {
    uint64_t *key; /* [cap] */
    size_t n;
    size_t cap;
};

/* Empties it and makes room for n keys: pushing up to n of them cannot fail. */
int heap_start(struct heap *h, size_t n, struct error *e);
void heap_release(struct heap *h);
void heap_push(struct heap *h, uint32_t order, uint32_t place);
uint64_t heap_pop(struct heap *h); /* n > 0 */

static inline uint32_t heap_order(uint64_t key)
{
    return (uint32_t)(key >> 32);
}

static inline uint32_t heap_place(uint64_t key)
{
    return (uint32_t)key;
}

#endif
