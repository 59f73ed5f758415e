/*
 * A scope of systemd: a control group with limits that the manager makes and removes.
 *
 * `systemd-run --scope` puts itself into the scope and then becomes the program: same process, standard
 * streams, arguments and environment. So the program starts once more, and knows it by a variable that
 * names its own process and is taken away again; nothing that it starts sees it.
 *
 * Before there are other threads, and before anything is open that should not be opened twice.
 */
#ifndef BATCH_HOST_SCOPE_H
#define BATCH_HOST_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/host/subgroup.h"

/* Whether this process was started by scope_enter; then the budget that was given to it. Asked once. */
bool scope_entered(uint64_t *ret_budget_bytes);
/*
 * Starts the program again in a scope of the user's manager, root's in the machine's; returns only where
 * that does not work. A small scope with the same limits is tried first and has to have them. A service
 * stays where it is: its group is what its manager knows it by.
 */
void scope_enter(const struct subgroup_limits *limits, uint64_t budget_bytes, char why[512]);

#endif
