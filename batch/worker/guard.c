#include "batch/worker/guard.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "batch/host/process.h"
#include "batch/view.h"
#include "batch/worker/parts.h"

/* NVML is asked this often at most: while a model works, and while the answer may change something. */
#define ASK_WORKING_US 10000000
#define ASK_WAITING_US 2000000
#define ASK_LEAST_US 100000
/* The first answer is waited for this long: loading the driver's library takes a while. */
#define FIRST_ANSWER_US 3000000
#define STOP_POLL_US 50000
#define MEMORY_EVERY_US 1000000
/* Looks in a row that memory which was not there must be there. */
#define MEMORY_GOOD 2
#define FRAGMENTED_FREE_BYTES (UINT64_C(4) << 30)
#define FEW_DISK_BYTES (UINT64_C(256) << 20)

/* ------------------------------------------------------------------ GPUs */

void guard_look(struct guard_hysteresis *h, bool busy, int64_t now_us)
{
    if (h->phase == GUARD_FREE && busy) {
        h->phase = GUARD_SUSPECT;
        h->since_us = now_us;
    }
    if (h->phase == GUARD_SUSPECT) {
        if (!busy)
            h->phase = GUARD_FREE;
        else if (now_us - h->since_us >= h->busy_after_us)
            h->phase = GUARD_BUSY;
    }
    if (h->phase == GUARD_BUSY) {
        if (busy)
            h->since_us = now_us;
        else if (now_us - h->since_us >= h->free_after_us)
            h->phase = GUARD_FREE;
    }
}

/* Whose it is, since when, how much of it; and how to go on all the same. */
static void name_stranger(const struct worker *w, const struct gpu_view *v,
                          char out[GATE_TEXT_BYTES])
{
    char who[PROCESS_TEXT_BYTES], size[24], since[32] = "", more[40] = "", wait[24];
    char held[64] = "", began[48] = "", go_on[96];
    struct process p;
    const struct gpu_process *g = gpu_largest(v);
    (void)process_describe(w->o->root, g->pid, &p);
    if (g->used_bytes != GPU_UNKNOWN_BYTES)
        snprintf(held, sizeof(held), ", %s", str_format_size(g->used_bytes, size));
    if (p.age_s >= 0)
        snprintf(began, sizeof(began), ", since %.16s",
                 view_time(clock_wall_us() - p.age_s * 1000000, since));
    if (v->n_processes > 1)
        snprintf(more, sizeof(more), " and %zu more", v->n_processes - 1);
    if (w->o->gpu_busy == GUARD_GPU_PAUSE)
        snprintf(go_on, sizeof(go_on), "'nocturne resume' goes on");
    else
        snprintf(go_on, sizeof(go_on), "goes on when free for %s, or with --gpu-busy ignore",
                 str_format_duration(w->o->gpu_free_after_us / 1000000, wait));
    gate_text(out, "GPU %u is in use: %s%s%s%s; %s", g->device, process_text(&p, who), held, began,
              more, go_on);
}

static void turn_off(struct worker *w, const char *why)
{
    report_say(&w->report, LOG_DEBUG, "GPUs are not watched: %s", why);
    gpu_watch_close(w->guard.gpu);
    w->guard.gpu = NULL;
    w->guard.gpu_off = true;
}

/* Whether there is anything to guard, and the first answer that says so. */
static bool begin_watch(struct worker *w)
{
    struct guard *g = &w->guard;
    struct error e = {0};
    if (g->gpu_off || g->gpu)
        return !g->gpu_off;
    g->gpu_use = (struct guard_hysteresis){.busy_after_us = w->o->gpu_busy_after_us,
                                           .free_after_us = w->o->gpu_free_after_us};
    if (w->o->gpu_busy == GUARD_GPU_IGNORE)
        g->gpu_off = true;
    else if (gpu_watch_open(&g->gpu, ASK_WAITING_US, &e) < 0)
        turn_off(w, e.text);
    return !g->gpu_off;
}

/* The newest answer; the first one is worth waiting for, unless a stop is asked for. */
static void read_answer(const struct worker *w, bool first, struct gpu_answer *ret)
{
    const int64_t until_us = clock_mono_us() + (first ? FIRST_ANSWER_US : 0);
    int64_t left_us = until_us - clock_mono_us();
    do {
        gpu_watch_read(w->guard.gpu, MIN_OF(left_us, (int64_t)STOP_POLL_US), ret);
        left_us = until_us - clock_mono_us();
    } while (ret->state == GPU_SILENT && left_us > 0 && !stop_asked(w->stop));
}

