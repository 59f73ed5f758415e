/*
 * A pool of threads, each with one pread in flight: works everywhere, and what every other way must
 * give the same bytes as. The semaphore counts reads that may be taken.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "engine/experts/io.h"

#define DEPTH 8 /* enough for an SSD's queues */
#define DEPTH_MAX 64u

struct pool {
    struct io io;
    sem_t waiting;
    atomic_bool ending;
    uint32_t n_threads;
    pthread_t thread[DEPTH_MAX];
};

static void *read_all(void *context)
{
    struct pool *p = context;
    const struct io_options *o = &p->io.o;
    struct io_read r;
    for (;;) {
        while (sem_wait(&p->waiting) != 0)
            continue; /* a signal */
        if (atomic_load(&p->ending))
            return NULL;
        if (!o->take(o->context, &r))
            continue;
        struct error e = {0};
        int rc = file_read_direct(&o->files[r.file], r.out, r.bytes, r.offset, &e);
        o->done(o->context, &r, rc, &e);
    }
}

static void wake(struct io *io, uint32_t n)
{
    struct pool *p = (struct pool *)io;
    for (uint32_t i = 0; i < n; i++)
        sem_post(&p->waiting);
}

static void close_pool(struct io *io)
{
    struct pool *p = (struct pool *)io;
    atomic_store(&p->ending, true);
    wake(io, p->n_threads);
    for (uint32_t i = 0; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    sem_destroy(&p->waiting);
    mem_free(p);
}

static int usable(struct error *e)
{
    (void)e;
    return 0;
}

static int open_pool(struct io **ret, const struct io_options *o, struct error *e)
{
    struct pool *p = mem_zalloc(sizeof(*p));
    if (!p)
        return error_set(e, ERROR_NOMEM, "no memory for the threads that read experts");
    p->io = (struct io){.way = &io_way_pread, .o = *o};
    p->io.depth = MIN_OF(o->depth > 0 ? o->depth : DEPTH, DEPTH_MAX);
    sem_init(&p->waiting, 0, 0);
    while (p->n_threads < p->io.depth) {
        int rc = pthread_create(&p->thread[p->n_threads], NULL, read_all, p);
        if (rc != 0) {
            close_pool(&p->io);
            return error_sys(e, ERROR_NOMEM, rc, "starting the threads that read experts");
        }
        p->n_threads++;
    }
    *ret = &p->io;
    return 0;
}

const struct io_way io_way_pread = {
    .name = "pread", .usable = usable, .open = open_pool, .wake = wake, .close = close_pool};
