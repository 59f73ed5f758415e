#include "batch/fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "batch/fetch/checker.h"
#include "batch/fetch/download.h"

#define STALL_DEFAULT_US INT64_C(30000000)
/* How long to wait for the network before looking at everything else. */
#define WAIT_MS 100
/* A crash loses at most so much of a file. */
#define SAVE_BYTES (UINT64_C(64) << 20)
/* How much the newest interval counts in the rate that is shown. */
#define RATE_WEIGHT 0.3

struct session {
    const struct fetch_options *options;
    struct manifest manifest;
    struct download **file; /* [n], each its own block */
    size_t n;
    struct transfer *transfer; /* [options->connections] */
    struct curl_library curl;
    CURLM *multi;
    int dir_fd;
    bool planned; /* all was asked, and the disk holds it */
    struct checker checker;
    struct download *checked; /* what the checker reads */
    uint64_t shown_bytes;     /* at the last line */
    int64_t shown_us;
    double rate; /* bytes/s */
};

/* ---- Opening ---------------------------------------------------------------------------------- */

static int open_dir(struct session *s, struct error *e)
{
    const char *dir = s->options->dir;
    char inside[4096];
    if ((size_t)snprintf(inside, sizeof(inside), "%s/x", dir) >= sizeof(inside))
        return error_set(e, ERROR_USAGE, "%.100s...: too long a name for a folder", dir);
    int rc = file_make_parent(inside, e);
    if (rc < 0)
        return rc;
    s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0)
        return error_sys(e, ERROR_IO, errno, "%s", dir);
    if (flock(s->dir_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return error_set(e, ERROR_BUSY, "%s: another pull is at work there", dir);
    return 0;
}

static int open_connections(struct session *s, struct error *e)
{
    s->multi = s->curl.multi_init();
    s->transfer = mem_array(s->options->connections, sizeof(*s->transfer));
    if (!s->multi || !s->transfer)
        return error_set(e, ERROR_NOMEM, "no memory for %u connections", s->options->connections);
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < s->options->connections; i++)
        rc = transfer_init(&s->transfer[i], &s->curl, s->multi, e);
    return rc;
}

static int open_files(struct session *s, struct error *e)
{
    const struct fetch_list *list = s->options->list;
    int rc = manifest_read(&s->manifest, s->options->dir, e);
    s->file = rc == 0 ? mem_array(list->n, sizeof(struct download *)) : NULL;
    if (rc == 0 && !s->file)
        rc = error_set(e, ERROR_NOMEM, "no memory for %zu files", list->n);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        s->file[i] = mem_zalloc(sizeof(struct download));
        if (!s->file[i])
            return error_set(e, ERROR_NOMEM, "no memory for %zu files", list->n);
        s->n = i + 1;
        rc = download_init(s->file[i], &list->item[i], s->options, e);
        if (rc == 0)
            rc = download_look(s->file[i], &s->manifest, e);
    }
    return rc;
}

static void session_close(struct session *s)
{
    struct transfer_outcome ignored;
    checker_stop(&s->checker);
    for (unsigned i = 0; s->transfer && i < s->options->connections; i++) {
        if (s->transfer[i].owner)
            transfer_end(&s->transfer[i], CURLE_ABORTED_BY_CALLBACK, &ignored);
        transfer_release(&s->transfer[i]);
    }
    mem_free(s->transfer);
    if (s->multi)
        s->curl.multi_cleanup(s->multi);
    for (size_t i = 0; i < s->n; i++) {
        struct error why = {0};
        struct download *d = s->file[i];
        if (d->opened && d->state == DOWNLOAD_FETCH && d->part.unsaved_bytes > 0 &&
            part_save(&d->part, &why) < 0)
            report_say(s->options->report, LOG_WARN, "%s", why.text);
        download_release(d);
        mem_free(d);
    }
    mem_free(s->file);
    manifest_release(&s->manifest);
    if (s->dir_fd >= 0)
        close(s->dir_fd);
}

/* ---- The plan --------------------------------------------------------------------------------- */

