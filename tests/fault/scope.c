/*
 * A scope of systemd, which is not here: a program of its name stands for it, makes a control group of this
 * machine's with the limit that was asked for, enters it and becomes the rest of its command line.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/group.h"
#include "tests/fault/kit.h"

/* `how`: what it does between its arguments and becoming the program. */
static void stand_for_systemd(const char *how)
{
    char path[9000];
    CHECK(mkdir("bin", 0755) == 0 || access("bin", F_OK) == 0);
    FILE *f = fopen("bin/systemd-run", "w");
    CHECK(f != NULL);
    fprintf(f,
            "#!/bin/sh\n"
            "while [ \"$1\" != -- ]; do\n"
            "    echo \"$1\" >> arguments.txt\n"
            "    case $1 in MemoryMax=*) max=${1#*=} ;; --unit=*) unit=${1#*=} ;; esac\n"
            "    shift\n"
            "done\n"
            "shift\n"
            "%s\n"
            "exec \"$@\"\n",
            how);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(chmod("bin/systemd-run", 0755), 0);
    char *here = getcwd(NULL, 0);
    snprintf(path, sizeof(path), "%s/bin:/usr/bin:/bin", here);
    free(here);
    CHECK_INT(setenv("PATH", path, 1), 0);
}

static void enter_group(const struct group *g, char out[4096])
{
    snprintf(out, 4096,
             "mkdir %s/$unit && echo $max > %s/$unit/memory.limit_in_bytes && "
             "echo $$ > %s/$unit/cgroup.procs || exit 1",
             g->folder, g->folder, g->folder);
}

#define RUN DRILL_RUN "--drain --alias 'a  \"b' --confine require "

TEST_FOR(scope_is_entered_by_the_same_process, 120)
{
    struct group g;
    char how[4096], name[64];
    drill_model(512);
    group_open(&g, UINT64_C(1) << 40);
    if (g.unified) {
        group_close(&g);
        SKIP("the first version of control groups is not here");
    }
    enter_group(&g, how);
    stand_for_systemd(how);
    drill_write_jobs("jobs.jsonl", &(struct drill_jobs){.n = 2, .max_tokens = 4, .name = "j"});
    drill_submit("q.db", "jobs.jsonl");
    pid_t pid = drill_start("q.db", RUN "> out.txt 2>&1");
    CHECK_INT(drill_wait(pid), 0);
    drill_check_all_done("q.db", 2);
    snprintf(name, sizeof(name), "/nocturne-%d.scope/memory.limit_in_bytes", (int)pid);
    CHECK(drill_file_says("out.txt", "the kernel limits memory to "));
    CHECK(drill_file_says("out.txt", name));
    CHECK(drill_file_says("out.txt", "a  \"b loaded in"));
    CHECK_INT(drill_count("arguments.txt", "MemorySwapMax=0"),
              2); /* once to see whether it works */
    CHECK_INT(drill_count("arguments.txt", "-probe.scope"), 1);
    snprintf(how, sizeof(how), "rmdir %s/nocturne-*", g.folder);
    CHECK_INT(system(how), 0);
    group_close(&g);
}

/* Whatever is wrong with systemd, there is a worker, in a group of its own if that can be made. */
TEST_FOR(scope_that_cannot_be_had_is_done_without, 120)
{
    drill_model(512);
    CHECK_INT(drill("q.db", "submit -q -p one > id.txt"), 0);
    stand_for_systemd("echo 'Failed to connect to bus' >&2; exit 1");
    CHECK_INT(drill("q.db", DRILL_RUN "--drain --confine auto > bus.txt 2>&1"), 0);
    CHECK(!drill_file_says("bus.txt", ".scope"));
    stand_for_systemd(":"); /* a scope without a limit */
    CHECK_INT(drill("q.db", DRILL_RUN "--drain --confine auto > none.txt 2>&1"), 0);
    CHECK(!drill_file_says("none.txt", ".scope/"));
    CHECK_INT(drill_count("arguments.txt", "-probe.scope"), 2);
    CHECK_INT(drill_count("arguments.txt", "MemorySwapMax=0"), 2);
}
