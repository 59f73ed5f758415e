/* Limits behind the budget: on trees made of files, and on this machine's as far as it has them. */
#include "batch/host/confine.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "batch/host/scope.h"
#include "tests/batch/root.h"
#include "tests/test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define V1 "sys/fs/cgroup/memory/"
#define V2 "sys/fs/cgroup/"

static void check_says(const char *path, const char *text)
{
    char full[4200];
    struct buf b;
    struct error e = {0};
    buf_init(&b, 4096);
    snprintf(full, sizeof(full), "root/%s", path);
    CHECK_OK(file_read_text(full, 4096, &b, &e), &e);
    CHECK_STR(b.ptr ? b.ptr : "", text);
    buf_release(&b);
}

/* Files of the group that this process would make, as a kernel would make them with the folder. */
static void make_group(const char *folder, const char *const *files)
{
    char path[512];
    for (; *files; files++) {
        snprintf(path, sizeof(path), "%s/nocturne-%d/%s", folder, (int)getpid(), *files);
        root_put(path, "");
    }
}

static const char *own_file(const char *folder, const char *file, char out[512])
{
    snprintf(out, 512, "%s/nocturne-%d/%s", folder, (int)getpid(), file);
    return out;
}

/* The second version's tree, with this process in /a; `enabled`: for the groups below that. */
static void make_unified(const char *enabled)
{
    static const char *const files[] = {"cgroup.procs",    "memory.max",       "memory.high",
                                        "memory.swap.max", "memory.oom.group", NULL};
    CHECK_INT(system("rm -rf root"), 0);
    root_put("proc/self/cgroup", "0::/a\n");
    root_put("proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    root_put("proc/self/oom_score_adj", "0\n");
    root_put(V2 "a/cgroup.type", "domain\n");
    root_put(V2 "a/cgroup.controllers", "cpu io memory\n");
    root_put(V2 "a/cgroup.procs", "");
    root_put(V2 "a/cgroup.subtree_control", enabled);
    root_put(V2 "a/memory.max", "max\n");
    make_group(V2 "a", files);
    if (setxattr("root/" V2 "a", "user.delegate", "1", 1, 0) != 0)
        SKIP("a folder cannot be marked here: %s", strerror(errno));
}

static void unmark(void)
{
    CHECK_INT(removexattr("root/" V2 "a", "user.delegate"), 0);
}

TEST(confine_leaves_a_fortieth_twice)
{
    struct subgroup_limits l;
    confine_limits(80 * GIB, &l);
    CHECK_INT(l.high_bytes, 82 * GIB);
    CHECK_INT(l.max_bytes, 84 * GIB);
    confine_limits(100 * MIB + 1, &l);
    CHECK_INT(l.high_bytes, 133 * MIB);
    CHECK_INT(l.max_bytes, 165 * MIB);
    confine_limits(UINT64_MAX, &l);
    CHECK(l.max_bytes > l.high_bytes && l.high_bytes > UINT64_C(1) << 60);
}

TEST(confine_makes_a_group_of_its_own)
{
    char path[512], text[64];
    struct confine c;
    struct error e = {0};
    make_unified("cpu\n");
    CHECK_OK(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e);
    CHECK(c.limited);
    CHECK(strstr(c.says, "the kernel limits memory to 864.0 MiB: control group root/sys/fs"));
    snprintf(text, sizeof(text), "%d", (int)getpid());
    check_says(own_file(V2 "a", "cgroup.procs", path), text);
    check_says(V2 "a/cgroup.subtree_control", "+memory");
    check_says(own_file(V2 "a", "memory.max", path), "905969664");
    check_says(own_file(V2 "a", "memory.high", path), "872415232");
    check_says(own_file(V2 "a", "memory.swap.max", path), "0");
    check_says(own_file(V2 "a", "memory.oom.group", path), "1");
    check_says("proc/self/oom_score_adj", "900\n");
    confine_leave(&c);
    check_says(V2 "a/cgroup.subtree_control", "-memory");
    check_says(V2 "a/cgroup.procs", text);
    /* Where groups below have the controller anyway, that is not ours to take away. */
    make_unified("cpu memory\n");
    CHECK_OK(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e);
    confine_leave(&c);
    check_says(V2 "a/cgroup.subtree_control", "cpu memory\n");
}

TEST(confine_undoes_what_fails)
{
    char path[512];
    struct confine c;
    struct error e = {0};
    make_unified("cpu\n");
    snprintf(path, sizeof(path), "root/" V2 "a/nocturne-%d/memory.max", (int)getpid());
    CHECK_INT(remove(path), 0);
    CHECK_OK(confine_enter(&c, "root", false, 800 * MIB, false, &e), &e);
    CHECK(!c.limited);
    CHECK(strstr(c.says, "no limit can be set in root/sys/fs/cgroup/a/nocturne-"));
    snprintf(path, sizeof(path), "%d", (int)getpid());
    check_says(V2 "a/cgroup.procs", path);
    check_says(V2 "a/cgroup.subtree_control", "-memory");
    CHECK_ERROR(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e, ERROR_UNSUPPORTED,
                "--confine require");
}

static void check_left_alone(const char *why)
{
    char path[512];
    struct confine c;
    struct error e = {0};
    CHECK_OK(confine_enter(&c, "root", false, 800 * MIB, false, &e), &e);
    CHECK(!c.limited);
    if (!strstr(c.says, why))
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", c.says, why);
    confine_leave(&c);
    check_says(own_file(V2 "a", "cgroup.procs", path), "");
    check_says(own_file(V2 "a", "memory.max", path), "");
    check_says(V2 "a/cgroup.procs", "");
}

TEST(confine_writes_nowhere_that_is_not_its_own)
{
    make_unified("cpu\n");
    root_put("run/systemd/system/x", "");
    unmark();
    check_left_alone("root/sys/fs/cgroup/a is not delegated");
    if (geteuid() == 0) { /* who owns everything has been given nothing */
        make_unified("cpu\n");
        unmark();
        check_left_alone("root/sys/fs/cgroup/a is not delegated");
        CHECK_INT(remove("root/" V2 "a/cgroup.type"), 0); /* the top of the tree */
        check_left_alone("root/sys/fs/cgroup/a is not delegated");
        check_says(V2 "a/cgroup.subtree_control", "cpu\n");
    }
    make_unified("cpu\n");
    root_put("proc/self/cgroup", "");
    check_left_alone("no control group here has the memory controller");
}

/* What all groups below have anyway changes nothing for anybody. */
TEST(confine_makes_a_group_below_the_top_that_has_the_controller)
{
    struct confine c;
    struct error e = {0};
    make_unified("cpu memory\n");
    unmark();
    CHECK_INT(remove("root/" V2 "a/cgroup.type"), 0);
    CHECK_OK(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e);
    CHECK(c.limited);
    confine_leave(&c);
    check_says(V2 "a/cgroup.subtree_control", "cpu memory\n");
}

TEST(confine_takes_a_limit_that_is_there)
{
    char path[512];
    struct confine c;
    struct error e = {0};
    make_unified("");
    root_put(V2 "a/memory.max", "900000000\n");
    CHECK_OK(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e);
    CHECK(c.limited);
    CHECK(strstr(c.says, "the kernel limits memory to 858.3 MiB: root/sys/fs/cgroup/a/memory.max"));
    check_says(own_file(V2 "a", "memory.max", path), "");
    /* One that is far above, of a container say, is another matter. */
    root_put(V2 "a/memory.max", "1900000000\n");
    CHECK_OK(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e);
    check_says(own_file(V2 "a", "memory.max", path), "905969664");
}

TEST(confine_limits_the_first_versions_controller)
{
    static const char *const files[] = {"cgroup.procs", "memory.limit_in_bytes",
                                        "memory.memsw.limit_in_bytes", "memory.swappiness", NULL};
    char path[512];
    struct confine c;
    struct error e = {0};
    CHECK_INT(system("rm -rf root"), 0);
    root_put("proc/self/cgroup", "4:memory:/a\n0::/\n");
    root_put("proc/self/mountinfo",
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    root_put(V1 "a/memory.limit_in_bytes", "9223372036854771712\n");
    make_group(V1 "a", files);
    CHECK_OK(confine_enter(&c, "root", true, 800 * MIB, false, &e), &e);
    CHECK(c.limited);
    check_says(own_file(V1 "a", "memory.limit_in_bytes", path), "905969664");
    check_says(own_file(V1 "a", "memory.memsw.limit_in_bytes", path), "905969664");
    check_says(own_file(V1 "a", "memory.swappiness", path), "0");
}

TEST(confine_knows_a_scope_by_its_own_process_only)
{
    char value[64];
    uint64_t bytes = 7;
    CHECK(!scope_entered(&bytes));
    CHECK_INT(setenv("NOCTURNE_SCOPE", "1:4096", 1), 0);
    CHECK(!scope_entered(&bytes));
    CHECK(getenv("NOCTURNE_SCOPE") == NULL);
    CHECK_INT(bytes, 7);
    snprintf(value, sizeof(value), "%d:4096", (int)getpid());
    CHECK_INT(setenv("NOCTURNE_SCOPE", value, 1), 0);
    CHECK(scope_entered(&bytes));
    CHECK_INT(bytes, 4096);
    CHECK(!scope_entered(&bytes));
}
