/* A file of token ids, numbers with commas between them (mkmodel --text writes such), for benchmarks. */
#ifndef BENCH_IDS_H
#define BENCH_IDS_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"

/* The first n of them; the owner frees *ret, which may be set when this fails. */
static inline int ids_read(const char *path, uint32_t n, int32_t **ret, struct error *e)
{
    uint32_t got = 0;
    *ret = mem_array(n, sizeof(**ret));
    if (!*ret)
        return error_set(e, ERROR_NOMEM, "no memory for %u ids", n);
    FILE *f = fopen(path, "re");
    if (!f)
        return error_sys(e, ERROR_IO, errno, "reading %s", path);
    while (got < n && fscanf(f, "%" SCNd32 ",", &(*ret)[got]) == 1)
        got++;
    fclose(f);
    return got == n ? 0 : error_set(e, ERROR_FORMAT, "%s has %u ids, not %u", path, got, n);
}

#endif
