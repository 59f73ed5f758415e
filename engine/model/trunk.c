#include "engine/model/trunk.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "engine/model/arch.h"

/* One layer at work, one being read. More would only take memory from layers that stay. */
#define PLACES 2u
/* Reads in flight; each thread has one. */
#define READERS 4
#define PIECE_BYTES ((size_t)4 << 20)
#define TRIES 2u

enum place_state { PLACE_FREE, PLACE_READING, PLACE_SETTLING, PLACE_READY, PLACE_FAILED };

struct place {
    char *at;
    enum place_state state;
    uint32_t il;
    size_t run;    /* of its part: where the next piece is */
    uint64_t done; /* bytes of that run that have been asked for */
    uint32_t n_inflight, n_tries;
    bool failed;          /* this try */
    struct error failure; /* the first one of it */
    uint32_t failed_shard;
    struct layer layer; /* once READY */
};

struct piece {
    struct place *place;
    uint32_t shard;
    uint64_t offset;
    size_t bytes;
    char *to;
};

struct trunk {
    const struct model *m;
    struct ledger *ledger;
    void *block; /* the places' memory */
    size_t block_bytes;
    uint32_t first, n_streamed; /* layers */
    struct file *files;         /* [n_shards] */
    uint32_t *failures;         /* [n_shards] */
    _Atomic uint64_t *n_reads;  /* the opener's */
    uint32_t n_shards;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;  /* a place is free, or the end */
    pthread_cond_t done;  /* a place is ready or has failed, or nothing is in flight for it */
    pthread_t reader[READERS];
    uint32_t n_readers;
    bool ending;
    bool holding;  /* no more reads: the order is about to change */
    bool broken;   /* a failure has been told: what is here is of no use */
    uint64_t turn; /* counts layers from `first` on, round and round: at work, or the next */
    struct place place[PLACES];
    struct trunk_counters counters;
};

/* ------------------------------------------------------------------ sizes */

/* A layer in a place: its tensors, then those in another form and a row to make them with. */
static uint64_t place_bytes(const struct model *m, uint32_t il)
{
    const size_t absorbed = model_absorbed_bytes(m, il);
    const size_t row = absorbed ? m->hp.kv_lora * sizeof(float) : 0;
    return ALIGN_UP(m->parts[il].bytes + absorbed + row, (uint64_t)FILE_DIRECT_ALIGN);
}

uint64_t trunk_ring_bytes(const struct model *m, uint32_t n_streamed)
{
    uint64_t widest = 0;
    for (uint32_t il = m->hp.n_layers - n_streamed; il < m->hp.n_layers; il++)
        widest = MAX_OF(widest, place_bytes(m, il));
    return PLACES * widest;
}

uint64_t trunk_step_bytes(const struct model *m, uint32_t n_streamed)
{
    return model_trunk_bytes(m, 0) - model_trunk_bytes(m, n_streamed);
}

uint32_t trunk_choose_streamed(const struct model *m, uint64_t bytes)
{
    const uint32_t n_layers = m->hp.n_layers;
    uint64_t stay = model_trunk_bytes(m, 0), absorbed = model_repacked_bytes(m, 0);
    uint64_t least = stay + ALIGN_UP(absorbed, (uint64_t)FILE_DIRECT_ALIGN), widest = 0;
    uint32_t best = 0;
    for (uint32_t n = 1; n <= n_layers && least > bytes; n++) {
        const uint32_t il = n_layers - n;
        stay -= m->parts[il].bytes;
        absorbed -= model_absorbed_bytes(m, il);
        widest = MAX_OF(widest, place_bytes(m, il));
        const uint64_t total =
            stay + ALIGN_UP(absorbed, (uint64_t)FILE_DIRECT_ALIGN) + PLACES * widest;
        if (n < TRUNK_LEAST_STREAMED || total >= least)
            continue;
        least = total;
        best = n;
    }
    return best;
}

/* ------------------------------------------------------------------ reading; the lock is held */

static uint32_t layer_of(const struct trunk *t, uint64_t turn)
{
    return t->first + (uint32_t)(turn % t->n_streamed);
}

static struct place *place_of(struct trunk *t, uint64_t turn)
{
    return &t->place[turn % PLACES];
}

static void begin_try(struct place *p)
{
    p->state = PLACE_READING;
    p->run = 0;
    p->done = 0;
    p->failed = false;
}

static bool all_asked_for(const struct trunk *t, const struct place *p)
{
    return p->run == t->m->parts[p->il].n;
}