/* Whether the answer says that a stranger is there; an answer that ends the guard turns it off. */
static bool stranger_there(struct worker *w, const struct gpu_answer *a)
{
    struct guard *g = &w->guard;
    const bool own_memory = a->view.n_devices > 0 && !gpu_shares_memory(&a->view);
    if (w->o->gpu_busy == GUARD_GPU_AUTO && own_memory) {
        turn_off(w, "their memory is their own, and nocturne computes on the processor");
        return false;
    }
    switch (a->state) {
    case GPU_MISSING:
        turn_off(w, a->why);
        return false;
    case GPU_SILENT:
    case GPU_FAILED:
        if (!g->gpu_told)
            report_say(&w->report, LOG_WARN, "nobody can say who uses the GPU: %s", a->why);
        g->gpu_told = true;
        return false;
    case GPU_ANSWERED:
        break;
    }
    g->gpu_told = false;
    if (a->view.n_devices == 0)
        turn_off(w, "there are none");
    return !g->gpu_off && a->view.n_processes > 0;
}

static int pause_queue(struct worker *w, struct gate_view *ret, struct error *e)
{
    int rc = queue_pause(w->queue, str_of(w->guard.gpu_why), e);
    if (rc)
        return rc;
    report_say(&w->report, LOG_WARN, "paused: %s", w->guard.gpu_why);
    w->guard.gpu_paused = true;
    w->paused = true;
    return gate_queue(w, ret, e);
}

/* How often to ask from now on; hysteresis cannot be finer than that. */
static void set_pace(struct worker *w)
{
    const struct guard_hysteresis *h = &w->guard.gpu_use;
    const bool calm = w->engine && h->phase == GUARD_FREE;
    const int64_t fine_us = MIN_OF(h->busy_after_us, h->free_after_us) / 4;
    const int64_t most_us = calm ? MIN_OF(h->busy_after_us, (int64_t)ASK_WORKING_US)
                                 : MIN_OF(fine_us, (int64_t)ASK_WAITING_US);
    gpu_watch_every(w->guard.gpu, MAX_OF(most_us, (int64_t)ASK_LEAST_US));
}

int gate_gpu(struct worker *w, struct gate_view *ret, struct error *e)
{
    struct guard *g = &w->guard;
    struct gpu_answer answer;
    const bool first = !g->gpu;
    if (!begin_watch(w))
        return 0;
    read_answer(w, first, &answer);
    if (answer.state == GPU_SILENT && stop_asked(w->stop))
        return 0;
    const bool busy = stranger_there(w, &answer);
    if (g->gpu_off)
        return 0;
    if (busy && g->gpu_use.phase == GUARD_FREE)
        name_stranger(w, &answer.view, g->gpu_why);
    guard_look(&g->gpu_use, busy, clock_mono_us());
    set_pace(w);
    if (g->gpu_use.phase == GUARD_FREE)
        g->gpu_paused = false;
    if (g->gpu_use.phase == GUARD_FREE || g->gpu_paused ||
        (g->gpu_use.phase == GUARD_SUSPECT && w->engine))
        return 0;
    if (w->o->gpu_busy == GUARD_GPU_PAUSE && g->gpu_use.phase == GUARD_BUSY)
        return pause_queue(w, ret, e);
    /* Where the memory is one, the stranger needs the model's; elsewhere it harms nobody. */
    ret->stand = gpu_shares_memory(&answer.view) || !w->engine ? GATE_SHUT : GATE_HOLD;
    snprintf(ret->why, sizeof(ret->why), "%s", g->gpu_why);
    return 0;
}

/* ------------------------------------------------------------------ memory */

bool guard_fits(uint64_t plan_bytes, const struct memory *m, const struct cgroup_memory *group,
                struct guard_shortage *ret)
{
    *ret = (struct guard_shortage){
        .reserve_bytes = memory_reserve(m), .have_bytes = m->available_bytes, .of = "the machine"};
    if (plan_bytes + ret->reserve_bytes > m->available_bytes)
        return false;
    *ret = (struct guard_shortage){.have_bytes = group->left_bytes, .of = group->file};
    return plan_bytes <= group->left_bytes;
}

