/* Which experts a model uses, into a file: what bench/replay compares cache policies on. */
#include <string.h>

#include "base/file.h"
#include "batch/command.h"
#include "batch/model_options.h"
#include "batch/report.h"
#include "batch/stop.h"
#include "batch/token_ids.h"

#define TEXT_BYTES_MAX ((size_t)64 << 20)

struct tracing {
    struct report report;
    struct stop stop;
    struct engine *engine;
};

static bool interrupted(void *context)
{
    struct tracing *t = context;
    return stop_asked(&t->stop);
}

static void loading(void *context, uint64_t done_bytes, uint64_t total_bytes)
{
    struct tracing *t = context;
    report_loading(&t->report, done_bytes, total_bytes);
}

/* The ids of --tokens, or of the file's text. */
static int read_ids(const struct command_context *c, const struct engine *en, struct buf *ids,
                    struct error *e)
{
    const char *given = option_text(c->options, OPTION_TOKENS);
    if (given)
        return token_ids_parse(given, ids, e);
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    int rc = file_read_all(c->arg[0], TEXT_BYTES_MAX, &text, e);
    if (rc == 0)
        rc = engine_tokenize(en, buf_str(&text), false, true, ids, e);
    buf_release(&text);
    return rc;
}

/* A text that is there, --rows tokens a step. */
static int follow(struct tracing *t, const struct command_context *c, struct error *e)
{
    struct buf ids;
    const size_t limit = (size_t)option_int(c->options, OPTION_FIRST_TOKENS);
    buf_init(&ids, TOKEN_IDS_MAX_BYTES);
    int rc = read_ids(c, t->engine, &ids, e);
    size_t n = ids.len / sizeof(int32_t);
    n = limit ? MIN_OF(n, limit) : n;
    if (rc == 0 && n == 0)
        rc = error_set(e, ERROR_INVALID, "%s: no tokens", c->n_args ? c->arg[0] : "--tokens");
    if (rc == 0)
        rc = engine_score(t->engine, (const int32_t *)(const void *)ids.ptr, n, 0, NULL, NULL, e);
    buf_release(&ids);
    return rc;
}

/* A prompt and the answer to it: as a worker would give it, but for what nobody asked for. */
static int answer(struct tracing *t, const struct command_context *c, struct error *e)
{
    struct engine_info info;
    engine_describe(t->engine, &info);
    const struct str prompt = str_of(option_text(c->options, OPTION_ASK));
    const struct engine_message message = {.role = str_of("user"), .content = prompt};
    const bool chat = *info.chat_format && !option_on(c->options, OPTION_RAW);
    const struct engine_request r = {.messages = chat ? &message : NULL,
                                     .n_messages = chat,
                                     .prompt = chat ? str_of("") : prompt,
                                     .max_tokens =
                                         (uint32_t)option_int(c->options, OPTION_MAX_TOKENS)};
    enum engine_admission admission;
    int rc = engine_submit(t->engine, &r, &admission, e);
    struct engine_event event = {0};
    while (rc == 0 && engine_busy(t->engine)) {
        if (stop_asked(&t->stop))
            return error_set(e, ERROR_INTERRUPTED, "stopped");
        const int got = engine_poll(t->engine, &event, e);
        rc = MIN_OF(got, 0);
        if (got > 0 && event.kind == ENGINE_EVENT_FAILED) {
            *e = event.error;
            rc = -event.error.code;
        }
    }
    return rc;
}

static int record(struct tracing *t, struct command_context *c, struct engine_options *o,
                  struct error *e)
{
    const bool ask = option_text(c->options, OPTION_ASK) != NULL;
    o->slots = 1;
    o->trace_path = option_text(c->options, OPTION_OUT);
    o->no_tokenizer = option_text(c->options, OPTION_TOKENS) != NULL;
    if (!ask)
        o->chunk = (uint32_t)option_int(c->options, OPTION_ROWS);
    o->interrupted = interrupted;
    o->interrupted_context = t;
    o->loading = loading;
    o->loading_context = t;
    int rc = engine_open(&t->engine, o, e);
    report_end(&t->report);
    if (rc == 0)
        rc = ask ? answer(t, c, e) : follow(t, c, e);
    if (rc == 0)
        rc = engine_trace(t->engine, e);
    engine_close(t->engine);
    return rc;
}

static int check_usage(const struct command_context *c, struct error *e)
{
    const int n = (c->n_args > 0) + (option_text(c->options, OPTION_TOKENS) != NULL) +
                  (option_text(c->options, OPTION_ASK) != NULL);
    if (n == 1 && option_text(c->options, OPTION_OUT))
        return 0;
    return error_set(e, ERROR_USAGE,
                     "give one of FILE, --tokens and --prompt, and where to write with -o");
}

static int run(struct command_context *c, struct error *e)
{
    struct engine_options o;
    struct tracing t = {0};
    int rc = model_options_read(&o, c->options, NULL, e);
    if (rc == 0)
        rc = check_usage(c, e);
    if (rc == 0)
        rc = model_ledger_new(&o.ledger, c->options, e);
    if (rc < 0)
        return rc;
    report_init(&t.report, option_us(c->options, OPTION_REPORT_EVERY));
    rc = stop_open(&t.stop, e);
    if (rc == 0)
        rc = record(&t, c, &o, e);
    stop_close(&t.stop);
    ledger_free(o.ledger);
    return rc;
}

static const enum option_id options[] = {
    OPTION_MODEL,  OPTION_OUT,           OPTION_ROWS,      OPTION_FIRST_TOKENS, OPTION_TOKENS,
    OPTION_ASK,    OPTION_MAX_TOKENS,    OPTION_RAW,       OPTION_CHAT_FORMAT,  OPTION_EXACT,
    OPTION_MEMORY, OPTION_CTX,           OPTION_THREADS,   OPTION_CHUNK,        OPTION_ISA,
    OPTION_IO,     OPTION_EXPERT_POLICY, OPTION_LOOKAHEAD, OPTION_REPORT_EVERY, OPTION_NONE};

const struct command command_trace = {
    .name = "trace",
    .arguments = "[FILE]",
    .max_args = 1,
    .option = options,
    .computes = true,
    .details =
        "Runs the text of FILE, the ids of --tokens, or a prompt and the answer to it, and writes\n"
        "which experts each layer wanted in each step. What is recorded does not depend on\n"
        "--memory. 'make bench-replay TRACE=FILE' says what each --expert-policy would have read\n"
        "with how many of the experts in memory.\n\n"
        "FILE and --tokens go through one token a step, as answers are written; --rows N takes N\n"
        "at once, as prompts are read. The file's format is in engine/experts/trace.h.",
    .examples =
        "nocturne trace -m model.gguf --memory 24G -o book.trace -n 512 book.txt\n"
        "nocturne trace -m model.gguf -o answer.trace -p 'Name three rivers.' --max-tokens 200",
    .run = run,
};
