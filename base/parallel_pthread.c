/*
 * parallel_for over POSIX threads: the twin that ThreadSanitizer understands.
 *
 * Workers wait for the round number to change, run the range of their own number and count down;
 * the caller runs range 0 and waits for the count.
 */
#include <pthread.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/parallel.h"
#include "base/parallel_range.h"

static struct pool {
    pthread_mutex_t caller; /* held for a whole parallel_for: one caller at a time */
    pthread_mutex_t mu;
    pthread_cond_t start;
    pthread_cond_t done;
    pthread_t worker[PARALLEL_MAX]; /* [1, n_threads) */
    int n_threads;
    /* guarded by mu */
    unsigned long round;
    int busy;
    bool stop;
    struct parallel_cut cut;
    parallel_fn *fn;
    void *context;
} pool = {
    .caller = PTHREAD_MUTEX_INITIALIZER,
    .mu = PTHREAD_MUTEX_INITIALIZER,
    .start = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
    .n_threads = 1,
};

/* The thread whose range is being run here, + 1; 0 outside parallel_for. */
static _Thread_local int running;

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

static void *worker_main(void *number)
{
    int thread = (int)(size_t)number;
    pthread_mutex_lock(&pool.mu);
    for (unsigned long seen = 0;;) {
        while (pool.round == seen && !pool.stop)
            pthread_cond_wait(&pool.start, &pool.mu);
        if (pool.stop)
            break;
        seen = pool.round;
        struct parallel_cut cut = pool.cut;
        parallel_fn *fn = pool.fn;
        void *context = pool.context;
        pthread_mutex_unlock(&pool.mu);
        run_range(&cut, thread, fn, context);
        pthread_mutex_lock(&pool.mu);
        if (--pool.busy == 0)
            pthread_cond_signal(&pool.done);
    }
    pthread_mutex_unlock(&pool.mu);
    return NULL;
}

static void stop_workers(void)
{
    pthread_mutex_lock(&pool.mu);
    pool.stop = true;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.mu);
    for (int t = 1; t < pool.n_threads; t++)
        pthread_join(pool.worker[t], NULL);
    pool.n_threads = 1;
    pool.stop = false;
    pool.round = 0; /* new workers start having seen round 0 */
}

int parallel_set_threads(int n)
{
    if (n < 1 || n > PARALLEL_MAX)
        return -ERROR_INVALID;
    int rc = 0;
    pthread_mutex_lock(&pool.caller);
    if (n != pool.n_threads)
        stop_workers();
    while (pool.n_threads < n && rc == 0) {
        int t = pool.n_threads;
        if (pthread_create(&pool.worker[t], NULL, worker_main, (void *)(size_t)t) != 0)
            rc = -ERROR_NOMEM;
        else
            pool.n_threads++;
    }
    pthread_mutex_unlock(&pool.caller);
    return rc;
}

int parallel_threads(void)
{
    return pool.n_threads;
}

static void run_round(const struct parallel_cut *cut, parallel_fn *fn, void *context)
{
    pthread_mutex_lock(&pool.mu);
    pool.cut = *cut;
    pool.fn = fn;
    pool.context = context;
    pool.busy = pool.n_threads - 1;
    pool.round++;
    pthread_cond_broadcast(&pool.start);
    pthread_mutex_unlock(&pool.mu);
    run_range(cut, 0, fn, context);
    pthread_mutex_lock(&pool.mu);
    while (pool.busy > 0)
        pthread_cond_wait(&pool.done, &pool.mu);
    pthread_mutex_unlock(&pool.mu);
}

void parallel_for(size_t n, size_t grain, parallel_fn *fn, void *context)
{
    if (n == 0)
        return;
    if (running != 0) {
        fn(context, 0, n, running - 1);
        return;
    }
    pthread_mutex_lock(&pool.caller);
    const struct parallel_cut cut = parallel_cut(n, grain, pool.n_threads);
    if (pool.n_threads == 1 || cut.blocks == 1)
        run_range(&cut, 0, fn, context);
    else
        run_round(&cut, fn, context);
    pthread_mutex_unlock(&pool.caller);
}
