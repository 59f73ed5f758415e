#include <stdlib.h>
#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/worker/death.h"

/* What systemd says of the service that has just ended; nothing of it that is not ours to know. */
static int pause_after_service(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    bool killed = false;
    const char *result = getenv("SERVICE_RESULT");
    if (!result || c->n_args > 0)
        return error_set(e, ERROR_USAGE,
                         "--after-service is for ExecStopPost= of a service, with no REASON: "
                         "systemd says in $SERVICE_RESULT how that ended");
    int rc = database_open(c->options, false, &q, e);
    if (rc == 0)
        rc = death_explain(q, strcmp(result, "oom-kill") == 0, &killed, e);
    queue_close(q);
    if (rc == 0 && killed)
        message("paused: the kernel killed the worker for lack of memory");
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct queue *q = NULL;
    if (option_on(c->options, OPTION_AFTER_SERVICE))
        return pause_after_service(c, e);
    int rc = database_open(c->options, true, &q, e);
    if (rc == 0)
        rc = queue_pause(q, str_of(c->n_args ? c->arg[0] : ""), e);
    queue_close(q);
    if (rc == 0)
        message("paused; a running worker gives its jobs back and waits for 'nocturne resume'");
    return rc;
}

static const enum option_id options[] = {OPTION_AFTER_SERVICE, OPTION_NONE};

const struct command command_pause = {
    .name = "pause",
    .arguments = "[REASON]",
    .max_args = 1,
    .option = options,
    .details = "No job is started until 'nocturne resume', also after a restart. A worker that "
               "runs gives its "
               "jobs\nback with what they have, unloads the model and waits; with --drain it ends "
               "with 75.\n\n"
               "With --after-service the queue is paused only if the service that has just ended "
               "was\nkilled for lack of memory: so that it is not killed again, and again, until "
               "morning.\nThe unit file that comes with this program says so after each end.",
    .examples = "nocturne pause 'the machine is needed until noon'",
    .run = run,
};