static int plan(struct session *s, struct error *e)
{
    uint64_t wanted = 0, space = 0;
    char need[24], have[24];
    for (size_t i = 0; i < s->n; i++)
        wanted += download_wants_bytes(s->file[i]);
    int rc = file_space(s->options->dir, &space, e);
    if (rc < 0)
        return rc;
    if (wanted > space)
        return error_set(e, ERROR_FULL, "%s: %s more are needed there, %s are free",
                         s->options->dir, str_format_size(wanted, need),
                         str_format_size(space, have));
    s->planned = true;
    s->shown_us = clock_mono_us();
    return 0;
}

/* After all were asked: 0 to go on. What cannot be had is known before anything is fetched. */
static int plan_if_asked(struct session *s, struct error *e)
{
    bool failed = false;
    for (size_t i = 0; !s->planned && i < s->n; i++) {
        if (s->file[i]->state == DOWNLOAD_ASK)
            return 0;
        failed = failed || s->file[i]->state == DOWNLOAD_FAILED;
    }
    if (s->planned)
        return 0;
    for (size_t i = 0; failed && i < s->n; i++) {
        if (s->file[i]->state == DOWNLOAD_FETCH)
            s->file[i]->state = DOWNLOAD_FAILED;
    }
    return failed ? 0 : plan(s, e);
}

/* ---- Requests --------------------------------------------------------------------------------- */

static bool is_active(const struct session *s, const struct download *d, uint32_t segment)
{
    for (unsigned i = 0; i < s->options->connections; i++) {
        if (s->transfer[i].owner == d && s->transfer[i].order.segment == segment)
            return true;
    }
    return false;
}

static void drop_requests(struct session *s, const struct download *d)
{
    struct transfer_outcome ignored;
    for (unsigned i = 0; i < s->options->connections; i++) {
        if (s->transfer[i].owner == d)
            transfer_end(&s->transfer[i], CURLE_ABORTED_BY_CALLBACK, &ignored);
    }
}

/* All of it is there: the disk has it before it is read back. */
static int complete(struct download *d, struct error *e)
{
    int rc = part_save(&d->part, e);
    if (rc == 0)
        d->state = DOWNLOAD_CHECK;
    return rc;
}

/* 1: *order is the next request of d; 0: there is none now. */
static int next_order(struct session *s, struct download *d, struct transfer_order *order,
                      struct error *e)
{
    const struct fetch_options *o = s->options;
    *order = (struct transfer_order){.url = d->item->url,
                                     .token = o->token,
                                     .stall_us = o->stall_us ? o->stall_us : STALL_DEFAULT_US};
    if (clock_mono_us() < d->not_before_us)
        return 0;
    if (d->state == DOWNLOAD_ASK) {
        order->ranged = !d->plain;
        return !is_active(s, d, 0);
    }
    if (d->state != DOWNLOAD_FETCH || !s->planned)
        return 0;
    if (!d->opened) {
        const int rc = download_open(d, e);
        if (rc < 0)
            return rc;
        s->shown_bytes += part_done_bytes(&d->part); /* not of this run's making */
    }
    uint32_t i = download_next_segment(d, 0);
    if (i == d->part.n)
        return complete(d, e);
    while (i < d->part.n && is_active(s, d, i))
        i = download_next_segment(d, i + 1);
    order->part = &d->part;
    order->segment = i;
    order->remote = &d->remote;
    order->ranged = download_ranged(d);
    order->hashed = download_hashed(d);
    return i < d->part.n;
}

static int start_request(struct session *s, struct transfer *t, struct error *e)
{
    for (size_t i = 0; i < s->n; i++) {
        struct transfer_order order;
        int rc = next_order(s, s->file[i], &order, e);
        if (rc > 0)
            return transfer_start(t, s->file[i], &order, e);
        if (rc < 0)
            return error_wrap(e, "%s", s->file[i]->item->name);
    }
    return 0;
}

static int start_requests(struct session *s, struct error *e)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < s->options->connections; i++) {
        if (!s->transfer[i].owner)
            rc = start_request(s, &s->transfer[i], e);
    }
    return rc;
}

