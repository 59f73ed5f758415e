/*
 * Private to engine/experts: the slots themselves. Who is where, who may be taken, what state each is in.
 * Nothing here locks; the store does.
 */
#ifndef ENGINE_EXPERTS_SLOTS_H
#define ENGINE_EXPERTS_SLOTS_H

#include "engine/experts/store.h"

enum slot_state { SLOT_EMPTY, SLOT_INFLIGHT, SLOT_READY, SLOT_FAILED };

struct slot {
    uint32_t layer, expert; /* not of an EMPTY one */
    uint32_t leases;        /* visits that count on it */
    enum slot_state state;
    uint32_t n_pending; /* reads that have not come back */
    bool failed;        /* one of them did */
    bool guessed;       /* no visit has asked for it yet */
    bool forgotten;     /* nobody finds it any more: it is empty when its reads are back */
};

/* One matrix into one slot. */
struct read_job {
    uint32_t slot, slice;
};

struct slots {
    struct ledger *ledger;
    uint32_t n; /* fewer when extents have gone */
    uint32_t n_layers, n_experts;
    size_t stride;
    uint32_t per_extent, n_extents;
    char **extent; /* [n_extents] */
    void *block;   /* all tables below */
    size_t block_bytes;
    struct expert_layer *layers; /* [n_layers] */
    struct slot *slot;           /* [n] */
    uint32_t *where;             /* [n_layers][n_experts] slot, or EXPERT_NO_SLOT */
    uint32_t *free_list;         /* [n] EMPTY slots */
    uint32_t n_free, n_spare;    /* of them, kept for what is read on a guess */
    const struct expert_policy *policy;
    void *policy_state;
    struct read_job *queue; /* [n * EXPERT_SLICES] the store's */
};

int slots_open(struct slots *s, const struct expert_store_options *o, struct error *e);
void slots_close(struct slots *s);
size_t slots_extent_bytes(const struct slots *s, uint32_t extent);

/* The slot of that expert, whatever its state; EXPERT_NO_SLOT: none. */
uint32_t slots_find(const struct slots *s, uint32_t layer, uint32_t expert);
/* An empty slot, or the policy's victim, becomes that expert's; EXPERT_NO_SLOT: none may be taken. */
uint32_t slots_take(struct slots *s, uint32_t layer, uint32_t expert);
/* The same, but an empty one only. */
uint32_t slots_take_empty(struct slots *s, uint32_t layer, uint32_t expert);
/* Nobody leases it, and nobody will find it: it is empty now, or when its reads are back. */
void slots_forget(struct slots *s, uint32_t slot);
void slots_lease(struct slots *s, uint32_t slot);
void slots_release(struct slots *s, uint32_t slot);
void slots_loading(struct slots *s, uint32_t slot, uint32_t n_reads);
/* One of its reads is back; true when it was the last one. */
bool slots_slice_done(struct slots *s, uint32_t slot, bool good);

/*
 * The last extent goes back to the ledger; its slots must not be in flight. 0, with nothing changed: one of
 * them is leased, or fewer than n_least would be left. Else its bytes.
 */
uint64_t slots_shrink(struct slots *s, uint32_t n_least);
/* Whether a slot of that extent is in flight. */
bool slots_extent_busy(const struct slots *s, uint32_t extent);

const struct expert_layer *slots_layer(const struct slots *s, uint32_t slot);
/* Where a slot begins, whosever it is. */
void *slots_address(const struct slots *s, uint32_t slot);
/* Where a read of that slice goes: aligned, with room for whole blocks at both ends. */
void *slots_place(const struct slots *s, uint32_t slot, uint32_t slice);
/* Where an expert's matrix begins in its file. */
uint64_t slots_offset(const struct expert_slice *x, uint32_t expert);
/* Where each matrix begins. */
void slots_view(const struct slots *s, uint32_t slot, const void *out[EXPERT_SLICES]);

#endif
