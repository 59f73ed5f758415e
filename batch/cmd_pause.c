#include "batch/command.h"
#include "batch/database.h"

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    int rc = database_open(c->options, true, &q, e);
    if (rc == 0)
        rc = queue_pause(q, str_of(c->n_args ? c->arg[0] : ""), e);
    queue_close(q);
    if (rc == 0)
        message("paused; a running worker gives its jobs back and waits for 'nocturne resume'");
    return rc;
}

const struct command command_pause = {
    .name = "pause",
    .arguments = "[REASON]",
    .max_args = 1,
    .details = "No job is started until 'nocturne resume', also after a restart. A worker that "
               "runs gives its "
               "jobs\nback with what they have, unloads the model and waits; with --drain it ends "
               "with 75.",
    .examples = "nocturne pause 'the machine is needed until noon'",
    .run = run,
};
