#include "batch/command.h"
#include "batch/database.h"

/* Whoever resumes a queue that nobody works on should hear it now, not in the morning. */
static int tell_about_worker(struct command_context *c, struct queue *q, bool paused,
                             struct error *e)
{
    const char *what = paused ? "resumed" : "it was not paused";
    struct queue_status s = {0};
    int rc = queue_status(q, NULL, &s, e);
    if (rc == 0 && !s.worker.alive) {
        const char *model = option_text(c->options, OPTION_MODEL);
        message("%s, but no worker is running; start one with: nocturne run -m %s", what,
                model ? model : "MODEL");
    } else if (rc == 0) {
        message("%s; the worker, pid %d, goes on", what, s.worker.pid);
    }
    queue_status_release(&s);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    bool paused = false;
    int rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = queue_paused(q, &paused, NULL, e);
    if (rc == 0)
        rc = queue_resume(q, e);
    if (rc == 0)
        rc = tell_about_worker(c, q, paused, e);
    queue_close(q);
    return rc;
}

const struct command command_resume = {
    .name = "resume",
    .arguments = "",
    .details = "Ends a pause. A worker that waits goes on by itself.",
    .run = run,
};
