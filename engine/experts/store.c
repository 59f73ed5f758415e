#include "engine/experts/store.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "engine/experts/depth.h"
#include "engine/experts/guesses.h"
#include "engine/experts/io.h"
#include "engine/experts/slots.h"

/* The depth is worth a measurement for models of so many bytes of experts. */
#define MEASURED_LEAST_BYTES ((uint64_t)512 << 20)

/* Reads on a guess at once: what a visit wants then waits for so many at most. */
#define GUESSING 4u

/* Of a read: its slot in the upper half, its slice below, and whether nobody has asked for it. */
#define TAG_GUESS (UINT64_C(1) << 31)
#define TAG_SLICE (TAG_GUESS - 1)

/* At most that part of the slots is kept for guesses. */
#define SPARE_PART 32u

enum want_state { WANT_UNSTARTED, WANT_LEASED, WANT_SERVED, WANT_GIVEN_BACK };

struct expert_store {
    struct slots slots;
    struct file *files; /* [n_shards] */
    uint32_t *failures; /* [n_shards] */
    uint32_t n_shards;
    int (*check)(const void *context, uint32_t layer, uint32_t slice, const void *data,
                 struct error *e);
    const void *check_context;
    void (*reading)(void *context, const struct expert_read *r);
    void *reading_context;
    _Atomic uint64_t *n_reads;

    pthread_mutex_t lock; /* of all below and of the slots' states */
    pthread_cond_t done;  /* a slot is whole, or has failed */
    struct io *io;        /* calls take_read and read_done */
    struct io_extent *extents;
    size_t cap, head, n_queued; /* of slots.queue, a ring; a slot has at most its slices in it */
    uint32_t n_new;             /* queued since the readers were told */
    uint32_t n_under_way;       /* queued or in flight */
    uint32_t n_demanded;        /* of them, for a visit */
    bool lookahead;
    struct guesses guesses;
    uint32_t n_guessing; /* in flight on a guess */
    int64_t busy_since_us;
    uint64_t n_bursts;
    struct expert_counters counters;
    struct error failure; /* the last one of a read */
    char notice[2 * IO_NOTICE_BYTES];
};

/* ------------------------------------------------------------------ reading */

static void tell_reads(struct expert_store *s, uint32_t slot)
{
    const struct expert_layer *l = slots_layer(&s->slots, slot);
    for (uint32_t i = 0; i < l->n_slices; i++) {
        const struct expert_slice *x = &l->slice[i];
        const struct expert_read r = {.burst = s->n_bursts - 1,
                                      .shard = x->shard,
                                      .offset = slots_offset(x, s->slots.slot[slot].expert),
                                      .bytes = x->bytes};
        s->reading(s->reading_context, &r);
    }
}

/* The slot's matrices from `first` on wait for a reader. */
static void demand(struct expert_store *s, uint32_t slot, uint32_t first)
{
    const uint32_t n = slots_layer(&s->slots, slot)->n_slices;
    for (uint32_t i = first; i < n; i++) {
        assert(s->n_queued < s->cap);
        s->slots.queue[(s->head + s->n_queued++) % s->cap] = (struct read_job){slot, i};
    }
    s->n_demanded += n - first;
    s->n_new += n - first;
}

/* The slot's reads are under way. */
static void begin_reads(struct expert_store *s, uint32_t slot)
{
    const uint32_t n = slots_layer(&s->slots, slot)->n_slices;
    if (s->n_under_way == 0) {
        s->busy_since_us = clock_mono_us();
        s->n_bursts++;
    }
    s->n_under_way += n;
    slots_loading(&s->slots, slot, n);
    if (s->reading)
        tell_reads(s, slot);
}

static void push(struct expert_store *s, uint32_t slot)
{
    begin_reads(s, slot);
    demand(s, slot, 0);
}

static void end_reads(struct expert_store *s, uint32_t n)
{
    s->n_under_way -= n;
    if (n > 0 && s->n_under_way == 0)
        s->counters.busy_us += (uint64_t)(clock_mono_us() - s->busy_since_us);
}

