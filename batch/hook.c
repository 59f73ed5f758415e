#include "batch/hook.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "batch/hook_process.h"
#include "batch/output.h"
#include "batch/view.h"

/* Failures that come within that time of the last event about some are told together. */
#define FAILED_EVERY_US INT64_C(30000000)
#define CLOSE_POLL_US 10000
/* How long a killed process is waited for: it goes at once, if it does not hang in the kernel. */
#define KILLED_US 500000
/* Each cause has a number, so that it is said once: exit statuses first. */
enum { CAUSE_SIGNAL = 256, CAUSE_TIMEOUT = CAUSE_SIGNAL + 128, CAUSE_START, CAUSES };

struct pending {
    const char *event; /* a literal */
    cJSON *about;
};

struct hook {
    struct hook_options o;
    struct pending
        item[HOOK_PENDING_MAX + 1]; /* in the order they came; one place is "drained"'s */
    size_t n;
    cJSON *failed; /* the first HOOK_LISTED_MAX of them; NULL: none waits */
    uint64_t n_failed;
    int64_t next_failed_us; /* monotonic */
    uint64_t dropped;       /* since the last event that was told */
    struct hook_process process;
    const char *event; /* whose process runs */
    int64_t started_us;
    unsigned n_run, n_bad;
    bool said[CAUSES];
};

int hook_open(struct hook **ret, const struct hook_options *o, struct error *e)
{
    struct hook *h = mem_zalloc(sizeof(*h));
    if (!h)
        return error_set(e, ERROR_NOMEM, "out of memory for hooks");
    h->o = *o;
    *ret = h;
    return 0;
}

/* ---- What goes wrong -------------------------------------------------------------------------- */

static void went_wrong(struct hook *h, int cause, const char *how, const char *text)
{
    char line[800];
    h->n_bad++;
    snprintf(line, sizeof(line), "the hook for '%s' %s%s%s; the work goes on", h->event, how,
             *text ? ": " : "", text);
    log_event(LOG_DEBUG, "hook", "%s", line);
    if (!h->said[cause] && h->o.warn)
        h->o.warn(h->o.context, line);
    h->said[cause] = true;
}

