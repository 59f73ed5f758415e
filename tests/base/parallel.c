#include "base/parallel.h"

#include <stdatomic.h>

#include "base/cpu.h"
#include "tests/test.h"

/* The pthreads twin under other names, so that one program has both. */
#define parallel_set_threads twin_set_threads
#define parallel_threads twin_threads
#define parallel_for twin_for
int twin_set_threads(int n);
int twin_threads(void);
void twin_for(size_t n, size_t grain, parallel_fn *fn, void *context);
#include "base/parallel_pthread.c"
#undef parallel_set_threads
#undef parallel_threads
#undef parallel_for

#define MAX_THREADS 7

struct ranges {
    size_t first[MAX_THREADS];
    size_t last[MAX_THREADS];
    int calls[MAX_THREADS];
};

static void record(void *context, size_t first, size_t last, int thread)
{
    struct ranges *r = context;
    r->first[thread] = first;
    r->last[thread] = last;
    r->calls[thread]++;
}

static void check_cover(const struct ranges *r, size_t n, size_t grain, int threads)
{
    size_t next = 0;
    for (int t = 0; t < threads; t++) {
        CHECK(r->calls[t] <= 1);
        if (r->calls[t] == 0)
            continue;
        CHECK_INT(r->first[t], next);
        CHECK_INT(r->first[t] % grain, 0);
        CHECK(r->last[t] > r->first[t]);
        CHECK(r->last[t] % grain == 0 || r->last[t] == n);
        next = r->last[t];
    }
    CHECK_INT(next, n);
}

TEST(parallel_twins_cut_the_same_ranges)
{
    static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 31, 32, 33, 64, 100, 1023, 4096};
    static const size_t grains[] = {1, 4, 32};
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        CHECK_INT(parallel_set_threads(threads), 0);
        CHECK_INT(twin_set_threads(threads), 0);
        CHECK_INT(parallel_threads(), threads);
        CHECK_INT(twin_threads(), threads);
        for (size_t i = 0; i < ARRAY_LEN(sizes) * ARRAY_LEN(grains); i++) {
            size_t n = sizes[i / ARRAY_LEN(grains)];
            size_t grain = grains[i % ARRAY_LEN(grains)];
            struct ranges ours = {0};
            struct ranges twins = {0};
            parallel_for(n, grain, record, &ours);
            twin_for(n, grain, record, &twins);
            check_cover(&ours, n, grain, threads);
            CHECK(memcmp(ours.first, twins.first, sizeof(ours.first)) == 0);
            CHECK(memcmp(ours.last, twins.last, sizeof(ours.last)) == 0);
            CHECK(memcmp(ours.calls, twins.calls, sizeof(ours.calls)) == 0);
        }
    }
    CHECK_INT(twin_set_threads(1), 0);
}

TEST(parallel_refuses_impossible_counts)
{
    CHECK_INT(parallel_set_threads(2), 0);
    CHECK(parallel_set_threads(0) < 0);
    CHECK(parallel_set_threads(PARALLEL_MAX + 1) < 0);
    CHECK_INT(parallel_threads(), 2);
    CHECK(twin_set_threads(-1) < 0);
    CHECK(parallel_cores() >= 1);
}

struct nest {
    void (*loop)(size_t, size_t, parallel_fn *, void *);
    atomic_int inner_calls;
    atomic_bool wrong;
};

struct nest_call {
    struct nest *nest;
    int outer_thread;
};

static void inner(void *context, size_t first, size_t last, int thread)
{
    struct nest_call *call = context;
    atomic_fetch_add(&call->nest->inner_calls, 1);
    if (first != 0 || last != 100 || thread != call->outer_thread)
        atomic_store(&call->nest->wrong, true);
}

static void outer(void *context, size_t first, size_t last, int thread)
{
    for (size_t i = first; i < last; i++) {
        struct nest_call call = {.nest = context, .outer_thread = thread};
        call.nest->loop(100, 1, inner, &call);
    }
}

static void check_nested(void (*loop)(size_t, size_t, parallel_fn *, void *))
{
    struct nest n = {.loop = loop};
    loop(16, 1, outer, &n);
    CHECK_INT(atomic_load(&n.inner_calls), 16);
    CHECK(!atomic_load(&n.wrong));
}

TEST(parallel_nested_calls_run_serially)
{
    CHECK_INT(parallel_set_threads(4), 0);
    CHECK_INT(twin_set_threads(4), 0);
    check_nested(parallel_for);
    check_nested(twin_for);
    CHECK_INT(twin_set_threads(1), 0);
}

static void add(void *context, size_t first, size_t last, int thread)
{
    (void)thread;
    for (size_t i = first; i < last; i++)
        ((unsigned *)context)[i]++;
}

TEST(parallel_runs_many_rounds)
{
    static unsigned ours[64];
    static unsigned twins[64];
    CHECK_INT(parallel_set_threads(3), 0);
    CHECK_INT(twin_set_threads(3), 0);
    for (int round = 0; round < 2000; round++) {
        if (round % 500 == 0)
            CHECK_INT(twin_set_threads(2 + round / 500), 0);
        parallel_for(64, 1, add, ours);
        twin_for(64, 1, add, twins);
    }
    for (int i = 0; i < 64; i++) {
        CHECK_INT(ours[i], 2000);
        CHECK_INT(twins[i], 2000);
    }
    CHECK_INT(twin_set_threads(1), 0);
}

TEST(cpu_says_what_the_kernel_says)
{
    struct cpu c;
    cpu_detect(&c);
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[8192] = "";
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0)
            break;
    }
    if (!f || feof(f))
        SKIP("/proc/cpuinfo does not list features here");
    SKIP_EMULATED("/proc/cpuinfo lists the features of another processor");
    fclose(f);
    CHECK_INT(c.avx2, strstr(line, " avx2 ") != NULL);
    CHECK_INT(c.fma, strstr(line, " fma ") != NULL);
    CHECK_INT(c.f16c, strstr(line, " f16c ") != NULL);
    CHECK_INT(c.avx512f, strstr(line, " avx512f ") != NULL);
    CHECK_INT(c.avx512bw, strstr(line, " avx512bw ") != NULL);
    CHECK_INT(c.avx512vl, strstr(line, " avx512vl ") != NULL);
    CHECK_INT(c.avx512dq, strstr(line, " avx512dq ") != NULL);
    CHECK_INT(c.avx512vnni, strstr(line, " avx512_vnni ") != NULL);
    CHECK_INT(c.avx512bf16, strstr(line, " avx512_bf16 ") != NULL);
}
