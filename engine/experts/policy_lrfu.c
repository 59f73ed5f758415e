/*
 * LRFU (Lee et al. 1999) behind a window of recent use.
 *
 * Every use of an expert is worth 1, and half as much after each half-life: STEPS_HALF_LIFE steps, but as
 * many uses as there are slots at least, and four times as many at most. The slot whose uses are worth
 * least is taken, but first of those that are not recent.
 *
 * Recent is what the last steps used: a token shares a third of its experts with the one before, whatever
 * they were worth before that. Layers come round again and again, so a window that holds less than a step
 * is of no use: where there are not so many slots nothing counts as recent. How much a step uses is seen
 * from how much was used since the layer at work was visited before (where one layer alone has experts:
 * not at all). Of a long prompt's step, which uses more than fits, nothing counts as recent either: it
 * does not push out what is used often.
 *
 * The logarithm of a worth, seen from a fixed time, changes only when the expert is used: that is its
 * score, kept for every key, resident or not, so that what comes back is known. Slots that are not recent
 * stand in buckets by score, a ring each, which cover a range of scores that moves on with the clock, and a
 * bit for each says whether it is empty; what is older than all buckets shares the first. So every call
 * costs the same.
 */
#include "base/compiler.h"
#include "base/numeric.h"
#include "engine/experts/policy_ring.h"

/* Measured with bench/replay (docs/performance.md): twice or half as much differs little. */
#define STEPS_HALF_LIFE 32
#define STEPS_RECENT 3
/* Units of a score: one half-life, and a bucket; the buckets cover 16 half-lives. */
#define UNIT 256u
#define BUCKET_UNITS 8u
#define N_BUCKETS 512u
/* What is worth less than 2^-FOLD_LIVES of another adds nothing to it. */
#define FOLD_LIVES 10u
/* The clock runs in fractions of a unit. */
#define TICKS 65536u

struct lrfu_slot {
    uint32_t key;
    uint32_t bucket; /* that it was put into, counted from time 0; RECENT */
};

struct lrfu {
    uint32_t n_slots; /* at first: where the rings' heads are */
    uint32_t n_now;
    uint32_t n_experts;
    uint64_t clock; /* in ticks */
    uint32_t ticks_per_use;
    uint32_t layer; /* of the last use */
    uint64_t n_uses;
    uint32_t n_recent, max_recent;    /* in the ring of recent ones */
    uint32_t first;                   /* bucket that their range begins with, counted from time 0 */
    uint64_t filled[N_BUCKETS / 64];  /* bit b: some slot is in ring b */
    uint16_t fold[FOLD_LIVES * UNIT]; /* what the smaller of two adds, by their difference */
    uint64_t *visited;                /* [n_layers] n_uses when its last visit began */
    uint32_t *score;                  /* [n_keys] 0: never used */
    struct lrfu_slot *slot;           /* [n_slots] */
    struct ring_entry *ring;          /* [n_slots + N_BUCKETS + 1] */
};

#define RECENT UINT32_MAX

static size_t bytes(const struct expert_policy_shape *s)
{
    const size_t n_slots = s->n_slots, n_keys = (size_t)s->n_layers * s->n_experts;
    return sizeof(struct lrfu) + s->n_layers * sizeof(uint64_t) + n_keys * sizeof(uint32_t) +
           n_slots * sizeof(struct lrfu_slot) +
           (n_slots + N_BUCKETS + 1) * sizeof(struct ring_entry);
}

/* How fast what was used loses its worth, where a step uses so many. */
static void set_half_life(struct lrfu *l, uint64_t step)
{
    const uint64_t n = l->n_now, uses = MIN_OF(MAX_OF(STEPS_HALF_LIFE * step, n), 4 * n);
    l->ticks_per_use = (uint32_t)MAX_OF((uint64_t)TICKS * UNIT / uses, (uint64_t)1);
}

static void init(void *state, const struct expert_policy_shape *s)
{
    struct lrfu *l = state;
    l->n_slots = s->n_slots;
    l->n_experts = s->n_experts;
    l->visited = (uint64_t *)(l + 1);
    l->slot = (struct lrfu_slot *)(l->visited + s->n_layers);
    l->ring = (struct ring_entry *)(l->slot + s->n_slots);
    l->score = (uint32_t *)(l->ring + s->n_slots + N_BUCKETS + 1);
    l->layer = s->n_layers;
    ring_init(l->ring, s->n_slots + N_BUCKETS + 1);
    l->n_now = s->n_slots;
    set_half_life(l, 0);
    for (uint32_t d = 0; d < FOLD_LIVES * UNIT; d++) {
        const double added = 1 + numeric_pow(2, -(double)d / UNIT);
        l->fold[d] = (uint16_t)(UNIT * numeric_log(added) / numeric_log(2) + 0.5);
    }
    l->clock = TICKS;
}

/* ------------------------------------------------------------------ rings */

static uint32_t ring_of(const struct lrfu *l, uint32_t bucket)
{
    return l->n_slots + (bucket == RECENT ? N_BUCKETS : MAX_OF(bucket, l->first) % N_BUCKETS);
}

