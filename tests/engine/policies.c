/* Who makes room, policy by policy: what holds for all of them, and what each is for. */
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "engine/experts/policy.h"
#include "tests/test.h"

/* A policy with its state, and what it was told. */
struct told {
    const struct expert_policy *policy;
    struct expert_policy_shape shape;
    void *state;
    bool *held;     /* [n_slots] admitted and not dropped */
    bool *takeable; /* [n_slots] joined since the last use */
    uint32_t n_takeable;
};

static struct told tell(const struct expert_policy *policy, uint32_t n_slots, uint32_t n_layers,
                        uint32_t n_experts)
{
    struct told t = {.policy = policy, .shape = {n_slots, n_layers, n_experts}};
    const size_t bytes = policy->bytes(&t.shape);
    CHECK(bytes <= expert_policy_bytes(&t.shape));
    /* Exactly so many: the sanitizer sees any more. */
    t.state = mem_zalloc(bytes);
    t.held = mem_array(n_slots, sizeof(*t.held));
    t.takeable = mem_array(n_slots, sizeof(*t.takeable));
    policy->init(t.state, &t.shape);
    return t;
}

static void tell_release(struct told *t)
{
    mem_free(t->state);
    mem_free(t->held);
    mem_free(t->takeable);
}

static void admit(struct told *t, uint32_t slot, uint32_t key)
{
    t->policy->admit(t->state, slot, key);
    t->held[slot] = true;
}

static void use(struct told *t, uint32_t slot)
{
    t->policy->use(t->state, slot);
    t->n_takeable -= t->takeable[slot];
    t->takeable[slot] = false;
}

static void join(struct told *t, uint32_t slot)
{
    t->policy->join(t->state, slot);
    t->n_takeable += !t->takeable[slot];
    t->takeable[slot] = true;
}

static void drop(struct told *t, uint32_t slot)
{
    t->policy->drop(t->state, slot);
    t->n_takeable -= t->takeable[slot];
    t->takeable[slot] = t->held[slot] = false;
}

static uint32_t victim(struct told *t)
{
    const uint32_t slot = t->policy->victim(t->state);
    if (t->n_takeable == 0)
        CHECK_INT(slot, EXPERT_NO_SLOT);
    else
        CHECK(slot < t->shape.n_slots && t->takeable[slot]);
    return slot;
}

/* The slots of the second half go. */
static uint32_t halve(struct told *t)
{
    const uint32_t n_slots = t->shape.n_slots / 2;
    for (uint32_t i = n_slots; i < t->shape.n_slots; i++) {
        if (t->held[i])
            drop(t, i);
    }
    t->policy->shrink(t->state, n_slots);
    t->shape.n_slots = n_slots;
    return n_slots;
}

/* Any calls in any order that the interface allows; gives a hash of the victims. */
static uint64_t any_calls(const struct expert_policy *policy, uint32_t n_slots, uint64_t seed)
{
    struct told t = tell(policy, n_slots, 3, 40);
    uint64_t hash = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t r = rng_u64(seed, i);
        if (i == 10000 && n_slots > 1)
            n_slots = halve(&t);
        const uint32_t slot = (uint32_t)((r >> 8) % n_slots);
        const uint32_t what = (uint32_t)(r % 16);
        if (what == 0)
            hash = hash * 31 + victim(&t);
        if (what == 1) {
            const uint32_t taken = victim(&t);
            if (taken != EXPERT_NO_SLOT)
                drop(&t, taken);
            continue;
        }
        if (!t.held[slot])
            admit(&t, slot, (uint32_t)((r >> 40) % 120));
        else if (what == 2)
            drop(&t, slot);
        else if (what < 9)
            use(&t, slot);
        else if (!t.takeable[slot])
            join(&t, slot);
    }
    tell_release(&t);
    return hash;
}

TEST(policies_take_only_what_may_be_taken)
{
    static const uint32_t n_slots[] = {1, 2, 3, 17, 120};
    for (size_t p = 0; expert_policy_at(p); p++) {
        for (size_t k = 0; k < ARRAY_LEN(n_slots); k++) {
            for (uint64_t seed = 0; seed < 4; seed++) {
                const uint64_t hash = any_calls(expert_policy_at(p), n_slots[k], seed);
                CHECK_INT(any_calls(expert_policy_at(p), n_slots[k], seed), hash);
            }
        }
    }
}

TEST(policies_are_found_by_name)
{
    const struct expert_policy *p = NULL;
    struct error e = {0};
    CHECK_OK(expert_policy_find(NULL, &p, &e), &e);
    CHECK(p == expert_policy_at(0));
    for (size_t i = 0; expert_policy_at(i); i++) {
        CHECK_OK(expert_policy_find(expert_policy_at(i)->name, &p, &e), &e);
        CHECK(p == expert_policy_at(i));
    }
    p = NULL;
    CHECK_ERROR(expert_policy_find("fifo", &p, &e), &e, ERROR_UNSUPPORTED,
                "expert policy 'fifo': there are lrfu, lru, s3-fifo");
    CHECK(p == NULL);
}

/* ------------------------------------------------------------------ what each is for */

