/*
 * What a sweep measures: which budgets, how often, in which order, with which request.
 *
 * Owns the prompt's text and what it knows of the model. Pure but for reading the model's headers. One
 * thread.
 */
#ifndef BATCH_SWEEP_PLAN_H
#define BATCH_SWEEP_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "batch/options.h"
#include "batch/sweep/row.h"

#define SWEEP_BUDGETS_MAX 64
#define SWEEP_REPEAT_MAX 100 /* times the budgets: SWEEP_ROWS_MAX has room for failures, too */

struct sweep_plan {
    char model[300], fingerprint[65];
    uint64_t smallest_bytes,
        whole_bytes; /* the least budget that runs; with everything in memory */
    struct buf prompt;
    uint32_t prompt_tokens, tokens;
    uint64_t budget[SWEEP_BUDGETS_MAX]; /* [n_budgets] ascending, each once */
    size_t n_budgets;
    uint32_t repeat;
    uint64_t seed;
    char key[SWEEP_KEY_BYTES];
};

/* From the options and the model's headers. Release it whatever comes back. */
int sweep_plan_make(struct sweep_plan *p, const struct options *o, struct error *e);
void sweep_plan_release(struct sweep_plan *p);

/*
 * "60G,68G,92G", "25%,50%,100%" of `whole`, or "auto": five from the smallest to the whole, or to what
 * this machine has (`most`; 0: unknown), evenly apart. Sorted, each once.
 */
int sweep_budgets(struct sweep_plan *p, const char *list, uint64_t most, struct error *e);
/*
 * Every budget's repetitions shuffled by the seed: order[i] / repeat is the budget's index, order[i] %
 * repeat + 1 the repetition. mem_free() it; NULL: out of memory.
 */
uint32_t *sweep_order(const struct sweep_plan *p, size_t *ret_n);

#endif
