#include "batch/host/pressure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "batch/host/figures.h"

void pressure_find(const char *root, struct pressure_place *ret)
{
    snprintf(ret->machine, sizeof(ret->machine), "%s/proc", root);
    snprintf(ret->process, sizeof(ret->process), "%s/proc/self", root);
    cgroup_find(root, &ret->groups);
}

/* ---- Numbers ---------------------------------------------------------------------------------- */

static int64_t bytes_of(const char *text, const char *key)
{
    const int64_t kib = figure_of(text, key);
    return kib < 0 ? -1 : kib * 1024;
}

/* What is known of both. */
static int64_t sum(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 ? a : a + b;
}

/* The one that is known. */
static int64_t either(int64_t a, int64_t b)
{
    return a < 0 ? b : a;
}

/* ---- Stalls ----------------------------------------------------------------------------------- */

/* "full avg10=0.00 avg60=0.00 avg300=0.00 total=20180187" */
static void read_line(const char *text, const char *word, double *ret_avg10, int64_t *ret_us)
{
    const char *line = strstr(text, word);
    double avg10 = 0;
    long long us = 0;
    if (!line || sscanf(line + strlen(word), " avg10=%lf %*s %*s total=%lld", &avg10, &us) != 2)
        return;
    *ret_avg10 = avg10;
    *ret_us = us;
}

static void read_stall(const char *folder, const char *file, struct pressure_stall *ret)
{
    struct buf text;
    *ret = (struct pressure_stall){-1, -1, -1, -1};
    if (!*folder)
        return;
    const char *said = figures_read(&text, folder, file);
    read_line(said, "some", &ret->some_avg10, &ret->some_us);
    read_line(said, "full", &ret->full_avg10, &ret->full_us);
    buf_release(&text);
}

/* ---- Groups ----------------------------------------------------------------------------------- */

/* The group that is limited is of one version; the files of the other are not there. */
static void read_limit(const char *folder, struct pressure_sample *ret)
{
    struct buf text;
    const char *said = figures_read(&text, folder, "memory.events");
    ret->limit_hits = sum(figure_of(said, "high"), figure_of(said, "max"));
    ret->low_hits = figure_of(said, "low");
    ret->ooms = figure_of(said, "oom");
    ret->oom_kills = figure_of(said, "oom_kill");
    const bool told = *said != '\0';
    buf_release(&text);
    if (told)
        return;
    ret->limit_hits = figure_in(folder, "memory.failcnt", "");
    ret->oom_kills = figure_in(folder, "memory.oom_control", "oom_kill");
}

/* The keys of memory.stat with all groups below it, which the first version alone has apart. */
static bool read_stat(const char *folder, const char *prefix, struct pressure_sample *ret)
{
    struct buf text;
    char key[64];
    if (!*folder)
        return false;
    const char *said = figures_read(&text, folder, "memory.stat");
    snprintf(key, sizeof(key), "%spgmajfault", prefix);
    ret->group_major_faults = figure_of(said, key);
    snprintf(key, sizeof(key), "%sworkingset_refault_file", prefix);
    ret->refaults = figure_of(said, key);
    snprintf(key, sizeof(key), "%sworkingset_refault_anon", prefix);
    ret->refaults = sum(ret->refaults, figure_of(said, key));
    const bool told = *said != '\0';
    buf_release(&text);
    return told;
}

/* With systemd's mixed layout memory is in one tree and stalls are in the other. */
static void read_groups(const struct cgroup_places *g, struct pressure_sample *ret)
{
    const char *limit = *g->limit ? g->limit : *g->memory ? g->memory : g->unified;
    if (*limit)
        read_limit(limit, ret);
    if (read_stat(g->memory, "total_", ret)) {
        ret->group_bytes = figure_in(g->memory, "memory.usage_in_bytes", "");
        ret->group_peak_bytes = figure_in(g->memory, "memory.max_usage_in_bytes", "");
    } else if (read_stat(g->unified, "", ret)) {
        ret->group_bytes = figure_in(g->unified, "memory.current", "");
        ret->group_peak_bytes = figure_in(g->unified, "memory.peak", "");
    }
    const int64_t ns = *g->cpu ? figure_in(g->cpu, "cpu.stat", "throttled_time") : -1;
    const int64_t us = *g->unified ? figure_in(g->unified, "cpu.stat", "throttled_usec") : -1;
    ret->throttled_us = either(us, ns < 0 ? -1 : ns / 1000);
}

/* ---- Process and machine ---------------------------------------------------------------------- */

/* Field 12 of proc(5)'s stat: behind the name, which may have anything in it. */
static int64_t major_faults(const char *text)
{
    const char *behind = strrchr(text, ')');
    long long n = -1;
    if (!behind || sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %lld", &n) != 1)
        return -1;
    return n;
}

static void read_process(const char *folder, struct pressure_sample *ret)
{
    struct buf status, stat;
    const char *said = figures_read(&status, folder, "status");
    ret->resident_bytes = bytes_of(said, "VmRSS");
    ret->resident_peak_bytes = bytes_of(said, "VmHWM");
    ret->swapped_bytes = bytes_of(said, "VmSwap");
    ret->major_faults = major_faults(figures_read(&stat, folder, "stat"));
    buf_release(&status);
    buf_release(&stat);
}

static void read_machine(const char *folder, struct pressure_sample *ret)
{
    struct buf text;
    const char *said = figures_read(&text, folder, "meminfo");
    ret->total_bytes = bytes_of(said, "MemTotal");
    ret->available_bytes = bytes_of(said, "MemAvailable");
    ret->free_bytes = bytes_of(said, "MemFree");
    buf_release(&text);
}

void pressure_read(const struct pressure_place *at, struct pressure_sample *ret)
{
    *ret = (struct pressure_sample){
        .at_us = clock_mono_us(),
        .limit_hits = -1,
        .low_hits = -1,
        .ooms = -1,
        .oom_kills = -1,
        .refaults = -1,
        .group_major_faults = -1,
        .throttled_us = -1,
        .group_bytes = -1,
        .group_peak_bytes = -1,
    };
    read_stall(at->machine, "pressure/memory", &ret->system);
    read_stall(at->groups.unified, "memory.pressure", &ret->group);
    read_groups(&at->groups, ret);
    read_process(at->process, ret);
    read_machine(at->machine, ret);
}