/* A cache of experts over a policy: wants keys and counts those that were not there. */
struct cache {
    struct told told;
    uint32_t *slot_of; /* [n_keys] */
    uint32_t *key_of;  /* [n_slots] */
    uint32_t n_filled;
    uint64_t n_missed;
};

static struct cache cache_open(const struct expert_policy *p, uint32_t n_slots, uint32_t n_layers,
                               uint32_t n_experts)
{
    const size_t n_keys = (size_t)n_layers * n_experts;
    struct cache c = {.told = tell(p, n_slots, n_layers, n_experts),
                      .slot_of = mem_array(n_keys, sizeof(*c.slot_of)),
                      .key_of = mem_array(n_slots, sizeof(*c.key_of))};
    memset(c.slot_of, 0xFF, n_keys * sizeof(*c.slot_of));
    return c;
}

static void cache_close(struct cache *c)
{
    tell_release(&c->told);
    mem_free(c->slot_of);
    mem_free(c->key_of);
}

static bool cache_want(struct cache *c, uint32_t key)
{
    uint32_t slot = c->slot_of[key];
    const bool there = slot != EXPERT_NO_SLOT;
    if (!there) {
        c->n_missed++;
        slot = c->n_filled;
        if (c->n_filled < c->told.shape.n_slots) {
            c->n_filled++;
        } else {
            slot = victim(&c->told);
            drop(&c->told, slot);
            c->slot_of[c->key_of[slot]] = EXPERT_NO_SLOT;
        }
        admit(&c->told, slot, key);
        c->slot_of[key] = slot;
        c->key_of[slot] = key;
    }
    use(&c->told, slot);
    join(&c->told, slot);
    return there;
}

static const struct expert_policy *named(const char *name)
{
    const struct expert_policy *p = NULL;
    struct error e = {0};
    CHECK_OK(expert_policy_find(name, &p, &e), &e);
    return p;
}

TEST(policies_lru_takes_what_was_used_longest_ago)
{
    struct cache c = cache_open(named("lru"), 3, 1, 10);
    for (uint32_t key = 0; key < 3; key++)
        CHECK(!cache_want(&c, key));
    CHECK(cache_want(&c, 0));
    CHECK(!cache_want(&c, 3)); /* takes 1 */
    CHECK(cache_want(&c, 2) && cache_want(&c, 0) && !cache_want(&c, 1));
    cache_close(&c);
}

/* A step wants 60, five of each layer's ten as always, and there are 40 slots: a scan, but not for all. */
TEST(policies_lrfu_hits_where_a_step_does_not_fit)
{
    uint64_t n_missed[2];
    for (int i = 0; i < 2; i++) {
        struct cache c = cache_open(named(i ? "lrfu" : "lru"), 40, 6, 50);
        for (uint32_t step = 0; step < 50; step++) {
            for (uint32_t k = 0; k < 60; k++)
                cache_want(&c, k / 10 * 50 + (k % 10 < 5 ? k % 10 : 5 + (step * 5 + k % 10) % 45));
        }
        n_missed[i] = c.n_missed;
        cache_close(&c);
    }
    CHECK_INT(n_missed[0], 3000);
    CHECK(n_missed[1] < 1700);
}

/* What every step uses, five of each of two layers, survives a prompt that uses everything once. */
static uint32_t survivors(const char *name)
{
    struct cache c = cache_open(named(name), 40, 2, 100);
    uint32_t n = 0;
    for (uint32_t step = 0; step < 12; step++) {
        for (uint32_t i = 0; i < 10; i++)
            cache_want(&c, i / 5 * 100 + i % 5);
    }
    for (uint32_t key = 0; key < 200; key++) {
        if (key % 100 >= 5)
            cache_want(&c, key);
    }
    for (uint32_t i = 0; i < 10; i++)
        n += cache_want(&c, i / 5 * 100 + i % 5);
    cache_close(&c);
    return n;
}

TEST(policies_lrfu_and_s3fifo_keep_what_is_used_often)
{
    CHECK_INT(survivors("lru"), 0);
    CHECK_INT(survivors("lrfu"), 10);
    CHECK_INT(survivors("s3-fifo"), 10);
}

/* What comes back soon after it left has a place in the main queue at once. */
TEST(policies_s3fifo_remembers_who_left)
{
    struct cache c = cache_open(named("s3-fifo"), 20, 1, 500);
    uint32_t n = 0;
    for (uint32_t key = 0; key < 30; key++)
        cache_want(&c, key);
    for (uint32_t key = 0; key < 10; key++)
        CHECK(!cache_want(&c, key)); /* back from the departed: the first in the main queue */
    for (uint32_t key = 100; key < 200; key++)
        cache_want(&c, key);
    for (uint32_t key = 0; key < 10; key++)
        n += cache_want(&c, key);
    CHECK(n >= 9);
    cache_close(&c);
}

/* Long uses do not wear it out: the scores' range moves on, and what is old stays in order. */
TEST(policies_lrfu_goes_on_for_long)
{
    struct cache c = cache_open(named("lrfu"), 8, 1, 64);
    for (uint32_t i = 0; i < 200000; i++) {
        cache_want(&c, i % 4);
        if (i % 4 == 3)
            cache_want(&c, 4 + i / 4 % 60);
    }
    CHECK_INT(c.n_missed, 4 + 50000);
    cache_close(&c);
}
