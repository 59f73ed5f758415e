/* Who uses the GPUs. */
#include "batch/host/gpu.h"

#include <stdio.h>

#include "batch/doctor/doctor.h"
#include "batch/host/process.h"

#define ANSWER_US 3000000

static void say_devices(struct doctor *d, const struct gpu_view *v)
{
    char total[24], used[24];
    for (size_t i = 0; i < v->n_devices; i++) {
        const struct gpu_device *g = &v->device[i];
        if (g->total_bytes == GPU_UNKNOWN_BYTES)
            doctor_say(d, DOCTOR_OK, NULL, "GPU %zu: %s, in the machine's own memory", i, g->name);
        else
            doctor_say(d, DOCTOR_OK, NULL, "GPU %zu: %s, %s of its %s in use", i, g->name,
                       str_format_size(g->used_bytes, used),
                       str_format_size(g->total_bytes, total));
        if (g->busy_percent >= 0)
            doctor_value(d, "busy_percent", g->busy_percent);
    }
}

static void say_process(struct doctor *d, const struct gpu_process *g, bool shared)
{
    char who[PROCESS_TEXT_BYTES], size[24], age[24], held[64] = "", since[64] = "", busy[32] = "";
    struct process p;
    (void)process_describe(d->root, g->pid, &p);
    if (g->used_bytes != GPU_UNKNOWN_BYTES)
        snprintf(held, sizeof(held), ", %s", str_format_size(g->used_bytes, size));
    if (p.age_s >= 0)
        snprintf(since, sizeof(since), ", for %s", str_format_duration(p.age_s, age));
    if (g->busy_percent >= 0)
        snprintf(busy, sizeof(busy), ", %d %% busy", g->busy_percent);
    doctor_say(d, shared ? DOCTOR_WARNING : DOCTOR_NOTE,
               shared
                   ? "end it before the night, or run with --gpu-busy ignore: else the worker waits"
                   : NULL,
               "GPU %u is used by %s%s%s%s", g->device, process_text(&p, who), held, busy, since);
    doctor_value(d, "pid", g->pid);
    if (g->used_bytes != GPU_UNKNOWN_BYTES)
        doctor_value(d, "used_bytes", (double)g->used_bytes);
}

static void say_answer(struct doctor *d, const struct gpu_answer *a)
{
    switch (a->state) {
    case GPU_MISSING:
        doctor_say(d, DOCTOR_OK, NULL, "none that a driver of NVIDIA's knows; none is needed");
        return;
    case GPU_SILENT:
    case GPU_FAILED:
        doctor_say(d, DOCTOR_WARNING, "see whether nvidia-smi answers; if not, restart the machine",
                   "nobody can say who uses it: %s", a->why);
        return;
    case GPU_ANSWERED:
        break;
    }
    if (a->view.n_devices == 0)
        doctor_say(d, DOCTOR_OK, NULL, "none; none is needed");
    say_devices(d, &a->view);
    for (size_t i = 0; i < a->view.n_processes; i++)
        say_process(d, &a->view.process[i], gpu_shares_memory(&a->view));
}

void doctor_gpu(struct doctor *d)
{
    struct gpu_watch *g = NULL;
    struct gpu_answer a;
    if (!doctor_live(d) || gpu_watch_open(&g, ANSWER_US, NULL) < 0)
        return;
    gpu_watch_read(g, ANSWER_US, &a);
    say_answer(d, &a);
    gpu_watch_close(g);
}
