/*
 * Rings of slots, for policies: entries [0, n_slots) are slots, the entries after them the rings' heads.
 * An entry that is in no ring, and the head of an empty one, point to themselves.
 */
#ifndef ENGINE_EXPERTS_POLICY_RING_H
#define ENGINE_EXPERTS_POLICY_RING_H

#include <stdbool.h>

#include "engine/experts/policy.h"

struct ring_entry {
    uint32_t before, after;
};

static inline void ring_init(struct ring_entry *r, uint32_t n_entries)
{
    for (uint32_t i = 0; i < n_entries; i++)
        r[i] = (struct ring_entry){i, i};
}

/* Out of whatever ring it is in. */
static inline void ring_remove(struct ring_entry *r, uint32_t i)
{
    r[r[i].before].after = r[i].after;
    r[r[i].after].before = r[i].before;
    r[i] = (struct ring_entry){i, i};
}

/* Becomes the last one; it is in no ring. */
static inline void ring_append(struct ring_entry *r, uint32_t head, uint32_t i)
{
    r[i] = (struct ring_entry){r[head].before, head};
    r[r[head].before].after = i;
    r[head].before = i;
}

static inline bool ring_empty(const struct ring_entry *r, uint32_t head)
{
    return r[head].after == head;
}

/* All of `from`, which is not empty, goes before the first of `to`. */
static inline void ring_prepend_all(struct ring_entry *r, uint32_t to, uint32_t from)
{
    const uint32_t first = r[from].after, last = r[from].before;
    r[last].after = r[to].after;
    r[r[to].after].before = last;
    r[to].after = first;
    r[first].before = to;
    r[from] = (struct ring_entry){from, from};
}

#endif
