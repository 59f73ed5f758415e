/*
 * A limit of the kernel's on what the worker takes: the last line, where the ledger's count is not all.
 *
 * Owns the control group that it made, if it made one. The best means there is:
 *
 *   1. a limit that holds already and is about as wanted (a service with MemoryMax=, a container)
 *   2. a scope of systemd (scope.h): the program starts once more, inside
 *   3. a group of our own (subgroup.h): below a delegated one, or of the first version's controller
 *   4. none, which is said
 *
 * The budget is the ceiling that the ledger keeps, page cache included. What the kernel keeps on our account
 * beside it (page tables, sockets, what it knows of open files) and small children (a hook) are granted a
 * fortieth of it until the kernel takes back and slows down, and as much again until it kills. So with a
 * count that is right neither ever happens.
 *
 * Stays true: unless it is required, nothing here ends a run. What the worker computes does not depend on
 * it. The kernel is asked to choose this process first when the machine itself has no memory left: it is
 * the one that loses nothing.
 *
 * Before there are other threads; confine_leave after them.
 */
#ifndef BATCH_HOST_CONFINE_H
#define BATCH_HOST_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "batch/host/subgroup.h"

struct confine {
    struct subgroup group;
    bool limited;
    char says[1536]; /* a sentence: what limits, or why nothing does */
};

/* What a budget gets. */
void confine_limits(uint64_t budget_bytes, struct subgroup_limits *ret);
/*
 * entered: the program was started in a scope for that (scope.h). ERROR_UNSUPPORTED: it is
 * required, and there is no means. `root` stands before every path: "" for this machine, a folder for tests, which
 * know no systemd.
 */
int confine_enter(struct confine *c, const char *root, bool required, uint64_t budget_bytes,
                  bool entered, struct error *e);
void confine_leave(struct confine *c); /* a zeroed one is fine */

#endif
