/* Which runs a night has, and which part of each. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "batch/night/parts.h"
#include "batch/view.h"

#define US_PER_S INT64_C(1000000)

/* Noon of the day that is `days` after the one of tm, by the local clock, whatever it did meanwhile. */
static int64_t noon_us(struct tm day, int days)
{
    struct tm noon = {.tm_year = day.tm_year,
                      .tm_mon = day.tm_mon,
                      .tm_mday = day.tm_mday + days,
                      .tm_hour = 12,
                      .tm_isdst = -1};
    return (int64_t)mktime(&noon) * US_PER_S;
}

struct period {
    int64_t from_us, until_us;
};

/* The night that holds this time. */
static struct period night_of(int64_t wall_us)
{
    const time_t at = (time_t)(wall_us / US_PER_S);
    struct tm day = {0};
    localtime_r(&at, &day);
    const int days = wall_us < noon_us(day, 0) ? -1 : 0;
    return (struct period){noon_us(day, days), noon_us(day, days + 1)};
}

static int night_of_date(const char *text, struct period *ret, struct error *e)
{
    struct tm day = {0};
    const char *end = strptime(text, "%Y-%m-%d", &day);
    if (!end || *end)
        return error_set(e, ERROR_USAGE, "--night: '%s' is not a day as in 2026-11-30", text);
    *ret = (struct period){noon_us(day, 0), noon_us(day, 1)};
    return 0;
}

static bool is_long(const struct queue_run *r)
{
    return r->known_us - r->started_us >= NIGHT_DAY_US;
}

/* Whether the run belongs to the period, and which part of it. cut: at both ends, whatever its length. */
static bool part_of(const struct queue_run *r, const struct period *p, bool cut,
                    struct queue_span *ret)
{
    *ret = (struct queue_span){r->key, 0, INT64_MAX};
    if (cut || is_long(r)) {
        *ret = (struct queue_span){r->key, p->from_us, p->until_us};
        return r->known_us >= p->from_us && r->started_us < p->until_us;
    }
    return r->started_us >= p->from_us && r->started_us < p->until_us;
}

/* Takes the row over. */
static int add_run(struct night *n, struct queue_run *row, struct queue_span span, struct error *e)
{
    struct night_run *more = mem_regrow(n->run, n->n_runs + 1, sizeof(*more));
    if (!more)
        return error_set(e, ERROR_NOMEM, "out of memory for %zu runs", n->n_runs);
    n->run = more;
    struct night_run *r = &more[n->n_runs++];
    memset(r, 0, sizeof(*r));
    r->run = *row;
    memset(row, 0, sizeof(*row));
    r->span = span;
    r->from_us = MAX_OF(r->run.started_us, span.from_us);
    r->until_us = MIN_OF(r->run.running ? clock_wall_us() : r->run.known_us, span.until_us);
    r->until_us = MAX_OF(r->until_us, r->from_us);
    r->machine = view_parse(r->run.machine_json);
    r->model = view_parse(r->run.model_json);
    r->configuration = view_parse(r->run.configuration_json);
    r->plan = view_parse(r->run.plan_json);
    r->totals = view_parse(r->run.totals_json);
    return 0;
}

static int take_runs(struct queue *q, const struct period *p, bool cut, struct night *n,
                     struct error *e)
{
    int64_t key = 0;
    int rc = 0;
    bool before =
        false; /* runs follow each other: what ended a day before it began was the first */
    do {
        struct queue_runs page = {0};
        rc = queue_runs(q, key, 0, &page, e);
        for (size_t i = 0; rc == 0 && i < page.n; i++) {
            struct queue_span span;
            before = page.item[i].known_us < p->from_us - NIGHT_DAY_US;
            if (part_of(&page.item[i], p, cut, &span))
                rc = add_run(n, &page.item[i], span, e);
        }
        key = page.next_key;
        queue_runs_release(&page);
    } while (rc == 0 && key && !before);
    for (size_t i = 0; i < n->n_runs / 2; i++) { /* newest first as read */
        struct night_run swap = n->run[i];
        n->run[i] = n->run[n->n_runs - 1 - i];
        n->run[n->n_runs - 1 - i] = swap;
    }
    return rc;
}

static int take_run(struct queue *q, int64_t key, struct night *n, struct error *e)
{
    struct queue_runs page = {0};
    int rc = queue_runs(q, key + 1, 1, &page, e);
    if (rc == 0 && (page.n == 0 || page.item[0].key != key))
        rc = error_set(e, ERROR_NOTFOUND, "there is no run %lld; 'nocturne runs' lists them",
                       (long long)key);
    if (rc == 0)
        rc = add_run(n, &page.item[0], (struct queue_span){key, 0, INT64_MAX}, e);
    queue_runs_release(&page);
    snprintf(n->title, sizeof(n->title), "Run %lld", (long long)key);
    return rc;
}

static void name_night(struct night *n, int64_t from_us)
{
    const time_t at = (time_t)(from_us / US_PER_S);
    struct tm tm = {0};
    localtime_r(&at, &tm);
    if (strftime(n->title, sizeof(n->title), "Night of %A, %d %B %Y", &tm) == 0)
        n->title[0] = '\0';
}

/* The period of the newest run. */
static int last_night(struct queue *q, struct period *ret, struct error *e)
{
    struct queue_runs page = {0};
    int rc = queue_runs(q, 0, 1, &page, e);
    if (rc == 0 && page.n == 0)
        rc =
            error_set(e, ERROR_NOTFOUND, "nothing has run yet; start with 'nocturne run -m MODEL'");
    if (rc == 0)
        *ret = night_of(is_long(&page.item[0]) ? page.item[0].known_us : page.item[0].started_us);
    queue_runs_release(&page);
    return rc;
}

int night_choose(struct queue *q, const struct night_choice *choice, struct night *n,
                 struct error *e)
{
    struct period p = {choice->since_us, INT64_MAX};
    char at[32];
    int rc = 0;
    if (choice->run)
        return take_run(q, choice->run, n, e);
    if (choice->date)
        rc = night_of_date(choice->date, &p, e);
    else if (!choice->since_us)
        rc = last_night(q, &p, e);
    if (rc == 0)
        rc = take_runs(q, &p, choice->since_us != 0, n, e);
    if (choice->since_us)
        snprintf(n->title, sizeof(n->title), "Since %s", view_time(choice->since_us, at));
    else
        name_night(n, p.from_us);
    if (rc == 0 && n->n_runs == 0)
        rc = error_set(e, ERROR_NOTFOUND, "nothing ran %s %s; 'nocturne runs' lists what did",
                       choice->since_us ? "since" : "in the night of",
                       choice->since_us ? view_time(choice->since_us, at) : choice->date);
    return rc;
}
