#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/model_options.h"
#include "batch/worker/worker.h"

static struct worker_options worker_options(const struct options *o)
{
    return (struct worker_options){
        .root = "",
        .model_path = option_text(o, OPTION_MODEL),
        .alias = option_text(o, OPTION_ALIAS),
        .memory_bytes = option_size(o, OPTION_MEMORY),
        .threads = (int)option_int(o, OPTION_THREADS),
        .ctx = (uint32_t)option_int(o, OPTION_CTX),
        .slots = (uint32_t)option_int(o, OPTION_SLOTS),
        .chunk = (uint32_t)option_int(o, OPTION_CHUNK),
        .isa = option_text(o, OPTION_ISA),
        .io = option_text(o, OPTION_IO),
        .lookahead = strcmp(option_text(o, OPTION_LOOKAHEAD), "on") == 0,
        .expert_policy = option_text(o, OPTION_EXPERT_POLICY),
        .chat_format = option_text(o, OPTION_CHAT_FORMAT),
        .exact = option_on(o, OPTION_EXACT),
        .raw = option_on(o, OPTION_RAW),
        .match_model = option_on(o, OPTION_MATCH_MODEL),
        .drain = option_on(o, OPTION_DRAIN),
        .lease_us = option_us(o, OPTION_LEASE),
        .report_us = option_us(o, OPTION_REPORT_EVERY),
        .space_check_us = option_us(o, OPTION_SPACE_CHECK),
        .snapshot_after_us = option_us(o, OPTION_SNAPSHOT_AFTER),
    };
}

static int run(struct command_context *c, struct error *e)
{
    struct worker_options o = worker_options(c->options);
    int rc = model_path_check(o.model_path, e);
    if (rc)
        return rc;
    if (o.raw && o.chat_format)
        return error_set(e, ERROR_USAGE, "--raw and --chat-format exclude each other");
    o.json = option_on(c->options, OPTION_JSON) ? c->out : NULL;
    struct stop stop = {0};
    struct queue *q = NULL;
    rc = stop_open(&stop, e);
    if (rc == 0)
        rc = database_open(c->options, true, &q, e);
    if (rc == 0)
        rc = worker_run(&o, q, &stop, e);
    queue_close(q);
    stop_close(&stop);
    return rc;
}

static const enum option_id options[] = {
    OPTION_MODEL, OPTION_MEMORY, OPTION_THREADS,      OPTION_CTX,           OPTION_SLOTS,
    OPTION_CHUNK, OPTION_ISA,    OPTION_IO,           OPTION_EXPERT_POLICY, OPTION_LOOKAHEAD,
    OPTION_EXACT, OPTION_RAW,    OPTION_CHAT_FORMAT,  OPTION_ALIAS,         OPTION_MATCH_MODEL,
    OPTION_DRAIN, OPTION_LEASE,  OPTION_REPORT_EVERY, OPTION_SPACE_CHECK,   OPTION_SNAPSHOT_AFTER,
    OPTION_JSON,  OPTION_NONE};

const struct command command_run = {
    .name = "run",
    .arguments = "",
    .option = options,
    .computes = true,
    .details =
        "Works on the queue until it is stopped, or with --drain until it is empty. One worker\n"
        "at a time; a second one ends with 3. It may be killed at any moment: the next run\n"
        "goes on where this one was, in the middle of an answer too. SIGTERM and Ctrl-C finish\n"
        "the step if that takes at most 10 s (or --snapshot-after, if less), else the layer, save\n"
        "and end; a second one ends at once.\n\n"
        "Two layers of the model, its output matrix, a sequence's state and a few experts have to\n"
        "fit --memory; other layers are read for every step, other experts as routers pick them.\n"
        "'nocturne inspect --memory SIZE' shows the plan.\n\n"
        "Exit status: 0 drained or stopped by SIGTERM, 1 drained with failures, 3 another worker\n"
        "is there or took over, 4 the model does not fit, 75 paused with work left, 130 stopped\n"
        "by Ctrl-C.",
    .examples = "nocturne run -m model.gguf --memory 24G --drain\n"
                "nocturne run -m model.gguf --slots 8",
    .run = run,
};
