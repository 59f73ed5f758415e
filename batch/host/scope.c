#include "batch/host/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"
#include "batch/host/spawn.h"

#define VARIABLE "NOCTURNE_SCOPE"
#define RUNNER "systemd-run"
#define PROBE_US INT64_C(10000000)
#define FIXED_WORDS 14
#define ARGUMENTS_MAX_BYTES (4u << 20)

/* The limit of the group that a process finds itself in, of either version; and that $0 can be started. */
static const char probe[] =
    "g() { sed -n \"s/^[0-9]*:$1://p\" /proc/self/cgroup; }; cd /sys/fs/cgroup;"
    " cat \".$(g '')/memory.max\" \"memory$(g memory)/memory.limit_in_bytes\""
    " 2>/dev/null; test -x \"$0\"";

/* ------------------------------------------------------------------ the command */

struct words {
    char unit[64], max[64], high[64];
    char program[4096];
    char **argv; /* room for FIXED_WORDS and more */
    size_t n;
};

/* exec(3) takes words that it could write to, and does not. */
static void add(struct words *w, const char *word)
{
    w->argv[w->n++] = (char *)(uintptr_t)word;
    w->argv[w->n] = NULL;
}

static void begin(struct words *w, const struct subgroup_limits *l, const char *role)
{
    const char *const words[] = {
        "--scope", "--quiet", "--collect", "--no-ask-password", w->unit, "-p", w->max,
        "-p",      w->high,   "-p",        "MemorySwapMax=0",   "--"};
    snprintf(w->unit, sizeof(w->unit), "--unit=nocturne-%d%s.scope", (int)getpid(), role);
    snprintf(w->max, sizeof(w->max), "MemoryMax=%" PRIu64, l->max_bytes);
    snprintf(w->high, sizeof(w->high), "MemoryHigh=%" PRIu64, l->high_bytes);
    w->n = 0;
    add(w, RUNNER);
    if (geteuid() != 0)
        add(w, "--user");
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        add(w, words[i]);
}

/* ------------------------------------------------------------------ the probe */

/* What it prints, as far as there is room, until it ends or the time is over. */
static void read_output(int fd, char *out, size_t size)
{
    const int64_t until_us = clock_mono_us() + PROBE_US;
    size_t n = 0;
    for (;;) {
        const int64_t left_us = until_us - clock_mono_us();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left_us <= 0 || poll(&p, 1, (int)(left_us / 1000) + 1) <= 0 || n + 1 >= size)
            break;
        const ssize_t got = read(fd, out + n, size - 1 - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    out[n] = '\0';
}

/* Its exit status; what it printed goes to out. */
static int run(char *const *argv, char *out, size_t size)
{
    int fd[2], status = -1;
    pid_t pid;
    out[0] = '\0';
    if (pipe2(fd, O_CLOEXEC) != 0)
        return -1;
    const struct spawn child = {.program = argv[0],
                                .argv = (const char *const *)argv,
                                .in_fd = SPAWN_NO_FILE,
                                .out_fd = fd[1],
                                .err_fd = fd[1]};
    const int sys = spawn(&child, &pid);
    close(fd[1]);
    if (sys == 0) {
        read_output(fd[0], out, size);
        if (waitpid(pid, &status, WNOHANG) == 0) {
            /* It closed its output and is about to end, or it hangs. */
            clock_sleep_us(100000);
            if (waitpid(pid, &status, WNOHANG) == 0) {
                kill(pid, SIGKILL);
                waitpid(pid, &status, 0);
            }
        }
    } else {
        snprintf(out, size, "%s", strerror(sys));
    }
    close(fd[0]);
    return status;
}

static bool has_line(const char *text, const char *line)
{
    const size_t n = strlen(line);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, line, n) == 0 && (at[n] == '\n' || at[n] == '\0'))
            return true;
    }
    return false;
}

