/*
 * One run of a sweep: the worker itself as a process of its own (process.h), on a database of its own that
 * has one request; and its figures out of that.
 *
 * Owns nothing when it is over. A budget that the plan or the machine has no room for is told without a
 * process. One thread.
 */
#ifndef BATCH_SWEEP_RUN_H
#define BATCH_SWEEP_RUN_H

#include <stdint.h>

#include "base/error.h"
#include "batch/options.h"
#include "batch/stop.h"
#include "batch/sweep/row.h"

struct sweep_request {
    const struct options *options; /* the engine's among them are passed on */
    const char *model_path;
    const char *prompt;
    uint32_t tokens;
    const char *key;
};

/* The engine's options that a sweep takes and passes on; ends with OPTION_NONE. */
const enum option_id *sweep_engine_options(void);

/*
 * Fills the row, whatever came of the run. ERROR_INTERRUPTED when it was stopped: then there is no row.
 * Other errors are of this process: no folder, no child.
 */
int sweep_run(const struct sweep_request *q, uint64_t budget_bytes, uint64_t repetition,
              struct stop *stop, struct sweep_row *ret, struct error *e);

#endif
