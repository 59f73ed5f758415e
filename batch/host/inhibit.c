#include "batch/host/inhibit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"

extern char **environ;

#define WHY_BYTES 160
/* How long a child whose pipe is closed may take to end. */
#define PATIENCE_US 1000000
#define POLL_US 5000

/* Ours without the address of the service manager, which is to hear of us only. The caller frees it. */
static char **environment(void)
{
    size_t n = 0, kept = 0;
    while (environ[n])
        n++;
    char **copy = mem_array(n + 1, sizeof(*copy));
    for (size_t i = 0; copy && i < n; i++) {
        if (strncmp(environ[i], "NOTIFY_SOCKET=", 14) != 0)
            copy[kept++] = environ[i];
    }
    return copy;
}

/* Its input is the pipe; it has no other file of ours, none of our blocked signals, and a group of its own. */
static int spawn(char *const argv[], int in_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none;
    char **env = environment();
    if (!env)
        return ENOMEM;
    /* Neither of the two can fail where this runs. */
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    posix_spawn_file_actions_adddup2(&files, in_fd, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    const int sys = posix_spawnp(ret_pid, argv[0], &files, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    mem_free(env);
    return sys;
}

static int start(struct inhibit *i, const char *why)
{
    char reason[WHY_BYTES];
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) != 0)
        return errno;
    snprintf(reason, sizeof(reason), "--why=%s", why);
    const char *argv[] = {
        "systemd-inhibit", "--what=sleep", "--who=nocturne", reason, "--mode=block", "cat", NULL};
    int sys = spawn((char *const *)(uintptr_t)argv, fd[0], &i->pid);
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
