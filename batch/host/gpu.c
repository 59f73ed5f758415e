#include "batch/host/gpu.h"

#include <pthread.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "batch/host/nvml.h"

#define STALE_US 30000000
/* How long the end of a watch waits for a call into the driver. */
#define CLOSE_US 250000

struct gpu_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t every_us, asked_us, answered_us; /* monotonic; 0: not yet */
    bool stop, ended, abandoned;
    struct gpu_answer answer;
    pthread_t thread;
};

bool gpu_shares_memory(const struct gpu_view *v)
{
    for (size_t i = 0; i < v->n_devices; i++) {
        if (v->device[i].total_bytes == GPU_UNKNOWN_BYTES)
            return true;
    }
    return false;
}

const struct gpu_process *gpu_largest(const struct gpu_view *v)
{
    const struct gpu_process *best = v->n_processes ? &v->process[0] : NULL;
    for (size_t i = 1; i < v->n_processes; i++) {
        const struct gpu_process *p = &v->process[i];
        const bool known = p->used_bytes != GPU_UNKNOWN_BYTES;
        if (known && (best->used_bytes == GPU_UNKNOWN_BYTES || p->used_bytes > best->used_bytes))
            best = p;
    }
    return best;
}

/* ------------------------------------------------------------------ the thread */

/* Under the lock: until something changes or that monotonic time has come. False: it has. */
static bool wait_until(struct gpu_watch *g, int64_t until_us)
{
    const struct timespec t = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    return pthread_cond_timedwait(&g->changed, &g->lock, &t) == 0;
}

/* Asks without the lock; `n` keeps the library between questions. */
static void ask(struct nvml *n, struct gpu_answer *ret)
{
    struct error e = {0};
    int rc = n->library ? 0 : nvml_open(n, &e);
    *ret = (struct gpu_answer){0};
    if (rc == 0)
        rc = nvml_look(n, &ret->view, &e);
    ret->state = rc == 0 ? GPU_ANSWERED : rc == -ERROR_NOTFOUND ? GPU_MISSING : GPU_FAILED;
    snprintf(ret->why, sizeof(ret->why), "%.199s", e.text);
}

static void *watch(void *context)
{
    struct gpu_watch *g = context;
    struct nvml nvml = {0};
    struct gpu_answer answer;
    pthread_mutex_lock(&g->lock);
    while (!g->stop) {
        g->asked_us = clock_mono_us();
        pthread_mutex_unlock(&g->lock);
        ask(&nvml, &answer);
        pthread_mutex_lock(&g->lock);
        g->answer = answer;
        g->answered_us = clock_mono_us();
        pthread_cond_broadcast(&g->changed);
        while (!g->stop && clock_mono_us() < g->answered_us + g->every_us)
            (void)wait_until(g, g->answered_us + g->every_us);
    }
    const bool abandoned = g->abandoned;
    pthread_mutex_unlock(&g->lock);
    if (!abandoned)
        nvml_close(&nvml);
    pthread_mutex_lock(&g->lock);
    g->ended = true;
    const bool mine = g->abandoned;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    if (mine)
        mem_free(g);
    return NULL;
}

/* ------------------------------------------------------------------ its owner */

int gpu_watch_open(struct gpu_watch **ret, int64_t every_us, struct error *e)
{
    pthread_condattr_t attr;
    struct gpu_watch *g = mem_zalloc(sizeof(*g));
    if (!g)
        return error_set(e, ERROR_NOMEM, "out of memory for the watch of GPUs");
    g->every_us = every_us;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&g->changed, &attr);
    pthread_condattr_destroy(&attr);
    const int sys = pthread_create(&g->thread, NULL, watch, g);
    if (sys) {
        mem_free(g);
        return error_sys(e, ERROR_NOMEM, sys, "no thread for the watch of GPUs");
    }
    *ret = g;
    return 0;
}

void gpu_watch_every(struct gpu_watch *g, int64_t every_us)
{
    pthread_mutex_lock(&g->lock);
    if (g->every_us != every_us)
        pthread_cond_broadcast(&g->changed);
    g->every_us = every_us;
    pthread_mutex_unlock(&g->lock);
}

void gpu_watch_read(struct gpu_watch *g, int64_t wait_us, struct gpu_answer *ret)
{
    const int64_t until_us = clock_mono_us() + wait_us;
    pthread_mutex_lock(&g->lock);
    while (g->answered_us == 0 && clock_mono_us() < until_us)
        (void)wait_until(g, until_us);
    *ret = g->answer;
    const int64_t age_us = clock_mono_us() - g->answered_us;
    if (g->answered_us == 0 || age_us > g->every_us + STALE_US) {
        *ret = (struct gpu_answer){.state = GPU_SILENT};
        snprintf(ret->why, sizeof(ret->why), "the GPU's driver does not answer");
    }
    pthread_mutex_unlock(&g->lock);
}

void gpu_watch_close(struct gpu_watch *g)
{
    if (!g)
        return;
    const int64_t until_us = clock_mono_us() + CLOSE_US;
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->ended && clock_mono_us() < until_us)
        (void)wait_until(g, until_us);
    const bool ended = g->ended;
    g->abandoned = !ended;
    const pthread_t thread = g->thread;
    pthread_mutex_unlock(&g->lock);
    if (!ended) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}
