/*
 * A control group of our own below the one that this process is in, with a limit on memory.
 *
 * Owns the group, from subgroup_make until subgroup_leave; a process that is killed leaves it behind, with
 * what the kernel counted, for subgroup_remove of the next one.
 *
 * Stays true:
 *  - Nothing is written but below a group that is ours to arrange: one that systemd delegated and says so;
 *    where it does not manage the tree, one that belongs to this user, and of the first version any that
 *    may be written. The top of the second version's tree is left as it is: a group below it is made only
 *    if those there have the memory controller anyway.
 *  - What fails is undone: the process is where it was, and so is the tree.
 *
 * Before there are other threads, and after.
 */
#ifndef BATCH_HOST_SUBGROUP_H
#define BATCH_HOST_SUBGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/host/cgroup.h"

struct subgroup_limits {
    uint64_t
        high_bytes; /* from there on the kernel slows down and takes back; second version only */
    uint64_t max_bytes;
};

struct subgroup {
    struct cgroup_place parent; /* where the process was */
    char folder[CGROUP_PATH_BYTES + 64];
    bool enabled; /* the memory controller, for groups below the parent */
    bool made;
};

/* Whether a group below that one would be ours to make; `why` not: part of a sentence. */
bool subgroup_allowed(const struct cgroup_place *parent, const char *root, char why[512]);
/* `why`, where it did not work: part of a sentence. */
bool subgroup_make(struct subgroup *g, const char *root, const struct subgroup_limits *limits,
                   char why[512]);
/* Goes back and removes it. A zeroed one is fine. */
void subgroup_leave(struct subgroup *g);
/* A group that a process of this program left behind: removes it, unless somebody is in it. */
void subgroup_remove(const char *folder);

#endif
