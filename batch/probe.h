/*
 * How fast this machine reads: the model's file from its disk, and memory. For the forecast of a run; takes
 * a third of a second, and its buffers from the budget before anything else is there. How many reads of
 * experts to have in flight is measured by the engine itself (engine/experts/probe.h).
 */
#ifndef BATCH_PROBE_H
#define BATCH_PROBE_H

#include "base/error.h"
#include "base/ledger.h"

struct probe {
    double disk_bytes_per_s;   /* direct reads of a MiB at random places, eight at once */
    double memory_bytes_per_s; /* by all threads of parallel_for */
};

int probe_run(const char *model_path, struct ledger *l, struct probe *ret, struct error *e);

#endif
