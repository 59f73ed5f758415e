#include "base/alloc.h"
#include "base/clock.h"
#include "batch/command.h"
#include "batch/database.h"
#include "batch/view.h"
#include "batch/waiting.h"

struct wait {
    struct queue *queue;
    struct queue_watch *watch;
    struct queue_id *batch; /* [n]; n 0: everything */
    size_t n;
    int64_t until_us; /* monotonic; 0: for ever */
};

/* Adds what is left, what went wrong and what came out empty. */
static int look(const struct wait *w, uint64_t *left, uint64_t *bad, uint64_t *empty,
                struct error *e)
{
    *left = *bad = *empty = 0;
    for (size_t i = 0; i < MAX_OF(w->n, (size_t)1); i++) {
        struct queue_status s = {0};
        int rc = queue_status(w->queue, w->n ? &w->batch[i] : NULL, &s, e);
        if (rc)
            return rc;
        *left += view_unfinished(&s.counts);
        *bad += view_unsuccessful(&s.counts);
        *empty += s.counts.empty;
        queue_status_release(&s);
    }
    return 0;
}

static int wait_until_done(const struct wait *w, struct error *e)
{
    for (;;) {
        uint64_t left = 0, bad = 0, empty = 0;
        int rc = look(w, &left, &bad, &empty, e);
        if (rc)
            return rc;
        if (left == 0 && bad)
            message("%llu request%s did not succeed", (unsigned long long)bad, bad == 1 ? "" : "s");
        if (left == 0 && empty)
            message("%llu answer%s came out empty; see 'nocturne retry --empty'",
                    (unsigned long long)empty, empty == 1 ? "" : "s");
        if (left == 0)
            return bad ? 1 : 0;
        if (w->until_us && clock_mono_us() >= w->until_us)
            return error_set(e, ERROR_TIMEOUT, "%llu request%s still unfinished",
                             (unsigned long long)left, left == 1 ? " is" : "s are");
        rc = waiting_for_change(w->watch, w->until_us, e);
        if (rc)
            return rc;
    }
}

static int find_batches(struct wait *w, struct command_context *c, struct error *e)
{
    w->batch = mem_array((size_t)c->n_args + 1, sizeof(*w->batch));
    if (!w->batch)
        return error_set(e, ERROR_NOMEM, "out of memory for ids");
    int rc = 0;
    for (int i = 0; i < c->n_args && rc == 0; i++)
        rc = database_find_batch(w->queue, c->arg[i], &w->batch[w->n++], e);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct wait w = {0};
    if (option_given(c->options, OPTION_TIMEOUT))
        w.until_us = clock_mono_us() + MAX_OF(option_us(c->options, OPTION_TIMEOUT), 1);
    int rc = database_open(c->options, false, &w.queue, e);
    if (rc == 0)
        rc = find_batches(&w, c, e);
    if (rc == 0)
        rc = queue_watch_open(queue_path(w.queue), &w.watch, e);
    if (rc == 0)
        rc = wait_until_done(&w, e);
    queue_watch_close(w.watch);
    mem_free(w.batch);
    queue_close(w.queue);
    return rc;
}

static const enum option_id options[] = {OPTION_TIMEOUT, OPTION_NONE};

const struct command command_wait = {
    .name = "wait",
    .arguments = "[BATCH]...",
    .max_args = -1,
    .option = options,
    .details = "Until every request of the batches (without any: of the whole queue) is finished. "
               "Exit status "
               "0 when\nall succeeded, 1 when some did not, 124 when the time was over first.",
    .examples = "nocturne wait nightly --timeout 8h && nocturne export -b nightly -o answers.jsonl",
    .run = run,
};