/* Once for all that was pushed. */
static void tell_readers(struct expert_store *s)
{
    io_wake(s->io, s->n_new);
    s->n_new = 0;
}

/* What visits want, oldest first; while they want nothing, what may be wanted next. */
static bool next_job(struct expert_store *s, struct read_job *ret, bool *ret_guess)
{
    *ret_guess = s->n_queued == 0;
    if (s->n_queued > 0) {
        *ret = s->slots.queue[s->head];
        s->head = (s->head + 1) % s->cap;
        s->n_queued--;
        return true;
    }
    const bool idle = s->n_demanded == 0 && s->n_guessing < GUESSING;
    const struct guess *g = idle ? guesses_begin(&s->guesses, &ret->slice) : NULL;
    if (!g)
        return false;
    ret->slot = g->slot;
    s->n_guessing++;
    return true;
}

/* The slot is in flight, so nobody else looks at it. */
static bool take_read(void *context, struct io_read *ret)
{
    struct expert_store *s = context;
    struct read_job job;
    bool guess;
    pthread_mutex_lock(&s->lock);
    const bool any = next_job(s, &job, &guess);
    if (any) {
        const struct expert_slice *x = &slots_layer(&s->slots, job.slot)->slice[job.slice];
        *ret =
            (struct io_read){.tag = (uint64_t)job.slot << 32 | (guess ? TAG_GUESS : 0) | job.slice,
                             .file = x->shard,
                             .extent = job.slot / s->slots.per_extent,
                             .offset = slots_offset(x, s->slots.slot[job.slot].expert),
                             .bytes = x->bytes,
                             .out = slots_place(&s->slots, job.slot, job.slice)};
    }
    pthread_mutex_unlock(&s->lock);
    return any;
}

static void came_back(struct expert_store *s, const struct io_read *r)
{
    s->counters.bytes_read += file_direct_span(r->offset, r->bytes);
    if (s->n_reads)
        atomic_fetch_add(s->n_reads, 1);
    if (r->tag & TAG_GUESS)
        s->n_guessing--;
    else
        s->n_demanded--;
    end_reads(s, 1);
    if (s->n_demanded == 0 && guesses_waiting(&s->guesses))
        io_wake(s->io, 1);
}

static void settle(struct expert_store *s, const struct io_read *r, int rc, const struct error *e)
{
    s->counters.reads++;
    if (rc != 0) {
        s->failure = *e;
        s->failures[r->file]++;
    }
    if (slots_slice_done(&s->slots, (uint32_t)(r->tag >> 32), rc == 0))
        pthread_cond_broadcast(&s->done);
}

