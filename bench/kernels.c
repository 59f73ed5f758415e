/*
 * kernels [--isa NAME] [--threads N] [--format NAME] [--rows N] [--seconds S]
 *
 * Matrix products of every format and instruction set that this processor has, for few and for many
 * activation rows, as CSV: weight bytes and operations a second, beside the memory bandwidth of a plain
 * read loop of the same threads. Products and reads take turns, a slice each, so that both meet the same
 * machine; slices follow each other through far more than the last-level cache holds, what the two touch
 * half of that apart. Figures are medians of the slices; percent is the median of the ratios of each
 * turn's two, between the quartiles of those.
 * After them attention over pages (format "attention KEYS/VALUES" by dimensions; rows are queries that
 * share a page; bytes are those of the cache).
 * Weights lie where a model's do: in a block of the ledger, which asks for huge pages.
 */
#include "engine/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ledger.h"
#include "base/parallel.h"
#include "base/rng.h"

#define N_COLS 2048
#define W_BYTES ((size_t)512 << 20)
#define SLICE_BYTES ((size_t)8 << 20)
#define MAX_ROWS 512
#define MAX_TURNS 4096

struct bench {
    const struct kernels *kernels;
    const char *format;
    size_t n_rows; /* 0: all that are measured */
    int threads;
    double seconds;
    char cpu[64];
    struct ledger *ledger;
    unsigned char *w; /* W_BYTES */
    float *x;         /* [MAX_ROWS][N_COLS] */
    char *x_act;
    float *y;     /* [n_rows][outputs of a pass] */
    uint64_t sum; /* of what was read, printed at the end: so the loop cannot be left out */
};

/* What the turns of one line took, in nanoseconds a byte. */
struct turns {
    size_t n;
    double product[MAX_TURNS];
    double reading[MAX_TURNS];
    double ratio[MAX_TURNS]; /* percent: the product's bandwidth of the read loop's */
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
    uint64_t even = 0, odd = 0;
    for (size_t i = 8 * first; i < 8 * last; i += 8) {
        even += (word[i] + word[i + 2]) + (word[i + 4] + word[i + 6]);
        odd += (word[i + 1] + word[i + 3]) + (word[i + 5] + word[i + 7]);
    }
    r->sum[thread] += even + odd;
}

