/* The budget when nobody named one, on machines made of files: /proc and both versions of control groups. */
#include "batch/host/machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "batch/host/cgroup.h"
#include "batch/host/facts.h"
#include "tests/batch/root.h"
#include "tests/test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* 16 GiB are available; this process has 8 MiB of its own. */
static void make_machine(const char *groups, const char *mounts)
{
    CHECK_INT(system("rm -rf root"), 0);
    root_put("proc/meminfo", "MemTotal:       33554432 kB\nMemFree:         1048576 kB\n"
                             "MemAvailable:   16777216 kB\n");
    root_put("proc/self/status", "Name:\tnocturne\nVmRSS:\t   20480 kB\nRssAnon:\t    8192 kB\n");
    root_put("proc/self/cgroup", groups);
    root_put("proc/self/mountinfo", mounts);
}

static const char unified[] =
    "25 1 0:22 / /proc rw - proc proc rw\n"
    "31 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
static const char first[] = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

#define V2 "sys/fs/cgroup/"
#define V1 "sys/fs/cgroup/memory/"

/* A file of a group, `folder` below the root. */
ATTR_PRINTF(3, 4) static void put_in(const char *folder, const char *file, const char *fmt, ...)
{
    char path[256], text[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    root_put(path, text);
}

/* A group of the second version: what it uses, files in page cache among it. */
static void group2(const char *name, const char *max, uint64_t used, uint64_t files)
{
    char folder[128];
    snprintf(folder, sizeof(folder), V2 "%s", name);
    put_in(folder, "memory.max", "%s", max);
    put_in(folder, "memory.current", "%" PRIu64 "\n", used);
    put_in(folder, "memory.stat",
           "anon 5\nfile 77\nactive_anon 3\ninactive_file %" PRIu64 "\nactive_file %" PRIu64 "\n",
           files / 2, files - files / 2);
}

static void group1(const char *name, const char *limit, uint64_t used, uint64_t files,
                   const char *hierarchical)
{
    char folder[128];
    snprintf(folder, sizeof(folder), V1 "%s", name);
    put_in(folder, "memory.limit_in_bytes", "%s", limit);
    put_in(folder, "memory.usage_in_bytes", "%" PRIu64 "\n", used);
    put_in(folder, "memory.stat",
           "cache 1\nrss 2\ninactive_file 9\nhierarchical_memory_limit %s\n"
           "total_inactive_file %" PRIu64 "\ntotal_active_file %" PRIu64 "\n",
           hierarchical, files / 2, files - files / 2);
}

static void check(uint64_t bytes, const char *from)
{
    struct machine_budget b;
    struct error e = {0};
    CHECK_OK(machine_budget("root", &b, &e), &e);
    CHECK_INT(b.bytes, bytes);
    if (!strstr(b.from, from))
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", b.from, from);
}

TEST(machine_without_limits_leaves_what_is_available)
{
    const uint64_t want = 16 * GIB - 16 * GIB / 10;
    make_machine("0::/user.slice\n", unified);
    check(want, "16.0 GiB are available, 1.6 GiB of it are kept for others");
    group2("user.slice", "max\n", 3 * GIB, 0);
    check(want, "available");
    CHECK_INT(remove("root/proc/self/cgroup"), 0);
    check(want, "available");
    make_machine("", "nonsense\n - \n\n- cgroup2\n1 2 3 / - cgroup2 x rw\n");
    check(want, "available");
}

TEST(machine_keeps_a_gibibyte_for_others_at_least)
{
    struct machine_budget b;
    struct error e = {0};
    make_machine("", "");
    root_put("proc/meminfo", "MemAvailable:    2097152 kB\n");
    check(GIB, "1.0 GiB of it are kept");
    root_put("proc/meminfo", "MemAvailable:    1048576 kB\n");
    CHECK_ERROR(machine_budget("root", &b, &e), &e, ERROR_BUDGET, "1.0 GiB are available");
    root_put("proc/meminfo", "MemTotal:    1048576 kB\n");
    CHECK_ERROR(machine_budget("root", &b, &e), &e, ERROR_IO, "give --memory");
}

/* The limit less what others hold, but neither page cache nor this process itself; less a twentieth. */
TEST(machine_obeys_the_unified_tree)
{
    make_machine("0::/a/b\n", unified);
    group2("a/b", "max\n", GIB, 0);
    group2("a", "4294967296\n", 3 * GIB + 8 * MIB, 2 * GIB);
    check(3 * GIB - 3 * GIB / 20, "root/sys/fs/cgroup/a/memory.max leaves 3.0 GiB of its 4.0 GiB");
    group2("a/b", "1073741824\n", 100 * MIB, 92 * MIB);
    check(GIB - GIB / 20, "a/b/memory.max leaves 1.0 GiB of its 1.0 GiB");
    root_put(V2 "a/b/memory.high", "536870912\n");
    check(512 * MIB - 32 * MIB, "a/b/memory.high");
    root_put(V2 "a/b/memory.high", "max\n");
    check(GIB - GIB / 20, "a/b/memory.max");
}

TEST(machine_obeys_the_first_versions_controller)
{
    make_machine("9:name=systemd:/x\n4:cpuacct,memory:/a/b\n0::/\n", first);
    group1("a/b", "9223372036854771712\n", GIB, 0, "9223372036854771712");
    check(16 * GIB - 16 * GIB / 10, "available");
    group1("a", "4294967296\n", 2 * GIB + 8 * MIB, GIB, "4294967296");
    check(3 * GIB - 3 * GIB / 20, "memory/a/memory.limit_in_bytes leaves 3.0 GiB of its 4.0 GiB");
    /* A limit above all that can be seen. */
    group1("a/b", "9223372036854771712\n", 8 * MIB, 0, "2147483648");
    check(2 * GIB - 2 * GIB / 20, "a/b/memory.stat leaves 2.0 GiB");
}

/* A container sees its own group at the top of the tree, but its path as the host has it. */
TEST(machine_obeys_the_limit_of_a_container)
{
    make_machine("4:memory:/docker/abc\n",
                 "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    group1(".", "1073741824\n", 8 * MIB, 0, "1073741824");
    check(GIB - GIB / 20, "memory/memory.limit_in_bytes");
    make_machine("4:memory:/docker/abc\n",
                 "35 31 0:32 /docker/other /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    group1(".", "1073741824\n", 8 * MIB, 0, "1073741824");
    check(GIB - GIB / 20, "memory/memory.limit_in_bytes");
}

/* With systemd's mixed layout both trees are there; whichever leaves less holds. */
TEST(machine_obeys_both_versions_at_once)
{
    char mounts[2048];
    snprintf(mounts, sizeof(mounts), "%s%s", first,
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    make_machine("4:memory:/a\n0::/b\n", mounts);
    group1("a", "4294967296\n", 8 * MIB, 0, "4294967296");
    group2("unified/b", "2147483648\n", 8 * MIB, 0);
    check(2 * GIB - 2 * GIB / 20, "unified/b/memory.max");
    group2("unified/b", "8589934592\n", 8 * MIB, 0);
    check(4 * GIB - 4 * GIB / 20, "memory/a/memory.limit_in_bytes");
}

static void check_own(bool second, const char *folder, const char *name)
{
    struct cgroup_place p;
    CHECK(cgroup_own("root", &p));
    CHECK_INT(p.unified, second);
    CHECK_STR(p.folder, folder);
    CHECK_STR(p.name, name);
}

TEST(machine_knows_its_own_group_of_memory)
{
    struct cgroup_place p;
    char mounts[2048];
    make_machine("0::/a/b\n", unified);
    CHECK(!cgroup_own("root", &p));
    root_put(V2 "a/b/cgroup.controllers", "cpu memoryless io\n");
    CHECK(!cgroup_own("root", &p));
    root_put(V2 "a/b/cgroup.controllers",
             "cpu io memory\n"); /* the top has no figures of its own */
    check_own(true, "root/sys/fs/cgroup/a/b", "/a/b");
    group2("a/b", "max\n", 7, 0);
    /* Where both are there, the controller is the first version's. */
    snprintf(mounts, sizeof(mounts), "%s%s", first,
             "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    make_machine("4:memory:/\n0::/b\n", mounts);
    check_own(false, "root/sys/fs/cgroup/memory", "/");
}

TEST(machine_takes_the_budget_that_was_asked_for_or_finds_one)
{
    char warning[MACHINE_WARNING_BYTES];
    struct machine_budget asked, found, alone;
    struct error e = {0};
    make_machine("0::/a\n", unified);
    CHECK_OK(machine_choose_budget("root", 17 * GIB, &asked, warning, &e), &e);
    CHECK(asked.bytes == 17 * GIB && !asked.from[0] && strstr(warning, "only 16.0 GiB"));
    CHECK_OK(machine_choose_budget("root", 0, &found, warning, &e), &e);
    CHECK_OK(machine_budget("root", &alone, &e), &e);
    CHECK(found.bytes == alone.bytes && !warning[0]);
    CHECK_STR(found.from, alone.from);
    group2("a", "4294967296\n", GIB, 0);
    CHECK_ERROR(machine_choose_budget("root", 5 * GIB, &asked, warning, &e), &e, ERROR_BUDGET,
                "allows 4.0 GiB");
}

TEST(machine_refuses_a_budget_above_the_groups_limit)
{
    char warning[MACHINE_WARNING_BYTES];
    struct error e = {0};
    make_machine("0::/a\n", unified);
    CHECK_OK(machine_check_budget("root", 15 * GIB, warning, &e), &e);
    CHECK_STR(warning, "");
    CHECK_OK(machine_check_budget("root", 17 * GIB, warning, &e), &e);
    CHECK(strstr(warning, "--memory is 17.0 GiB, but only 16.0 GiB are available"));
    group2("a", "4294967296\n", GIB + 8 * MIB, 0);
    CHECK_OK(machine_check_budget("root", 3 * GIB, warning, &e), &e);
    CHECK_STR(warning, "");
    /* A budget of the whole limit, and only what the kernel keeps for this process beside it. */
    group2("a", "4294967296\n", 9 * MIB, 0);
    CHECK_OK(machine_check_budget("root", 4 * GIB, warning, &e), &e);
    CHECK_STR(warning, "");
    group2("a", "4294967296\n", GIB + 8 * MIB, 0);
    CHECK_OK(machine_check_budget("root", 4 * GIB, warning, &e), &e);
    CHECK(strstr(warning, "others have left 3.0 GiB of what root/sys/fs/cgroup/a/memory.max"));
    CHECK_ERROR(
        machine_check_budget("root", 4 * GIB + 1, warning, &e), &e, ERROR_BUDGET,
        "--memory is 4.0 GiB (4294967297 bytes), but root/sys/fs/cgroup/a/memory.max allows "
        "4.0 GiB (4294967296 bytes)");
}

#define MOUNTS_V1                                                                                  \
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"                            \
    "36 31 0:33 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"

TEST(machine_reads_are_those_that_the_kernel_counts)
{
    struct machine_reads r;
    make_machine("0::/a/b\n", unified);
    machine_reads("root", &r);
    CHECK_INT(r.process_bytes, -1);
    CHECK_INT(r.group_bytes, -1);
    root_put("proc/self/io", "rchar: 11\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\n"
                             "write_bytes: 5\ncancelled_write_bytes: 6\n");
    root_put(V2 "a/b/io.stat", ""); /* nothing read yet */
    machine_reads("root", &r);
    CHECK_INT(r.process_bytes, 4096);
    CHECK_INT(r.group_bytes, -1);
    root_put(V2 "a/b/io.stat", "254:0 rbytes=1000000 wbytes=77 rios=3 wios=1 dbytes=0 dios=0\n"
                               "7:1 rbytes=234567 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n");
    machine_reads("root", &r);
    CHECK_INT(r.group_bytes, 1234567);
    make_machine("7:blkio:/a\n4:memory:/b\n", MOUNTS_V1);
    root_put("sys/fs/cgroup/blkio/a/blkio.throttle.io_service_bytes_recursive",
             "254:0 Read 5000000000\n254:0 Write 9\n254:0 Sync 8\n254:0 Total 5000000009\n"
             "7:0 Read 17\n7:0 Write 0\nTotal 5000000026\n");
    machine_reads("root", &r);
    CHECK_INT(r.group_bytes, 5000000017);
}

/* This process, on this machine. */
TEST(machine_reads_grow_with_what_is_read)
{
    static char bytes[1 << 20];
    struct machine_reads before, after;
    struct error e = {0};
    struct file_replace w;
    struct file f;
    void *place = aligned_alloc(FILE_DIRECT_ALIGN, sizeof(bytes) + FILE_DIRECT_ALIGN);
    machine_reads("", &before);
    if (before.process_bytes < 0)
        SKIP("/proc/self/io cannot be read here");
    CHECK_OK(file_replace_begin(&w, "data", &e), &e);
    CHECK_OK(file_write_fd(w.fd, bytes, sizeof(bytes), "data", &e), &e);
    CHECK_OK(file_replace_commit(&w, &e), &e);
    CHECK_OK(file_open_direct(&f, "data", &e), &e);
    CHECK_OK(file_read_direct(&f, place, sizeof(bytes), 0, &e), &e);
    machine_reads("", &after);
    if (f.direct)
        CHECK(after.process_bytes - before.process_bytes >= (int64_t)sizeof(bytes));
    file_close(&f);
    free(place);
}

TEST(facts_are_those_of_the_folder_and_nothing_where_it_is_silent)
{
    struct facts f;
    facts_read("nowhere", &f);
    CHECK_STR(f.cpu, "");
    CHECK_INT((int64_t)f.memory_bytes, 0);
    CHECK(*f.host && f.cores > 0 && strncmp(f.kernel, "Linux ", 6) == 0);
    root_put("proc/cpuinfo", "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Fast CPU @ 9 GHz\n");
    root_put("proc/meminfo", "MemTotal:       16384 kB\n");
    facts_read("root", &f);
    CHECK_STR(f.cpu, "Fast CPU @ 9 GHz");
    CHECK_INT((int64_t)f.memory_bytes, 16 << 20);
}
