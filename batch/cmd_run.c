#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "batch/command.h"
#include "batch/configuration.h"
#include "batch/database.h"
#include "batch/host/confine.h"
#include "batch/host/machine.h"
#include "batch/host/scope.h"
#include "batch/model_options.h"
#include "batch/worker/worker.h"

#define STOP_POLL_US 100000
#define EXIT_SIGINT 130

static enum guard_gpu gpu_policy(const char *text)
{
    if (!text)
        return GUARD_GPU_AUTO;
    return strcmp(text, "wait") == 0    ? GUARD_GPU_WAIT
           : strcmp(text, "pause") == 0 ? GUARD_GPU_PAUSE
                                        : GUARD_GPU_IGNORE;
}

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
        .keep_loaded = option_on(o, OPTION_KEEP_LOADED),
        .max_jobs = (uint64_t)option_int(o, OPTION_MAX_JOBS),
        .drain = option_on(o, OPTION_DRAIN),
        .gpu_busy = gpu_policy(option_text(o, OPTION_GPU_BUSY)),
        .gpu_busy_after_us = option_us(o, OPTION_GPU_BUSY_AFTER),
        .gpu_free_after_us = option_us(o, OPTION_GPU_FREE_AFTER),
        .memory_ignore = strcmp(option_text(o, OPTION_MEMORY_BUSY), "ignore") == 0,
        .relieve = strcmp(option_text(o, OPTION_PRESSURE), "on") == 0,
        .haste = 1,
        .lease_us = option_us(o, OPTION_LEASE),
        .report_us = option_us(o, OPTION_REPORT_EVERY),
        .space_check_us = option_us(o, OPTION_SPACE_CHECK),
        .hook = option_text(o, OPTION_HOOK),
        .hook_timeout_us = option_us(o, OPTION_HOOK_TIMEOUT),
        .snapshot_after_us = option_us(o, OPTION_SNAPSHOT_AFTER),
    };
}

/* What a limit is made for has to be known before; and once there is one, it is asked no more. */
static int decide_budget(struct worker_options *o, struct error *e)
{
    char ignored[MACHINE_WARNING_BYTES], take[24]; /* the warning is the worker's to give */
    struct machine_budget budget;
    int rc = machine_choose_budget("", o->memory_bytes, &budget, ignored, e);
    if (rc)
        return rc;
    o->memory_bytes = budget.bytes;
    if (*budget.from && log_enabled(LOG_INFO))
        message("memory budget %s: %s", str_format_size(budget.bytes, take), budget.from);
    return 0;
}

/* Starts the program again where the limit is a scope of systemd: nothing may be open yet. */
static int confine(const struct options *options, struct worker_options *o, struct confine *ret,
                   struct error *e)
{
    const char *word = option_text(options, OPTION_CONFINE);
    const bool entered = scope_entered(&o->memory_bytes);
    if (strcmp(word, "off") == 0)
        return 0;
    int rc = decide_budget(o, e);
    if (rc == 0)
        rc = confine_enter(ret, "", strcmp(word, "require") == 0, o->memory_bytes, entered, e);
    if (rc == 0 && log_enabled(ret->limited ? LOG_INFO : LOG_WARN))
        message("%s", ret->says);
    return rc;
}

/* What the service manager expects of this process; 0: nothing. */
static int64_t watchdog_us(const struct options *o)
{
    const char *usec = options_environment(o, "WATCHDOG_USEC");
    const char *pid = options_environment(o, "WATCHDOG_PID");
    int64_t us = 0, of = getpid();
    if (usec && str_parse_int(usec, 0, INT64_MAX, &us, NULL) != 0)
        us = 0;
    if (pid && (str_parse_int(pid, 0, INT64_MAX, &of, NULL) != 0 || of != getpid()))
        us = 0;
    return us;
}

/* A disk that is full when the night begins may have room when it is over. */
static int open_database(const struct options *o, const struct stop *stop, struct queue **ret,
                         struct error *e)
{
    int rc = database_open(o, true, ret, e);
    if (rc == -ERROR_FULL)
        message("paused: disk: %s; it goes on when there is room", e->text);
    while (rc == -ERROR_FULL && !stop_asked(stop)) {
        const int64_t until_us = clock_mono_us() + option_us(o, OPTION_SPACE_CHECK);
        while (clock_mono_us() < until_us && !stop_asked(stop))
            clock_sleep_us(STOP_POLL_US);
        error_clear(e);
        rc = database_open(o, true, ret, e);
    }
    return rc;
}

