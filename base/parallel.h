/*
 * One way to use several threads: parallel_for over static ranges.
 *
 * Stays true: the range a worker gets depends only on n, the grain and the thread count, and nothing
 * that callers compute may depend on where ranges are cut. Nested calls run serially. OpenMP, or the
 * pthreads twin (same ranges) under ThreadSanitizer. One caller at a time.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

/* fn(context, first, last, thread): items [first, last), thread in [0, parallel_threads()). */
typedef void parallel_fn(void *context, size_t first, size_t last, int thread);

/* Starts (or changes to) that many threads, the caller's included. 1..PARALLEL_MAX. */
#define PARALLEL_MAX 256
int parallel_set_threads(int n);
int parallel_threads(void);
/* Cuts [0, n) into one range a thread, each a multiple of grain but the last; runs and waits. */
void parallel_for(size_t n, size_t grain, parallel_fn *fn, void *context);
/* Cores this process may run on (affinity mask), at least 1. */
int parallel_cores(void);

#endif
