#include "batch/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/compiler.h"
#include "base/file.h"
#include "base/str.h"

#define RESERVE_MIN_BYTES (UINT64_C(1) << 30)

/* The number after `key`, or -1. */
static int64_t number_after(const char *text, const char *key)
{
    const char *at = text ? strstr(text, key) : NULL;
    return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

int machine_available(uint64_t *ret_bytes, struct error *e)
{
    struct buf text;
    buf_init(&text, 1u << 16);
    int rc = file_read_all("/proc/meminfo", 1u << 16, &text, e);
    int64_t kib = rc == 0 ? number_after(text.ptr, "MemAvailable:") : 0;
    buf_release(&text);
    if (rc == 0 && kib < 0)
        rc = error_set(e, ERROR_IO, "/proc/meminfo has no MemAvailable; give --memory");
    if (rc == 0)
        *ret_bytes = (uint64_t)kib * 1024;
    return rc;
}

int machine_budget(uint64_t *ret_bytes, uint64_t *ret_available, struct error *e)
{
    uint64_t available = 0;
    int rc = machine_available(&available, e);
    if (rc)
        return rc;
    uint64_t reserve = MAX_OF(available / 10, RESERVE_MIN_BYTES);
    char have[24], keep[24];
    if (available <= reserve)
        return error_set(
            e, ERROR_BUDGET,
            "only %s of memory are available, and %s of it are kept for others; free some "
            "or give --memory",
            str_format_size(available, have), str_format_size(reserve, keep));
    *ret_bytes = available - reserve;
    *ret_available = available;
    return 0;
}

void machine_trouble(struct machine_trouble *ret)
{
    memset(ret, 0, sizeof(*ret));
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        ret->major_faults = usage.ru_majflt;
    struct buf text;
    buf_init(&text, 4096);
    if (file_read_all("/proc/pressure/memory", 4096, &text, NULL) == 0) {
        const char *full = text.ptr ? strstr(text.ptr, "full") : NULL;
        ret->pressure_some_us = MAX_OF(number_after(text.ptr, "total="), 0);
        ret->pressure_full_us = MAX_OF(number_after(full, "total="), 0);
    }
    buf_release(&text);
}