static int work(const struct command_context *c, struct worker_options *o, struct stop *stop,
                struct error *e)
{
    struct queue *q = NULL;
    int rc = open_database(c->options, stop, &q, e);
    if (rc == -ERROR_FULL) /* asked to stop meanwhile */
        return stop_signal(stop) == SIGINT ? EXIT_SIGINT : 0;
    if (rc == 0)
        rc = worker_run(o, q, stop, e);
    queue_close(q);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct worker_options o = worker_options(c->options);
    int rc = windows_of_options(&o.windows, c->options, e);
    if (rc == 0)
        rc = model_path_check(o.model_path, e);
    if (rc)
        return rc;
    if (o.raw && o.chat_format)
        return error_set(e, ERROR_USAGE, "--raw and --chat-format exclude each other");
    o.notify_socket = options_environment(c->options, "NOTIFY_SOCKET");
    o.watchdog_us = watchdog_us(c->options);
    o.json = option_on(c->options, OPTION_JSON) ? c->out : NULL;
    struct stop stop = {0};
    struct confine limit = {0};
    rc = confine(c->options, &o, &limit, e);
    if (rc == 0)
        rc = stop_open_until(&stop, option_us(c->options, OPTION_UNTIL), e);
    cJSON *settings = rc == 0 ? configuration_json(c->options, c->command->option) : NULL;
    cJSON_AddStringToObject(settings, "limit", limit.says);
    o.configuration = settings;
    if (rc == 0)
        rc = work(c, &o, &stop, e);
    cJSON_Delete(settings);
    stop_close(&stop);
    confine_leave(&limit);
    return rc;
}

static const enum option_id options[] = {OPTION_MODEL,
                                         OPTION_MEMORY,
                                         OPTION_THREADS,
                                         OPTION_CTX,
                                         OPTION_SLOTS,
                                         OPTION_CHUNK,
                                         OPTION_ISA,
                                         OPTION_IO,
                                         OPTION_EXPERT_POLICY,
                                         OPTION_LOOKAHEAD,
                                         OPTION_EXACT,
                                         OPTION_RAW,
                                         OPTION_CHAT_FORMAT,
                                         OPTION_ALIAS,
                                         OPTION_MATCH_MODEL,
                                         OPTION_DRAIN,
                                         OPTION_LEASE,
                                         OPTION_REPORT_EVERY,
                                         OPTION_SPACE_CHECK,
                                         OPTION_SNAPSHOT_AFTER,
                                         OPTION_WORK_WINDOW,
                                         OPTION_KEEP_LOADED,
                                         OPTION_UNTIL,
                                         OPTION_MAX_JOBS,
                                         OPTION_HOOK,
                                         OPTION_HOOK_TIMEOUT,
                                         OPTION_CONFINE,
                                         OPTION_GPU_BUSY,
                                         OPTION_GPU_BUSY_AFTER,
                                         OPTION_GPU_FREE_AFTER,
                                         OPTION_MEMORY_BUSY,
                                         OPTION_PRESSURE,
                                         OPTION_JSON,
                                         OPTION_NONE};

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
        "Outside of --window it waits: requests are given back with all they have, the model is\n"
        "unloaded, and the next window goes on with them. --until ends the run as SIGTERM does,\n"
        "--max-jobs after so many jobs, --drain as soon as nothing is left, in a window or not.\n\n"
        "Two layers of the model, its output matrix, a sequence's state and a few experts have to\n"
        "fit --memory; other layers are read for every step, other experts as routers pick them.\n"
        "'nocturne inspect --memory SIZE' shows the plan.\n\n"
        "Behind --memory the kernel is told a limit a twentieth above it: by a scope of systemd,\n"
        "or a control group of its own; where neither can be had, that is said. A worker that the\n"
        "kernel killed for lack of memory leaves the queue paused, so that nothing goes round in\n"
        "circles until morning; started under that pause, this ends with 75.\n\n"
        "It stands back by itself: while a GPU that shares the machine's memory is used by others\n"
        "(--gpu-busy), and before loading while memory is short (--memory-busy). It says who is\n"
        "in the way, and goes on by itself. Where memory gets short later (--pressure), it gives\n"
        "back experts by one sign of it; by two that agree it begins nothing more, then pauses.\n\n"
        "--hook COMMAND is run with one JSON object on its standard input when a batch is "
        "finished,\n"
        "requests have failed, work stands still for a cause or the queue is empty; it can hold\n"
        "nothing up (docs/unattended.md).\n\n"
        "Exit status: 0 drained, --until or --max-jobs reached, or SIGTERM; 1 drained or\n"
        "--max-jobs reached with failures, 3 another worker is there or took over, 4 the model\n"
        "does not fit, 75 paused with work left, 130 stopped by Ctrl-C.",
    .examples =
        "nocturne run -m model.gguf --memory 24G --drain\n"
        "nocturne run -m model.gguf --slots 8\n"
        "nocturne run -m model.gguf --hook 'jq . | mail -s \"nocturne: $NOCTURNE_EVENT\" me'\n"
        "nocturne run -m model.gguf --window 'mon-fri 22:00-07:00' --window 'sat,sun 00:00-24:00'",
    .run = run,
};
