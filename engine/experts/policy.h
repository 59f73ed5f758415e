/*
 * Which expert makes room: policies of the store (policies.def).
 *
 * A policy owns a block of memory the store gives it and knows slots and keys: a key is an expert of a
 * layer, layer * n_experts + expert. It never reads, waits or locks, and decides nothing but who is taken.
 *
 *   admit    the slot, empty until now, becomes that key's; its reads begin
 *   use      somebody counts on the slot (a hit, or the visit it is read for): it may not be taken
 *   join     it is READY and nobody counts on it any more: it may be taken
 *   victim   the slot to take, of those that may be; drop follows at once
 *   drop     the slot is its key's no longer: taken, given back, or its read has failed
 *
 * Stays true: every call takes constant time, on average over many, whatever the number of slots. The
 * same calls in the same order give the same victims. Join may come without a use before it (a guess that
 * was read), use twice without a join between, drop at any time after admit.
 */
#ifndef ENGINE_EXPERTS_POLICY_H
#define ENGINE_EXPERTS_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define EXPERT_NO_SLOT UINT32_MAX

struct expert_policy_shape {
    uint32_t n_slots;
    uint32_t n_layers, n_experts; /* keys are below their product */
};

struct expert_policy {
    const char *name;
    size_t (*bytes)(const struct expert_policy_shape *shape);
    void (*init)(void *state, const struct expert_policy_shape *shape); /* state is zeroed */
    void (*admit)(void *state, uint32_t slot, uint32_t key);
    void (*use)(void *state, uint32_t slot);
    void (*join)(void *state, uint32_t slot);
    uint32_t (*victim)(void *state); /* EXPERT_NO_SLOT: none may be taken */
    void (*drop)(void *state, uint32_t slot);
    void (*shrink)(void *state, uint32_t n_slots); /* those from there on, all dropped, are gone */
};

#define EXPERT_POLICY(ident) extern const struct expert_policy expert_policy_##ident;
#include "engine/experts/policies.def"
#undef EXPERT_POLICY

/* The i-th of policies.def, the default first; NULL beyond the last. */
const struct expert_policy *expert_policy_at(size_t i);
/* By name; NULL: the default. *ret is untouched when there is none of that name. */
int expert_policy_find(const char *name, const struct expert_policy **ret, struct error *e);
/* What any of them needs: the store sets the same aside whichever is chosen. */
size_t expert_policy_bytes(const struct expert_policy_shape *shape);

#endif
