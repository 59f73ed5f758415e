/*
 * What the kernel says about the want of memory: one cheap sample of the machine, of the process's own
 * control groups and of the process. Owns nothing; any thread.
 *
 * Stays true: what this kernel does not tell, or not in this group, is -1, unknown; it is never 0 as if all
 * were well. Counters only grow (figure_since() in batch/host/figures.h takes their difference); a
 * process that is moved to another group has to be found again. A sample reads eight small files and takes
 * about 0.1 ms, so one a second costs nothing.
 *
 * Of stalls (PSI): `some`, the share of time in which some task waited for memory, `full`, in which none
 * could go on. Reads of the model's files count in neither, since they are direct. Refaults are pages
 * of the group that came back after they had been given up: what thrashing is made of.
 */
#ifndef BATCH_HOST_PRESSURE_H
#define BATCH_HOST_PRESSURE_H

#include <stdint.h>

#include "batch/host/cgroup.h"

struct pressure_place {
    char process[CGROUP_PATH_BYTES]; /* "/proc/self" */
    char machine[CGROUP_PATH_BYTES]; /* "/proc" */
    struct cgroup_places groups;
};

struct pressure_stall {
    double some_avg10, full_avg10; /* percent of the last ten seconds */
    int64_t some_us, full_us;      /* counters */
};

struct pressure_sample {
    int64_t at_us; /* monotonic */
    struct pressure_stall system, group;
    /* Counters of the group whose limit is nearest: how often it was reached, and what came of it. */
    int64_t limit_hits; /* memory.high and memory.max; of the first version its limit */
    int64_t low_hits;   /* taken from although below what was protected */
    int64_t ooms, oom_kills;
    /* Counters of the process's own group. */
    int64_t refaults; /* pages, of files and anonymous ones */
    int64_t group_major_faults;
    int64_t throttled_us; /* of processor time */
    /* Of the moment. */
    int64_t group_bytes, group_peak_bytes;
    int64_t major_faults; /* of the process: a counter */
    int64_t resident_bytes, resident_peak_bytes, swapped_bytes;
    int64_t total_bytes, available_bytes, free_bytes; /* of the machine */
};

/* `root` stands before every path: "" for this machine, a folder for tests. */
void pressure_find(const char *root, struct pressure_place *ret);
void pressure_read(const struct pressure_place *at, struct pressure_sample *ret);

#endif
