/*
 * A control group of memory for a drill: what a process and everything it caused have really taken, page
 * cache among it, as the kernel counts. Either version; a drill is skipped where neither can be had.
 */
#ifndef TESTS_FAULT_GROUP_H
#define TESTS_FAULT_GROUP_H

#include <stdbool.h>
#include <stdint.h>

struct group {
    char folder[1024];
    bool unified; /* the second version */
};

/* Skips the test where groups cannot be made or do not tell their peak. */
void group_open(struct group *g, uint64_t limit_bytes);
void group_close(struct group *g); /* after its processes have ended */

uint64_t group_peak_bytes(const struct group *g);
/* How often the limit was in the way. */
uint64_t group_n_refusals(const struct group *g);

#endif
