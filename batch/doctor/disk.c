/* Disks: what the model is read from, and what the database is written to. */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "batch/doctor/doctor.h"
#include "batch/host/figures.h"
#include "batch/probe.h"

#define FEW_BYTES (UINT64_C(256) << 20)
#define MUCH_LOG_BYTES (UINT64_C(256) << 20)
/* Below that a layer of a large model takes minutes. */
#define SLOW_BYTES_PER_S 100e6

struct place {
    char type[64], source[256]; /* as mountinfo says; "": unknown */
    int64_t read_ahead_kib;     /* -1: unknown */
    bool rotates;
};

static void find_mount(dev_t device, struct place *ret)
{
    char wanted[32], dev[32];
    struct buf text;
    snprintf(wanted, sizeof(wanted), "%u:%u", major(device), minor(device));
    const char *line = figures_read(&text, "/proc/self", "mountinfo");
    for (; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *dash = strstr(line, " - ");
        if (dash && sscanf(line, "%*d %*d %31s", dev) == 1 && strcmp(dev, wanted) == 0)
            (void)sscanf(dash, " - %63s %255s", ret->type, ret->source);
    }
    buf_release(&text);
}

/* Of the disk, or of the one that the partition is on. */
static int64_t disk_figure(dev_t device, const char *file)
{
    char folder[128];
    snprintf(folder, sizeof(folder), "/sys/dev/block/%u:%u/queue", major(device), minor(device));
    const int64_t own = figure_in(folder, file, "");
    snprintf(folder, sizeof(folder), "/sys/dev/block/%u:%u/../queue", major(device), minor(device));
    return own >= 0 ? own : figure_in(folder, file, "");
}

static void find_place(const char *path, struct place *ret)
{
    struct stat st;
    *ret = (struct place){.read_ahead_kib = -1};
    if (stat(path, &st) != 0)
        return;
    find_mount(st.st_dev, ret);
    ret->read_ahead_kib = disk_figure(st.st_dev, "read_ahead_kb");
    ret->rotates = disk_figure(st.st_dev, "rotational") == 1;
}

static const char *place_text(const struct place *p, char out[400])
{
    char ahead[64] = "";
    if (p->read_ahead_kib >= 0)
        snprintf(ahead, sizeof(ahead), "%s, read-ahead %lld KiB", p->rotates ? ", which turns" : "",
                 (long long)p->read_ahead_kib);
    snprintf(out, 400, "%s on %s%s", *p->type ? p->type : "an unknown file system",
             *p->source ? p->source : "an unknown disk", ahead);
    return out;
}

/* Of one sequence, where not everything stays in memory; else memory alone decides. */
static void say_speed(struct doctor *d, const struct probe *p)
{
    struct engine_forecast f;
    double expected = 0, at_most = 0;
    char size[24], read[48];
    engine_forecast(d->model, &f);
    engine_forecast_rate(&f, p->disk_bytes_per_s, p->memory_bytes_per_s, &expected, &at_most);
    if (expected <= 0)
        return;
    snprintf(read, sizeof(read), "%s read from it", str_format_size(f.read_bytes, size));
    doctor_say(d, DOCTOR_OK, NULL, "about %.3g tokens/s of one sequence, at most %.3g; a token: %s",
               expected, at_most, f.read_bytes ? read : "all in memory");
    doctor_value(d, "tokens_per_second", expected);
    doctor_value(d, "tokens_per_second_at_most", at_most);
    doctor_value(d, "read_bytes_per_token", (double)f.read_bytes);
}

