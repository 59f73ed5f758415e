#include "batch/command.h"
#include "batch/database.h"

static int cancel_one(struct queue *q, const char *text, const struct queue_id *batch,
                      uint64_t *n_total, struct error *e)
{
    struct queue_target t;
    uint64_t n = 0;
    int rc = database_find(q, text, batch, &t, e);
    if (rc == 0)
        rc = queue_cancel(q, t, &n, e);
    if (rc == 0 && n == 0)
        message("%s: nothing to cancel, it is finished", text);
    *n_total += n;
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    struct queue_id id;
    const struct queue_id *batch = NULL;
    uint64_t n = 0;
    int rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = database_batch_option(q, c->options, &id, &batch, e);
    for (int i = 0; i < c->n_args && rc == 0; i++)
        rc = cancel_one(q, c->arg[i], batch, &n, e);
    if (rc == 0)
        output_put(c->out, "%llu cancelled\n", (unsigned long long)n);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {OPTION_BATCH, OPTION_NONE};

const struct command command_cancel = {
    .name = "cancel",
    .arguments = "ID...",
    .min_args = 1,
    .max_args = -1,
    .option = options,
    .details =
        "ID is a batch or a request. What is finished stays; what runs stops within one token. The "
        "export\nhas an error line for each cancelled request.",
    .examples = "nocturne cancel nightly\nnocturne cancel -b nightly report.txt",
    .run = run,
};
