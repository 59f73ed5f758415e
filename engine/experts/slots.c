#include "engine/experts/slots.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

/* What is given back at once when memory is short: a part of all, and what a machine can bear to lose. */
#define EXTENTS 16u
#define EXTENT_BYTES ((size_t)256 << 20)

/* A matrix of that size, wherever it begins in the file, in whole blocks. */
static size_t room(size_t bytes)
{
    return ALIGN_UP(bytes, (size_t)FILE_DIRECT_ALIGN) + FILE_DIRECT_ALIGN;
}

size_t experts_slot_bytes(const struct expert_layer *layers, uint32_t n_layers)
{
    size_t widest = 0;
    for (uint32_t il = 0; il < n_layers; il++) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < layers[il].n_slices; i++)
            bytes += room(layers[il].slice[i].bytes);
        widest = MAX_OF(widest, bytes);
    }
    return widest;
}

uint64_t experts_count(const struct expert_layer *layers, uint32_t n_layers, uint32_t n_experts)
{
    uint64_t n = 0;
    for (uint32_t il = 0; il < n_layers; il++)
        n += layers[il].n_slices > 0 ? n_experts : 0;
    return n;
}

/* ------------------------------------------------------------------ memory */

/* Gives the next part of the tables' block; base NULL only measures. */
static void *part(char *base, size_t *at, size_t bytes)
{
    void *p = base ? base + *at : NULL;
    *at = ALIGN_UP(*at + bytes, (size_t)64);
    return p;
}

static struct expert_policy_shape policy_shape(const struct slots *s)
{
    return (struct expert_policy_shape){
        .n_slots = s->n, .n_layers = s->n_layers, .n_experts = s->n_experts};
}

/* Lays the tables out from s->block (NULL: only measures) and returns their size. */
static size_t lay_out(struct slots *s)
{
    size_t at = 0;
    char *base = s->block;
    s->layers = part(base, &at, s->n_layers * sizeof(*s->layers));
    s->extent = part(base, &at, s->n_extents * sizeof(*s->extent));
    s->slot = part(base, &at, s->n * sizeof(*s->slot));
    s->where = part(base, &at, (size_t)s->n_layers * s->n_experts * sizeof(*s->where));
    s->free_list = part(base, &at, s->n * sizeof(*s->free_list));
    s->queue = part(base, &at, (size_t)s->n * EXPERT_SLICES * sizeof(*s->queue));
    const struct expert_policy_shape shape = policy_shape(s);
    s->policy_state = part(base, &at, expert_policy_bytes(&shape));
    return at;
}

static struct slots shape_of(const struct expert_layer *layers, uint32_t n_layers,
                             uint32_t n_experts, uint64_t n_slots)
{
    struct slots s = {.n = (uint32_t)MIN_OF(n_slots, experts_count(layers, n_layers, n_experts)),
                      .n_layers = n_layers,
                      .n_experts = n_experts,
                      .stride = experts_slot_bytes(layers, n_layers)};
    size_t fit = MAX_OF(EXTENT_BYTES / MAX_OF(s.stride, (size_t)1), (size_t)1);
    s.per_extent = MAX_OF((uint32_t)MIN_OF(fit, (size_t)(s.n + EXTENTS - 1) / EXTENTS), 1u);
    s.n_extents = (s.n + s.per_extent - 1) / s.per_extent;
    return s;
}

size_t slots_extent_bytes(const struct slots *s, uint32_t i)
{
    return (size_t)MIN_OF(s->per_extent, s->n - i * s->per_extent) * s->stride;
}

uint64_t experts_store_bytes(const struct expert_layer *layers, uint32_t n_layers,
                             uint32_t n_experts, uint64_t n_slots)
{
    struct slots s = shape_of(layers, n_layers, n_experts, n_slots);
    return (uint64_t)s.n * s.stride + ALIGN_UP(lay_out(&s), (size_t)FILE_DIRECT_ALIGN);
}

