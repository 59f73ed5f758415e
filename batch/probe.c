#include "batch/probe.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/rng.h"

#define DISK_US 200000
#define MEMORY_US 100000
#define READERS 8
#define READ_BYTES ((size_t)1 << 20)
/* More than most caches hold, where the budget allows. */
#define MEMORY_BYTES_MAX ((uint64_t)256 << 20)
#define MEMORY_BYTES_MIN ((uint64_t)16 << 20)
#define WORDS_OF_A_LINE 8

/* ---- Disk ------------------------------------------------------------------------------------- */

struct disk {
    const struct file *file;
    int64_t until_us;
    atomic_uint_least64_t bytes, next;
    char *buffers; /* [READERS][READ_BYTES] */
};

struct reader {
    struct disk *disk;
    pthread_t thread;
    unsigned index;
};

static void *read_some(void *context)
{
    const struct reader *r = context;
    struct disk *d = r->disk;
    const uint64_t n_places = d->file->size / READ_BYTES;
    while (clock_mono_us() < d->until_us) {
        const uint64_t place = rng_u64(1, atomic_fetch_add(&d->next, 1)) % n_places;
        if (file_read_direct(d->file, d->buffers + r->index * READ_BYTES, READ_BYTES,
                             place * READ_BYTES, NULL) != 0)
            break;
        atomic_fetch_add(&d->bytes, READ_BYTES);
    }
    return NULL;
}

static double disk_rate(const struct file *f, char *buffers)
{
    struct reader reader[READERS];
    struct disk d = {.file = f, .buffers = buffers};
    unsigned n = 0;
    const int64_t from_us = clock_mono_us();
    d.until_us = from_us + DISK_US;
    for (; n < READERS && f->size >= READ_BYTES; n++) {
        reader[n] = (struct reader){.disk = &d, .index = n};
        if (pthread_create(&reader[n].thread, NULL, read_some, &reader[n]) != 0)
            break;
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(reader[i].thread, NULL);
    return (double)atomic_load(&d.bytes) * 1e6 / (double)MAX_OF(clock_mono_us() - from_us, 1);
}

/* ---- Memory ----------------------------------------------------------------------------------- */

struct sweep {
    const uint64_t *words;
    atomic_uint_least64_t sum; /* so that the reads are not left out */
};

static void sum_range(void *context, size_t first, size_t last, int thread)
{
    struct sweep *s = context;
    uint64_t sum[WORDS_OF_A_LINE] = {0};
    (void)thread;
    for (size_t i = first; i + WORDS_OF_A_LINE <= last; i += WORDS_OF_A_LINE) {
        for (size_t k = 0; k < WORDS_OF_A_LINE; k++)
            sum[k] += s->words[i + k];
    }
    for (size_t k = 1; k < WORDS_OF_A_LINE; k++)
        sum[0] += sum[k];
    atomic_fetch_add(&s->sum, sum[0]);
}

static void touch(uint64_t *words, size_t n)
{
    for (size_t i = 0; i < n; i += 512) /* a word of each page */
        words[i] = i;
}

static double memory_rate(uint64_t *words, size_t n)
{
    struct sweep s = {.words = words};
    uint64_t bytes = 0;
    touch(words, n);
    const int64_t from_us = clock_mono_us();
    while (clock_mono_us() - from_us < MEMORY_US) {
        parallel_for(n, 4096, sum_range, &s);
        bytes += n * sizeof(*words);
    }
    return (double)bytes * 1e6 / (double)(clock_mono_us() - from_us);
}

/* ---- Both ------------------------------------------------------------------------------------- */

int probe_run(const char *model_path, struct ledger *l, struct probe *ret, struct error *e)
{
    struct file f = {0};
    void *block = NULL;
    const uint64_t left = ledger_limit(l) - ledger_total(l);
    const size_t bytes = (size_t)MAX_OF(
        MIN_OF(left / 2, MEMORY_BYTES_MAX) / READ_BYTES * READ_BYTES, MEMORY_BYTES_MIN);
    int rc = file_open_direct(&f, model_path, e);
    if (rc == 0)
        rc = ledger_alloc(l, LEDGER_IO, bytes, "measuring disk and memory", &block, e);
    if (rc == 0) {
        *ret = (struct probe){.disk_bytes_per_s = disk_rate(&f, block),
                              .memory_bytes_per_s = memory_rate(block, bytes / sizeof(uint64_t))};
        ledger_release(l, LEDGER_IO, block, bytes);
    }
    file_close(&f);
    return rc;
}
