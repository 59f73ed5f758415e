#include "batch/hook_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/file.h"

extern char **environ;

/* Of its output, at one look. */
#define TAKE_MAX_BYTES 65536

/* ---- Starting --------------------------------------------------------------------------------- */

static int make_input(struct str text, int *ret, struct error *e)
{
    const int fd = memfd_create("hook", MFD_CLOEXEC);
    if (fd < 0)
        return error_sys(e, ERROR_IO, errno, "no file in memory for a hook");
    int rc = file_write_fd(fd, text.ptr, text.len, "the input of a hook", e);
    if (rc == 0 && lseek(fd, 0, SEEK_SET) != 0)
        rc = error_sys(e, ERROR_IO, errno, "the input of a hook");
    if (rc)
        close(fd);
    else
        *ret = fd;
    return rc;
}

/* Only the end that is read here must not wait; the other end is the command's. */
static int make_pipe(int fd[2], struct error *e)
{
    if (pipe2(fd, O_CLOEXEC) != 0)
        return error_sys(e, ERROR_IO, errno, "no pipe for a hook");
    if (fcntl(fd[0], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    const int sys = errno;
    close(fd[0]);
    close(fd[1]);
    return error_sys(e, ERROR_IO, sys, "no pipe for a hook");
}

/* Whether the order has this variable. */
static bool replaced(const struct hook_order *o, const char *variable)
{
    for (size_t i = 0; i < o->n_variables; i++) {
        const size_t name = strcspn(o->variables[i], "=") + 1;
        if (strncmp(o->variables[i], variable, name) == 0)
            return true;
    }
    return false;
}

static char **make_environment(const struct hook_order *o)
{
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    char **list = mem_array(n + o->n_variables + 1, sizeof(*list));
    for (size_t i = 0; list && i < n; i++) {
        if (!replaced(o, environ[i]))
            list[used++] = environ[i];
    }
    for (size_t i = 0; list && i < o->n_variables; i++)
        list[used++] = (char *)(uintptr_t)o->variables[i];
    return list;
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

static int set_files(posix_spawn_file_actions_t *actions, int in_fd, int out_fd)
{
    int sys = posix_spawn_file_actions_adddup2(actions, in_fd, STDIN_FILENO);
    if (sys == 0)
        sys = posix_spawn_file_actions_adddup2(actions, out_fd, STDOUT_FILENO);
    if (sys == 0)
        sys = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
    if (sys == 0)
        sys = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    return sys;
}

static int spawn(const struct hook_order *o, int in_fd, int out_fd, char **variables, pid_t *ret)
{
    char shell[] = "sh", dash_c[] = "-c";
    char *argv[] = {shell, dash_c, (char *)(uintptr_t)o->command, NULL};
    posix_spawnattr_t attr;
    posix_spawn_file_actions_t actions;
    int sys = posix_spawnattr_init(&attr);
    if (sys)
        return sys;
    sys = posix_spawn_file_actions_init(&actions);
    if (sys == 0) {
        sys = set_signals(&attr);
        if (sys == 0)
            sys = set_files(&actions, in_fd, out_fd);
        if (sys == 0)
            sys = posix_spawn(ret, "/bin/sh", &actions, &attr, argv, variables);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attr);
    return sys;
}

int hook_process_start(struct hook_process *p, const struct hook_order *o, struct error *e)
{
    int in_fd = -1, out[2] = {-1, -1};
    memset(p, 0, sizeof(*p));
    char **variables = make_environment(o);
    int rc = variables ? 0 : error_set(e, ERROR_NOMEM, "out of memory for a hook");
    if (rc == 0)
        rc = make_input(o->input, &in_fd, e);
    if (rc == 0)
        rc = make_pipe(out, e);
    if (rc == 0) {
        const int sys = spawn(o, in_fd, out[1], variables, &p->pid);
        p->out_fd = out[0];
        close(out[1]);
        if (sys) {
            p->pid = 0;
            close(out[0]);
            rc = error_sys(e, ERROR_IO, sys, "/bin/sh");
        }
    }
    if (in_fd >= 0)
        close(in_fd);
    mem_free(variables);
    return rc;
}

/* ---- While it runs ---------------------------------------------------------------------------- */

static void take_output(struct hook_process *p)
{
    char piece[4096];
    for (size_t taken = 0; !p->quiet && taken < TAKE_MAX_BYTES;) {
        const ssize_t got = read(p->out_fd, piece, sizeof(piece));
        if (got < 0)
            return; /* nothing now */
        p->quiet = got == 0;
        const size_t kept = MIN_OF((size_t)got, sizeof(p->said) - 1 - p->n_said);
        memcpy(p->said + p->n_said, piece, kept);
        p->n_said += kept;
        taken += (size_t)got;
    }
}

bool hook_process_over(struct hook_process *p)
{
    siginfo_t info = {0};
    take_output(p);
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return false;
    if (info.si_pid == 0 || !(p->quiet || p->killed))
        return false;
    close(p->out_fd);
    (void)waitpid(p->pid, &p->status, 0); /* which has ended */
    p->pid = 0;
    return true;
}

void hook_process_kill(struct hook_process *p)
{
    (void)kill(-p->pid, SIGKILL);
    p->killed = true;
}
