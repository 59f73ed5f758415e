/*
 * The unit of execution: rows (token, position, state slot) of many sequences, every layer once.
 *
 * Rows of one sequence in a step are consecutive, in order of position, and start where the cache ends.
 * Stays true: what a row gives does not depend on the other rows, on R, or on the threads.
 * The loop is `for each layer { for each block of at most R rows }`, never the reverse.
 */
#ifndef ENGINE_MODEL_STEP_H
#define ENGINE_MODEL_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/ledger.h"
#include "engine/kernels/kernels.h"
#include "engine/kv/kv.h"
#include "engine/model/model.h"

struct step_row {
    int32_t token;
    uint32_t position;
    int slot; /* of the kv pool */
    bool want_logits;
};

struct forward_options {
    const struct model *model;
    struct kv_pool *kv;
    const struct kernels *kernels;
    struct ledger *ledger;
    struct expert_store *experts; /* NULL: the model has none */
    bool exact;
    uint32_t max_rows;   /* of a step */
    uint32_t max_logits; /* rows of a step that may want logits */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    /* For tests: intermediate results as they come, [n_rows][n_cols]; NULL: none. */
    void (*trace)(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows);
    void *trace_context;
};

struct forward;

uint64_t forward_scratch_bytes(const struct forward_options *o);
int forward_new(struct forward **ret, const struct forward_options *o, struct error *e);
void forward_free(struct forward *f);

/* n_rows <= max_rows. */
int forward_step(struct forward *f, const struct step_row *rows, uint32_t n_rows, struct error *e);
/* Logits [n_vocab] of the i-th row of the last step that wanted them. */
const float *forward_logits(const struct forward *f, uint32_t i);

#endif
