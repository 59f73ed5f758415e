#include "engine/gguf/names.h"

#include "base/alloc.h"
#include "base/rng.h"

enum { FIRST_SLOTS = 64 };

/* FNV-1a from a secret start, then SplitMix64's finaliser through base/rng. */
static uint64_t hash(const struct names *t, struct str name)
{
    uint64_t h = 0xcbf29ce484222325u ^ t->seed;
    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (uint8_t)name.ptr[i]) * 0x100000001b3u;
    return rng_u64(t->seed, h);
}

/* The slot that has the name, or the free one where it belongs. */
static struct names_slot *slot_of(const struct names *t, struct str name)
{
    size_t mask = t->n_slots - 1;
    size_t i = (size_t)hash(t, name) & mask;
    while (t->slots[i].index_plus_1 != 0 && !str_equal(t->slots[i].name, name))
        i = (i + 1) & mask;
    return &t->slots[i];
}

static int grow(struct names *t)
{
    struct names bigger = {
        .n_slots = t->n_slots ? t->n_slots * 2 : FIRST_SLOTS,
        .n = t->n,
        .seed = t->n_slots ? t->seed : rng_entropy(),
    };
    bigger.slots = mem_array(bigger.n_slots, sizeof(*bigger.slots));
    if (!bigger.slots)
        return -ERROR_NOMEM;
    for (size_t i = 0; i < t->n_slots; i++) {
        if (t->slots[i].index_plus_1 != 0)
            *slot_of(&bigger, t->slots[i].name) = t->slots[i];
    }
    mem_free(t->slots);
    *t = bigger;
    return 0;
}

void names_release(struct names *t)
{
    mem_free(t->slots);
    *t = (struct names){0};
}

int names_add(struct names *t, struct str name, size_t index, bool *ret_added)
{
    if (2 * (t->n + 1) > t->n_slots) {
        int rc = grow(t);
        if (rc < 0)
            return rc;
    }
    struct names_slot *slot = slot_of(t, name);
    *ret_added = slot->index_plus_1 == 0;
    if (*ret_added) {
        *slot = (struct names_slot){.name = name, .index_plus_1 = (uint64_t)index + 1};
        t->n++;
    }
    return 0;
}

bool names_find(const struct names *t, struct str name, size_t *ret_index)
{
    if (t->n_slots == 0)
        return false;
    const struct names_slot *slot = slot_of(t, name);
    if (slot->index_plus_1 == 0)
        return false;
    *ret_index = (size_t)(slot->index_plus_1 - 1);
    return true;
}
