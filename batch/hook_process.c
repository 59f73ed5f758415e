#include "batch/hook_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/file.h"
#include "batch/host/spawn.h"

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

/* What reports to the service manager is the worker alone. */
static int start(const struct hook_order *o, int in_fd, int out_fd, pid_t *ret)
{
    const char *const argv[] = {"sh", "-c", o->command, NULL};
    const struct spawn child = {.program = "/bin/sh",
                                .argv = argv,
                                .without = "NOTIFY_SOCKET=",
                                .set = o->variables,
                                .n_set = o->n_variables,
                                .in_fd = in_fd,
                                .out_fd = out_fd,
                                .err_fd = out_fd};
    return spawn(&child, ret);
}

int hook_process_start(struct hook_process *p, const struct hook_order *o, struct error *e)
{
    int in_fd = -1, out[2] = {-1, -1};
    memset(p, 0, sizeof(*p));
    int rc = make_input(o->input, &in_fd, e);
    if (rc == 0)
        rc = make_pipe(out, e);
    if (rc == 0) {
        const int sys = start(o, in_fd, out[1], &p->pid);
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
