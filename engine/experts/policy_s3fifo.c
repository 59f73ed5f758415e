/*
 * S3-FIFO (Yang et al. 2023): newcomers pass through a small queue, a tenth of what may be taken; what was
 * used again meanwhile goes on to the main queue, the rest leaves and is remembered for as many departures
 * as there are slots. Who comes back while it is remembered goes straight to the main queue, where each
 * use buys another round, three at most.
 *
 * The memory of the departed is one number for each key, the departure's, not a queue.
 */
#include "base/compiler.h"
#include "engine/experts/policy_ring.h"

#define MAX_USES 3
#define SMALL_PART 10 /* one of so many slots is the small queue's */

enum queue { SMALL, MAIN, N_QUEUES };

struct fifo_slot {
    uint32_t key;
    uint8_t queue;
    uint8_t uses; /* since it is in this queue */
    bool fresh;   /* not joined yet since it was admitted: in no ring */
    bool takeable;
};

struct s3fifo {
    uint32_t n_slots;  /* at first: where the rings' heads are */
    uint32_t n_ghosts; /* departures that are remembered */
    uint32_t count[N_QUEUES];
    uint32_t n_takeable[N_QUEUES];
    uint32_t n_departed;
    struct fifo_slot *slot;  /* [n_slots] */
    uint32_t *departed;      /* [n_keys] number of the last departure; 0: none */
    struct ring_entry *ring; /* [n_slots + N_QUEUES] */
};

static size_t bytes(const struct expert_policy_shape *s)
{
    return ALIGN_UP(sizeof(struct s3fifo), (size_t)8) + s->n_slots * sizeof(struct fifo_slot) +
           (size_t)s->n_layers * s->n_experts * sizeof(uint32_t) +
           ((size_t)s->n_slots + N_QUEUES) * sizeof(struct ring_entry);
}

static void init(void *state, const struct expert_policy_shape *s)
{
    struct s3fifo *f = state;
    char *at = (char *)state + ALIGN_UP(sizeof(struct s3fifo), (size_t)8);
    f->n_slots = f->n_ghosts = s->n_slots;
    f->slot = (struct fifo_slot *)(void *)at;
    f->ring = (struct ring_entry *)(void *)(f->slot + s->n_slots);
    f->departed = (uint32_t *)(void *)(f->ring + s->n_slots + N_QUEUES);
    ring_init(f->ring, s->n_slots + N_QUEUES);
}

static void enter(struct s3fifo *f, uint32_t slot, enum queue q)
{
    f->slot[slot].queue = (uint8_t)q;
    ring_append(f->ring, f->n_slots + q, slot);
    f->count[q]++;
}

static void leave(struct s3fifo *f, uint32_t slot)
{
    ring_remove(f->ring, slot);
    f->count[f->slot[slot].queue]--;
}

static void admit(void *state, uint32_t slot, uint32_t key)
{
    struct s3fifo *f = state;
    const uint32_t departed = f->departed[key];
    const bool known = departed != 0 && f->n_departed - departed < f->n_ghosts;
    f->slot[slot] = (struct fifo_slot){.key = key, .queue = known ? MAIN : SMALL, .fresh = true};
}

static void use(void *state, uint32_t slot)
{
    struct s3fifo *f = state;
    struct fifo_slot *x = &f->slot[slot];
    f->n_takeable[x->queue] -= x->takeable;
    x->takeable = false;
    if (!x->fresh && x->uses < MAX_USES)
        x->uses++;
}

static void join(void *state, uint32_t slot)
{
    struct s3fifo *f = state;
    struct fifo_slot *x = &f->slot[slot];
    if (x->fresh)
        enter(f, slot, (enum queue)x->queue);
    x->fresh = false;
    f->n_takeable[x->queue] += !x->takeable;
    x->takeable = true;
}

static void move_to_main(struct s3fifo *f, uint32_t slot)
{
    struct fifo_slot *x = &f->slot[slot];
    leave(f, slot);
    f->n_takeable[x->queue] -= x->takeable;
    f->n_takeable[MAIN] += x->takeable;
    enter(f, slot, MAIN);
}

/* The first of a queue may be taken, or goes to the end of the main one. */
static uint32_t look_at(struct s3fifo *f, enum queue q)
{
    const uint32_t slot = f->ring[f->n_slots + q].after;
    struct fifo_slot *x = &f->slot[slot];
    const uint8_t uses = x->uses;
    if (x->takeable && uses <= (q == SMALL))
        return slot;
    move_to_main(f, slot);
    x->uses = (uint8_t)(q == MAIN && uses > 0 ? uses - 1 : 0);
    return EXPERT_NO_SLOT;
}

static uint32_t victim(void *state)
{
    struct s3fifo *f = state;
    uint32_t found = EXPERT_NO_SLOT;
    while (found == EXPERT_NO_SLOT && f->n_takeable[SMALL] + f->n_takeable[MAIN] > 0) {
        const bool large = f->count[SMALL] * SMALL_PART > f->count[SMALL] + f->count[MAIN];
        const bool small = f->n_takeable[SMALL] > 0 && (large || f->n_takeable[MAIN] == 0);
        found = look_at(f, small ? SMALL : MAIN);
    }
    return found;
}

static void drop(void *state, uint32_t slot)
{
    struct s3fifo *f = state;
    struct fifo_slot *x = &f->slot[slot];
    f->n_takeable[x->queue] -= x->takeable;
    if (!x->fresh) {
        if (x->queue == SMALL)
            f->departed[x->key] = ++f->n_departed;
        leave(f, slot);
    }
    *x = (struct fifo_slot){.fresh = true};
}

static void shrink(void *state, uint32_t n_slots)
{
    struct s3fifo *f = state;
    f->n_ghosts = n_slots;
}

const struct expert_policy expert_policy_s3fifo = {.name = "s3-fifo",
                                                   .bytes = bytes,
                                                   .init = init,
                                                   .admit = admit,
                                                   .use = use,
                                                   .join = join,
                                                   .victim = victim,
                                                   .drop = drop,
                                                   .shrink = shrink};
