/* Children that take nothing of this process with them. */
#include "batch/host/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fault/kit.h"
#include "tests/test.h"

static int run(struct spawn *s, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    pid_t pid = 0;
    int status = 0;
    s->program = "sh";
    s->argv = argv;
    CHECK_INT(spawn(s, &pid), 0);
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return status;
}

static struct spawn nothing(void)
{
    return (struct spawn){.in_fd = SPAWN_NO_FILE, .out_fd = SPAWN_NO_FILE, .err_fd = SPAWN_NO_FILE};
}

TEST(spawn_gives_the_three_files_and_no_other)
{
    struct spawn s = nothing();
    const int leak = open("leak", O_RDWR | O_CREAT, 0600); /* without O_CLOEXEC */
    const int out = open("out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(leak > 2 && out > 2);
    s.out_fd = out;
    CHECK_INT(run(&s, "cat; ls -l /proc/self/fd | grep -c /leak; echo lost >&2"), 0);
    drill_check_file("out", "0\n");
    s.err_fd = out;
    CHECK_INT(run(&s, "echo found >&2"), 0);
    drill_check_file("out", "0\nfound\n");
    close(leak);
    close(out);
}

TEST(spawn_changes_the_environment_as_told)
{
    struct spawn s = nothing();
    const char *const set[] = {"NEW=1", "OLD=2"};
    const int out = open("out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK_INT(setenv("OLD", "1", 1) | setenv("GONE_A", "1", 1) | setenv("STAYS", "1", 1), 0);
    s.out_fd = out;
    s.without = "GONE_";
    s.set = set;
    s.n_set = 2;
    CHECK_INT(run(&s, "echo $NEW $OLD $STAYS \"$GONE_A\"; env | grep -c ^OLD="), 0);
    drill_check_file("out", "1 2 1 \n1\n");
    close(out);
}

TEST(spawn_leaves_no_signal_blocked_or_ignored)
{
    struct spawn s = nothing();
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK_INT(sigprocmask(SIG_BLOCK, &term, NULL), 0);
    CHECK_INT(WTERMSIG(run(&s, "kill -TERM $$; exit 1")), SIGTERM);
    CHECK_INT(WTERMSIG(run(&s, "kill -PIPE $$; exit 1")), SIGPIPE);
}

/* Under an emulator the child is there and ends with 127. */
TEST(spawn_of_a_program_that_is_not_there)
{
    const char *const argv[] = {"/nowhere/x", NULL};
    struct spawn s = nothing();
    pid_t pid = 0;
    int status = 0;
    s.program = argv[0];
    s.argv = argv;
    const int sys = spawn(&s, &pid);
    if (sys == 0) {
        CHECK(test_emulated());
        CHECK_INT(waitpid(pid, &status, 0), pid);
        CHECK_INT(WEXITSTATUS(status), 127);
    } else {
        CHECK_INT(sys, ENOENT);
    }
}
