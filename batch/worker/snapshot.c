/*
 * What a stop or a gate that closes keeps of running requests: files beside the database, <database>-snapshots/<job>.
 *
 * The engine says whose state a file is and refuses any other, so nothing here can give a wrong token:
 * a file that is missing, old or damaged only means that the request computes again.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "batch/worker/parts.h"

#define PATH_MAX_BYTES 4096
/* What a disk is trusted to take and to give, until it has been measured: a slow SSD. */
#define BYTES_PER_US 200
/* A stop is over in a minute: it waits for a layer at most, and then writes. */
#define PATIENCE_US INT64_C(50000000)

static int path_of(const struct worker *w, int64_t job, struct buf *out, struct error *e)
{
    buf_init(out, PATH_MAX_BYTES);
    buf_printf(out, "%s-snapshots/%" PRId64, queue_path(w->queue), job);
    return buf_check(out, "path of a snapshot", e);
}

/* How long the model takes for so many tokens of a request, going by this run. */
static int64_t compute_us(const struct worker *w, uint32_t n_tokens)
{
    struct engine_counters c;
    engine_counters(w->engine, &c);
    const double row_layers = (double)n_tokens * w->info.n_layers;
    return c.row_layers ? (int64_t)(c.step_ms * 1000 / (double)c.row_layers * row_layers) : 0;
}

/* Whether keeping it costs clearly less than computing it again, and there is the time and the room. */
static bool worth_keeping(const struct worker *w, uint64_t bytes, uint32_t n_tokens)
{
    const int64_t again_us = compute_us(w, n_tokens);
    const int64_t write_us = (int64_t)(bytes / BYTES_PER_US);
    const int64_t gate_us = w->leaving_us ? clock_mono_us() - w->leaving_us : 0;
    uint64_t space = 0;
    return again_us >= w->o->snapshot_after_us && again_us > 2 * write_us &&
           MAX_OF(stop_age_us(w->stop), gate_us) + write_us < PATIENCE_US &&
           file_space(queue_path(w->queue), &space, NULL) == 0 && bytes < space / 2;
}

static void say(struct worker *w, const struct running *r, const char *what, const struct error *e)
{
    report_say(&w->report, LOG_WARN, "'%s': %s: %s", r->claim->custom_id, what, e->text);
}

void worker_keep_state(struct worker *w, const struct running *r)
{
    struct error e = {0};
    struct buf path;
    uint32_t n_tokens = 0;
    char size[24];
    if (!r->admitted || !w->engine)
        return;
    const uint64_t bytes = engine_snapshot_bytes(w->engine, (uint64_t)r->claim->job, &n_tokens);
    if (bytes == 0 || !worth_keeping(w, bytes, n_tokens))
        return;
    int rc = path_of(w, r->claim->job, &path, &e);
    if (rc == 0)
        rc = file_make_parent(path.ptr, &e);
    if (rc == 0)
        rc = engine_snapshot(w->engine, (uint64_t)r->claim->job, path.ptr, &e);
    if (rc == 0)
        report_say(&w->report, LOG_INFO, "'%s': the state of its first %u tokens is kept, %s",
                   r->claim->custom_id, n_tokens, str_format_size(bytes, size));
    else
        say(w, r, "its state is not kept, the next run computes it again", &e);
    buf_release(&path);
}

void worker_take_state(struct worker *w, const struct running *r)
{
    struct error e = {0};
    struct buf path;
    uint32_t n_tokens = 0;
    int rc = path_of(w, r->claim->job, &path, &e);
    if (rc == 0 && access(path.ptr, F_OK) == 0) {
        rc = engine_restore(w->engine, (uint64_t)r->claim->job, path.ptr, &n_tokens, &e);
        if (rc == 0 && n_tokens > 0)
            report_say(&w->report, LOG_INFO, "'%s' goes on after %u tokens", r->claim->custom_id,
                       n_tokens);
        if (rc != 0)
            (void)unlink(path.ptr); /* it will not be good later either */
    }
    if (rc != 0)
        say(w, r, "its kept state is not used", &e);
    buf_release(&path);
}

void worker_forget_state(struct worker *w, const struct running *r)
{
    struct buf path;
    if (path_of(w, r->claim->job, &path, NULL) == 0)
        (void)unlink(path.ptr); /* most have none */
    buf_release(&path);
}

/* Nobody else is writing: what ends in .tmp was left by a worker that died. */
static bool is_temporary(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

/* Whether that file of the folder is of no use any more. */
static bool is_stale(struct worker *w, const char *name)
{
    char *rest = NULL;
    bool open = true;
    const int64_t job = strtoll(name, &rest, 10);
    if (rest == name)
        return false;
    return is_temporary(rest) ||
           (*rest == '\0' && queue_job_open(w->queue, job, &open, NULL) == 0 && !open);
}

void worker_sweep_states(struct worker *w)
{
    struct buf path;
    buf_init(&path, PATH_MAX_BYTES);
    buf_printf(&path, "%s-snapshots", queue_path(w->queue));
    DIR *folder = buf_check(&path, "path of the snapshots", NULL) == 0 ? opendir(path.ptr) : NULL;
    buf_release(&path);
    if (!folder)
        return;
    for (const struct dirent *d = readdir(folder); d; d = readdir(folder)) {
        if (is_stale(w, d->d_name))
            (void)unlinkat(dirfd(folder), d->d_name, 0);
    }
    closedir(folder);
}
