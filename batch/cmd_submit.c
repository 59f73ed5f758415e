#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/submission.h"

static int check_usage(const struct command_context *c, struct error *e)
{
    bool prompts = option_item(c->options, OPTION_PROMPT, 0) != NULL;
    if (!prompts && c->n_args == 0)
        return error_set(e, ERROR_USAGE,
                         "nothing to submit: name files or folders, '-' or -p TEXT");
    if (prompts && c->n_args)
        return error_set(
            e, ERROR_USAGE,
            "-p is a whole prompt; to ask something about documents use a template (-t)");
    if (prompts && option_text(c->options, OPTION_TEMPLATE))
        return error_set(e, ERROR_USAGE, "a template (-t) is for documents, not for -p");
    return 0;
}

static int gather(struct command_context *c, struct submission *s, struct error *e)
{
    int rc = submission_add_prompts(s, e);
    for (int i = 0; i < c->n_args && rc == 0; i++)
        rc = submission_add_input(s, c->arg[i], e);
    return rc;
}

static void print_notes(const struct submission *s)
{
    if (s->notes.n_without_method)
        message("%llu lines have no method; POST was assumed",
                (unsigned long long)s->notes.n_without_method);
    if (s->notes.n_long_ids)
        message("%llu custom_ids are longer than %u bytes, which some services refuse",
                (unsigned long long)s->notes.n_long_ids, JSONL_CUSTOM_ID_LONG_BYTES);
}

static int print_batch(struct command_context *c, struct queue *q, struct queue_id id, bool found,
                       struct error *e)
{
    char text[37];
    database_id_text(id, text);
    if (option_on(c->options, OPTION_QUIET)) {
        output_put(c->out, "%s\n", text);
        return 0;
    }
    struct queue_batches b = {0};
    int rc = queue_batch(q, id, &b, e);
    if (rc)
        return rc;
    uint64_t n = b.item[0].counts.total;
    const char *name = b.item[0].name ? b.item[0].name : "";
    if (option_on(c->options, OPTION_JSON)) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "id", text);
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddNumberToObject(o, "requests", (double)n);
        cJSON_AddBoolToObject(o, "existing", found);
        rc = output_json(c->out, o, true, e);
    } else {
        output_put(c->out, "%s  %llu request%s%s%s\n", text, (unsigned long long)n,
                   n == 1 ? "" : "s", *name ? "  " : "", name);
    }
    queue_batches_release(&b);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    int rc = check_usage(c, e);
    if (rc)
        return rc;
    struct queue *q = NULL;
    rc = database_open(c->options, true, &q, e);
    if (rc)
        return rc;
    struct submission s;
    struct queue_id id;
    bool found = false;
    rc = submission_begin(&s, q, c->options, e);
    if (rc == 0)
        rc = gather(c, &s, e);
    if (rc == 0)
        rc = submission_publish(&s, &id, &found, e);
    if (rc == 0) {
        print_notes(&s);
        if (found)
            message("the same batch is there already and not finished; --force submits it again");
        rc = print_batch(c, q, id, found, e);
    }
    submission_release(&s);
    queue_close(q);
    return rc;
}

static const enum option_id options[] = {
    OPTION_PROMPT,     OPTION_TEMPLATE,       OPTION_VARIABLE,   OPTION_SYSTEM,
    OPTION_MAX_TOKENS, OPTION_TEMPERATURE,    OPTION_TOP_P,      OPTION_TOP_K,
    OPTION_MIN_P,      OPTION_REPEAT_PENALTY, OPTION_REASONING,  OPTION_REASONING_BUDGET,
    OPTION_SEED,       OPTION_STOP,           OPTION_BATCH_NAME, OPTION_PRIORITY,
    OPTION_AFTER,      OPTION_NOT_BEFORE,     OPTION_DEADLINE,   OPTION_FORCE,
    OPTION_QUIET,      OPTION_JSON,           OPTION_NONE};

const struct command command_submit = {
    .name = "submit",
    .arguments = "[FILE|DIR|-]...",
    .max_args = -1,
    .option = options,
    .details =
        "Each document is a request: every file named, every file below a folder (sorted, hidden "
        "ones\nleft out), or standard input ('-'). A .jsonl file is OpenAI batch input: each line "
        "is "
        "a request.\nAll of it is accepted, or nothing: a file that is no text is named, a bad "
        "line "
        "with its number.\n\nThe batch has an id, printed on standard output. The same input "
        "submitted "
        "again while "
        "it is\nunfinished is the same batch (see --force). Nothing runs until there is a worker: "
        "'nocturne run'.",
    .examples = "nocturne submit -p 'Name three rivers.'\n"
                "nocturne submit -t summary.txt -v words=100 --max-tokens 300 reports/\n"
                "nocturne submit --batch nightly --not-before 22:00 requests.jsonl\n"
                "batch=$(nocturne submit -q reports/) && nocturne wait $batch",
    .run = run,
};
