/*
 * Routed experts of a model that need not fit into memory: slots, reads from the files, visits.
 *
 * Owns the slots (extents of at most 256 MiB from the ledger), the reads into them (io.h), the open
 * files and the table of who is where. A slot holds all matrices of one expert of one layer, read
 * with direct I/O straight to where they are used.
 *
 * A visit serves the distinct experts that one batch of rows of one layer wants:
 *
 *   experts_begin    leases those that are here and starts reading the others, as far as there are slots
 *   experts_next     gives those that are ready and not given yet, waiting for one at least; what the
 *                    last call gave goes back
 *   experts_end      gives everything back
 *
 * Two visits may be open: the second reads ahead while the first is served. The second is begun when all
 * reads of the first have been (experts_started), so it can never keep a slot from it.
 *
 *   slot:  EMPTY -> INFLIGHT -> READY -> EMPTY     published after the whole read; a slot with leases or
 *            ^________| failed  |                  in flight is never taken from its expert
 *
 * Stays true: what a view shows is all of what the file holds, and has passed the check; a failed read is tried again once, then
 * fails the visit with file, offset and cause. Nothing spins: who waits blocks. Finding and evicting
 * cost the same whatever the number of slots.
 *
 * experts_* are called by one thread; those that read are the store's own.
 */
#ifndef ENGINE_EXPERTS_STORE_H
#define ENGINE_EXPERTS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/ledger.h"
#include "engine/experts/policy.h"

#define EXPERT_SLICES 3 /* gate, up, down; or gate and up in one, down */

/* The matrices of a layer's experts in the files: expert e's begins at offset + e * bytes. */
struct expert_layer {
    uint32_t n_slices; /* 0: a layer without experts */
    struct expert_slice {
        uint32_t shard;
        uint64_t offset;
        size_t bytes;
    } slice[EXPERT_SLICES];
};

/* Reads that no visit has waited for stand in one burst: between two bursts none was under way. */
struct expert_read {
    uint64_t burst;
    uint32_t shard;
    uint64_t offset;
    size_t bytes;
};

struct expert_store_options {
    struct ledger *ledger;
    const char *io;           /* how to read, as io_open takes it */
    const char *const *paths; /* [n_shards] */
    uint32_t n_shards;
    const struct expert_layer *layers; /* [n_layers], copied */
    uint32_t n_layers, n_experts;
    uint64_t n_slots;
    bool lookahead;                     /* keep a few slots for experts_expect */
    const struct expert_policy *policy; /* NULL: the default */
    /* Whether what was read may be used: called by threads that read, on whole matrices. NULL: always. */
    int (*check)(const void *context, uint32_t layer, uint32_t slice, const void *data,
                 struct error *e);
    /* Whether that is the file it is taken for: called once for each as it is opened. NULL: yes. */
    int (*opened)(const void *context, uint32_t shard, const struct file *f, struct error *e);
    const void *check_context;
    /* Told of each read as it is asked for, by the thread of the visits. NULL: nobody wants to know. */
    void (*reading)(void *context, const struct expert_read *r);
    void *reading_context;
    _Atomic uint64_t
        *n_reads; /* counts those that came back, from the threads that read; NULL: no */
};

struct expert_store;

/* Bytes of one slot: the largest layer's expert, each matrix with room for alignment. */
size_t experts_slot_bytes(const struct expert_layer *layers, uint32_t n_layers);
/* Experts of all layers: more slots are of no use. */
uint64_t experts_count(const struct expert_layer *layers, uint32_t n_layers, uint32_t n_experts);
/* What the store takes from the ledger for that many slots. */
uint64_t experts_store_bytes(const struct expert_layer *layers, uint32_t n_layers,
                             uint32_t n_experts, uint64_t n_slots);

int experts_open(struct expert_store **ret, const struct expert_store_options *o, struct error *e);
void experts_close(struct expert_store *s); /* NULL is fine; no visit is open */

/* Where an expert's matrices are, in the order of the layer's slices. */
struct expert_view {
    uint32_t index; /* into the visit's ids */
    const void *slice[EXPERT_SLICES];
};

/* The caller's memory for one of an expert of a visit. */
struct expert_want {
    uint32_t slot;
    uint8_t state; /* enum want_state of store.c */
    uint8_t n_failures;
};

struct expert_visit {
    struct expert_store *store;
    uint32_t layer;
    const uint32_t *ids; /* [n] distinct */
    uint32_t n, n_started, n_served;
    struct expert_want *want; /* [n] */
};

/* ids and want hold until experts_end. */
void experts_begin(struct expert_store *s, struct expert_visit *v, uint32_t layer,
                   const uint32_t *ids, uint32_t n, struct expert_want *want);
bool experts_started(const struct expert_visit *v);
/* Up to v->n views into out, in the order of the ids; *ret_n 0: all have been served. */
int experts_next(struct expert_visit *v, struct expert_view *out, uint32_t *ret_n, struct error *e);
void experts_end(struct expert_visit *v); /* after a failure too; a zeroed visit is fine */

/*
 * Gives whole extents back to the ledger until that is so many bytes or only n_least slots would be left;
 * what they held is read again when it is wanted. No visit is open. Returns the bytes given back.
 */
uint64_t experts_shrink(struct expert_store *s, uint64_t bytes, uint32_t n_least);

/*
 * The visit of that layer, the next one, may want these, likeliest first: they are read while no visit has
 * a read under way, a few at once, into empty slots only, of which the store keeps some. What the visit
 * does not want is forgotten when it begins. Without the option it does nothing.
 */
void experts_expect(struct expert_store *s, uint32_t layer, const uint32_t *ids, uint32_t n);

struct expert_counters {
    uint64_t wanted;                /* distinct ones of each visit */
    uint64_t hits;                  /* resident when the visit began, and not on a guess */
    uint64_t misses;                /* read for a visit */
    uint64_t guesses, good_guesses; /* expected; and wanted by the visit */
    uint64_t probe_bytes;           /* read at the opening to choose how many reads are in flight */
    uint64_t reads;                 /* of a matrix; those that failed too */
    uint64_t bytes_read;            /* whole aligned blocks */
    uint64_t busy_us;               /* at least one read was under way */
    uint64_t wait_us;               /* visits stood waiting */
};
void experts_counters(struct expert_store *s, struct expert_counters *ret);
/* Reads of that file that failed. */
uint32_t experts_failures(struct expert_store *s, uint32_t shard);
/* Reads in flight at most. */
uint32_t experts_io_depth(const struct expert_store *s);
/* How it reads ("uring"), and what about that is not as it should be: "", or a sentence. */
const char *experts_io(const struct expert_store *s);
const char *experts_io_notice(const struct expert_store *s);

#endif