int slots_open(struct slots *s, const struct expert_store_options *o, struct error *e)
{
    *s = shape_of(o->layers, o->n_layers, o->n_experts, o->n_slots);
    s->ledger = o->ledger;
    s->policy = o->policy ? o->policy : expert_policy_at(0);
    s->block_bytes = lay_out(s);
    int rc =
        ledger_alloc(o->ledger, LEDGER_SLOTS, s->block_bytes, "tables of experts", &s->block, e);
    if (rc != 0)
        return rc;
    lay_out(s);
    memcpy(s->layers, o->layers, s->n_layers * sizeof(*s->layers));
    memset(s->where, 0xFF, (size_t)s->n_layers * s->n_experts * sizeof(*s->where));
    const struct expert_policy_shape shape = policy_shape(s);
    s->policy->init(s->policy_state, &shape);
    for (uint32_t i = 0; i < s->n; i++)
        s->free_list[s->n_free++] = s->n - 1 - i;
    for (uint32_t i = 0; rc == 0 && i < s->n_extents; i++) {
        void *extent = NULL;
        rc = ledger_alloc(o->ledger, LEDGER_SLOTS, slots_extent_bytes(s, i), "experts", &extent, e);
        s->extent[i] = extent;
    }
    return rc;
}

void slots_close(struct slots *s)
{
    if (!s->block)
        return;
    for (uint32_t i = 0; i < s->n_extents; i++) {
        if (s->extent[i])
            ledger_release(s->ledger, LEDGER_SLOTS, s->extent[i], slots_extent_bytes(s, i));
    }
    ledger_release(s->ledger, LEDGER_SLOTS, s->block, s->block_bytes);
    s->block = NULL;
}

/* ------------------------------------------------------------------ states */

static uint32_t *where(const struct slots *s, uint32_t layer, uint32_t expert)
{
    assert(layer < s->n_layers && expert < s->n_experts);
    return &s->where[(size_t)layer * s->n_experts + expert];
}

uint32_t slots_find(const struct slots *s, uint32_t layer, uint32_t expert)
{
    return *where(s, layer, expert);
}

/* It is its expert's no longer. */
static void take_away(struct slots *s, uint32_t slot)
{
    s->policy->drop(s->policy_state, slot);
    *where(s, s->slot[slot].layer, s->slot[slot].expert) = EXPERT_NO_SLOT;
}

static void set_free(struct slots *s, uint32_t slot)
{
    s->slot[slot] = (struct slot){.state = SLOT_EMPTY};
    s->free_list[s->n_free++] = slot;
}

static void empty(struct slots *s, uint32_t slot)
{
    take_away(s, slot);
    set_free(s, slot);
}

/* A guess that came true has taken a spare slot: another one takes its place here. */
uint32_t slots_take(struct slots *s, uint32_t layer, uint32_t expert)
{
    while (s->n_free <= s->n_spare) {
        const uint32_t victim = s->policy->victim(s->policy_state);
        if (victim == EXPERT_NO_SLOT)
            break;
        empty(s, victim);
    }
    return slots_take_empty(s, layer, expert);
}

uint32_t slots_take_empty(struct slots *s, uint32_t layer, uint32_t expert)
{
    if (s->n_free == 0)
        return EXPERT_NO_SLOT;
    const uint32_t slot = s->free_list[--s->n_free];
    s->slot[slot] = (struct slot){.layer = layer, .expert = expert, .state = SLOT_EMPTY};
    *where(s, layer, expert) = slot;
    s->policy->admit(s->policy_state, slot, layer * s->n_experts + expert);
    return slot;
}

/* Nobody counts on it: it may be taken, or is of no use. */
static void settle(struct slots *s, uint32_t slot)
{
    if (s->slot[slot].leases > 0)
        return;
    if (s->slot[slot].state == SLOT_READY)
        s->policy->join(s->policy_state, slot);
    if (s->slot[slot].state == SLOT_FAILED)
        empty(s, slot);
}

