#include "batch/host/inhibit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "batch/host/spawn.h"

#define WHY_BYTES 160
/* How long a child whose pipe is closed may take to end. */
#define PATIENCE_US 1000000
#define POLL_US 5000

static int start(struct inhibit *i, const char *why)
{
    char reason[WHY_BYTES];
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) != 0)
        return errno;
    snprintf(reason, sizeof(reason), "--why=%s", why);
    const char *argv[] = {
        "systemd-inhibit", "--what=sleep", "--who=nocturne", reason, "--mode=block", "cat", NULL};
    /* Its input is the pipe; the service manager is to hear of us only. */
    const struct spawn child = {.program = argv[0],
                                .argv = argv,
                                .without = "NOTIFY_SOCKET=",
                                .in_fd = fd[0],
                                .out_fd = SPAWN_NO_FILE,
                                .err_fd = SPAWN_NO_FILE};
    const int sys = spawn(&child, &i->pid);
    close(fd[0]);
    i->fd = fd[1];
    if (sys) {
        close(i->fd);
        i->pid = 0;
    }
    return sys;
}

/* Whether the child has ended; then it is forgotten. */
static bool reap(struct inhibit *i, int *ret_status)
{
    pid_t pid;
    do {
        pid = waitpid(i->pid, ret_status, WNOHANG);
    } while (pid < 0 && errno == EINTR);
    i->pid = pid == 0 ? i->pid : 0;
    return pid != 0;
}

void inhibit_hold(struct inhibit *i, const char *why)
{
    int status = 0;
    if (i->refused)
        return;
    if (i->pid == 0) {
        const int sys = start(i, why);
        i->refused = sys != 0;
        if (sys)
            log_event(LOG_DEBUG, "inhibit", "sleep is not inhibited: error=%d", sys);
        return;
    }
    i->refused = reap(i, &status);
    if (!i->refused)
        return;
    close(i->fd);
    log_event(LOG_DEBUG, "inhibit", "sleep is not inhibited: systemd-inhibit status=%d",
              WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void inhibit_release(struct inhibit *i)
{
    const int64_t until_us = clock_mono_us() + PATIENCE_US;
    int status = 0;
    i->refused = false;
    if (i->pid == 0)
        return;
    close(i->fd);
    while (!reap(i, &status)) {
        if (clock_mono_us() > until_us)
            kill(i->pid, SIGKILL);
        clock_sleep_us(POLL_US);
    }
}
