/* The slot that has not been used for the longest time: a ring of slots in order of joining. */
#include "engine/experts/policy.h"

/* Entry n_slots is the ring's head; an entry out of the ring points to itself. */
struct link {
    uint32_t before, after;
};

struct lru {
    uint32_t n_slots;
    struct link link[];
};

static size_t bytes(uint32_t n_slots)
{
    return sizeof(struct lru) + ((size_t)n_slots + 1) * sizeof(struct link);
}

static void init(void *state, uint32_t n_slots)
{
    struct lru *l = state;
    l->n_slots = n_slots;
    for (uint32_t i = 0; i <= n_slots; i++)
        l->link[i] = (struct link){i, i};
}

static void leave(void *state, uint32_t slot)
{
    struct lru *l = state;
    const struct link gone = l->link[slot];
    l->link[gone.before].after = gone.after;
    l->link[gone.after].before = gone.before;
    l->link[slot] = (struct link){slot, slot};
}

static void join(void *state, uint32_t slot)
{
    struct lru *l = state;
    const uint32_t head = l->n_slots, last = l->link[head].before;
    l->link[slot] = (struct link){last, head};
    l->link[last].after = slot;
    l->link[head].before = slot;
}

static uint32_t victim(const void *state)
{
    const struct lru *l = state;
    const uint32_t oldest = l->link[l->n_slots].after;
    return oldest == l->n_slots ? EXPERT_NO_SLOT : oldest;
}

const struct expert_policy expert_policy_lru = {
    .name = "lru", .bytes = bytes, .init = init, .join = join, .leave = leave, .victim = victim};
