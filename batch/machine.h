/*
 * What the machine says about memory and about the trouble of getting it. Owns nothing; any thread.
 */
#ifndef BATCH_MACHINE_H
#define BATCH_MACHINE_H

#include <stdint.h>

#include "base/error.h"

/* MemAvailable: what programs may still take without swapping. */
int machine_available(uint64_t *ret_bytes, struct error *e);
/* The budget when nobody named one: that, less a tenth (at least 1 GiB) that is left for others. */
int machine_budget(uint64_t *ret_bytes, uint64_t *ret_available, struct error *e);

/* Counters that only grow; the difference of two is what happened between them. */
struct machine_trouble {
    int64_t major_faults;     /* of this process */
    int64_t pressure_some_us; /* memory pressure of the machine; 0 where the kernel does not tell */
    int64_t pressure_full_us;
};
void machine_trouble(struct machine_trouble *ret);

#endif