/* Nanoseconds a byte of a slice from there. */
static double time_reading(struct bench *b, size_t at)
{
    static struct read_sums r;
    r.w = b->w + at;
    double start = seconds_now();
    parallel_for(SLICE_BYTES / 64, 64, read_range, &r);
    double ns = (seconds_now() - start) * 1e9;
    b->sum += r.sum[0];
    return ns / (double)SLICE_BYTES;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which that part of n lies; sorts. */
static double quantile(double *x, size_t n, double part)
{
    qsort(x, n, sizeof(*x), compare_doubles);
    return x[MIN_OF(n - 1, (size_t)((double)n * part))];
}

/* One slice of a product; its weights are `bytes` from `at`. */
typedef void slice_fn(void *context, size_t at);

/* Product and read loop in turns, as long as b->seconds say. */
static void take_turns(struct bench *b, struct turns *t, slice_fn *slice, void *context,
                       size_t slice_bytes)
{
    size_t at = 0;
    t->n = 0;
    for (double until = seconds_now() + b->seconds; t->n < MAX_TURNS && seconds_now() < until;) {
        double reading = time_reading(b, (at + W_BYTES / 2) % W_BYTES / SLICE_BYTES * SLICE_BYTES);
        double start = seconds_now();
        slice(context, at);
        double product = (seconds_now() - start) * 1e9 / (double)slice_bytes;
        t->product[t->n] = product;
        t->reading[t->n] = reading;
        t->ratio[t->n++] = 100 * reading / product;
        at = at + 2 * slice_bytes > W_BYTES ? 0 : at + slice_bytes;
    }
}

static void print_line(const struct bench *b, const char *format, size_t n_rows, struct turns *t,
                       double ops_a_byte)
{
    double gbs = 1 / quantile(t->product, t->n, 0.5);
    printf("%s,%s,%d,%s,%zu,%.2f,%.1f,%.1f,%.0f,%.0f,%.0f\n", b->cpu, b->kernels->name, b->threads,
           format, n_rows, gbs, gbs * ops_a_byte, 1 / quantile(t->reading, t->n, 0.5),
           quantile(t->ratio, t->n, 0.5), quantile(t->ratio, t->n, 0.25),
           quantile(t->ratio, t->n, 0.75));
    fflush(stdout);
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

static void product_slice(void *context, size_t at)
{
    struct product_loop *l = context;
    l->m.w = l->b->w + at;
    parallel_for(l->m.y_stride, 16, product_range, l);
}

/* Weight rows of a slice: of SLICE_BYTES, or what some milliseconds do for many activation rows. */
static size_t slice_rows(const struct quant *q, size_t n_rows)
{
    size_t n_out = SLICE_BYTES / quant_row_bytes(q, N_COLS);
    return MIN_OF(n_out, (size_t)65536 / n_rows) / 64 * 64;
}

/* One line of CSV. */
static void bench_format(struct bench *b, const struct quant *q, size_t n_rows)
{
    static struct turns t;
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
    for (size_t r = 0; r < n_rows; r++)
        b->kernels->act_quantise[q->act](b->x + r * N_COLS, b->x_act + r * loop.m.x_row_bytes,
                                         N_COLS);
    take_turns(b, &t, product_slice, &loop, n_out * loop.m.w_row_bytes);
    print_line(b, q->name, n_rows, &t, 2.0 * N_COLS * (double)n_rows / (double)loop.m.w_row_bytes);
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

struct page_loop {
    const struct bench *b;
    struct attention_page page; /* the first one; the others follow */
    size_t page_bytes;
    size_t n_pages;    /* of a slice */
    size_t value_byte; /* of the first value in a page */
};

static void page_range(void *context, size_t first, size_t last, int thread)
{
    const struct page_loop *l = context;
    struct attention_query queries[ATTENTION_QUERIES];
    struct attention_page p = l->page;
    size_t acc_floats = ATTENTION_PADDED(p.v_dim);
    float *acc = l->b->y + (size_t)thread * ATTENTION_QUERIES * acc_floats;
    for (size_t i = 0; i < p.n_queries; i++)
        queries[i] = (struct attention_query){
            .q = l->b->x + i * p.k_dim, .n_keys = KV_PAGE, .acc = acc + i * acc_floats};
    p.queries = queries;
    for (size_t i = first; i < last; i++) {
        p.k = (const char *)l->page.k + i * l->page_bytes;
        p.v = (const char *)l->page.v + i * l->page_bytes;
        l->b->kernels->attention_page(&p);
    }
}

static void page_slice(void *context, size_t at)
{
    struct page_loop *l = context;
    l->page.k = l->b->w + at;
    l->page.v = l->b->w + at + l->value_byte;
    parallel_for(l->n_pages, 1, page_range, l);
}

/* One line of CSV: as many pages of one head as an eighth of a slice holds, one after another. */
static void bench_attention(struct bench *b, size_t k_dim, size_t v_dim, size_t n_queries)
{
    static struct turns t;
    char name[40];
    bool latent = v_dim < k_dim; /* the values are part of the keys */
    size_t row_bytes = (latent ? k_dim : k_dim + v_dim) * sizeof(uint16_t);
    struct page_loop loop = {.b = b,
                             .page = {.n_queries = n_queries,
                                      .k_stride_bytes = row_bytes,
                                      .v_stride_bytes = row_bytes,
                                      .k_dim = k_dim,
                                      .v_dim = v_dim,
                                      .scale = 0.1f},
                             .page_bytes = KV_PAGE * row_bytes,
                             .n_pages = SLICE_BYTES / 8 / (KV_PAGE * row_bytes),
                             .value_byte = latent ? 0 : k_dim * sizeof(uint16_t)};
    take_turns(b, &t, page_slice, &loop, loop.n_pages * loop.page_bytes);
    snprintf(name, sizeof(name), "attention %zu/%zu", k_dim, v_dim);
    print_line(b, name, n_queries, &t,
               2.0 * (double)(n_queries * (k_dim + v_dim)) / (double)row_bytes);
}

static void bench_table(struct bench *b)
{
    static const size_t n_rows[] = {1, 2, 4, 8, 64, MAX_ROWS};
    static const size_t n_queries[] = {1, 4, ATTENTION_QUERIES};
    static const size_t dims[][2] = {{64, 64}, {128, 128}, {576, 512}};
    for (int i = 0; i < QUANT_COUNT; i++) {
        if (b->format && quant_by_name(b->format) != quants[i])
            continue;
        fill_weights(b, quants[i]);
        for (size_t r = 0; r < ARRAY_LEN(n_rows); r++)
            if (b->n_rows == 0 || b->n_rows == n_rows[r])
                bench_format(b, quants[i], n_rows[r]);
    }
    if (b->format || b->n_rows != 0)
        return;
    fill_weights(b, quant_by_name("F16"));
    for (size_t d = 0; d < ARRAY_LEN(dims); d++) {
        for (size_t r = 0; r < ARRAY_LEN(n_queries); r++)
            bench_attention(b, dims[d][0], dims[d][1], n_queries[r]);
    }
}

static void nothing(void *context, size_t first, size_t last, int thread)
{
    (void)context;
    (void)first;
    (void)last;
    (void)thread;
}

/* What it costs to hand out work at all: a step does so four times a layer. */
static void report_regions(void)
{
    static double cost[500];
    enum { TOGETHER = 20 }; /* the clock counts microseconds */
    for (size_t i = 0; i < ARRAY_LEN(cost); i++) {
        double start = seconds_now();
        for (int j = 0; j < TOGETHER; j++)
            parallel_for((size_t)parallel_threads(), 1, nothing, NULL);
        cost[i] = (seconds_now() - start) / TOGETHER;
    }
    fprintf(stderr, "an empty parallel_for: median %.1f us, 9 of 10 within %.1f us\n",
            quantile(cost, ARRAY_LEN(cost), 0.5) * 1e6, quantile(cost, ARRAY_LEN(cost), 0.9) * 1e6);
}

/* isa NULL: every table that this processor can run. */
static int bench_all(struct bench *b, const char *isa, struct error *e)
{
    int rc = isa ? kernels_pick(isa, &b->kernels, e) : 0;
    if (rc != 0)
        return rc;
    printf("cpu,isa,threads,format,rows,weight_gb_s,gflop_s,read_gb_s,percent_of_read,low,high\n");
    if (isa) {
        bench_table(b);
    } else {
        for (size_t i = 0; kernels_all[i]; i++) {
            if (kernels_pick(kernels_all[i]->name, &b->kernels, e) == 0)
                bench_table(b);
            else
                fprintf(stderr, "skipped: %s\n", e->text);
        }
    }
    report_regions();
    fprintf(stderr, "sum of what was read: %016llx\n", (unsigned long long)b->sum);
    return 0;
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
        else if (strcmp(argv[i], "--rows") == 0)
            b->n_rows = (size_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            b->seconds = strtod(argv[i + 1], NULL);
        else
            return -1;
    }
    return b->format && !quant_by_name(b->format) ? -1 : 0;
}

static int take_memory(struct bench *b, struct error *e)
{
    size_t acc_floats = (size_t)b->threads * ATTENTION_QUERIES * ATTENTION_PADDED(512);
    void *w = NULL;
    int rc = ledger_new(&b->ledger, W_BYTES, e);
    if (rc == 0)
        rc = ledger_alloc(b->ledger, LEDGER_TRUNK, W_BYTES, "weights", &w, e);
    if (rc != 0)
        return rc;
    b->w = w;
    b->x = mem_array((size_t)MAX_ROWS * N_COLS, sizeof(float));
    b->x_act = mem_zalloc(MAX_ROWS * act_row_bytes(ACT_F32, N_COLS));
    b->y = mem_array(MAX_OF((size_t)65536, acc_floats), sizeof(float));
    if (!b->x || !b->x_act || !b->y)
        return error_set(e, ERROR_NOMEM, "out of memory");
    for (size_t i = 0; i < (size_t)MAX_ROWS * N_COLS; i++)
        b->x[i] = (float)rng_unit(9, i) - 0.5f;
    return 0;
}

static void release_memory(struct bench *b)
{
    if (b->w)
        ledger_release(b->ledger, LEDGER_TRUNK, b->w, W_BYTES);
    ledger_free(b->ledger);
    mem_free(b->x);
    mem_free(b->x_act);
    mem_free(b->y);
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = parallel_cores(), .seconds = 0.2};
    struct error e = {0};
    const char *isa = NULL;
    if (parse_options(&b, &isa, argc, argv) != 0 || parallel_set_threads(b.threads) != 0) {
        fprintf(stderr, "usage: kernels [--isa NAME] [--threads N] [--format NAME] [--rows N] "
                        "[--seconds S]\n");
        return 2;
    }
    read_cpu_name(b.cpu);
    int rc = take_memory(&b, &e);
    if (rc == 0)
        rc = bench_all(&b, isa, &e);
    if (rc != 0)
        fprintf(stderr, "kernels: %s\n", e.text);
    release_memory(&b);
    return rc == 0 ? 0 : error_describe(rc)->exit_status;
}
