/* parallel_for over OpenMP: libgomp keeps the threads. */
#include <omp.h>

#include "base/error.h"
#include "base/parallel.h"
#include "base/parallel_range.h"

static int n_threads = 1;
/* The thread whose range is being run here, + 1; 0 outside parallel_for. */
static _Thread_local int running;

int parallel_set_threads(int n)
{
    if (n < 1 || n > PARALLEL_MAX)
        return -ERROR_INVALID;
    n_threads = n;
    /* Starts them now, so that the first step does not pay for it. */
#pragma omp parallel num_threads(n)
    {
    }
    return 0;
}

int parallel_threads(void)
{
    return n_threads;
}

static void run_range(const struct parallel_cut *cut, int thread, parallel_fn *fn, void *context)
{
    size_t first = parallel_first(cut, (size_t)thread);
    size_t last = parallel_first(cut, (size_t)thread + 1);
    if (first == last)
        return;
    running = thread + 1;
    fn(context, first, last, thread);
    running = 0;
}

void parallel_for(size_t n, size_t grain, parallel_fn *fn, void *context)
{
    if (n == 0)
        return;
    if (running != 0) {
        fn(context, 0, n, running - 1);
        return;
    }
    const struct parallel_cut cut = parallel_cut(n, grain, n_threads);
    if (n_threads == 1 || cut.blocks == 1) {
        run_range(&cut, 0, fn, context);
        return;
    }
    /* libgomp may give fewer threads than asked for; the ranges stay the same. */
#pragma omp parallel num_threads(n_threads)
    {
        for (int t = omp_get_thread_num(); t < n_threads; t += omp_get_num_threads())
            run_range(&cut, t, fn, context);
    }
}