static int end_request(struct session *s, struct transfer *t, CURLcode code, struct error *e)
{
    struct transfer_outcome outcome;
    struct download *d = t->owner;
    const bool asked = t->order.part == NULL;
    bool restart = false;
    transfer_end(t, code, &outcome);
    if (outcome.kind == TRANSFER_BROKEN) {
        *e = outcome.why;
        return -e->code;
    }
    if (asked)
        download_asked(d, &t->answer, &outcome);
    else
        download_fetched(d, &outcome, &restart);
    if (restart)
        drop_requests(s, d);
    return 0;
}

static int end_requests(struct session *s, struct error *e)
{
    int rc = 0, left = 0;
    CURLMsg *message;
    while (rc == 0 && (message = s->curl.multi_info_read(s->multi, &left)) != NULL) {
        char *private = NULL;
        const CURLcode code = message->data.result;
        s->curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        rc = end_request(s, (struct transfer *)(void *)private, code, e);
    }
    const int64_t now_us = clock_mono_us();
    for (unsigned i = 0; rc == 0 && i < s->options->connections; i++) {
        struct transfer *t = &s->transfer[i];
        if (t->owner && transfer_stalled(t, now_us))
            rc = end_request(s, t, CURLE_OPERATION_TIMEDOUT, e);
    }
    return rc;
}

/* ---- Checks ----------------------------------------------------------------------------------- */

static void wake(void *context)
{
    struct session *s = context;
    s->curl.multi_wakeup(s->multi);
}

static int start_check(struct session *s, struct error *e)
{
    if (s->checker.running)
        return 0;
    for (size_t i = 0; i < s->n; i++) {
        struct download *d = s->file[i];
        if (d->state != DOWNLOAD_CHECK)
            continue;
        s->checked = d;
        return checker_start(&s->checker, d->there ? d->part.final_path : d->part.path, wake, s, e);
    }
    return 0;
}

static int end_check(struct session *s, struct error *e)
{
    int rc = 0;
    if (!checker_take(&s->checker, &rc))
        return 0;
    if (rc == 0)
        return download_checked(s->checked, &s->checker.digest, &s->manifest, e);
    download_fail(s->checked, &s->checker.error);
    return 0;
}

/* ---- The loop --------------------------------------------------------------------------------- */

static int save_parts(struct session *s, struct error *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        struct download *d = s->file[i];
        if (d->opened && d->state == DOWNLOAD_FETCH && d->part.unsaved_bytes >= SAVE_BYTES)
            rc = part_save(&d->part, e);
    }
    return rc;
}

static void sum_bytes(const struct session *s, uint64_t *done, uint64_t *total, size_t *n_done)
{
    *done = *total = *n_done = 0;
    for (size_t i = 0; i < s->n; i++) {
        const struct download *d = s->file[i];
        *n_done += d->state == DOWNLOAD_DONE;
        if (d->there || d->remote.size == FETCH_UNKNOWN)
            continue;
        *total += d->remote.size;
        *done += d->state == DOWNLOAD_DONE || d->state == DOWNLOAD_CHECK ? d->remote.size
                 : d->opened                                             ? part_done_bytes(&d->part)
                                                                         : 0;
    }
}

static void measure_rate(struct session *s, uint64_t done)
{
    const int64_t now_us = clock_mono_us();
    const uint64_t more = done > s->shown_bytes ? done - s->shown_bytes : 0;
    const double newest = (double)more * 1e6 / (double)MAX_OF(now_us - s->shown_us, INT64_C(1));
    s->rate = s->rate > 0 ? s->rate + RATE_WEIGHT * (newest - s->rate) : newest;
    s->shown_us = now_us;
    s->shown_bytes = done;
}

/* What is left when everything came. */
static void show_check(struct session *s)
{
    char read[24], all[24];
    report_line(s->options->report, "checking %s: %s of %s", s->checked->item->name,
                str_format_size(atomic_load(&s->checker.done_bytes), read),
                str_format_size(s->checked->remote.size, all));
}