static bool probe_scope(struct words *w, const struct subgroup_limits *l, char why[512])
{
    char out[512], wanted[32];
    begin(w, l, "-probe");
    add(w, "/bin/sh");
    add(w, "-c");
    add(w, probe);
    add(w, w->program);
    const int status = run(w->argv, out, sizeof(out));
    snprintf(wanted, sizeof(wanted), "%" PRIu64, l->max_bytes);
    if (status == 0 && has_line(out, wanted))
        return true;
    const int length = (int)strcspn(out, "\n");
    if (status == 0)
        snprintf(why, 512, "a scope of systemd has no limit (%.*s)", length, out);
    else
        snprintf(why, 512, RUNNER ": %.*s", length, *out ? out : "no answer");
    return false;
}

/* ------------------------------------------------------------------ starting again */

/* argv[0] is the file that runs, whatever was typed. */
static bool find_program(struct words *w)
{
    const ssize_t n = readlink("/proc/self/exe", w->program, sizeof(w->program) - 1);
    if (n <= 0)
        return false;
    w->program[n] = '\0';
    return true;
}

static void start_again(struct words *w, struct buf *arguments, uint64_t budget_bytes)
{
    char value[64];
    const char *at = arguments->ptr + strlen(arguments->ptr) + 1;
    add(w, w->program);
    for (const char *end = arguments->ptr + arguments->len; at < end; at += strlen(at) + 1)
        add(w, at);
    snprintf(value, sizeof(value), "%d:%" PRIu64, (int)getpid(), budget_bytes);
    if (setenv(VARIABLE, value, 1) == 0)
        execvp(w->argv[0], w->argv);
    unsetenv(VARIABLE);
}

static size_t count_words(const struct buf *arguments)
{
    size_t n = 0;
    for (size_t i = 0; i < arguments->len; i++)
        n += arguments->ptr[i] == '\0';
    return n;
}

/* The main process of a service of systemd, or a part of it; what only was started below one is not. */
static bool in_service(void)
{
    struct cgroup_place own;
    const size_t n = cgroup_own("", &own) ? strlen(own.name) : 0;
    return getenv("INVOCATION_ID") && n > 8 && strcmp(own.name + n - 8, ".service") == 0;
}

/* The user's manager is found by this; a job of cron has no session that would have set it. */
static void name_runtime_folder(void)
{
    char path[64];
    snprintf(path, sizeof(path), "/run/user/%u", (unsigned)geteuid());
    if (geteuid() != 0 && !getenv("XDG_RUNTIME_DIR") && access(path, W_OK) == 0)
        (void)setenv("XDG_RUNTIME_DIR", path, 1);
}

void scope_enter(const struct subgroup_limits *limits, uint64_t budget_bytes, char why[512])
{
    struct words w = {.n = 0};
    struct buf arguments;
    if (in_service()) {
        snprintf(why, 512, "this is a service: MemoryMax= of its unit would be the limit");
        return;
    }
    snprintf(why, 512, "the program cannot find its own file or arguments");
    buf_init(&arguments, ARGUMENTS_MAX_BYTES);
    if (find_program(&w) &&
        file_read_all("/proc/self/cmdline", ARGUMENTS_MAX_BYTES, &arguments, NULL) == 0 &&
        arguments.len > 0)
        w.argv = mem_array(FIXED_WORDS + 8 + count_words(&arguments), sizeof(*w.argv));
    if (w.argv) {
        name_runtime_folder();
        if (probe_scope(&w, limits, why)) {
            begin(&w, limits, "");
            start_again(&w, &arguments, budget_bytes);
            snprintf(why, 512, RUNNER " cannot be started");
        }
    }
    mem_free(w.argv);
    buf_release(&arguments);
}

bool scope_entered(uint64_t *ret_budget_bytes)
{
    const char *value = getenv(VARIABLE);
    uint64_t bytes = 0;
    int pid = 0;
    const bool ours = value && sscanf(value, "%d:%" SCNu64, &pid, &bytes) == 2 && pid == getpid();
    if (value)
        unsetenv(VARIABLE);
    if (ours)
        *ret_budget_bytes = bytes;
    return ours;
}
