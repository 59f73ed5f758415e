/*
 * The unit of execution: rows (token, position, state slot) of many sequences, every layer once.
 *
 * Rows of one sequence in a step are consecutive, in order of position, and start where the cache ends.
 * Stays true: what a row gives does not depend on the other rows, on R, or on the threads.
 * The loop is `for each layer { for each block of at most R rows }`, never the reverse.
 *
 * A step can be suspended before any layer. The states of the layers before it have taken the step's rows
 * then, those of the others have not; what the rows carry from layer to layer - the residual stream and
 * the checkpoints of attention residuals - stays where it is until the next step, can be saved and
 * put back, and is all that forward_resume needs beside the rows and the layer. So a step goes on bit for
 * bit, at once or in another process, with the same company or without.
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
#include "engine/model/trunk.h"

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
    struct trunk *trunk;          /* NULL: every layer stays */
    bool exact;
    bool lookahead;      /* tell the store what the next layer may want */
    uint32_t max_rows;   /* of a step */
    uint32_t max_logits; /* rows of a step that may want logits */
    bool (*interrupted)(void *context);
    void *interrupted_context;
    /* The experts [n] that a step's rows want of a layer, ascending, before it visits them; NULL: nobody. */
    void (*visited)(void *context, uint32_t layer, uint32_t n_rows, const uint32_t *ids,
                    uint32_t n);
    void *visited_context;
    /* For tests: intermediate results as they come, [n_rows][n_cols]; NULL: none. */
    void (*trace)(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows);
    void *trace_context;
};

struct forward;

uint64_t forward_scratch_bytes(const struct forward_options *o);
int forward_new(struct forward **ret, const struct forward_options *o, struct error *e);
void forward_free(struct forward *f);

/* n_rows <= max_rows. ERROR_INTERRUPTED: it is suspended before forward_layer. */
int forward_step(struct forward *f, const struct step_row *rows, uint32_t n_rows, struct error *e);
/* The layers from `layer` on; what the rows carry is in place. */
int forward_resume(struct forward *f, const struct step_row *rows, uint32_t n_rows, uint32_t layer,
                   struct error *e);
/* Layers that the rows of the running or last step have behind them. */
uint32_t forward_layer(const struct forward *f);

/* What a row carries before a layer, rows one after the other. A result of fn other than 0 ends the visit. */
uint64_t forward_carried_bytes(const struct model *m, uint32_t layer);
int forward_carried_visit(struct forward *f, uint32_t layer, uint32_t first, uint32_t n,
                          kv_visit_fn *fn, void *context, struct error *e);
/* Rows [first, first + n) become rows [to, to + n), to <= first. */
void forward_carried_move(struct forward *f, uint32_t to, uint32_t first, uint32_t n);
/* Logits [n_vocab] of the i-th row of the last step that wanted them. */
const float *forward_logits(const struct forward *f, uint32_t i);

#endif
