#include <string.h>

#include "batch/command.h"
#include "batch/database.h"
#include "batch/piece.h"
#include "batch/view.h"
#include "batch/waiting.h"

#define TAIL_MAX_BYTES (256u << 20)

struct tail {
    struct command_context *c;
    struct queue *queue;
    struct queue_watch *watch;
    struct queue_id request;
    struct queue_tail position;
    struct buf pieces;
    struct buf fresh; /* the text of these */
    struct buf text;  /* all that was printed of the present job */
    struct buf ids;   /* of these pieces */
    bool told;        /* that it works, though there is nothing to print */
};

/* A thought is not printed: without a word for minutes, it would look like a job that stands still. */
static void tell_of_thought(struct tail *t)
{
    if (t->told || t->text.len > 0 || t->ids.len == 0)
        return;
    message("it has begun; no text of the answer yet: a model that thinks does so first");
    t->told = true;
}

/* NULs as view_parse gives them, so that the end of the text continues what was printed. */
static void append_shown(struct buf *to, struct str text)
{
    while (text.len) {
        const char *nul = memchr(text.ptr, '\0', text.len);
        size_t n = nul ? (size_t)(nul - text.ptr) : text.len;
        buf_append(to, text.ptr, n);
        if (nul)
            buf_append_c(to, "\xEF\xBF\xBD");
        n += nul != NULL;
        text = str_slice(text.ptr + n, text.len - n);
    }
}

static int print_new(struct tail *t, struct error *e)
{
    buf_clear(&t->pieces);
    int rc = queue_tail(t->queue, t->request, &t->position, &t->pieces, e);
    if (rc)
        return rc;
    if (t->position.restarted && t->text.len) {
        message("what was printed so far was discarded; the text begins again");
        output_put(t->c->out, "\n");
        buf_clear(&t->text);
    }
    size_t before = t->text.len;
    buf_clear(&t->fresh);
    buf_clear(&t->ids);
    rc = piece_read(buf_str(&t->pieces), &t->ids, &t->fresh, e);
    if (rc)
        return rc;
    append_shown(&t->text, buf_str(&t->fresh));
    rc = buf_check(&t->text, "text", e);
    if (rc)
        return rc;
    tell_of_thought(t);
    output_text(t->c->out, str_slice(t->text.ptr + before, t->text.len - before));
    return output_flush(t->c->out, e);
}

/* The end of a finished request's text: its last pieces may never have been saved apart. */
static int print_rest(struct tail *t, struct error *e)
{
    struct queue_show s = {0};
    int rc = queue_show(t->queue, t->request, &s, e);
    cJSON *answer = rc == 0 && s.result_json ? view_parse(s.result_json) : NULL;
    const char *text = view_answer_text(answer);
    struct str printed = buf_str(&t->text);
    if (text && printed.len <= strlen(text) &&
        memcmp(text, printed.ptr ? printed.ptr : "", printed.len) == 0)
        text += printed.len;
    else if (text && printed.len)
        output_put(t->c->out, "\n");
    if (text) {
        output_text(t->c->out, str_of(text));
        output_put(t->c->out, "\n");
    }
    bool done = rc == 0 && s.request.state == QUEUE_DONE;
    if (rc == 0 && !done)
        message("the request is %s", queue_state_name(s.request.state));
    cJSON_Delete(answer);
    queue_show_release(&s);
    return rc ? rc : done ? 0 : 1;
}

static int follow(struct tail *t, struct error *e)
{
    for (;;) {
        int rc = print_new(t, e);
        if (rc)
            return rc;
        if (queue_state_final(t->position.state))
            return print_rest(t, e);
        rc = waiting_for_change(t->watch, 0, e);
        if (rc)
            return rc;
    }
}

static int run(struct command_context *c, struct error *e)
{
    struct tail t = {.c = c};
    struct queue_id id;
    const struct queue_id *batch = NULL;
    buf_init(&t.pieces, TAIL_MAX_BYTES);
    buf_init(&t.fresh, TAIL_MAX_BYTES);
    buf_init(&t.text, TAIL_MAX_BYTES);
    buf_init(&t.ids, TAIL_MAX_BYTES);
    int rc = database_open(c->options, false, &t.queue, e);
    if (rc == 0)
        rc = database_batch_option(t.queue, c->options, &id, &batch, e);
    if (rc == 0)
        rc = database_find_request(t.queue, c->arg[0], batch, &t.request, e);
    if (rc == 0)
        rc = queue_watch_open(queue_path(t.queue), &t.watch, e);
    if (rc == 0)
        rc = follow(&t, e);
    queue_watch_close(t.watch);
    buf_release(&t.pieces);
    buf_release(&t.fresh);
    buf_release(&t.text);
    buf_release(&t.ids);
    queue_close(t.queue);
    return rc;
}

static const enum option_id options[] = {OPTION_BATCH, OPTION_NONE};

const struct command command_tail = {
    .name = "tail",
    .arguments = "ID",
    .min_args = 1,
    .max_args = 1,
    .option = options,
    .details = "The text of a request as it is generated, until it is finished. Exit status 1 when "
               "it did not "
               "succeed. A thought is not printed; show and export have it.",
    .examples = "nocturne tail report.txt",
    .run = run,
};
