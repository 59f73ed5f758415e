#include "batch/host/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

#define LIBRARY "libnvidia-ml.so.1"
#define SAMPLES_MAX 128
/* How far back a process's use is looked at: about five samples of the driver's. */
#define LATELY_US 1000000

/* The return codes that are no failures, and all else. */
enum { NVML_SUCCESS = 0, NVML_NOT_FOUND = 6, NVML_INSUFFICIENT_SIZE = 7 };

struct nvml_process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_sample {
    unsigned pid;
    unsigned long long at_us;
    unsigned sm, memory, encoder, decoder; /* percent */
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory; /* percent */
};

/* `other`: the name that older drivers have for the same. */
static const struct {
    const char *name, *other;
    size_t offset; /* in struct nvml */
} functions[] = {
    {"nvmlInit_v2", NULL, offsetof(struct nvml, init)},
    {"nvmlShutdown", NULL, offsetof(struct nvml, shutdown)},
    {"nvmlErrorString", NULL, offsetof(struct nvml, error_string)},
    {"nvmlDeviceGetCount_v2", NULL, offsetof(struct nvml, count)},
    {"nvmlDeviceGetHandleByIndex_v2", NULL, offsetof(struct nvml, handle)},
    {"nvmlDeviceGetName", NULL, offsetof(struct nvml, name)},
    {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
     offsetof(struct nvml, processes)},
    {"nvmlDeviceGetUtilizationRates", NULL, offsetof(struct nvml, utilization)},
    {"nvmlDeviceGetProcessUtilization", NULL, offsetof(struct nvml, samples)},
    {"nvmlDeviceGetMemoryInfo", NULL, offsetof(struct nvml, memory)},
};

static int bind_all(struct nvml *n, struct error *e)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *function = dlsym(n->library, functions[i].name);
        if (!function && functions[i].other)
            function = dlsym(n->library, functions[i].other);
        if (!function)
            return error_set(e, ERROR_UNSUPPORTED, LIBRARY " has no %s", functions[i].name);
        memcpy((char *)n + functions[i].offset, &function, sizeof(function));
    }
    return 0;
}

static int failed(const struct nvml *n, int code, const char *what, struct error *e)
{
    const char *text = n->error_string(code);
    return error_set(e, ERROR_IO, "%s: %.120s", what, text ? text : "unknown error");
}

int nvml_open(struct nvml *n, struct error *e)
{
    *n = (struct nvml){.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (!n->library)
        return error_set(e, ERROR_NOTFOUND, "no " LIBRARY);
    int rc = bind_all(n, e);
    const int code = rc == 0 ? n->init() : NVML_SUCCESS;
    if (code != NVML_SUCCESS)
        rc = failed(n, code, "NVML does not start", e);
    if (rc) {
        dlclose(n->library);
        n->library = NULL;
    }
    return rc;
}

void nvml_close(struct nvml *n)
{
    if (!n->library)
        return;
    (void)n->shutdown();
    dlclose(n->library);
    n->library = NULL;
}

/* ------------------------------------------------------------------ a look */

static void describe(const struct nvml *n, void *handle, struct gpu_device *ret)
{
    struct nvml_memory memory = {0};
    struct nvml_utilization use = {0};
    *ret = (struct gpu_device){
        .total_bytes = GPU_UNKNOWN_BYTES, .used_bytes = GPU_UNKNOWN_BYTES, .busy_percent = -1};
    if (n->name(handle, ret->name, sizeof(ret->name)) != NVML_SUCCESS)
        snprintf(ret->name, sizeof(ret->name), "GPU");
    ret->name[sizeof(ret->name) - 1] = '\0';
    if (n->memory(handle, &memory) == NVML_SUCCESS) {
        ret->total_bytes = memory.total;
        ret->used_bytes = memory.used;
    }
    if (n->utilization(handle, &use) == NVML_SUCCESS)
        ret->busy_percent = (int)MIN_OF(use.gpu, 100u);
}

/* What NVML says that its processes have used lately; nothing found means nothing was used. */
static void add_use(const struct nvml *n, void *handle, struct gpu_view *v, size_t first)
{
    struct nvml_sample sample[SAMPLES_MAX];
    unsigned n_samples = SAMPLES_MAX;
    const unsigned long long since_us = (unsigned long long)(clock_wall_us() - LATELY_US);
    const int code = n->samples(handle, sample, &n_samples, since_us);
    if (code != NVML_SUCCESS && code != NVML_NOT_FOUND)
        return;
    n_samples = code == NVML_SUCCESS ? MIN_OF(n_samples, (unsigned)SAMPLES_MAX) : 0;
    for (size_t i = first; i < v->n_processes; i++) {
        struct gpu_process *p = &v->process[i];
        p->busy_percent = 0;
        for (unsigned k = 0; k < n_samples; k++) {
            if (sample[k].pid == (unsigned)p->pid)
                p->busy_percent =
                    (int)MIN_OF(MAX_OF((unsigned)p->busy_percent, sample[k].sm), 100u);
        }
    }
}

static int add_processes(const struct nvml *n, void *handle, unsigned device, struct gpu_view *v,
                         struct error *e)
{
    struct nvml_process process[GPU_PROCESSES_MAX];
    unsigned n_found = GPU_PROCESSES_MAX;
    const size_t first = v->n_processes;
    const int code = n->processes(handle, &n_found, process);
    if (code == NVML_NOT_FOUND)
        return 0;
    /* More than there is room for: those that came are enough to say that it is in use. */
    if (code != NVML_SUCCESS && code != NVML_INSUFFICIENT_SIZE)
        return failed(n, code, "NVML does not list the GPU's processes", e);
    for (unsigned i = 0; i < MIN_OF(n_found, (unsigned)GPU_PROCESSES_MAX); i++) {
        if (v->n_processes == GPU_PROCESSES_MAX)
            break;
        v->process[v->n_processes++] = (struct gpu_process){
            .pid = (int)process[i].pid,
            .device = device,
            .used_bytes = process[i].used_bytes,
            .busy_percent = -1,
        };
    }
    add_use(n, handle, v, first);
    return 0;
}

int nvml_look(const struct nvml *n, struct gpu_view *ret, struct error *e)
{
    unsigned n_devices = 0;
    *ret = (struct gpu_view){0};
    int code = n->count(&n_devices);
    if (code != NVML_SUCCESS)
        return failed(n, code, "NVML does not count the GPUs", e);
    for (unsigned i = 0; i < MIN_OF(n_devices, (unsigned)GPU_DEVICES_MAX); i++) {
        void *handle = NULL;
        code = n->handle(i, &handle);
        if (code != NVML_SUCCESS)
            return failed(n, code, "NVML does not find a GPU that it counts", e);
        describe(n, handle, &ret->device[i]);
        ret->n_devices = i + 1;
        int rc = add_processes(n, handle, i, ret, e);
        if (rc)
            return rc;
    }
    return 0;
}
