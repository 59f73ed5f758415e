/* One sample of what the kernel says about the want of memory, on machines made of files. */
#include "batch/host/pressure.h"

#include "base/clock.h"
#include "batch/host/figures.h"
#include "tests/batch/root.h"
#include "tests/test.h"

static void sample(struct pressure_sample *ret)
{
    static struct pressure_place at;
    pressure_find("root", &at);
    pressure_read(&at, ret);
}

static void make_process(void)
{
    root_put("proc/meminfo", "MemTotal:       33554432 kB\nMemFree:         1048576 kB\n"
                             "MemAvailable:   16777216 kB\n");
    root_put("proc/self/status", "Name:\tVmRSS: 1\nVmHWM:\t   30720 kB\nVmRSS:\t   20480 kB\n"
                                 "VmSwap:\t     512 kB\n");
    root_put("proc/self/stat", "77 (a ) R 1) R 1 2 3 4 -1 4194304 101 5 42 6 0 0 0 0 20 0 1 0\n");
    root_put("proc/pressure/memory", "some avg10=12.34 avg60=0.50 avg300=0.00 total=21698124\n"
                                     "full avg10=2.00 avg60=0.00 avg300=0.00 total=20180187\n");
}

static void check_process(const struct pressure_sample *s)
{
    CHECK_INT(s->total_bytes, INT64_C(33554432) * 1024);
    CHECK_INT(s->free_bytes, 1048576 * 1024);
    CHECK_INT(s->available_bytes, INT64_C(16777216) * 1024);
    CHECK_INT(s->resident_bytes, 20480 * 1024);
    CHECK_INT(s->resident_peak_bytes, 30720 * 1024);
    CHECK_INT(s->swapped_bytes, 512 * 1024);
    CHECK_INT(s->major_faults, 42);
    CHECK_INT((int64_t)(s->system.some_avg10 * 100 + 0.5), 1234);
    CHECK_INT((int64_t)(s->system.full_avg10 * 100 + 0.5), 200);
    CHECK_INT(s->system.some_us, 21698124);
    CHECK_INT(s->system.full_us, 20180187);
}

