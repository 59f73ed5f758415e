#include "engine/experts/depth.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/rng.h"

static const uint32_t depths[] = {8, 16, 32, 64};
#define PLACES 64u /* that are read to, at most: as many as the deepest needs */
#define TURNS 2u
#define NEAR_PERCENT 95
#define SEED 20

struct probe {
    const struct io_options *io;
    const struct slots *slots;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    uint64_t n_taken, bytes; /* of this turn */
    uint32_t n_out;
    int64_t until_us;
    uint64_t first; /* read of this turn: others than of the turns before */
    bool failed;
};

/* Some matrix of some expert, into the beginning of a slot. */
static struct io_read random_read(const struct slots *s, uint64_t i)
{
    uint32_t layer = (uint32_t)(rng_u64(SEED, 3 * i) % s->n_layers);
    while (s->layers[layer].n_slices == 0)
        layer = (layer + 1) % s->n_layers;
    const struct expert_layer *l = &s->layers[layer];
    const struct expert_slice *x = &l->slice[rng_u64(SEED, 3 * i + 1) % l->n_slices];
    const uint32_t expert = (uint32_t)(rng_u64(SEED, 3 * i + 2) % s->n_experts);
    return (struct io_read){.file = x->shard,
                            .offset = slots_offset(x, expert),
                            .bytes = x->bytes,
                            .out = slots_address(s, (uint32_t)(i % MIN_OF(s->n, PLACES)))};
}

static bool take(void *context, struct io_read *ret)
{
    struct probe *p = context;
    pthread_mutex_lock(&p->lock);
    const bool any = !p->failed && clock_mono_us() < p->until_us;
    if (any) {
        *ret = random_read(p->slots, p->first + p->n_taken++);
        p->n_out++;
    }
    pthread_mutex_unlock(&p->lock);
    return any;
}

static void done(void *context, const struct io_read *r, int rc, const struct error *e)
{
    struct probe *p = context;
    (void)e;
    pthread_mutex_lock(&p->lock);
    p->bytes += file_direct_span(r->offset, r->bytes);
    p->failed |= rc != 0;
    if (--p->n_out == 0)
        pthread_cond_signal(&p->idle);
    pthread_mutex_unlock(&p->lock);
}

/* Bytes a second. */
static uint64_t turn(struct probe *p, uint32_t depth)
{
    struct io *io;
    struct io_options o = *p->io;
    o.depth = depth;
    o.n_extents = 0; /* registering them is not worth it for a moment */
    o.take = take;
    o.done = done;
    o.context = p;
    p->first += p->n_taken;
    p->n_taken = p->bytes = 0;
    const int64_t from_us = clock_mono_us();
    p->until_us = from_us + DEPTH_US / (int64_t)(TURNS * ARRAY_LEN(depths));
    if (io_open(&io, &o, NULL) != 0)
        return 0;
    io_wake(io, depth);
    clock_sleep_us(p->until_us - from_us);
    pthread_mutex_lock(&p->lock);
    while (p->n_out > 0)
        pthread_cond_wait(&p->idle, &p->lock);
    pthread_mutex_unlock(&p->lock);
    const int64_t us = clock_mono_us() - from_us;
    io_close(io);
    return p->bytes * 1000000 / (uint64_t)MAX_OF(us, (int64_t)1);
}

/* The better turn of each depth. */
static void measure(struct probe *p, uint32_t n_depths, uint64_t rate[ARRAY_LEN(depths)],
                    uint64_t *ret_bytes)
{
    for (uint32_t i = 0; i < TURNS * n_depths && !p->failed; i++) {
        const uint32_t k = i % n_depths;
        rate[k] = MAX_OF(rate[k], turn(p, depths[k]));
        *ret_bytes += p->bytes;
    }
}

uint32_t depth_measure(const struct io_options *io, const struct slots *slots, uint64_t *ret_bytes)
{
    struct probe p = {.io = io, .slots = slots};
    uint64_t rate[ARRAY_LEN(depths)] = {0}, best = 0;
    uint32_t n_depths = 0;
    *ret_bytes = 0;
    while (n_depths < ARRAY_LEN(depths) && depths[n_depths] <= slots->n)
        n_depths++;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.idle, NULL);
    measure(&p, n_depths, rate, ret_bytes);
    pthread_cond_destroy(&p.idle);
    pthread_mutex_destroy(&p.lock);
    for (uint32_t i = 0; i < n_depths; i++)
        best = MAX_OF(best, rate[i]);
    if (p.failed || best == 0)
        return 0;
    while (n_depths > 1 && rate[n_depths - 1] < best / 100 * NEAR_PERCENT)
        n_depths--;
    return depths[n_depths - 1];
}
