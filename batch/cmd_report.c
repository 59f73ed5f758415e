#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "batch/command.h"
#include "batch/database.h"
#include "batch/night/night.h"
#include "batch/when.h"

#define PAGE_BYTES (UINT64_C(64) << 20)

/* "2h" is two hours ago, "22:00" the last time the clock showed it. */
static int parse_since(const char *text, int64_t *ret_us, struct error *e)
{
    const int64_t now_us = clock_wall_us();
    int64_t us = 0;
    if (when_parse_duration(text, &us, NULL) == 0) {
        *ret_us = MAX_OF(now_us - us, INT64_C(1));
        return 0;
    }
    int rc = when_parse_past(text, now_us, ret_us, e);
    return rc ? error_wrap(e, "--since") : 0;
}

static int choose(const struct command_context *c, struct night_choice *ret, struct error *e)
{
    const char *since = option_text(c->options, OPTION_SINCE);
    ret->date = option_text(c->options, OPTION_NIGHT);
    if ((c->n_args > 0) + (since != NULL) + (ret->date != NULL) > 1)
        return error_set(e, ERROR_USAGE, "one of RUN, --since and --night says which");
    if (since)
        return parse_since(since, &ret->since_us, e);
    int rc = c->n_args ? str_parse_int(c->arg[0], 1, INT64_MAX - 1, &ret->run, e) : 0;
    return rc ? error_wrap(e, "RUN") : 0;
}

static int show_page(struct command_context *c, const struct night *n, struct error *e)
{
    const char *path = option_text(c->options, OPTION_OUT);
    struct buf page;
    buf_init(&page, PAGE_BYTES);
    int rc = night_page(n, &page, e);
    if (rc == 0 && path)
        rc = file_write_all(path, page.ptr, page.len, e);
    else if (rc == 0)
        output_bytes(c->out, buf_str(&page));
    buf_release(&page);
    return rc;
}

static int show(struct command_context *c, const struct night *n, struct error *e)
{
    if (option_on(c->options, OPTION_PAGE))
        return show_page(c, n, e);
    if (option_on(c->options, OPTION_JSON))
        return output_json(c->out, night_json(n), true, e);
    night_text(n, c->out);
    return 0;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    struct night *n = NULL;
    struct night_choice choice = {0};
    int rc = choose(c, &choice, e);
    if (rc == 0 && option_on(c->options, OPTION_PAGE) && option_on(c->options, OPTION_JSON))
        rc = error_set(e, ERROR_USAGE, "--html and --json exclude each other");
    if (rc == 0 && option_text(c->options, OPTION_OUT) && !option_on(c->options, OPTION_PAGE))
        rc = error_set(e, ERROR_USAGE, "--output is for the page of --html");
    if (rc == 0)
        rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = night_open(q, &choice, &n, e);
    if (rc == 0)
        rc = show(c, n, e);
    night_free(n);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_SINCE, OPTION_NIGHT, OPTION_PAGE,
                                         OPTION_OUT,   OPTION_JSON,  OPTION_NONE};

const struct command command_report = {
    .name = "report",
    .arguments = "[RUN]",
    .max_args = 1,
    .option = options,
    .details = "What happened in a night: what ran, how fast, what failed and why, what took "
               "longest, how\n"
               "much memory and pressure there was, and when the rest will be done. Without "
               "arguments the\n"
               "last night, from noon to noon, which may hold several runs; else a RUN of "
               "'nocturne runs',\n"
               "all --since a time (2h: two hours ago), or the --night that began on a day.",
    .examples = "nocturne report\nnocturne report --html -o night.html\n"
                "nocturne report --night 2026-11-30 --json",
    .run = run,
};
