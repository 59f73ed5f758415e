/*
 * The countdown behind every fault injection: fires at the k-th call and at all after it.
 *
 * Stays true: 0 never fires; a value that reached 1 stays there. Lock free, any thread.
 */
#ifndef BASE_COUNTDOWN_H
#define BASE_COUNTDOWN_H

#include <stdatomic.h>
#include <stdbool.h>

static inline bool countdown_fires(atomic_long *left)
{
    long k = atomic_load_explicit(left, memory_order_relaxed);
    while (k > 1) {
        if (atomic_compare_exchange_weak_explicit(left, &k, k - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return false;
    }
    return k == 1;
}

#endif
