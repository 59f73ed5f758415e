/* The slot that has not been used for the longest time: a ring of slots in order of joining. */
#include "engine/experts/policy_ring.h"

struct lru {
    uint32_t n_slots; /* and the ring's head */
    struct ring_entry ring[];
};

static size_t bytes(const struct expert_policy_shape *shape)
{
    return sizeof(struct lru) + ((size_t)shape->n_slots + 1) * sizeof(struct ring_entry);
}

static void init(void *state, const struct expert_policy_shape *shape)
{
    struct lru *l = state;
    l->n_slots = shape->n_slots;
    ring_init(l->ring, shape->n_slots + 1);
}

static void admit(void *state, uint32_t slot, uint32_t key)
{
    (void)state;
    (void)slot;
    (void)key;
}

static void leave(void *state, uint32_t slot)
{
    struct lru *l = state;
    ring_remove(l->ring, slot);
}

static void join(void *state, uint32_t slot)
{
    struct lru *l = state;
    ring_append(l->ring, l->n_slots, slot);
}

static uint32_t victim(void *state)
{
    const struct lru *l = state;
    return ring_empty(l->ring, l->n_slots) ? EXPERT_NO_SLOT : l->ring[l->n_slots].after;
}

static void shrink(void *state, uint32_t n_slots)
{
    (void)state;
    (void)n_slots;
}

const struct expert_policy expert_policy_lru = {.name = "lru",
                                                .bytes = bytes,
                                                .init = init,
                                                .admit = admit,
                                                .use = leave,
                                                .join = join,
                                                .victim = victim,
                                                .drop = leave,
                                                .shrink = shrink};
