/*
 * kernels [--isa NAME] [--threads N] [--format NAME] [--seconds S]
 *
 * Matrix products of every format, for few and for many activation rows, as CSV: weight bytes and
 * operations a second, beside the memory bandwidth that plain reading reaches in the same run.
 * Weights are taken in slices, one after another out of more than the last-level cache holds, and the
 * best slice counts: on a machine that others use too, that is the one nobody disturbed.
 */
#include "engine/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "base/rng.h"

#define N_COLS 2048
#define W_BYTES ((size_t)192 << 20)
#define SLICE_BYTES ((size_t)8 << 20)
#define MAX_ROWS 512

struct bench {
    const struct kernels *kernels;
    const char *format;
    int threads;
    double seconds;
    char cpu[64];
    unsigned char *w; /* W_BYTES */
    float *x;         /* [MAX_ROWS][N_COLS] */
    char *x_act;
    float *y; /* [n_rows][outputs of a pass] */
    double read_gbs;
};

/* The model's name from /proc/cpuinfo, without commas. */
static void read_cpu_name(char out[64])
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, 64, "unknown");
    while (f && fgets(line, sizeof(line), f)) {
        char *name = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (!name)
            continue;
        snprintf(out, 64, "%.60s", name + 2);
        out[strcspn(out, "\n,")] = '\0';
        break;
    }
    if (f)
        fclose(f);
}

static double seconds_now(void)
{
    return (double)clock_mono_us() * 1e-6;
}

struct read_sums {
    const unsigned char *w;
    uint64_t sum[PARALLEL_MAX];
};

static void read_range(void *context, size_t first, size_t last, int thread)
{
    struct read_sums *r = context;
    const uint64_t *word = (const uint64_t *)(const void *)r->w;
    uint64_t lane[8] = {0};
    for (size_t i = first; i < last; i++) {
        for (size_t l = 0; l < 8; l++)
            lane[l] += word[8 * i + l];
    }
    for (size_t l = 0; l < 8; l++)
        r->sum[thread] += lane[l];
}

static double measure_reading(const struct bench *b)
{
    static struct read_sums r;
    double best = 1e30;
    for (size_t at = 0; at < 4 * W_BYTES; at += SLICE_BYTES) {
        r.w = b->w + at % W_BYTES;
        double start = seconds_now();
        parallel_for(SLICE_BYTES / 64, 64, read_range, &r);
        best = fmin(best, seconds_now() - start);
    }
    double rate = (double)SLICE_BYTES / best * 1e-9;
    /* Printed so that the loop cannot be left out. */
    fprintf(stderr, "read loop: %.1f GB/s (sum %016llx)\n", rate, (unsigned long long)r.sum[0]);
    return rate;
}

struct product_loop {
    const struct bench *b;
    struct matmul m;
};

static void product_range(void *context, size_t first, size_t last, int thread)
{
    const struct product_loop *l = context;
    (void)thread;
    l->b->kernels->matmul[l->m.quant->index](&l->m, first, last);
}

/* Weight rows of a slice: of SLICE_BYTES, or what some milliseconds do for many activation rows. */
static size_t slice_rows(const struct quant *q, size_t n_rows)
{
    size_t n_out = SLICE_BYTES / quant_row_bytes(q, N_COLS);
    return MIN_OF(n_out, (size_t)65536 / n_rows) / 64 * 64;
}