void slots_forget(struct slots *s, uint32_t slot)
{
    assert(s->slot[slot].leases == 0);
    take_away(s, slot);
    if (s->slot[slot].state == SLOT_INFLIGHT)
        s->slot[slot].forgotten = true;
    else
        set_free(s, slot);
}

void slots_lease(struct slots *s, uint32_t slot)
{
    s->slot[slot].guessed = false;
    if (s->slot[slot].leases++ == 0)
        s->policy->use(s->policy_state, slot);
}

void slots_release(struct slots *s, uint32_t slot)
{
    assert(s->slot[slot].leases > 0);
    s->slot[slot].leases--;
    settle(s, slot);
}

void slots_loading(struct slots *s, uint32_t slot, uint32_t n_reads)
{
    s->slot[slot].state = SLOT_INFLIGHT;
    s->slot[slot].n_pending = n_reads;
    s->slot[slot].failed = false;
}

bool slots_slice_done(struct slots *s, uint32_t slot, bool good)
{
    struct slot *x = &s->slot[slot];
    x->failed |= !good;
    if (--x->n_pending > 0)
        return false;
    x->state = x->failed ? SLOT_FAILED : SLOT_READY;
    if (x->forgotten)
        set_free(s, slot);
    else
        settle(s, slot);
    return true;
}

/* ------------------------------------------------------------------ fewer */

bool slots_extent_busy(const struct slots *s, uint32_t extent)
{
    bool busy = false;
    for (uint32_t i = extent * s->per_extent; i < s->n && i / s->per_extent == extent; i++)
        busy |= s->slot[i].state == SLOT_INFLIGHT;
    return busy;
}

/* Empty slots are all that is on the list, and only those that stay. */
static void list_empty(struct slots *s)
{
    s->n_free = 0;
    for (uint32_t i = s->n; i-- > 0;) {
        if (s->slot[i].state == SLOT_EMPTY)
            s->free_list[s->n_free++] = i;
    }
}

uint64_t slots_shrink(struct slots *s, uint32_t n_least)
{
    const uint32_t extent = s->n_extents - 1, first = extent * s->per_extent;
    const size_t bytes = slots_extent_bytes(s, extent);
    if (first < MAX_OF(n_least, 1u))
        return 0;
    for (uint32_t i = first; i < s->n; i++) {
        if (s->slot[i].leases > 0)
            return 0;
    }
    for (uint32_t i = first; i < s->n; i++) {
        if (s->slot[i].state != SLOT_EMPTY)
            empty(s, i);
    }
    ledger_release(s->ledger, LEDGER_SLOTS, s->extent[extent], bytes);
    s->n = first;
    s->n_extents = extent;
    list_empty(s);
    s->policy->shrink(s->policy_state, s->n);
    return bytes;
}

/* ------------------------------------------------------------------ places */

const struct expert_layer *slots_layer(const struct slots *s, uint32_t slot)
{
    return &s->layers[s->slot[slot].layer];
}

void *slots_address(const struct slots *s, uint32_t slot)
{
    return s->extent[slot / s->per_extent] + (size_t)(slot % s->per_extent) * s->stride;
}

void *slots_place(const struct slots *s, uint32_t slot, uint32_t slice)
{
    const struct expert_layer *l = slots_layer(s, slot);
    char *at = slots_address(s, slot);
    for (uint32_t i = 0; i < slice; i++)
        at += room(l->slice[i].bytes);
    return at;
}

uint64_t slots_offset(const struct expert_slice *x, uint32_t expert)
{
    return x->offset + (uint64_t)expert * x->bytes;
}

void slots_view(const struct slots *s, uint32_t slot, const void *out[EXPERT_SLICES])
{
    const struct expert_layer *l = slots_layer(s, slot);
    for (uint32_t i = 0; i < l->n_slices; i++) {
        const struct expert_slice *x = &l->slice[i];
        const uint64_t offset = slots_offset(x, s->slot[slot].expert);
        out[i] = (const char *)slots_place(s, slot, i) + offset % FILE_DIRECT_ALIGN;
    }
}