/* The check looks at every byte, without the lock. */
static void read_done(void *context, const struct io_read *r, int rc, const struct error *why)
{
    struct expert_store *s = context;
    struct error e = *why;
    pthread_mutex_lock(&s->lock);
    const struct slot slot = s->slots.slot[r->tag >> 32];
    came_back(s, r);
    pthread_mutex_unlock(&s->lock);
    if (rc == 0 && s->check)
        rc =
            s->check(s->check_context, slot.layer, (uint32_t)(r->tag & TAG_SLICE), io_first(r), &e);
    if (rc != 0)
        rc = error_wrap(&e, "expert %u", slot.expert);
    pthread_mutex_lock(&s->lock);
    settle(s, r, rc, &e);
    pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------------ visits; the lock is held */

/* Begins as many reads as there are slots for, in the order of the ids. */
static void start_reads(struct expert_visit *v)
{
    struct expert_store *s = v->store;
    for (; v->n_started < v->n; v->n_started++) {
        struct expert_want *want = &v->want[v->n_started];
        if (want->state != WANT_UNSTARTED)
            continue;
        /* The other visit may have brought it meanwhile. */
        want->slot = slots_find(&s->slots, v->layer, v->ids[v->n_started]);
        const bool here = want->slot != EXPERT_NO_SLOT;
        if (!here)
            want->slot = slots_take(&s->slots, v->layer, v->ids[v->n_started]);
        if (want->slot == EXPERT_NO_SLOT)
            break;
        slots_lease(&s->slots, want->slot);
        want->state = WANT_LEASED;
        if (here)
            continue;
        s->counters.misses++;
        push(s, want->slot);
    }
    tell_readers(s);
}

static void give_back(struct expert_visit *v, bool all)
{
    for (uint32_t i = 0; i < v->n; i++) {
        struct expert_want *want = &v->want[i];
        if (want->state == WANT_SERVED || (all && want->state == WANT_LEASED)) {
            slots_release(&v->store->slots, want->slot);
            want->state = WANT_GIVEN_BACK;
        }
    }
}

/* A read that failed once is tried again; the second failure is the visit's. */
static int look_at_failure(struct expert_visit *v, struct expert_want *want, struct error *e)
{
    struct expert_store *s = v->store;
    if (want->n_failures++ == 0) {
        push(s, want->slot);
        tell_readers(s);
        return 0;
    }
    *e = s->failure;
    return -(int)e->code;
}

static int collect(struct expert_visit *v, struct expert_view *out, uint32_t *ret_n,
                   struct error *e)
{
    struct slots *slots = &v->store->slots;
    *ret_n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        struct expert_want *want = &v->want[i];
        if (want->state != WANT_LEASED)
            continue;
        const enum slot_state state = slots->slot[want->slot].state;
        if (state == SLOT_FAILED) {
            int rc = look_at_failure(v, want, e);
            if (rc != 0)
                return rc;
        }
        if (state != SLOT_READY)
            continue;
        struct expert_view *view = &out[(*ret_n)++];
        view->index = i;
        slots_view(slots, want->slot, view->slice);
        want->state = WANT_SERVED;
        v->n_served++;
    }
    return 0;
}

/* ------------------------------------------------------------------ guesses; the lock is held */

static bool still_there(const struct expert_store *s, const struct guess *g)
{
    return slots_find(&s->slots, g->layer, g->expert) == g->slot;
}

/* What nobody has begun to read of it never will be. */
static void drop_guess(struct expert_store *s, const struct guess *g)
{
    const uint32_t n_left = g->n_slices - g->n_begun;
    if (!still_there(s, g))
        return;
    if (s->slots.slot[g->slot].leases > 0) {
        demand(s, g->slot, g->n_begun);
        return;
    }
    slots_forget(&s->slots, g->slot);
    end_reads(s, n_left);
    for (uint32_t i = 0; i < n_left; i++)
        (void)slots_slice_done(&s->slots, g->slot, false);
}

static bool wanted(const struct guess *g, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && ids[i] != g->expert)
        i++;
    return g->layer == layer && i < n;
}

/* A visit begins: what it wants of them is read for it, and the rest is forgotten. */
static void resolve_guesses(struct expert_store *s, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    struct guess g;
    while (guesses_pop(&s->guesses, &g)) {
        if (!wanted(&g, layer, ids, n))
            drop_guess(s, &g);
        else if (still_there(s, &g))
            demand(s, g.slot, g.n_begun);
    }
}

static bool make_guess(struct expert_store *s, uint32_t layer, uint32_t expert)
{
    const uint32_t slot = slots_take_empty(&s->slots, layer, expert);
    if (slot == EXPERT_NO_SLOT)
        return false;
    const struct guess g = {.slot = slot,
                            .layer = layer,
                            .expert = expert,
                            .n_slices = slots_layer(&s->slots, slot)->n_slices};
    s->counters.guesses++;
    s->slots.slot[slot].guessed = true;
    begin_reads(s, slot);
    guesses_add(&s->guesses, &g);
    s->n_new += g.n_slices;
    return true;
}

