/* Keeping the machine awake, with a systemd-inhibit of our own making. */
#include "batch/host/inhibit.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"

/* It writes down what it was asked, runs the command as the real one does, and says how that ended. */
static void make_fake(const char *body)
{
    char path[9000];
    FILE *f = fopen("systemd-inhibit", "w");
    CHECK(f != NULL);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(chmod("systemd-inhibit", 0755), 0);
    snprintf(path, sizeof(path), "%s:%s", test_dir(), getenv("PATH"));
    CHECK_INT(setenv("PATH", path, 1), 0);
}

#define FAKE                                                                                       \
    "printf '%s\\n' \"$@\" >asked.tmp; ls -l /proc/$$/fd >files; mv asked.tmp asked\n"             \
    "while [ \"${1#--}\" != \"$1\" ]; do shift; done\n"                                            \
    "\"$@\"; echo over >over"

TEST(inhibit_holds_until_it_is_released)
{
    struct inhibit i = {0};
    make_fake(FAKE);
    inhibit_hold(&i, "works on its queue");
    CHECK(i.pid > 0);
    drill_until_file_says("asked", "cat");
    CHECK(drill_file_says("asked", "--what=sleep\n"));
    CHECK(drill_file_says("asked", "--who=nocturne\n"));
    CHECK(drill_file_says("asked", "--why=works on its queue\n"));
    CHECK(drill_file_says("asked", "--mode=block\n"));
    inhibit_hold(&i, "again"); /* the same child */
    clock_sleep_us(50000);
    CHECK(access("over", F_OK) != 0);
    inhibit_release(&i);
    CHECK_INT(access("over", F_OK), 0);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
    inhibit_release(&i);
}

/* Ours may be open anywhere; the child has its pipe, and nothing besides. */
TEST(inhibit_gives_no_file_to_its_child)
{
    struct inhibit i = {0};
    FILE *leak = fopen("leaked-file", "w"); /* not closed by exec */
    CHECK(leak != NULL);
    make_fake(FAKE);
    inhibit_hold(&i, "x");
    drill_until_file_says("asked", "cat");
    inhibit_release(&i);
    CHECK_INT(drill_count("files", "leaked-file"), 0);
    CHECK_INT(drill_count("files", "pipe:"), 1);
    CHECK_INT(fclose(leak), 0);
}

/* At once, or when its child has ended; under an emulator a program that is not there is a child, too. */
static void hold_in_vain(struct inhibit *i)
{
    inhibit_hold(i, "x");
    for (int n = 0; i->pid && n < 2000; n++) {
        clock_sleep_us(5000);
        inhibit_hold(i, "x");
    }
    CHECK(i->refused && i->pid == 0);
}

TEST(inhibit_does_without)
{
    struct inhibit i = {0};
    make_fake("exit 1"); /* nobody listens to it */
    hold_in_vain(&i);
    inhibit_hold(&i, "x"); /* and it is not tried again and again */
    CHECK_INT(i.pid, 0);
    inhibit_release(&i);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
    CHECK_INT(setenv("PATH", "/nowhere", 1), 0);
    hold_in_vain(&i);
    inhibit_release(&i);
}

/* One that does not end by itself is ended. */
TEST(inhibit_is_not_held_up_by_its_child)
{
    struct inhibit i = {0};
    make_fake("echo here >asked; exec sleep 1000");
    inhibit_hold(&i, "x");
    drill_until_file_says("asked", "here");
    const int64_t began_us = clock_mono_us();
    inhibit_release(&i);
    CHECK(clock_mono_us() - began_us < 10000000);
    CHECK_INT(waitpid(-1, NULL, WNOHANG), -1);
}

/* Whoever holds it may be killed at any moment. */
TEST(inhibit_ends_with_us_however_we_end)
{
    make_fake(FAKE);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct inhibit i = {0};
        inhibit_hold(&i, "x");
        for (;;)
            pause();
    }
    drill_until_file_says("asked", "cat");
    CHECK(access("over", F_OK) != 0);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    drill_until_file_says("over", "over");
}

TEST(inhibit_ends_with_a_worker_that_is_killed)
{
    const struct drill_jobs jobs = {.n = 8, .max_tokens = 400, .name = "awake"};
    make_fake(FAKE);
    drill_model(4096);
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_submit("awake.db", "jobs.jsonl");
    pid_t pid = drill_start("awake.db", DRILL_RUN);
    drill_until_file_says("asked", "cat");
    CHECK(access("over", F_OK) != 0);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(drill_wait(pid), 128 + SIGKILL);
    drill_until_file_says("over", "over");
    CHECK_INT(unlink("over"), 0);
    CHECK_INT(drill("awake.db", DRILL_RUN "--drain"), 0);
    drill_until_file_says("over", "over");
}
