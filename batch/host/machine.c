#include "batch/host/machine.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/compiler.h"
#include "base/str.h"
#include "batch/host/cgroup.h"
#include "batch/host/figures.h"

/* What is left for other programs, and for what the kernel keeps on our account. */
#define OTHERS_PART 10
#define OTHERS_LEAST_BYTES (UINT64_C(1) << 30)
#define KERNEL_PART 20
#define KERNEL_LEAST_BYTES (UINT64_C(32) << 20)
/* What it keeps for a process that has just begun: in the group's usage, but nobody else's. */
#define KERNEL_FIRST_BYTES (UINT64_C(1) << 20)

static int available_below(const char *root, uint64_t *ret_bytes, struct error *e)
{
    char folder[4096];
    snprintf(folder, sizeof(folder), "%s/proc", root);
    const int64_t kib = figure_in(folder, "meminfo", "MemAvailable");
    if (kib < 0)
        return error_set(e, ERROR_IO, "%s/meminfo has no MemAvailable; give --memory", folder);
    *ret_bytes = (uint64_t)kib * 1024;
    return 0;
}

int machine_available(uint64_t *ret_bytes, struct error *e)
{
    return available_below("", ret_bytes, e);
}

static uint64_t reserve_of(uint64_t bytes, unsigned part, uint64_t least)
{
    return MIN_OF(MAX_OF(bytes / part, least), bytes);
}

int machine_budget(const char *root, struct machine_budget *ret, struct error *e)
{
    struct cgroup_memory group;
    uint64_t available = 0;
    char have[24], keep[24], limit[24];
    int rc = available_below(root, &available, e);
    if (rc)
        return rc;
    uint64_t reserve = reserve_of(available, OTHERS_PART, OTHERS_LEAST_BYTES);
    ret->bytes = available - reserve;
    snprintf(ret->from, sizeof(ret->from), "%s are available, %s of it are kept for others",
             str_format_size(available, have), str_format_size(reserve, keep));
    cgroup_memory(root, &group);
    reserve = reserve_of(group.left_bytes, KERNEL_PART, KERNEL_LEAST_BYTES);
    if (group.left_bytes - reserve < ret->bytes) {
        ret->bytes = group.left_bytes - reserve;
        snprintf(ret->from, sizeof(ret->from),
                 "%s leaves %s of its %s, %s of it are kept for the kernel", group.file,
                 str_format_size(group.left_bytes, have), str_format_size(group.limit_bytes, limit),
                 str_format_size(reserve, keep));
    }
    if (ret->bytes == 0)
        return error_set(e, ERROR_BUDGET, "no memory for a budget: %s; free some or give --memory",
                         ret->from);
    return 0;
}

int machine_check_budget(const char *root, uint64_t bytes, char warning[MACHINE_WARNING_BYTES],
                         struct error *e)
{
    struct cgroup_memory group;
    uint64_t available = 0;
    char want[24], have[24];
    warning[0] = '\0';
    str_format_size(bytes, want);
    cgroup_memory(root, &group);
    if (bytes > group.limit_bytes)
        return error_set(e, ERROR_BUDGET,
                         "--memory is %s (%" PRIu64 " bytes), but %s allows %s (%" PRIu64
                         " bytes): with more this process would be killed",
                         want, bytes, group.file, str_format_size(group.limit_bytes, have),
                         group.limit_bytes);
    if (bytes - MIN_OF(bytes, KERNEL_FIRST_BYTES) > group.left_bytes)
        snprintf(warning, MACHINE_WARNING_BYTES,
                 "--memory is %s, but others have left %s of what %s allows", want,
                 str_format_size(group.left_bytes, have), group.file);
    else if (available_below(root, &available, NULL) == 0 && bytes > available)
        snprintf(warning, MACHINE_WARNING_BYTES,
                 "--memory is %s, but only %s are available: the machine may swap", want,
                 str_format_size(available, have));
    return 0;
}

int machine_choose_budget(const char *root, uint64_t asked, struct machine_budget *ret,
                          char warning[MACHINE_WARNING_BYTES], struct error *e)
{
    warning[0] = '\0';
    if (asked == 0)
        return machine_budget(root, ret, e);
    *ret = (struct machine_budget){.bytes = asked};
    return machine_check_budget(root, asked, warning, e);
}

void machine_reads(const char *root, struct machine_reads *ret)
{
    char folder[4096];
    uint64_t bytes = 0;
    snprintf(folder, sizeof(folder), "%s/proc/self", root);
    ret->process_bytes = figure_in(folder, "io", "read_bytes");
    ret->group_bytes = cgroup_read_bytes(root, &bytes) ? (int64_t)bytes : -1;
}