void experts_expect(struct expert_store *s, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    bool room = s->lookahead;
    pthread_mutex_lock(&s->lock);
    resolve_guesses(s, layer, NULL, 0);
    for (uint32_t i = 0; i < n && room && s->guesses.n < GUESSES_MAX; i++) {
        if (slots_find(&s->slots, layer, ids[i]) == EXPERT_NO_SLOT)
            room = make_guess(s, layer, ids[i]);
    }
    tell_readers(s);
    pthread_mutex_unlock(&s->lock);
}

/* ------------------------------------------------------------------ visits */

void experts_begin(struct expert_store *s, struct expert_visit *v, uint32_t layer,
                   const uint32_t *ids, uint32_t n, struct expert_want *want)
{
    *v = (struct expert_visit){.store = s, .layer = layer, .ids = ids, .n = n, .want = want};
    memset(want, 0, n * sizeof(*want));
    pthread_mutex_lock(&s->lock);
    s->counters.wanted += n;
    resolve_guesses(s, layer, ids, n);
    /* What is here is leased first: no read of this visit may take its slot. */
    for (uint32_t i = 0; i < n; i++) {
        want[i].slot = slots_find(&s->slots, layer, ids[i]);
        if (want[i].slot == EXPERT_NO_SLOT)
            continue;
        const struct slot *slot = &s->slots.slot[want[i].slot];
        s->counters.good_guesses += slot->guessed;
        s->counters.hits += slot->state == SLOT_READY && !slot->guessed;
        slots_lease(&s->slots, want[i].slot);
        want[i].state = WANT_LEASED;
    }
    start_reads(v);
    pthread_mutex_unlock(&s->lock);
}

bool experts_started(const struct expert_visit *v)
{
    return v->n_started == v->n;
}

int experts_next(struct expert_visit *v, struct expert_view *out, uint32_t *ret_n, struct error *e)
{
    struct expert_store *s = v->store;
    *ret_n = 0;
    pthread_mutex_lock(&s->lock);
    give_back(v, false);
    start_reads(v);
    int rc = collect(v, out, ret_n, e);
    const int64_t from_us = clock_mono_us();
    while (rc == 0 && *ret_n == 0 && v->n_served < v->n) {
        pthread_cond_wait(&s->done, &s->lock);
        start_reads(v);
        rc = collect(v, out, ret_n, e);
    }
    s->counters.wait_us += (uint64_t)(clock_mono_us() - from_us);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void experts_end(struct expert_visit *v)
{
    if (!v->store)
        return;
    pthread_mutex_lock(&v->store->lock);
    give_back(v, true);
    pthread_mutex_unlock(&v->store->lock);
    *v = (struct expert_visit){0};
}

/* ------------------------------------------------------------------ opening */

static void take_notice(struct expert_store *s)
{
    uint32_t i = 0;
    while (i < s->n_shards && s->files[i].direct)
        i++;
    snprintf(s->notice, sizeof(s->notice), "%s%s%s", io_notice(s->io),
             *io_notice(s->io) && i < s->n_shards ? "; " : "",
             i < s->n_shards ? "the model's file system refuses direct reads: they go through the "
                               "page cache, which is told to forget them"
                             : "");
}

static int open_files(struct expert_store *s, const struct expert_store_options *o, struct error *e)
{
    s->files = mem_array(o->n_shards, sizeof(*s->files));
    s->failures = mem_array(o->n_shards, sizeof(*s->failures));
    if (!s->files || !s->failures)
        return error_set(e, ERROR_NOMEM, "no memory for %u files", o->n_shards);
    int rc = 0;
    while (rc == 0 && s->n_shards < o->n_shards) {
        const uint32_t shard = s->n_shards;
        rc = file_open_direct(&s->files[shard], o->paths[shard], e);
        s->n_shards += rc == 0;
        if (rc == 0 && o->opened)
            rc = o->opened(o->check_context, shard, &s->files[shard], e);
    }
    return rc;
}

/* Models that are read in no time take what is usual. */
static uint32_t choose_depth(struct expert_store *s, const struct io_options *io)
{
    const uint64_t bytes = experts_count(s->slots.layers, s->slots.n_layers, s->slots.n_experts) *
                           (uint64_t)s->slots.stride;
    if (bytes < MEASURED_LEAST_BYTES || !io_deepens(io->way))
        return 0;
    return depth_measure(io, &s->slots, &s->counters.probe_bytes);
}

static int start_readers(struct expert_store *s, const struct expert_store_options *o,
                         struct error *e)
{
    const struct slots *slots = &s->slots;
    s->extents = mem_array(slots->n_extents, sizeof(*s->extents));
    if (!s->extents)
        return error_set(e, ERROR_NOMEM, "no memory for the places of experts");
    for (uint32_t i = 0; i < slots->n_extents; i++)
        s->extents[i] = (struct io_extent){slots->extent[i], slots_extent_bytes(slots, i)};
    struct io_options io = {.way = o->io,
                            .files = s->files,
                            .n_files = s->n_shards,
                            .extents = s->extents,
                            .n_extents = slots->n_extents,
                            .take = take_read,
                            .done = read_done,
                            .context = s};
    io.depth = choose_depth(s, &io);
    return io_open(&s->io, &io, e);
}

/* Of the slots there are now. */
static void set_spare(struct expert_store *s)
{
    const uint32_t most = MIN_OF(s->slots.n / SPARE_PART, (uint32_t)GUESSES_MAX);
    s->slots.n_spare = s->lookahead ? most : 0;
}

int experts_open(struct expert_store **ret, const struct expert_store_options *o, struct error *e)
{
    struct expert_store *s = mem_zalloc(sizeof(*s));
    if (!s)
        return error_set(e, ERROR_NOMEM, "experts: no memory for their directory");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->done, NULL);
    int rc = slots_open(&s->slots, o, e);
    if (rc == 0) {
        s->cap = (size_t)s->slots.n * EXPERT_SLICES;
        s->check = o->check;
        s->check_context = o->check_context;
        s->lookahead = o->lookahead;
        set_spare(s);
        s->reading = o->reading;
        s->reading_context = o->reading_context;
        s->n_reads = o->n_reads;
        rc = open_files(s, o, e);
    }
    if (rc == 0)
        rc = start_readers(s, o, e);
    if (rc != 0) {
        experts_close(s);
        return rc;
    }
    take_notice(s);
    *ret = s;
    return 0;
}

