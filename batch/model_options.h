/* The engine's options out of the program's settings: --model, --threads, --ctx ... */
#ifndef BATCH_MODEL_OPTIONS_H
#define BATCH_MODEL_OPTIONS_H

#include "base/error.h"
#include "batch/options.h"
#include "engine/engine.h"

/* What a command that opens a model lists in its options. */
#define MODEL_OPTIONS                                                                              \
    OPTION_MEMORY, OPTION_THREADS, OPTION_CTX, OPTION_SLOTS, OPTION_CHUNK, OPTION_ISA, OPTION_EXACT

/* ERROR_USAGE for NULL, with the places that may name a model. */
int model_path_check(const char *path, struct error *e);
/*
 * path NULL: --model. ERROR_USAGE when neither says which model. The ledger stays NULL; texts belong
 * to the options.
 */
int model_options_read(struct engine_options *ret, const struct options *o, const char *path,
                       struct error *e);
/* The ledger of --memory, refused and warned of as by `run`, or of what `run` would take without it. */
int model_ledger_new(struct ledger **ret, const struct options *o, struct error *e);

#endif
