/*
 * The few functions of NVML that are needed, from its public reference, and one look at all GPUs.
 *
 * Owns the library once it is open. Every call may take long or never come back: gpu.h has the thread for
 * that. One thread.
 */
#ifndef BATCH_HOST_NVML_H
#define BATCH_HOST_NVML_H

#include "batch/host/gpu.h"

struct nvml_process;
struct nvml_sample;
struct nvml_memory;
struct nvml_utilization;

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int code);
    int (*count)(unsigned *ret);
    int (*handle)(unsigned index, void **ret);
    int (*name)(void *device, char *out, unsigned size);
    int (*processes)(void *device, unsigned *n, struct nvml_process *out);
    int (*utilization)(void *device, struct nvml_utilization *ret);
    int (*samples)(void *device, struct nvml_sample *out, unsigned *n, unsigned long long since_us);
    int (*memory)(void *device, struct nvml_memory *ret);
};

/* ERROR_NOTFOUND: no such library; ERROR_UNSUPPORTED: too old; ERROR_IO: it does not start. */
int nvml_open(struct nvml *n, struct error *e);
/* ERROR_IO with the library's own word. What a device does not support is unknown, and no error. */
int nvml_look(const struct nvml *n, struct gpu_view *ret, struct error *e);
void nvml_close(struct nvml *n); /* a zeroed one is fine */

#endif