void experts_close(struct expert_store *s)
{
    if (!s)
        return;
    io_close(s->io);
    for (uint32_t i = 0; i < s->n_shards; i++)
        file_close(&s->files[i]);
    slots_close(&s->slots);
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->extents);
    mem_free(s->failures);
    mem_free(s->files);
    mem_free(s);
}

uint64_t experts_shrink(struct expert_store *s, uint64_t bytes, uint32_t n_least)
{
    uint64_t given = 0, more = 1;
    pthread_mutex_lock(&s->lock);
    while (given < bytes && more > 0) {
        const uint32_t last = s->slots.n_extents - 1;
        while (slots_extent_busy(&s->slots, last))
            pthread_cond_wait(&s->done, &s->lock);
        more = slots_shrink(&s->slots, n_least);
        if (more > 0)
            io_forget(s->io, last);
        given += more;
    }
    set_spare(s);
    pthread_mutex_unlock(&s->lock);
    return given;
}

void experts_counters(struct expert_store *s, struct expert_counters *ret)
{
    pthread_mutex_lock(&s->lock);
    *ret = s->counters;
    pthread_mutex_unlock(&s->lock);
}

uint32_t experts_failures(struct expert_store *s, uint32_t shard)
{
    pthread_mutex_lock(&s->lock);
    const uint32_t n = s->failures[shard];
    pthread_mutex_unlock(&s->lock);
    return n;
}

uint32_t experts_io_depth(const struct expert_store *s)
{
    return io_depth(s->io);
}

const char *experts_io(const struct expert_store *s)
{
    return io_name(s->io);
}

const char *experts_io_notice(const struct expert_store *s)
{
    return s->notice;
}