void doctor_model_disk(struct doctor *d)
{
    struct probe p = {0};
    struct place place;
    struct error why = {0};
    char text[400], disk[24], memory[24];
    /* A worker that runs is not disturbed. */
    if (!d->model || !doctor_live(d) || d->status.worker.alive)
        return;
    find_place(d->model_path, &place);
    if (probe_run(d->model_path, d->ledger, &p, &why) != 0) {
        doctor_say(d, DOCTOR_NOTE, NULL, "%s; its speed was not measured: %s",
                   place_text(&place, text), why.text);
        return;
    }
    const bool slow = p.disk_bytes_per_s > 0 && p.disk_bytes_per_s < SLOW_BYTES_PER_S;
    doctor_say(d, slow ? DOCTOR_WARNING : DOCTOR_OK,
               slow ? "put the model on a faster disk: what does not stay in memory is read again "
                      "and again"
                    : NULL,
               "%s; %s/s from it, %s/s from memory", place_text(&place, text),
               str_format_size((uint64_t)p.disk_bytes_per_s, disk),
               str_format_size((uint64_t)p.memory_bytes_per_s, memory));
    doctor_value(d, "disk_bytes_per_second", p.disk_bytes_per_s);
    doctor_value(d, "memory_bytes_per_second", p.memory_bytes_per_s);
    say_speed(d, &p);
}

/* Whether the call is there at all: a ring of nothing is refused only after that was asked. */
static bool ring_allowed(int *ret_sys)
{
    struct io_uring_params params;
    memset(&params, 0, sizeof(params));
    const long fd = syscall(SYS_io_uring_setup, 0, &params);
    *ret_sys = fd < 0 ? errno : 0;
    if (fd >= 0)
        close((int)fd);
    return fd >= 0 || *ret_sys == EINVAL;
}

void doctor_io_uring(struct doctor *d)
{
    static const char instead[] =
        "experts are read by a pool of preads, which costs more processor";
    char mode[16];
    int sys = 0;
    doctor_read(d, "proc/sys/kernel/io_uring_disabled", mode, sizeof(mode));
    const bool off = strcmp(mode, "2") == 0 || (strcmp(mode, "1") == 0 && geteuid() != 0);
    if (off)
        doctor_say(d, DOCTOR_NOTE, "sysctl kernel.io_uring_disabled=0",
                   "switched off (kernel.io_uring_disabled=%s): %s", mode, instead);
    else if (doctor_live(d) && !ring_allowed(&sys))
        doctor_say(d, DOCTOR_NOTE, "allow it in the container's seccomp profile",
                   "refused (%s): %s", strerror(sys), instead);
    else
        doctor_say(d, DOCTOR_OK, NULL, "can be used for reads of experts");
}

void doctor_database(struct doctor *d)
{
    struct queue_space s = {0};
    struct place place;
    struct error e = d->queue_error;
    char text[400], left[24], log[24];
    if (!d->queue || queue_space(d->queue, &s, &e) != 0) {
        const bool none = e.code == ERROR_NOTFOUND;
        doctor_say(d, none ? DOCTOR_NOTE : DOCTOR_PROBLEM, none ? NULL : "give another --db", "%s",
                   e.text);
        return;
    }
    find_place(d->database, &place);
    const bool full = s.free_bytes < 2 * d->reserve_bytes;
    const bool few = s.free_bytes < FEW_BYTES;
    doctor_say(d,
               full  ? DOCTOR_PROBLEM
               : few ? DOCTOR_WARNING
                     : DOCTOR_OK,
               full || few ? "make room where the database is, or move it" : NULL,
               "%s; %s, %s free; log of %s", d->database, place_text(&place, text),
               str_format_size(s.free_bytes, left), str_format_size(s.wal_bytes, log));
    doctor_value(d, "free_bytes", (double)s.free_bytes);
    doctor_value(d, "wal_bytes", (double)s.wal_bytes);
    if (s.wal_bytes > MUCH_LOG_BYTES)
        doctor_say(d, DOCTOR_NOTE, "end programs that read the database for long",
                   "the log of %s could not be copied back", log);
}

void doctor_sqlite(struct doctor *d)
{
    bool guarded = false;
    const char *version = queue_sqlite_version(&guarded);
    doctor_say(d, DOCTOR_OK, NULL, "%s%s", version,
               guarded
                   ? ", which can damage a database when a checkpoint races a commit (mended in "
                     "3.51.3); nocturne keeps that from happening, other programs must not write"
                   : "");
}
