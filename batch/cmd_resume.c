#include "batch/command.h"
#include "batch/database.h"

/* Whoever resumes a queue that nobody works on should hear it now, not in the morning. */
static int tell_about_worker(struct command_context *c, struct queue *q, struct error *e)
{
    struct queue_status s = {0};
    int rc = queue_status(q, NULL, &s, e);
    if (rc == 0 && !s.worker.alive) {
        const char *model = option_text(c->options, OPTION_MODEL);
        message("resumed, but no worker is running; start one with: nocturne run -m %s",
                model ? model : "MODEL");
    } else if (rc == 0) {
        message("resumed; the worker, pid %d, goes on", s.worker.pid);
    }
    queue_status_release(&s);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    int rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = queue_resume(q, e);
    if (rc == 0)
        rc = tell_about_worker(c, q, e);
    queue_close(q);
    return rc;
}

const struct command command_resume = {
    .name = "resume",
    .arguments = "",
    .details = "Ends a pause. A worker that waits goes on by itself.",
    .run = run,
};