/* One line of CSV. */
static void bench_format(const struct bench *b, const struct quant *q, size_t n_rows)
{
    size_t n_out = slice_rows(q, n_rows);
    struct product_loop loop = {.b = b,
                                .m = {.quant = q,
                                      .w_row_bytes = quant_row_bytes(q, N_COLS),
                                      .x = b->x_act,
                                      .x_row_bytes = act_row_bytes(q->act, N_COLS),
                                      .n_cols = N_COLS,
                                      .n_rows = n_rows,
                                      .y = b->y,
                                      .y_stride = n_out}};
    size_t slice_bytes = n_out * loop.m.w_row_bytes;
    double best = 1e30;
    size_t at = 0;
    for (size_t r = 0; r < n_rows; r++)
        b->kernels->act_quantise[q->act](b->x + r * N_COLS, b->x_act + r * loop.m.x_row_bytes,
                                         N_COLS);
    for (double until = seconds_now() + b->seconds; seconds_now() < until;) {
        loop.m.w = b->w + at;
        double start = seconds_now();
        parallel_for(n_out, 16, product_range, &loop);
        best = fmin(best, seconds_now() - start);
        at = at + 2 * slice_bytes > W_BYTES ? 0 : at + slice_bytes;
    }
    double gbs = (double)slice_bytes / best * 1e-9;
    double gflops = 2.0 * (double)n_out * N_COLS * (double)n_rows / best * 1e-9;
    printf("%s,%s,%d,%s,%zu,%.2f,%.1f,%.1f\n", b->cpu, b->kernels->name, b->threads, q->name,
           n_rows, gbs, gflops, b->read_gbs);
    fflush(stdout);
}

/* The same blocks over and over: what they hold does not change the time. */
static void fill_weights(const struct bench *b, const struct quant *q)
{
    size_t block = q->block_bytes;
    size_t distinct = 4096;
    for (size_t i = 0; i < distinct; i++)
        q->synthesise(b->w + i * block, 1, i, 0.02f);
    for (size_t at = distinct * block; at + block * distinct <= W_BYTES; at += distinct * block)
        memcpy(b->w + at, b->w, distinct * block);
}

static void bench_all(struct bench *b)
{
    static const size_t n_rows[] = {1, 4, 64, MAX_ROWS};
    printf("cpu,isa,threads,format,rows,weight_gb_s,gflop_s,read_gb_s\n");
    for (int i = 0; i < QUANT_COUNT; i++) {
        if (b->format && quant_by_name(b->format) != quants[i])
            continue;
        fill_weights(b, quants[i]);
        for (size_t r = 0; r < ARRAY_LEN(n_rows); r++)
            bench_format(b, quants[i], n_rows[r]);
    }
}

static int parse_options(struct bench *b, const char **ret_isa, int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return -1;
        if (strcmp(argv[i], "--isa") == 0)
            *ret_isa = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            b->threads = (int)strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--format") == 0)
            b->format = argv[i + 1];
        else if (strcmp(argv[i], "--seconds") == 0)
            b->seconds = strtod(argv[i + 1], NULL);
        else
            return -1;
    }
    return b->format && !quant_by_name(b->format) ? -1 : 0;
}

static int take_memory(struct bench *b)
{
    b->w = mem_alloc(W_BYTES);
    b->x = mem_array((size_t)MAX_ROWS * N_COLS, sizeof(float));
    b->x_act = mem_zalloc(MAX_ROWS * act_row_bytes(ACT_F32, N_COLS));
    b->y = mem_array(65536, sizeof(float));
    if (!b->w || !b->x || !b->x_act || !b->y)
        return -1;
    memset(b->w, 1, W_BYTES);
    for (size_t i = 0; i < (size_t)MAX_ROWS * N_COLS; i++)
        b->x[i] = (float)rng_unit(9, i) - 0.5f;
    return 0;
}

static void release_memory(struct bench *b)
{
    mem_free(b->w);
    mem_free(b->x);
    mem_free(b->x_act);
    mem_free(b->y);
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = parallel_cores(), .seconds = 0.3};
    struct error e = {0};
    const char *isa = NULL;
    if (parse_options(&b, &isa, argc, argv) != 0 || parallel_set_threads(b.threads) != 0) {
        fprintf(stderr,
                "usage: kernels [--isa NAME] [--threads N] [--format NAME] [--seconds S]\n");
        return 2;
    }
    if (kernels_pick(isa, &b.kernels, &e) != 0) {
        fprintf(stderr, "kernels: %s\n", e.text);
        return 2;
    }
    read_cpu_name(b.cpu);
    int rc = take_memory(&b);
    if (rc == 0) {
        b.read_gbs = measure_reading(&b);
        bench_all(&b);
    } else {
        fprintf(stderr, "kernels: out of memory\n");
    }
    release_memory(&b);
    return rc == 0 ? 0 : 1;
}
