/*
 * Who uses the GPUs, as NVML says (libnvidia-ml.so.1, loaded when asked for; nothing of NVIDIA's is needed
 * to build).
 *
 * A watch asks from a thread of its own: a call into the driver may take tens of milliseconds, and one that
 * is wedged never comes back. Readers get the newest answer and its age and never wait longer than they
 * say. A thread that is stuck inside the driver when the watch is closed is left to itself, with what it
 * uses.
 *
 * nocturne has no part that computes on a GPU: every process that NVML lists is a stranger. One that does
 * nothing but holds memory counts, too. A percentage that is not known is not 0. Readers: one thread.
 */
#ifndef BATCH_HOST_GPU_H
#define BATCH_HOST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define GPU_DEVICES_MAX 16
#define GPU_PROCESSES_MAX 32
#define GPU_UNKNOWN_BYTES UINT64_MAX

struct gpu_device {
    char name[96];
    uint64_t total_bytes,
        used_bytes;   /* GPU_UNKNOWN_BYTES: its memory is the machine's (or it does not say) */
    int busy_percent; /* -1: unknown */
};

struct gpu_process {
    int pid;
    unsigned device;
    uint64_t used_bytes; /* GPU_UNKNOWN_BYTES */
    int busy_percent;    /* lately; -1: unknown */
};

struct gpu_view {
    size_t n_devices, n_processes; /* at most as many as there is room for */
    struct gpu_device device[GPU_DEVICES_MAX];
    struct gpu_process process[GPU_PROCESSES_MAX];
};

/* Whether a GPU computes in the machine's own memory (GB10 and the like). */
bool gpu_shares_memory(const struct gpu_view *v);
/* Of the processes the one that holds most; NULL: there is none. */
const struct gpu_process *gpu_largest(const struct gpu_view *v);

enum gpu_state {
    GPU_SILENT,   /* asked, and no answer yet or since long */
    GPU_MISSING,  /* no such library: no NVIDIA driver here */
    GPU_FAILED,   /* `why` says what NVML says; the devices that came before it are in `view` */
    GPU_ANSWERED, /* `view` holds */
};

struct gpu_answer {
    enum gpu_state state;
    char why[200];
    struct gpu_view view;
};

struct gpu_watch;
/* Asks now and then every so often. */
int gpu_watch_open(struct gpu_watch **ret, int64_t every_us, struct error *e);
void gpu_watch_every(struct gpu_watch *g, int64_t every_us);
/* Waits at most that long for a first answer. One older than `every_us` and 30 s is none any more: GPU_SILENT. */
void gpu_watch_read(struct gpu_watch *g, int64_t wait_us, struct gpu_answer *ret);
void gpu_watch_close(struct gpu_watch *g); /* NULL is fine */

#endif