/* The last line of what it printed that says anything. */
static const char *last_words(struct hook_process *p)
{
    char *end = p->said + p->n_said;
    while (end > p->said && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
        end--;
    *end = '\0';
    char *line = strrchr(p->said, '\n');
    line = line ? line + 1 : p->said;
    output_harmless(line, strlen(line), false);
    return line;
}

static void judge(struct hook *h)
{
    char how[64];
    struct hook_process *p = &h->process;
    const char *text = last_words(p);
    const int status = p->status;
    h->n_run++;
    if (p->killed) {
        snprintf(how, sizeof(how), "was ended after %.1f s",
                 (double)(clock_mono_us() - h->started_us) / 1e6);
        went_wrong(h, CAUSE_TIMEOUT, how, text);
    } else if (WIFSIGNALED(status)) {
        snprintf(how, sizeof(how), "was ended by signal %d", WTERMSIG(status));
        went_wrong(h, CAUSE_SIGNAL + (WTERMSIG(status) & 127), how, text);
    } else if (WEXITSTATUS(status) != 0) {
        snprintf(how, sizeof(how), "failed with exit status %d", WEXITSTATUS(status));
        went_wrong(h, WEXITSTATUS(status), how, text);
    } else {
        log_event(LOG_DEBUG, "hook", "event=%s ended: %s", h->event, text);
    }
}

/* ---- What waits ------------------------------------------------------------------------------- */

void hook_tell(struct hook *h, const char *event, cJSON *about)
{
    const size_t room = HOOK_PENDING_MAX + (strcmp(event, "drained") == 0);
    if (!h || !about || h->n >= room) {
        if (h)
            h->dropped++;
        cJSON_Delete(about);
        return;
    }
    cJSON_AddStringToObject(about, "event", event);
    view_add_time(about, "at", clock_wall_us());
    h->item[h->n++] = (struct pending){event, about};
    hook_poll(h);
}

void hook_tell_failed(struct hook *h, cJSON *about)
{
    if (h && !h->failed)
        h->failed = cJSON_CreateArray();
    if (!h || !h->failed || cJSON_GetArraySize(h->failed) >= HOOK_LISTED_MAX)
        cJSON_Delete(about);
    else
        cJSON_AddItemToArray(h->failed, about);
    if (!h)
        return;
    h->n_failed++;
    hook_poll(h);
}

static struct pending take_failed(struct hook *h)
{
    cJSON *about = cJSON_CreateObject();
    cJSON_AddStringToObject(about, "event", "failed");
    view_add_time(about, "at", clock_wall_us());
    cJSON_AddNumberToObject(about, "count", (double)h->n_failed);
    cJSON_AddItemToObject(about, "requests", h->failed);
    h->failed = NULL;
    h->n_failed = 0;
    h->next_failed_us = clock_mono_us() + FAILED_EVERY_US;
    return (struct pending){"failed", about};
}

/* False: nothing is to be told now. */
static bool take_next(struct hook *h, bool all, struct pending *ret)
{
    if (h->failed && (all || clock_mono_us() >= h->next_failed_us)) {
        *ret = take_failed(h);
        return true;
    }
    if (h->n == 0)
        return false;
    *ret = h->item[0];
    h->n--;
    memmove(h->item, h->item + 1, h->n * sizeof(*h->item));
    return true;
}

/* ---- What runs -------------------------------------------------------------------------------- */

static int start(struct hook *h, const char *event, struct str input, struct error *e)
{
    char of_event[64];
    struct buf of_database;
    buf_init(&of_database, 8192);
    snprintf(of_event, sizeof(of_event), "NOCTURNE_EVENT=%s", event);
    buf_printf(&of_database, "NOCTURNE_DB=%s", h->o.database);
    int rc = buf_check(&of_database, "path of the database", e);
    if (rc == 0) {
        const char *const variables[] = {of_event, of_database.ptr};
        const struct hook_order order = {.command = h->o.command,
                                         .variables = variables,
                                         .n_variables = ARRAY_LEN(variables),
                                         .input = input};
        rc = hook_process_start(&h->process, &order, e);
    }
    buf_release(&of_database);
    return rc;
}

/* One line, so that `cat >>FILE` gives a file of them. */
static int make_line(struct buf *out, const cJSON *about, struct error *e)
{
    char *text = cJSON_PrintUnformatted(about);
    buf_init(out, SIZE_MAX);
    buf_append_c(out, text ? text : "");
    buf_append_c(out, "\n");
    const int rc = text ? 0 : error_set(e, ERROR_NOMEM, "out of memory");
    cJSON_free(text);
    return rc ? rc : buf_check(out, "a hook's input", e);
}

static void start_next(struct hook *h, bool all)
{
    struct error e = {0};
    struct pending next;
    if (!take_next(h, all, &next))
        return;
    cJSON_AddStringToObject(next.about, "database", h->o.database);
    if (h->o.model)
        cJSON_AddStringToObject(next.about, "model", h->o.model);
    cJSON_AddNumberToObject(next.about, "dropped", (double)h->dropped);
    struct buf line;
    int rc = make_line(&line, next.about, &e);
    cJSON_Delete(next.about);
    h->event = next.event;
    h->started_us = clock_mono_us();
    if (rc == 0)
        rc = start(h, next.event, buf_str(&line), &e);
    buf_release(&line);
    if (rc == 0)
        h->dropped = 0;
    else
        went_wrong(h, CAUSE_START, "could not be run", e.text);
}

static void see_to(struct hook *h, bool all)
{
    struct hook_process *p = &h->process;
    if (p->pid && hook_process_over(p))
        judge(h);
    if (p->pid && !p->killed && clock_mono_us() - h->started_us > h->o.timeout_us)
        hook_process_kill(p);
    if (!p->pid)
        start_next(h, all);
}

void hook_poll(struct hook *h)
{
    if (h && (h->process.pid || h->n || h->failed))
        see_to(h, false);
}

static bool idle(const struct hook *h)
{
    return !h->process.pid && !h->n && !h->failed;
}

/* Ends what runs and counts what was not told. */
static void give_up(struct hook *h)
{
    char line[160];
    const uint64_t left = h->n + (h->failed != NULL) + (h->process.pid != 0) + h->dropped;
    const int64_t until_us = clock_mono_us() + KILLED_US;
    if (h->process.pid)
        hook_process_kill(&h->process);
    while (h->process.pid && !hook_process_over(&h->process) && clock_mono_us() < until_us)
        clock_sleep_us(CLOSE_POLL_US);
    snprintf(line, sizeof(line),
             "the run ended before hooks had been told of everything: %llu left",
             (unsigned long long)left);
    if (left && h->o.warn)
        h->o.warn(h->o.context, line);
    for (size_t i = 0; i < h->n; i++)
        cJSON_Delete(h->item[i].about);
    cJSON_Delete(h->failed);
}

void hook_close(struct hook *h, int64_t patience_us)
{
    char line[80];
    if (!h)
        return;
    int64_t until_us = clock_mono_us() + patience_us;
    bool hurried = false;
    while (!idle(h) && clock_mono_us() < until_us) {
        if (!hurried && h->o.hurried && h->o.hurried(h->o.context)) {
            hurried = true;
            until_us = MIN_OF(until_us, clock_mono_us() + HOOK_HURRIED_US);
        }
        see_to(h, true);
        if (!idle(h))
            clock_sleep_us(CLOSE_POLL_US);
    }
    give_up(h);
    snprintf(line, sizeof(line), "%u of %u hooks failed", h->n_bad, h->n_run);
    if (h->n_bad > 1 && h->o.warn)
        h->o.warn(h->o.context, line);
    mem_free(h);
}