static void cut_piece(const struct trunk *t, struct place *p, struct piece *ret)
{
    const struct trunk_run *r = &t->m->runs[t->m->parts[p->il].first + p->run];
    const uint64_t offset = r->start + p->done;
    *ret = (struct piece){.place = p,
                          .shard = r->shard,
                          .offset = offset,
                          .bytes = (size_t)MIN_OF((uint64_t)PIECE_BYTES, r->end - offset),
                          .to = p->at + r->at + p->done};
    p->n_inflight++;
    p->done += ret->bytes;
    if (r->start + p->done < r->end)
        return;
    p->run++;
    p->done = 0;
}

/* The next piece of the layer whose turn comes first. */
static bool take_piece(struct trunk *t, struct piece *ret)
{
    for (uint64_t turn = t->turn; !t->holding && turn < t->turn + PLACES; turn++) {
        struct place *p = place_of(t, turn);
        if (p->state == PLACE_FREE) {
            p->il = layer_of(t, turn);
            p->n_tries = 0;
            begin_try(p);
        }
        if (p->state == PLACE_READING && !p->failed && !all_asked_for(t, p)) {
            cut_piece(t, p, ret);
            return true;
        }
    }
    return false;
}

/* From what was read to what is computed with. Nobody else looks at the place meanwhile. */
static int settle(const struct trunk *t, struct place *p, struct error *e)
{
    const struct model *m = t->m;
    float *keys = (float *)(p->at + m->parts[p->il].bytes);
    p->layer = m->layers[p->il];
    model_settle_layer(m, p->il, p->at, &p->layer);
    int rc = model_check_layer(m, &p->layer, e);
    if (rc == 0 && model_absorbed_bytes(m, p->il) > 0)
        model_absorb_layer(&m->hp, &p->layer, keys,
                           keys + model_absorbed_bytes(m, p->il) / sizeof(float));
    return rc;
}

static void note_failure(struct place *p, uint32_t shard, const struct error *e)
{
    if (p->failed)
        return;
    p->failed = true;
    p->failed_shard = shard;
    p->failure = *e;
    error_wrap(&p->failure, "layer %u", p->il);
}

/* Nothing of this try is in flight any more. */
static void end_try(struct trunk *t, struct place *p)
{
    if (!p->failed) {
        p->state = PLACE_READY;
        return;
    }
    t->failures[p->failed_shard]++;
    if (++p->n_tries < TRIES) {
        begin_try(p);
        pthread_cond_broadcast(&t->work);
    } else {
        p->state = PLACE_FAILED;
    }
}

static void finish_piece(struct trunk *t, const struct piece *piece, int rc, struct error *e)
{
    struct place *p = piece->place;
    t->counters.bytes_read += file_direct_span(piece->offset, piece->bytes);
    if (t->n_reads)
        atomic_fetch_add(t->n_reads, 1);
    if (rc != 0)
        note_failure(p, piece->shard, e);
    if (--p->n_inflight > 0)
        return;
    if (!p->failed && all_asked_for(t, p)) {
        p->state = PLACE_SETTLING;
        pthread_mutex_unlock(&t->lock);
        rc = settle(t, p, e);
        pthread_mutex_lock(&t->lock);
        if (rc != 0)
            note_failure(p, piece->shard, e);
    }
    if (p->failed || p->state == PLACE_SETTLING)
        end_try(t, p);
    pthread_cond_broadcast(&t->done);
}

