/*
 * The memory plan: every large term, laid out before anything is loaded.
 *
 * Owns nothing. What engine_open takes later is exactly what stands here (a test compares the ledger's
 * peak with it): trunk, state and scratch are asked of their owners, the process term is a measured
 * constant and the sizes of the directory and the vocabulary.
 * Stays true: the plan never depends on how much of the budget happens to be free later; slots are cut
 * only when nobody asked for a number.
 */
#ifndef ENGINE_LOCAL_PLAN_H
#define ENGINE_LOCAL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/kv/kv.h"
#include "engine/model/model.h"

#define PLAN_DEFAULT_SLOTS 4u
/*
 * Rows of a step at most. A span of a prompt reads each expert that its rows choose, and each layer that does
 * not stay, once; so where something is read a longer span is worth memory that would hold some of it. Of
 * two spans the one that is twice as long reads half as much for a long prompt, while an eighth fewer slots
 * cost a token at most an eighth more reads. So, unless a number is asked for, rows beyond the default get
 *  - from the layers that stay: no more than lets an eighth more be streamed; nothing where all stay;
 *  - from the experts: an eighth of what would be theirs where they do not all stay, but at least what a span
 *    of PLAN_LEAST_SPAN rows takes, as long as one row's experts still fit beside it; where all of them
 *    stay an eighth of what they take, and only from what is left over;
 * never more than the context. The smallest budget is that of the default.
 */
#define PLAN_DEFAULT_CHUNK 256u
#define PLAN_LEAST_SPAN 512u
#define PLAN_MAX_SLOTS 4096u
#define PLAN_MAX_CHUNK 65536u

/*
 * Binary, C library, SQLite with its page caches, thread stacks, small blocks and what requests bring.
 * The engine alone, with a tiny model, was measured at 7 MiB resident, the model included
 * (tests/engine/local.c measures on every run).
 */
#define PLAN_PROCESS_BASE_BYTES (32u << 20)

struct plan_input {
    const struct model *model;
    const char *path; /* for messages */
    bool exact;
    uint32_t ctx, slots, chunk, logits; /* as asked for; 0: the default */
    uint64_t limit_bytes;               /* 0: no limit */
    uint64_t process_bytes;             /* everything that is not counted one by one */
    uint64_t cache_bytes;               /* page cache of the caller's files */
};

/* Fills the plan, whether it fits or not. ERROR_INVALID when ctx, slots or chunk are out of range. */
int plan_make(struct engine_plan *ret, const struct plan_input *in, struct error *e);
/* 0, or ERROR_BUDGET with both figures, the terms and the ways on. */
int plan_check(const struct engine_plan *p, const struct plan_input *in, struct error *e);

/* Rows of a step at most. */
uint32_t plan_max_rows(uint32_t slots, uint32_t chunk);
/* Bytes of the block that holds the sequences, their events and every token of theirs. */
uint64_t plan_sequences_bytes(uint32_t slots, uint32_t ctx);
/* Bytes set aside for the texts of answers. */
uint64_t plan_text_bytes(uint32_t slots, uint32_t ctx);
/* Bytes of the scheduler's scratch: the rows of a step and the sampler's candidates. */
uint64_t plan_step_bytes(uint32_t max_rows, uint32_t n_vocab);

#endif
