/*
 * Where parallel_for cuts: shared by its two implementations so that both give the same ranges.
 *
 * Stays true: ranges are contiguous, cover [0, n) in order of threads, and start at multiples of
 * grain; the threads' shares differ by one grain at most and empty ranges come last.
 */
#ifndef BASE_PARALLEL_RANGE_H
#define BASE_PARALLEL_RANGE_H

#include <stddef.h>

struct parallel_cut {
    size_t n;
    size_t grain;
    size_t blocks; /* of grain items, the last one perhaps shorter */
    size_t threads;
};

static inline struct parallel_cut parallel_cut(size_t n, size_t grain, int threads)
{
    if (grain == 0)
        grain = 1;
    return (struct parallel_cut){
        .n = n, .grain = grain, .blocks = n / grain + (n % grain != 0), .threads = (size_t)threads};
}

/* First item of that thread's range; asked for thread + 1 it is the end. */
static inline size_t parallel_first(const struct parallel_cut *c, size_t thread)
{
    size_t more = c->blocks % c->threads; /* so many threads get one block more */
    size_t block = c->blocks / c->threads * thread + (thread < more ? thread : more);
    return block == c->blocks ? c->n : block * c->grain;
}

#endif