static void *reader(void *context)
{
    struct trunk *t = context;
    pthread_mutex_lock(&t->lock);
    while (!t->ending) {
        struct piece piece;
        if (!take_piece(t, &piece)) {
            pthread_cond_wait(&t->work, &t->lock);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        struct error e = {0};
        int rc = file_read_direct(&t->files[piece.shard], piece.to, piece.bytes, piece.offset, &e);
        pthread_mutex_lock(&t->lock);
        finish_piece(t, &piece, rc, &e);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ------------------------------------------------------------------ taking turns */

static bool is_quiet(const struct trunk *t)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        if (t->place[i].n_inflight > 0 || t->place[i].state == PLACE_SETTLING)
            return false;
    }
    return true;
}

/* Another order than expected: what was read ahead goes, and il is read first. */
static void restart(struct trunk *t, uint32_t il)
{
    t->holding = true;
    while (!is_quiet(t))
        pthread_cond_wait(&t->done, &t->lock);
    t->holding = false;
    t->broken = false;
    for (uint32_t i = 0; i < PLACES; i++)
        t->place[i].state = PLACE_FREE;
    t->turn = il - t->first;
    pthread_cond_broadcast(&t->work);
}

int trunk_acquire(struct trunk *t, uint32_t il, const struct layer **ret, struct error *e)
{
    int rc = 0;
    pthread_mutex_lock(&t->lock);
    const int64_t from_us = clock_mono_us();
    if (t->broken || layer_of(t, t->turn) != il)
        restart(t, il);
    const struct place *p = place_of(t, t->turn);
    while (p->state != PLACE_READY && p->state != PLACE_FAILED)
        pthread_cond_wait(&t->done, &t->lock);
    t->counters.wait_us += (uint64_t)(clock_mono_us() - from_us);
    if (p->state == PLACE_READY) {
        *ret = &p->layer;
    } else {
        t->broken = true;
        if (e)
            *e = p->failure;
        rc = -(int)p->failure.code;
    }
    pthread_mutex_unlock(&t->lock);
    return rc;
}

void trunk_release(struct trunk *t)
{
    pthread_mutex_lock(&t->lock);
    assert(place_of(t, t->turn)->state == PLACE_READY);
    place_of(t, t->turn)->state = PLACE_FREE;
    t->turn++;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
}

void trunk_counters(struct trunk *t, struct trunk_counters *ret)
{
    pthread_mutex_lock(&t->lock);
    *ret = t->counters;
    pthread_mutex_unlock(&t->lock);
}

uint32_t trunk_failures(struct trunk *t, uint32_t shard)
{
    pthread_mutex_lock(&t->lock);
    const uint32_t n = t->failures[shard];
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* ------------------------------------------------------------------ opening */

static int open_files(struct trunk *t, struct error *e)
{
    const uint32_t n_shards = (uint32_t)gguf_n_shards(t->m->gguf);
    t->files = mem_array(n_shards, sizeof(*t->files));
    t->failures = mem_array(n_shards, sizeof(*t->failures));
    if (!t->files || !t->failures)
        return error_set(e, ERROR_NOMEM, "no memory for %u files", n_shards);
    int rc = 0;
    while (rc == 0 && t->n_shards < n_shards) {
        struct file *f = &t->files[t->n_shards];
        rc = file_open_direct(f, gguf_shard_path(t->m->gguf, t->n_shards), e);
        t->n_shards += rc == 0;
        if (rc == 0)
            rc = gguf_shard_same(t->m->gguf, t->n_shards - 1, f, e);
    }
    return rc;
}

static int start_readers(struct trunk *t, struct error *e)
{
    for (; t->n_readers < READERS; t->n_readers++) {
        int rc = pthread_create(&t->reader[t->n_readers], NULL, reader, t);
        if (rc != 0)
            return error_sys(e, ERROR_NOMEM, rc, "starting the threads that read layers");
    }
    return 0;
}

int trunk_open(struct trunk **ret, const struct model *m, struct ledger *l,
               _Atomic uint64_t *n_reads, struct error *e)
{
    *ret = NULL;
    if (m->n_streamed == 0)
        return 0;
    struct trunk *t = mem_zalloc(sizeof(*t));
    if (!t)
        return error_set(e, ERROR_NOMEM, "streamed layers: no memory for their directory");
    t->m = m;
    t->ledger = l;
    t->n_reads = n_reads;
    t->first = m->hp.n_layers - m->n_streamed;
    t->n_streamed = m->n_streamed;
    t->block_bytes = (size_t)trunk_ring_bytes(m, m->n_streamed);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    int rc = ledger_alloc(l, LEDGER_TRUNK, t->block_bytes, "streamed layers", &t->block, e);
    for (uint32_t i = 0; rc == 0 && i < PLACES; i++)
        t->place[i].at = (char *)t->block + i * (t->block_bytes / PLACES);
    if (rc == 0)
        rc = open_files(t, e);
    if (rc == 0)
        rc = start_readers(t, e);
    if (rc != 0) {
        trunk_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void trunk_close(struct trunk *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->ending = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < t->n_readers; i++)
        pthread_join(t->reader[i], NULL);
    for (uint32_t i = 0; i < t->n_shards; i++)
        file_close(&t->files[i]);
    ledger_release(t->ledger, LEDGER_TRUNK, t->block, t->block_bytes);
    pthread_cond_destroy(&t->done);
    pthread_cond_destroy(&t->work);
    pthread_mutex_destroy(&t->lock);
    mem_free(t->failures);
    mem_free(t->files);
    mem_free(t);
}