static void set_filled(struct lrfu *l, uint32_t b, bool on)
{
    const uint64_t bit = (uint64_t)1 << (b % 64);
    l->filled[b / 64] = on ? l->filled[b / 64] | bit : l->filled[b / 64] & ~bit;
}

/* The range moves on; what it leaves behind goes to its new beginning. */
static void advance(struct lrfu *l, uint32_t first)
{
    for (; l->first < first; l->first++) {
        const uint32_t old = l->first % N_BUCKETS, next = (l->first + 1) % N_BUCKETS;
        if (ring_empty(l->ring, l->n_slots + old))
            continue;
        ring_prepend_all(l->ring, l->n_slots + next, l->n_slots + old);
        set_filled(l, old, false);
        set_filled(l, next, true);
    }
}

/* The first ring from the range's beginning that is not empty; N_BUCKETS: none. */
static uint32_t first_filled(const struct lrfu *l)
{
    const uint32_t from = l->first % N_BUCKETS, n_words = N_BUCKETS / 64;
    const uint64_t ahead = ~(uint64_t)0 << (from % 64);
    for (uint32_t i = 0; i <= n_words; i++) {
        const uint32_t word = (from / 64 + i) % n_words;
        const uint64_t mask = i == 0 ? ahead : i == n_words ? ~ahead : ~(uint64_t)0;
        if (l->filled[word] & mask)
            return word * 64 + (uint32_t)__builtin_ctzll(l->filled[word] & mask);
    }
    return N_BUCKETS;
}

static void leave(struct lrfu *l, uint32_t slot)
{
    const uint32_t bucket = l->slot[slot].bucket, head = ring_of(l, bucket);
    if (l->ring[slot].after == slot)
        return;
    ring_remove(l->ring, slot);
    if (bucket == RECENT)
        l->n_recent--;
    else
        set_filled(l, head - l->n_slots, !ring_empty(l->ring, head));
}

static void enter_bucket(struct lrfu *l, uint32_t slot)
{
    const uint32_t bucket = l->score[l->slot[slot].key] / BUCKET_UNITS;
    if (bucket >= l->first + N_BUCKETS)
        advance(l, bucket - N_BUCKETS + 1);
    l->slot[slot].bucket = bucket;
    ring_append(l->ring, ring_of(l, bucket), slot);
    set_filled(l, ring_of(l, bucket) - l->n_slots, true);
}

/* ------------------------------------------------------------------ use */

/* A visit of the layer begins: since its last one everything was used that a step uses. */
static void measure_step(struct lrfu *l, uint32_t layer)
{
    const uint64_t step = l->n_uses - l->visited[layer], n = l->n_now;
    l->max_recent = (uint32_t)MIN_OF(STEPS_RECENT * step, n / 2);
    if (l->max_recent < step)
        l->max_recent = step < n - n / 16 ? (uint32_t)step : 0;
    set_half_life(l, step);
    l->visited[layer] = l->n_uses;
    l->layer = layer;
}

static void admit(void *state, uint32_t slot, uint32_t key)
{
    struct lrfu *l = state;
    l->slot[slot].key = key;
}

static void use(void *state, uint32_t slot)
{
    struct lrfu *l = state;
    const uint32_t key = l->slot[slot].key;
    leave(l, slot);
    if (key / l->n_experts != l->layer)
        measure_step(l, key / l->n_experts);
    l->n_uses++;
    l->clock += l->ticks_per_use;
    const uint32_t now = (uint32_t)(l->clock / TICKS), score = l->score[key];
    const uint32_t apart = MAX_OF(now, score) - MIN_OF(now, score);
    l->score[key] = MAX_OF(now, score) + (apart < FOLD_LIVES * UNIT ? l->fold[apart] : 0);
}

static void join(void *state, uint32_t slot)
{
    struct lrfu *l = state;
    const uint32_t head = ring_of(l, RECENT);
    l->slot[slot].bucket = RECENT;
    ring_append(l->ring, head, slot);
    l->n_recent++;
    while (l->n_recent > l->max_recent) {
        const uint32_t oldest = l->ring[head].after;
        leave(l, oldest);
        enter_bucket(l, oldest);
    }
}

static uint32_t victim(void *state)
{
    const struct lrfu *l = state;
    const uint32_t b = first_filled(l); /* N_BUCKETS is the ring of the recent ones */
    return ring_empty(l->ring, l->n_slots + b) ? EXPERT_NO_SLOT : l->ring[l->n_slots + b].after;
}

static void drop(void *state, uint32_t slot)
{
    leave(state, slot);
}

static void shrink(void *state, uint32_t n_slots)
{
    struct lrfu *l = state;
    l->n_now = n_slots;
}

const struct expert_policy expert_policy_lrfu = {.name = "lrfu",
                                                 .bytes = bytes,
                                                 .init = init,
                                                 .admit = admit,
                                                 .use = use,
                                                 .join = join,
                                                 .victim = victim,
                                                 .drop = drop,
                                                 .shrink = shrink};