static void name_shortage(const struct worker *w, const struct guard_shortage *s,
                          char out[GATE_TEXT_BYTES])
{
    char plan[24], kept[24] = "", reserve[64] = "", have[24], held[24], who[PROCESS_TEXT_BYTES];
    char most[192] = "";
    struct process p;
    if (s->reserve_bytes > 0)
        snprintf(reserve, sizeof(reserve), " and %s for others",
                 str_format_size(s->reserve_bytes, kept));
    if (process_largest(w->o->root, (int)getpid(), &p))
        snprintf(most, sizeof(most), "; %s holds %s", process_text(&p, who),
                 str_format_size(p.resident_bytes, held));
    gate_text(
        out,
        "waits for memory: %s for the plan%s, %.80s has %s left; --memory-busy ignore goes on%s",
        str_format_size(w->planned_bytes, plan), reserve, s->of,
        str_format_size(s->have_bytes, have), most);
}

static int refuse_for_ever(const struct worker *w, const struct memory *m, struct error *e)
{
    char plan[24], kept[24], total[24];
    return error_set(e, ERROR_BUDGET,
                     "the plan takes %s and %s are kept for others, but the machine has %s of "
                     "memory in all; give a smaller --memory, or --memory-busy ignore",
                     str_format_size(w->planned_bytes, plan),
                     str_format_size(memory_reserve(m), kept),
                     str_format_size(m->total_bytes, total));
}

static int say_memory(const struct guard *g, struct gate_view *ret)
{
    ret->stand = g->memory.stand;
    snprintf(ret->why, sizeof(ret->why), "%s", g->memory.why);
    return 0;
}

int gate_memory(struct worker *w, struct gate_view *ret, struct error *e)
{
    struct guard *g = &w->guard;
    const int64_t now_us = clock_mono_us();
    struct cgroup_memory group;
    struct guard_shortage shortage;
    struct memory m;
    if (w->engine || w->o->memory_ignore) {
        g->memory_next_us = 0;
        return 0;
    }
    if (now_us < g->memory_next_us)
        return say_memory(g, ret);
    const bool first = g->memory_next_us == 0;
    g->memory_next_us = now_us + MEMORY_EVERY_US;
    if (!memory_read(w->o->root, &m))
        return 0;
    if (w->planned_bytes + memory_reserve(&m) > m.total_bytes)
        return refuse_for_ever(w, &m, e);
    cgroup_memory(w->o->root, &group);
    g->memory_good = guard_fits(w->planned_bytes, &m, &group, &shortage) ? g->memory_good + 1 : 0;
    const bool open = g->memory_good >= MEMORY_GOOD || (first && g->memory_good > 0);
    if (!open && g->memory.stand == GATE_OPEN)
        name_shortage(w, &shortage, g->memory.why);
    g->memory.stand = open ? GATE_OPEN : GATE_SHUT;
    return say_memory(g, ret);
}

/* ------------------------------------------------------------------ beginning and end */

void worker_guard_warn(struct worker *w)
{
    char avail[24], unused[24], swap[24], block[24];
    struct queue_space space = {0};
    struct memory m;
    if (memory_read(w->o->root, &m)) {
        report_say(&w->report, LOG_DEBUG,
                   "memory: %s available, %s free, %llu free blocks of %s, %s swapped out",
                   str_format_size(m.available_bytes, avail), str_format_size(m.free_bytes, unused),
                   (unsigned long long)m.large_blocks, str_format_size(m.large_block_bytes, block),
                   str_format_size(m.swap_used_bytes, swap));
        if (m.large_block_bytes > 0 && m.large_blocks == 0 && m.free_bytes >= FRAGMENTED_FREE_BYTES)
            report_say(&w->report, LOG_WARN,
                       "free memory is in small pieces, none of %s: loading may be slow; a restart "
                       "of the machine mends it",
                       block);
    }
    if (queue_space(w->queue, &space, NULL) == 0 && space.free_bytes < FEW_DISK_BYTES)
        report_say(&w->report, LOG_WARN, "only %s are free where the database is",
                   str_format_size(space.free_bytes, avail));
}

void worker_guard_close(struct worker *w)
{
    gpu_watch_close(w->guard.gpu);
    w->guard.gpu = NULL;
}
