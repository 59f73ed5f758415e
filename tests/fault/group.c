#include "tests/fault/group.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/kit.h"

/* The first line of a small file that begins with `key`, behind it; -1: there is none. */
static long long number_in(const char *folder, const char *file, const char *key)
{
    char path[1200], line[256];
    long long n = -1;
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    while (f && n < 0 && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, strlen(key)) == 0)
            n = strtoll(line + strlen(key), NULL, 10);
    }
    if (f)
        fclose(f);
    return n;
}

static bool write_in(const char *folder, const char *file, uint64_t n)
{
    char path[1200];
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    bool good = fprintf(f, "%llu\n", (unsigned long long)n) > 0;
    return fclose(f) == 0 && good;
}

/* This process's own group of the first version's memory controller. */
static bool own_folder(char out[900])
{
    char line[600], path[512] = "";
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && !*path && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*d:memory:%511s", path) != 1)
            path[0] = '\0';
    }
    if (f)
        fclose(f);
    snprintf(out, 900, "/sys/fs/cgroup/memory%s", path);
    return *path && access(out, W_OK) == 0;
}

static bool make(struct group *g, const char *parent, uint64_t limit_bytes)
{
    snprintf(g->folder, sizeof(g->folder), "%s/nocturne-test-%d", parent, (int)getpid());
    if (mkdir(g->folder, 0755) != 0)
        return false;
    if (write_in(g->folder, g->unified ? "memory.max" : "memory.limit_in_bytes", limit_bytes) &&
        number_in(g->folder, g->unified ? "memory.peak" : "memory.max_usage_in_bytes", "") >= 0)
        return true;
    group_close(g);
    return false;
}

void group_open(struct group *g, uint64_t limit_bytes)
{
    char parent[900];
    *g = (struct group){.unified = false};
    if (own_folder(parent) && make(g, parent, limit_bytes))
        return;
    g->unified = true; /* only the top may have both processes and groups with a controller */
    if (!make(g, "/sys/fs/cgroup", limit_bytes))
        SKIP("no control group of memory can be made here (needs root): %s", strerror(errno));
}

void group_close(struct group *g)
{
    for (int i = 0; i < 200 && rmdir(g->folder) != 0; i++)
        usleep(10000);
}

uint64_t group_peak_bytes(const struct group *g)
{
    long long n =
        number_in(g->folder, g->unified ? "memory.peak" : "memory.max_usage_in_bytes", "");
    CHECK(n > 0);
    return (uint64_t)n;
}

uint64_t group_n_refusals(const struct group *g)
{
    long long n = g->unified ? number_in(g->folder, "memory.events", "max ")
                             : number_in(g->folder, "memory.failcnt", "");
    CHECK(n >= 0);
    return (uint64_t)n;
}
