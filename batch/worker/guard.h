/*
 * The guard: a GPU that somebody else uses, and memory that is not there, are reasons not to work.
 *
 * Two gates (gate.h). `gpu`: as long as no model is loaded, the first sight of a stranger is enough to
 * wait; while one is loaded he must stay for a while (busy_after), so that a short look at a GPU costs
 * nothing; and only when nobody was there for a longer while (free_after) does work go on. A driver that
 * does not answer is nobody: it is said once. `memory`: asked only while no model is loaded; shut until
 * the plan and a reserve fit what is available and what control groups leave.
 *
 * Owns the watch of the GPUs. One thread, the worker's.
 */
#ifndef BATCH_WORKER_GUARD_H
#define BATCH_WORKER_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "batch/host/cgroup.h"
#include "batch/host/gpu.h"
#include "batch/host/memory.h"
#include "batch/worker/gate.h"

enum guard_phase {
    GUARD_FREE,
    GUARD_SUSPECT, /* a stranger is there, but not yet for busy_after */
    GUARD_BUSY,    /* until nobody was there for free_after */
};

struct guard_hysteresis {
    int64_t busy_after_us, free_after_us;
    enum guard_phase phase;
    int64_t since_us; /* suspect: the stranger came; busy: he was last seen */
};
/* One look at that monotonic time. */
void guard_look(struct guard_hysteresis *h, bool busy, int64_t now_us);

/* Which of the two is short of memory, and how short. */
struct guard_shortage {
    uint64_t reserve_bytes, have_bytes;
    const char *of; /* "the machine", or the control group's file, which the group owns */
};
/* Whether the plan and a reserve fit what is available, and the plan what control groups leave. */
bool guard_fits(uint64_t plan_bytes, const struct memory *m, const struct cgroup_memory *group,
                struct guard_shortage *ret);

struct guard {
    struct gpu_watch *gpu; /* NULL: not begun, or off */
    bool gpu_off;          /* no library, no GPU, or none that matters */
    bool gpu_told;         /* that the driver does not answer */
    bool gpu_paused;       /* this stranger has had the queue paused: a resume is not undone */
    struct guard_hysteresis gpu_use;
    char gpu_why[GATE_TEXT_BYTES]; /* about the stranger that came first */
    struct gate_view memory;
    int64_t memory_next_us; /* monotonic; 0: never asked */
    unsigned memory_good;   /* looks in a row at which it fitted */
};

/* Things that harm the night but do not stop it are said once, before the first load. */
void worker_guard_warn(struct worker *w);
void worker_guard_close(struct worker *w);

#endif
