#include "batch/host/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

extern char **environ;

static bool kept(const struct spawn *s, const char *variable)
{
    if (s->without && strncmp(variable, s->without, strlen(s->without)) == 0)
        return false;
    for (size_t i = 0; i < s->n_set; i++) {
        const size_t name = strcspn(s->set[i], "=") + 1;
        if (strncmp(s->set[i], variable, name) == 0)
            return false;
    }
    return true;
}

/* mem_free() it; the texts are not its own. */
static char **make_environment(const struct spawn *s)
{
    char *const *from = s->environment ? s->environment : environ;
    size_t n = 0, used = 0;
    while (from[n])
        n++;
    char **to = mem_array(n + s->n_set + 1, sizeof(*to));
    for (size_t i = 0; to && i < n; i++) {
        if (kept(s, from[i]))
            to[used++] = from[i];
    }
    for (size_t i = 0; to && i < s->n_set; i++)
        to[used++] = (char *)(uintptr_t)s->set[i];
    return to;
}

static int set_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int sys = posix_spawnattr_setsigmask(attr, &none);
    if (sys == 0)
        sys = posix_spawnattr_setsigdefault(attr, &all);
    if (sys == 0)
        sys = posix_spawnattr_setpgroup(attr, 0);
    if (sys == 0)
        sys = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
    return sys;
}

static int set_file(posix_spawn_file_actions_t *files, int from_fd, int fd)
{
    return from_fd == SPAWN_NO_FILE
               ? posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_RDWR, 0)
               : posix_spawn_file_actions_adddup2(files, from_fd, fd);
}

static int set_files(posix_spawn_file_actions_t *files, const struct spawn *s)
{
    int sys = set_file(files, s->in_fd, STDIN_FILENO);
    if (sys == 0)
        sys = set_file(files, s->out_fd, STDOUT_FILENO);
    if (sys == 0)
        sys = set_file(files, s->err_fd, STDERR_FILENO);
    if (sys == 0)
        sys = posix_spawn_file_actions_addclosefrom_np(files, STDERR_FILENO + 1);
    return sys;
}

static int start(const struct spawn *s, char **environment, pid_t *ret_pid)
{
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t files;
    /* posix_spawn takes the texts as they are, but not as const. */
    char *const *argv = (char *const *)(uintptr_t)s->argv;
    int sys = posix_spawnattr_init(&attr);
    if (sys)
        return sys;
    sys = posix_spawn_file_actions_init(&files);
    if (sys == 0) {
        sys = set_signals(&attr);
        if (sys == 0)
            sys = set_files(&files, s);
        if (sys == 0)
            sys = posix_spawnp(ret_pid, s->program, &files, &attr, argv, environment);
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&attr);
    return sys;
}

int spawn(const struct spawn *s, pid_t *ret_pid)
{
    char **environment = make_environment(s);
    const int sys = environment ? start(s, environment, ret_pid) : ENOMEM;
    mem_free(environment);
    return sys;
}
