#include "batch/sweep/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "batch/host/spawn.h"

#define POLL_US 20000
#define ARGUMENTS_MAX 64
#define FLAGS_MAX 16
#define RESERVE "1M" /* for a full disk: the database has one request */

/* ---- The folder ------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    (void)remove(path);
    return 0;
}

void sweep_place_leave(struct sweep_place *p)
{
    if (p->folder[0])
        (void)nftw(p->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int sweep_place_make(struct sweep_place *p, const struct options *o, struct error *e)
{
    const char *base = options_environment(o, "TMPDIR");
    memset(p, 0, sizeof(*p));
    int n =
        snprintf(p->folder, sizeof(p->folder), "%s/nocturne-sweep-XXXXXX", base ? base : "/tmp");
    if (n < 0 || (size_t)n >= sizeof(p->folder) || !mkdtemp(p->folder)) {
        int rc = error_sys(e, ERROR_IO, errno, "no temporary folder %s", p->folder);
        p->folder[0] = '\0';
        return rc;
    }
    snprintf(p->db, sizeof(p->db), "%s/queue.db", p->folder);
    snprintf(p->log, sizeof(p->log), "%s/log", p->folder);
    snprintf(p->config, sizeof(p->config), "%s/config", p->folder);
    return file_write_all(p->config, "", 0, e);
}

/* ---- The process ------------------------------------------------------------------------------ */

struct arguments {
    const char *text[ARGUMENTS_MAX + 1];
    size_t n, n_flags;
    char budget[24];
    char flag[FLAGS_MAX][32]; /* "--threads" and the like */
};

static void add(struct arguments *a, const char *text)
{
    if (a->n < ARGUMENTS_MAX)
        a->text[a->n++] = text;
}

static void add_option(struct arguments *a, const struct options *o, enum option_id id)
{
    const struct option_row *row = option_row(id);
    if (!option_given(o, id) || (row->kind == OPTION_FLAG && !option_on(o, id)) ||
        a->n_flags == FLAGS_MAX)
        return;
    char *flag = a->flag[a->n_flags++];
    snprintf(flag, sizeof(a->flag[0]), "--%s", row->flag);
    add(a, flag);
    if (row->kind != OPTION_FLAG)
        add(a, option_text(o, id));
}

static void fill_arguments(struct arguments *a, const struct sweep_request *q,
                           const struct sweep_place *p, uint64_t budget_bytes)
{
    /* Whether there is memory was looked at; what would wait, hold back or give experts back during the
     * measurement is off. */
    const char *const fixed[] = {
        "nocturne",      "run",     "--model",    q->model_path, "--db",       p->db,
        "--config",      p->config, "--memory",   a->budget,     "--drain",    "--raw",
        "--log",         "warn",    "--reserve",  RESERVE,       "--gpu-busy", "ignore",
        "--memory-busy", "ignore",  "--pressure", "off"};
    snprintf(a->budget, sizeof(a->budget), "%llu", (unsigned long long)budget_bytes);
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        add(a, fixed[i]);
    for (const enum option_id *id = sweep_engine_options(); *id; id++)
        add_option(a, q->options, *id);
}

/* Without the program's own settings, and quiet: what the worker says goes to a file. */
static int start(pid_t *ret, const struct sweep_request *q, const struct sweep_place *p,
                 uint64_t budget_bytes, struct error *e)
{
    struct arguments a = {0};
    fill_arguments(&a, q, p, budget_bytes);
    const int log_fd = open(p->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return error_sys(e, ERROR_IO, errno, "%s", p->log);
    const struct spawn child = {.program = "/proc/self/exe",
                                .argv = a.text,
                                .environment = q->options->environment,
                                .without = "NOCTURNE_",
                                .in_fd = SPAWN_NO_FILE,
                                .out_fd = SPAWN_NO_FILE,
                                .err_fd = log_fd};
    const int sys = spawn(&child, ret);
    close(log_fd);
    return sys ? error_sys(e, ERROR_IO, sys, "no process for the worker") : 0;
}

/* Until it has ended; a stop is passed on to it once. */
static int await(pid_t pid, const struct stop *stop, struct sweep_end *ret, struct error *e)
{
    struct rusage usage = {0};
    bool told = false;
    for (;;) {
        pid_t done = wait4(pid, &ret->status, WNOHANG, &usage);
        if (done == pid) {
            ret->peak_resident_bytes = (uint64_t)usage.ru_maxrss * 1024;
            return 0;
        }
        if (done < 0 && errno != EINTR)
            return error_sys(e, ERROR_IO, errno, "waiting for process %d", (int)pid);
        if (stop_asked(stop) && !told)
            told = kill(pid, SIGINT) == 0;
        clock_sleep_us(POLL_US);
    }
}

int sweep_process_run(const struct sweep_request *q, const struct sweep_place *p,
                      uint64_t budget_bytes, const struct stop *stop, struct sweep_end *ret,
                      struct error *e)
{
    pid_t pid = 0;
    int rc = start(&pid, q, p, budget_bytes, e);
    return rc ? rc : await(pid, stop, ret, e);
}
