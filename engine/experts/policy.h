/*
 * Which expert makes room: policies of the store (policies.def).
 *
 * A policy owns a block of memory the store gives it, and knows only slots that may be taken: READY
 * and leased by nobody. The store tells it when a slot joins them or leaves them. Every call takes constant time.
 */
#ifndef ENGINE_EXPERTS_POLICY_H
#define ENGINE_EXPERTS_POLICY_H

#include <stddef.h>
#include <stdint.h>

#define EXPERT_NO_SLOT UINT32_MAX

struct expert_policy {
    const char *name;
    size_t (*bytes)(uint32_t n_slots);
    void (*init)(void *state, uint32_t n_slots); /* state is zeroed */
    void (*join)(void *state, uint32_t slot);
    void (*leave)(void *state, uint32_t slot);
    uint32_t (*victim)(const void *state); /* EXPERT_NO_SLOT: none; it is told by leave */
};

#define EXPERT_POLICY(ident) extern const struct expert_policy expert_policy_##ident;
#include "engine/experts/policies.def"
#undef EXPERT_POLICY

#endif
