/*
 * The worker of a sweep's run: `nocturne run` as a process, and the folder that it works in.
 *
 * Owns the folder until sweep_place_leave. Stays true: the process gets the engine's options of the sweep
 * and the budget, and no setting from anywhere else, neither configuration file nor environment; nothing
 * that waits or gives way to others is on; it does not outlive the call. One thread.
 */
#ifndef BATCH_SWEEP_PROCESS_H
#define BATCH_SWEEP_PROCESS_H

#include <stdint.h>

#include "base/error.h"
#include "batch/options.h"
#include "batch/stop.h"
#include "batch/sweep/run.h"

/* The folder of a run and what is in it. */
struct sweep_place {
    char folder[300], db[330], log[330], config[330];
};

/* How the process ended. */
struct sweep_end {
    int status; /* as waitpid() has it */
    uint64_t peak_resident_bytes;
};

int sweep_place_make(struct sweep_place *p, const struct options *o, struct error *e);
void sweep_place_leave(struct sweep_place *p);

int sweep_process_run(const struct sweep_request *q, const struct sweep_place *p,
                      uint64_t budget_bytes, const struct stop *stop, struct sweep_end *ret,
                      struct error *e);

#endif