/* The limit is above the own group: that one's events count, and the own group's everything else. */
TEST(pressure_of_the_unified_tree)
{
    struct pressure_sample s;
    make_process();
    root_put("proc/self/cgroup", "0::/a/b\n");
    root_put("proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    root_put("sys/fs/cgroup/a/memory.max", "1073741824\n");
    root_put("sys/fs/cgroup/a/memory.current", "1000000000\n");
    root_put("sys/fs/cgroup/a/memory.events", "low 1\nhigh 20\nmax 300\noom 4\noom_kill 5\n");
    root_put("sys/fs/cgroup/a/b/memory.max", "max\n");
    root_put("sys/fs/cgroup/a/b/memory.current", "900000000\n");
    root_put("sys/fs/cgroup/a/b/memory.peak", "950000000\n");
    root_put("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
    root_put("sys/fs/cgroup/a/b/memory.stat",
             "anon 1\npgfault 99\npgmajfault 7\nworkingset_refault_anon 30\n"
             "workingset_refault_file 400\n");
    root_put("sys/fs/cgroup/a/b/memory.pressure",
             "some avg10=50.00 avg60=0.00 avg300=0.00 total=1000\n"
             "full avg10=25.00 avg60=0.00 avg300=0.00 total=500\n");
    root_put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nnr_throttled 2\nthrottled_usec 12345\n");
    sample(&s);
    check_process(&s);
    CHECK_INT(s.limit_hits, 320);
    CHECK_INT(s.low_hits, 1);
    CHECK_INT(s.ooms, 4);
    CHECK_INT(s.oom_kills, 5);
    CHECK_INT(s.refaults, 430);
    CHECK_INT(s.group_major_faults, 7);
    CHECK_INT(s.throttled_us, 12345);
    CHECK_INT(s.group_bytes, 900000000);
    CHECK_INT(s.group_peak_bytes, 950000000);
    CHECK_INT((int64_t)s.group.some_avg10, 50);
    CHECK_INT((int64_t)s.group.full_avg10, 25);
    CHECK_INT(s.group.full_us, 500);
}

/* Memory and processors in trees of their own, stalls in the second version's: systemd's mixed layout. */
TEST(pressure_of_the_first_version)
{
    struct pressure_sample s;
    make_process();
    root_put("proc/self/cgroup", "4:memory:/a\n3:cpuacct,cpu:/c\n0::/u\n");
    root_put("proc/self/mountinfo",
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
             "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    root_put("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
    root_put("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5000\n");
    root_put("sys/fs/cgroup/memory/a/memory.max_usage_in_bytes", "6000\n");
    root_put("sys/fs/cgroup/memory/a/memory.failcnt", "17\n");
    root_put("sys/fs/cgroup/memory/a/memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    root_put("sys/fs/cgroup/memory/a/memory.stat",
             "pgmajfault 1\nworkingset_refault_file 2\ntotal_pgmajfault 11\n"
             "total_workingset_refault_anon 0\ntotal_workingset_refault_file 22\n");
    root_put("sys/fs/cgroup/cpu/c/cpu.stat", "nr_throttled 1\nthrottled_time 7654321\n");
    root_put("sys/fs/cgroup/unified/u/cpu.stat", "usage_usec 5\n");
    root_put("sys/fs/cgroup/unified/u/memory.pressure",
             "some avg10=1.00 avg60=0.00 avg300=0.00 total=10\n"
             "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    sample(&s);
    check_process(&s);
    CHECK_INT(s.limit_hits, 17);
    CHECK_INT(s.oom_kills, 3);
    CHECK_INT(s.ooms, -1);
    CHECK_INT(s.low_hits, -1);
    CHECK_INT(s.refaults, 22);
    CHECK_INT(s.group_major_faults, 11);
    CHECK_INT(s.throttled_us, 7654);
    CHECK_INT(s.group_bytes, 5000);
    CHECK_INT(s.group_peak_bytes, 6000);
    CHECK_INT(s.group.some_us, 10);
    CHECK_INT(s.group.full_us, 0);
}

/* Nothing can be read, or it makes no sense: unknown, and not as if all were well. */
TEST(pressure_that_the_kernel_does_not_tell_is_unknown)
{
    struct pressure_sample s;
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            root_put("proc/meminfo", "MemAvailable: lots\nMemFree:\n");
            root_put("proc/self/status", "VmRSS\nVmHWM: -5 kB\nVmSwap:kB\n");
            root_put("proc/self/stat", "77 (name R 1 2 3\n");
            root_put("proc/pressure/memory", "some avg10=nan\nfull avg10=1.00\n");
            root_put("proc/self/cgroup", "0::/gone\n");
            root_put("proc/self/mountinfo",
                     "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        }
        sample(&s);
        const int64_t unknown[] = {
            s.system.some_us,     s.system.full_us, s.group.some_us,
            s.limit_hits,         s.low_hits,       s.ooms,
            s.oom_kills,          s.refaults,       s.throttled_us,
            s.group_major_faults, s.group_bytes,    s.group_peak_bytes,
            s.major_faults,       s.resident_bytes, s.resident_peak_bytes,
            s.swapped_bytes,      s.total_bytes,    s.available_bytes,
            s.free_bytes,
        };
        for (size_t k = 0; k < ARRAY_LEN(unknown); k++)
            CHECK_INT(unknown[k], -1);
        CHECK(s.system.some_avg10 < 0 && s.group.full_avg10 < 0);
    }
    CHECK_INT(figure_since(-1, 5), -1);
    CHECK_INT(figure_since(5, -1), -1);
    CHECK_INT(figure_since(5, 7), 2);
    CHECK_INT(figure_since(7, 5), 0); /* another group, or one that began again */
}

/* This process, on this machine. */
TEST(pressure_of_this_machine_costs_little)
{
    static struct pressure_place at;
    struct pressure_sample s;
    pressure_find("", &at);
    pressure_read(&at, &s);
    if (s.available_bytes < 0 || s.resident_bytes < 0)
        SKIP("/proc cannot be read here");
    CHECK(s.resident_bytes > 0 && s.resident_peak_bytes >= s.resident_bytes);
    CHECK(s.total_bytes > s.available_bytes && s.major_faults >= 0);
    int64_t least_us = INT64_MAX;
    for (int i = 0; i < 50; i++) {
        const int64_t since_us = clock_mono_us();
        pressure_read(&at, &s);
        least_us = MIN_OF(least_us, clock_mono_us() - since_us);
    }
    test_note("a sample took %lld us", (long long)least_us);
    CHECK(least_us < 20000);
}
