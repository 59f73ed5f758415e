#include "batch/host/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "batch/host/figures.h"

#define KEPT_PART 20
#define KEPT_LEAST_BYTES (UINT64_C(512) << 20)
#define KEPT_MOST_PART 16
#define ORDERS_MAX 32

/* Adds a line's counts, "Node 0, zone   Normal  1 2 3 ...", and says how many orders it has. */
static size_t add_orders(const char *line, uint64_t count[ORDERS_MAX])
{
    size_t n = 0;
    const char *at = strstr(line, "zone");
    at = at ? at + strlen("zone") : line;
    at += strspn(at, " ");
    at += strcspn(at, " \n");
    while (n < ORDERS_MAX) {
        char *end = NULL;
        at += strspn(at, " ");
        if (*at < '0' || *at > '9')
            break;
        count[n++] += strtoull(at, &end, 10);
        at = end;
    }
    return n;
}

static void read_blocks(const char *folder, struct memory *ret)
{
    uint64_t count[ORDERS_MAX] = {0};
    struct buf text;
    size_t n = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const char *line = figures_read(&text, folder, "buddyinfo");
    for (; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const size_t orders = add_orders(line, count);
        n = MAX_OF(n, orders);
    }
    buf_release(&text);
    if (n == 0)
        return;
    size_t first = n - 1;
    while (first > 0 && page << (first - 1) >= MEMORY_LARGE_BYTES)
        first--;
    ret->large_block_bytes = page << first;
    for (size_t i = first; i < n; i++)
        ret->large_blocks += count[i] << (i - first);
}

bool memory_read(const char *root, struct memory *ret)
{
    char folder[4300];
    struct buf text;
    uint64_t swap_free = 0;
    *ret = (struct memory){0};
    const struct {
        const char *key;
        uint64_t *out;
    } keys[] = {{"MemTotal", &ret->total_bytes},
                {"MemFree", &ret->free_bytes},
                {"MemAvailable", &ret->available_bytes},
                {"SwapTotal", &ret->swap_bytes},
                {"SwapFree", &swap_free},
                {"CommitLimit", &ret->commit_limit_bytes},
                {"Committed_AS", &ret->committed_bytes}};
    snprintf(folder, sizeof(folder), "%.4096s/proc", root);
    const char *meminfo = figures_read(&text, folder, "meminfo");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        *keys[i].out = (uint64_t)MAX_OF(figure_of(meminfo, keys[i].key), INT64_C(0)) * 1024;
    const bool known = figure_of(meminfo, "MemAvailable") >= 0;
    ret->swap_used_bytes = ret->swap_bytes - MIN_OF(swap_free, ret->swap_bytes);
    buf_release(&text);
    read_blocks(folder, ret);
    return known;
}

uint64_t memory_reserve(const struct memory *m)
{
    const uint64_t kept = MAX_OF(m->available_bytes / KEPT_PART, KEPT_LEAST_BYTES);
    return MIN_OF(kept, m->total_bytes / KEPT_MOST_PART);
}
