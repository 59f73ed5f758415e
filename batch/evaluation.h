/*
 * A model over a text, window by window, alone or beside a reference: another model, or its saved
 * logits.
 *
 * The text is cut into windows as llama-perplexity cuts it: tokenised as a whole (a BOS first if the
 * vocabulary wants one), without the newline at its end; whole windows only; in each the first token
 * gives way to the BOS where there is one, and the tokens after the middle are scored, each from all
 * that stands before it in its window.
 *
 * Owns the engines, the rows of the reference (through the ledger) and the file being written, which
 * appears only when every window is done. One thread.
 */
#ifndef BATCH_EVALUATION_H
#define BATCH_EVALUATION_H

#include <stdint.h>

#include "base/error.h"
#include "base/ledger.h"
#include "batch/divergence.h"
#include "batch/report.h"
#include "engine/engine.h"

struct evaluation_options {
    struct engine_options engine; /* of the model, and of a reference model but for its path */
    const char *text_path;
    const char *against;     /* NULL: nothing to compare with */
    const char *save_logits; /* NULL: do not save */
    uint32_t window;
    uint32_t max_windows; /* 0: all */
    struct report *report;
};

struct evaluation_result {
    struct divergence sums;
    uint32_t n_windows;
    uint64_t n_tokens; /* that went through the model */
    double seconds;    /* without loading */
};

int evaluate(struct evaluation_result *ret, const struct evaluation_options *o, struct error *e);

#endif