static void show_progress(struct session *s)
{
    uint64_t done, total;
    size_t n_done;
    char have[24], all[24], rate[24], left[64] = "", time[24];
    if (!s->planned || !report_due(s->options->report))
        return;
    sum_bytes(s, &done, &total, &n_done);
    measure_rate(s, done);
    if (done == total && s->checker.running) {
        show_check(s);
        return;
    }
    if (s->rate > 0 && total > done)
        snprintf(left, sizeof(left), ", about %s left",
                 str_format_duration((int64_t)((double)(total - done) / s->rate), time));
    report_line(s->options->report, "%s of %s (%.1f %%), %s/s%s; %zu of %zu files",
                str_format_size(done, have), str_format_size(total, all),
                total ? 100 * (double)done / (double)total : 100.0,
                str_format_size((uint64_t)s->rate, rate), left, n_done, s->n);
}

static bool is_over(const struct session *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->file[i]->state != DOWNLOAD_DONE && s->file[i]->state != DOWNLOAD_FAILED)
            return false;
    }
    return true;
}

/* Until a pause between tries is over, at most WAIT_MS. */
static int pause_ms(const struct session *s)
{
    const int64_t now_us = clock_mono_us();
    int64_t least_us = WAIT_MS * 1000;
    for (size_t i = 0; i < s->n; i++) {
        const struct download *d = s->file[i];
        if (d->not_before_us > now_us)
            least_us = MIN_OF(least_us, d->not_before_us - now_us);
    }
    return (int)(least_us / 1000) + 1;
}

static int wait_for_something(struct session *s, struct error *e)
{
    int running = 0, active = 0;
    for (unsigned i = 0; i < s->options->connections; i++)
        active += s->transfer[i].owner != NULL;
    CURLMcode code = s->curl.multi_perform(s->multi, &running);
    if (code == CURLM_OK && running == active)
        code = s->curl.multi_poll(s->multi, NULL, 0, pause_ms(s), NULL);
    if (code == CURLM_OK)
        code = s->curl.multi_perform(s->multi, &running);
    return code == CURLM_OK ? 0 : error_set(e, ERROR_IO, "curl: %s", s->curl.multi_strerror(code));
}

static int work(struct session *s, struct error *e)
{
    int rc = 0;
    while (rc == 0 && !is_over(s)) {
        if (s->options->stopped && s->options->stopped(s->options->context))
            return error_set(e, ERROR_INTERRUPTED,
                             "stopped; what came is kept, the same command goes on");
        rc = plan_if_asked(s, e);
        if (rc == 0)
            rc = start_requests(s, e);
        if (rc == 0)
            rc = start_check(s, e);
        if (rc == 0)
            rc = wait_for_something(s, e);
        if (rc == 0)
            rc = end_requests(s, e);
        if (rc == 0)
            rc = end_check(s, e);
        if (rc == 0)
            rc = save_parts(s, e);
        if (rc == 0)
            show_progress(s);
    }
    return rc;
}

/* The failures of single files, when nothing worse happened. */
static int conclude(const struct session *s, struct fetch_result *ret, struct error *e)
{
    const struct download *first = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const struct download *d = s->file[i];
        ret->n_there += d->state == DOWNLOAD_DONE && d->there;
        ret->n_fetched += d->state == DOWNLOAD_DONE && !d->there;
        ret->n_unhashed += d->state == DOWNLOAD_DONE && !d->there && !download_hashed(d);
        ret->n_failed += d->state == DOWNLOAD_FAILED;
        if (d->state == DOWNLOAD_DONE && !d->there)
            ret->fetched_bytes += d->remote.size;
        if (!first && d->state == DOWNLOAD_FAILED && d->why.code)
            first = d;
    }
    if (!first)
        return 0;
    *e = first->why;
    if (s->n > 1)
        return error_wrap(e, "%zu of %zu files are not there", ret->n_failed, s->n);
    return -e->code;
}

int fetch(const struct fetch_options *o, struct fetch_result *ret, struct error *e)
{
    struct session s = {.options = o, .dir_fd = -1};
    *ret = (struct fetch_result){0};
    int rc = curl_library_open(&s.curl, e);
    if (rc == 0)
        rc = open_dir(&s, e);
    if (rc == 0)
        rc = open_files(&s, e);
    if (rc == 0)
        rc = open_connections(&s, e);
    if (rc == 0)
        rc = work(&s, e);
    if (rc == 0)
        rc = conclude(&s, ret, e);
    session_close(&s);
    curl_library_close(&s.curl);
    return rc;
}
