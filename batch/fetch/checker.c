#include "batch/fetch/checker.h"

static bool progress(void *context, uint64_t more_bytes)
{
    struct checker *c = context;
    atomic_fetch_add(&c->done_bytes, more_bytes);
    return atomic_load(&c->stop);
}

static void *work(void *context)
{
    struct checker *c = context;
    c->rc = digest_file(c->path, progress, c, &c->digest, &c->error);
    atomic_store(&c->finished, true);
    c->wake(c->context);
    return NULL;
}

int checker_start(struct checker *c, const char *path, void (*wake)(void *context), void *context,
                  struct error *e)
{
    c->path = path;
    c->wake = wake;
    c->context = context;
    c->error = (struct error){0};
    atomic_store(&c->finished, false);
    atomic_store(&c->stop, false);
    atomic_store(&c->done_bytes, 0);
    const int sys = pthread_create(&c->thread, NULL, work, c);
    c->running = sys == 0;
    return sys ? error_sys(e, ERROR_NOMEM, sys, "no thread to check files") : 0;
}

bool checker_take(struct checker *c, int *ret_rc)
{
    if (!c->running || !atomic_load(&c->finished))
        return false;
    pthread_join(c->thread, NULL);
    c->running = false;
    *ret_rc = c->rc;
    return true;
}

void checker_stop(struct checker *c)
{
    if (!c->running)
        return;
    atomic_store(&c->stop, true);
    pthread_join(c->thread, NULL);
    c->running = false;
}
