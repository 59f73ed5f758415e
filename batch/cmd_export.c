#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/export.h"
#include "batch/view.h"
#include "batch/waiting.h"

static int check_usage(const struct options *o, struct error *e)
{
    const char *out = option_text(o, OPTION_OUT);
    const char *errors = option_text(o, OPTION_ERRORS);
    if (option_on(o, OPTION_FOLLOW) && (out || errors))
        return error_set(e, ERROR_USAGE, "--follow writes to standard output only");
    if (out && errors && strcmp(out, errors) == 0)
        return error_set(e, ERROR_USAGE, "-o and --errors name the same file");
    return 0;
}

/* Everything that is final now, in order of arrival. */
static int put_all(struct export *x, struct queue *q, const struct queue_id *batch, struct error *e)
{
    int64_t key = 0;
    bool more = true;
    int rc = 0;
    while (rc == 0 && more) {
        struct queue_results page = {0};
        rc = queue_results(q, batch, key, QUEUE_LIST_ROWS, &page, e);
        for (size_t i = 0; i < page.n && rc == 0; i++)
            rc = export_put(x, &page.item[i], e);
        key = page.next_key;
        more = page.more;
        queue_results_release(&page);
    }
    return rc;
}

/* How many requests are there, and how many are not final. */
static int count(struct queue *q, const struct queue_id *batch, struct queue_counts *ret,
                 struct error *e)
{
    struct queue_status s = {0};
    int rc = queue_status(q, batch, &s, e);
    if (rc == 0)
        *ret = s.counts;
    queue_status_release(&s);
    return rc;
}

static int follow_some(struct export *x, struct queue *q, const struct queue_id *batch,
                       int64_t *key, struct output *out, struct error *e)
{
    bool more = true;
    int rc = 0;
    while (rc == 0 && more) {
        struct queue_results page = {0};
        rc = queue_results_follow(q, batch, *key, QUEUE_LIST_ROWS, &page, e);
        for (size_t i = 0; i < page.n && rc == 0; i++)
            rc = export_put(x, &page.item[i], e);
        if (rc == 0)
            *key = page.next_key;
        more = page.more;
        queue_results_release(&page);
        if (rc == 0)
            rc = output_flush(out, e);
    }
    return rc;
}

static int follow(struct export *x, struct queue *q, const struct queue_id *batch,
                  struct output *out, struct error *e)
{
    struct queue_watch *watch = NULL;
    int64_t key = 0;
    int rc = queue_watch_open(queue_path(q), &watch, e);
    while (rc == 0) {
        /* Counted before reading: what finishes between the two is read the next time. */
        struct queue_counts counts = {0};
        rc = count(q, batch, &counts, e);
        if (rc == 0)
            rc = follow_some(x, q, batch, &key, out, e);
        if (rc == 0 && view_unfinished(&counts) == 0)
            break;
        if (rc == 0)
            rc = waiting_for_change(watch, 0, e);
    }
    queue_watch_close(watch);
    return rc;
}

/* What the exit status says, in words. */
static int judge(const struct export *x, uint64_t total, struct error *e)
{
    uint64_t got = x->n_good + x->n_bad;
    if (x->n_bad)
        message("%llu of %llu succeeded", (unsigned long long)x->n_good, (unsigned long long)got);
    if (x->n_empty)
        message("%llu answer%s came out empty; see 'nocturne retry --empty'",
                (unsigned long long)x->n_empty, x->n_empty == 1 ? "" : "s");
    if (got < total)
        return error_set(e, ERROR_UNFINISHED, "%llu of %llu requests are not finished",
                         (unsigned long long)(total - got), (unsigned long long)total);
    return x->n_bad ? 1 : 0;
}

static int export_from(struct command_context *c, struct queue *q, struct export *x,
                       struct error *e)
{
    struct queue_id id;
    const struct queue_id *batch = NULL;
    struct queue_counts counts = {0};
    int rc = database_batch_option(q, c->options, &id, &batch, e);
    if (rc == 0 && option_on(c->options, OPTION_FOLLOW))
        rc = follow(x, q, batch, c->out, e);
    else if (rc == 0)
        rc = put_all(x, q, batch, e);
    if (rc == 0)
        rc = export_commit(x, e);
    if (rc == 0)
        rc = count(q, batch, &counts, e);
    return rc ? rc : judge(x, counts.total, e);
}

static int run(struct command_context *c, struct error *e)
{
    enum export_format format = EXPORT_OPENAI;
    int rc = check_usage(c->options, e);
    if (rc == 0)
        rc = export_format_parse(option_text(c->options, OPTION_FORMAT), &format, e);
    if (rc)
        return rc;
    struct queue *q = NULL;
    struct export x = {0};
    rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = export_begin(&x, format, option_text(c->options, OPTION_OUT),
                          option_text(c->options, OPTION_ERRORS), c->out, e);
    if (rc == 0)
        rc = export_from(c, q, &x, e);
    export_release(&x);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_OUT,    OPTION_ERRORS, OPTION_BATCH,
                                         OPTION_FORMAT, OPTION_FOLLOW, OPTION_NONE};

const struct command command_export = {
    .name = "export",
    .arguments = "",
    .option = options,
    .details = "One line for each finished request, in the order they were submitted; without "
               "--batch of all "
               "batches.\nExit status 0 when all are there and succeeded, 1 when some did not "
               "succeed, 75 when "
               "some are not\nfinished: then what is finished was written, and the same command "
               "later writes it "
               "all.",
    .examples = "nocturne export -b nightly -o answers.jsonl --errors errors.jsonl\n"
                "nocturne export --format csv > answers.csv\n"
                "nocturne export --follow | while read -r line; do ...; done",
    .run = run,
};
