/*
 * out-of-core-rate FILE [--bytes N] [--seconds S]
 *
 * The rate at which the disk gives a file in direct reads of that size at random places: S seconds (0.5)
 * at each of several depths, a thread a read. Prints the best as bytes a second, then its depth.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"

#define DEPTH_MAX 32

struct rate {
    const struct file *file;
    size_t bytes;
    uint64_t seed;
    int64_t until_us;
};

struct reader {
    const struct rate *rate;
    struct error error;
    uint64_t number, done_bytes;
    pthread_t thread;
    int rc;
};

static void *reader(void *context)
{
    struct reader *r = context;
    const struct rate *rate = r->rate;
    const uint64_t places = (rate->file->size - rate->bytes) / FILE_DIRECT_ALIGN + 1;
    void *block = aligned_alloc(FILE_DIRECT_ALIGN, rate->bytes);
    r->rc = block ? 0 : error_set(&r->error, ERROR_NOMEM, "no memory for a read");
    for (uint64_t i = 0; r->rc == 0 && clock_mono_us() < rate->until_us; i++) {
        const uint64_t place = rng_u64(rate->seed + r->number, i) % places;
        r->rc =
            file_read_direct(rate->file, block, rate->bytes, place * FILE_DIRECT_ALIGN, &r->error);
        r->done_bytes += r->rc == 0 ? rate->bytes : 0;
    }
    free(block);
    return NULL;
}

/* Bytes a second with so many reads at once. */
static int measure(const struct file *f, size_t bytes, uint32_t depth, double seconds,
                   double *ret_rate, struct error *e)
{
    struct reader readers[DEPTH_MAX] = {0};
    const int64_t from_us = clock_mono_us();
    const struct rate rate = {.file = f,
                              .bytes = bytes,
                              .seed = rng_entropy(),
                              .until_us = from_us + (int64_t)(seconds * 1e6)};
    uint64_t done = 0;
    uint32_t n = 0;
    int rc = 0;
    for (; n < depth; n++) {
        readers[n] = (struct reader){.rate = &rate, .number = n};
        if (pthread_create(&readers[n].thread, NULL, reader, &readers[n]) != 0)
            break;
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(readers[i].thread, NULL);
        done += readers[i].done_bytes;
        if (readers[i].rc != 0) {
            rc = readers[i].rc;
            *e = readers[i].error;
        }
    }
    *ret_rate = (double)done / ((double)(clock_mono_us() - from_us) / 1e6);
    return rc;
}

int main(int argc, char **argv)
{
    static const uint32_t depths[] = {4, 8, 16, DEPTH_MAX};
    const char *path = NULL;
    size_t bytes = FILE_DIRECT_ALIGN * 51;
    double seconds = 0.5, best = 0;
    uint32_t best_depth = 0;
    struct file f = {0};
    struct error e = {0};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--bytes") == 0)
            bytes = strtoull(next, NULL, 10) / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN, i++;
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(next, NULL), i++;
        else
            path = argv[i];
    }
    if (!path || bytes == 0) {
        fputs("usage: out-of-core-rate FILE [--bytes N] [--seconds S]\n", stderr);
        return 2;
    }
    int rc = file_open_direct(&f, path, &e);
    if (rc == 0 && f.size < bytes)
        rc = error_set(&e, ERROR_INVALID, "%s is smaller than a read of %zu bytes", path, bytes);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(depths); i++) {
        double rate = 0;
        rc = measure(&f, bytes, depths[i], seconds, &rate, &e);
        best_depth = rate > best ? depths[i] : best_depth;
        best = rate > best ? rate : best;
    }
    file_close(&f);
    if (rc == 0)
        printf("%.0f %" PRIu32 "\n", best, best_depth);
    else
        fprintf(stderr, "out-of-core-rate: %s\n", e.text);
    return rc == 0 ? 0 : 1;
}
