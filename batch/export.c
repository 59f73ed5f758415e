#include "batch/export.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "batch/database.h"
#include "batch/view.h"
#include "jobs/json.h"
#include "jobs/response.h"

#define SINK_FLUSH_BYTES (1u << 20)
#define CACHE_BYTES (8u << 20) /* of a file that is being written, in the page cache */
#define LINE_MAX_BYTES (256u << 20)

int export_format_parse(const char *name, enum export_format *ret, struct error *e)
{
    static const char *const names[] = {
        [EXPORT_OPENAI] = "openai", [EXPORT_JSONL] = "jsonl", [EXPORT_CSV] = "csv"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum export_format)i;
            return 0;
        }
    }
    return error_set(e, ERROR_USAGE, "--format: '%s' is not openai, jsonl or csv", name);
}

/* ---- Where lines go --------------------------------------------------------------------------- */

static int sink_open(struct export_sink *s, const char *path, struct output *out, struct error *e)
{
    s->out = path ? NULL : out;
    buf_init(&s->text, LINE_MAX_BYTES + SINK_FLUSH_BYTES);
    int rc = path ? file_replace_begin(&s->file, path, e) : 0;
    s->open = rc == 0;
    return rc;
}

static int sink_flush(struct export_sink *s, struct error *e)
{
    if (s->out)
        return output_flush(s->out, e);
    int rc = buf_check(&s->text, "line", e);
    if (rc == 0)
        rc = file_write_fd(s->file.fd, s->text.ptr, s->text.len, s->file.path, e);
    s->n_unflushed += s->text.len;
    if (rc == 0 && s->n_unflushed >= CACHE_BYTES) {
        rc = file_flush(s->file.fd, s->file.path, e);
        s->n_unflushed = 0;
    }
    buf_clear(&s->text);
    return rc;
}

static int sink_put(struct export_sink *s, struct str line, struct error *e)
{
    struct buf *to = s->out ? &s->out->text : &s->text;
    buf_append_str(to, line);
    return to->len >= SINK_FLUSH_BYTES || to->failed ? sink_flush(s, e) : 0;
}

static int sink_commit(struct export_sink *s, struct error *e)
{
    if (!s->open)
        return 0;
    int rc = sink_flush(s, e);
    return rc || s->out ? rc : file_replace_commit(&s->file, e);
}

static void sink_release(struct export_sink *s)
{
    if (s->open && !s->out)
        file_replace_abort(&s->file);
    buf_release(&s->text);
}

/* ---- Lines ------------------------------------------------------------------------------------ */

static bool is_good(const struct queue_result *r)
{
    return r->state == QUEUE_DONE;
}

/* Why a request has no response at all; NULL: it has one. `tree` is its stored JSON. */
static const char *lost_code(const struct queue_result *r, const cJSON *tree)
{
    if (r->state == QUEUE_CANCELLED)
        return "batch_cancelled";
    if (r->state == QUEUE_EXPIRED)
        return "batch_expired";
    if (is_good(r) || cJSON_GetObjectItem(tree, "error"))
        return NULL;
    const char *code = cJSON_GetStringValue(cJSON_GetObjectItem(tree, "code"));
    return code ? code : "batch_failed";
}

static const char *lost_message(const struct queue_result *r, const cJSON *tree)
{
    if (r->state == QUEUE_CANCELLED)
        return "This request was cancelled.";
    if (r->state == QUEUE_EXPIRED)
        return "This request could not be executed before its deadline.";
    const char *text = view_error_text(tree);
    return text ? text : "This request failed.";
}

static int put_openai(struct export *x, const struct queue_result *r, const cJSON *tree,
                      struct error *e)
{
    char id[37];
    const char *lost = lost_code(r, tree);
    struct job_line line = {
        .id = str_of(database_id_text(r->request, id)),
        .custom_id = str_of(r->custom_id),
        .status = is_good(r) ? 200
                  : r->http  ? r->http
                             : 500,
        .body = str_of(lost ? NULL : r->json),
        .error_code = lost,
        .error_message = lost ? lost_message(r, tree) : NULL,
    };
    int rc = job_line_json(&x->line, &line, e);
    buf_append_c(&x->line, "\n");
    return rc;
}

/* What the short formats say about a result. */
struct summary {
    const char *state, *finish, *text, *error;
    double prompt_tokens, completion_tokens;
};

static struct summary summarize(const struct queue_result *r, const cJSON *tree, char note[96])
{
    if (r->empty)
        snprintf(note, 96, "empty answer: %s", r->empty);
    const cJSON *usage = cJSON_GetObjectItem(tree, "usage");
    double prompt = cJSON_GetNumberValue(cJSON_GetObjectItem(usage, "prompt_tokens"));
    double completion = cJSON_GetNumberValue(cJSON_GetObjectItem(usage, "completion_tokens"));
    return (struct summary){
        .state = queue_state_name(r->state),
        .finish = is_good(r) && r->finish ? r->finish : "",
        .text = is_good(r) ? view_answer_text(tree) : NULL,
        .error = r->empty     ? note
                 : is_good(r) ? NULL
                              : lost_message(r, tree),
        .prompt_tokens = is_good(r) ? prompt : 0,
        .completion_tokens = is_good(r) ? completion : 0,
    };
}

static void put_pair(struct buf *out, const char *name, const char *value)
{
    json_put_name(out, name);
    if (value)
        json_put_string(out, str_of(value));
    else
        buf_append_c(out, "null");
}

static void put_jsonl(struct export *x, const struct queue_result *r, const struct summary *s)
{
    struct buf *out = &x->line;
    buf_append_c(out, "{");
    put_pair(out, "custom_id", r->custom_id);
    buf_append_c(out, ",");
    put_pair(out, "state", s->state);
    buf_append_c(out, ",");
    put_pair(out, "text", s->text);
    buf_append_c(out, ",");
    put_pair(out, "finish_reason", *s->finish ? s->finish : NULL);
    buf_printf(out, ",\"prompt_tokens\":%.0f,\"completion_tokens\":%.0f,", s->prompt_tokens,
               s->completion_tokens);
    put_pair(out, "error", s->error);
    buf_append_c(out, "}\n");
}

static void put_csv_text(struct buf *out, const char *text)
{
    buf_append_c(out, "\"");
    for (const char *at = text ? text : ""; *at;) {
        size_t n = strcspn(at, "\"");
        buf_append(out, at, n);
        at += n;
        if (*at) {
            buf_append_c(out, "\"\"");
            at++;
        }
    }
    buf_append_c(out, "\"");
}

static void put_csv(struct export *x, const struct queue_result *r, const struct summary *s)
{
    struct buf *out = &x->line;
    put_csv_text(out, r->custom_id);
    buf_printf(out, ",%s,%s,%.0f,%.0f,", s->state, s->finish, s->prompt_tokens,
               s->completion_tokens);
    put_csv_text(out, s->text);
    buf_append_c(out, ",");
    put_csv_text(out, s->error);
    buf_append_c(out, "\r\n");
}

/* Parsing is for errors and the short formats only: answers go through as they are stored. */
static int make_line(struct export *x, const struct queue_result *r, struct error *e)
{
    bool needed = r->json && (x->format != EXPORT_OPENAI || !is_good(r));
    cJSON *tree = needed ? view_parse(r->json) : NULL;
    if (needed && !tree)
        return error_set(e, ERROR_FORMAT, "'%s': its stored result is not JSON", r->custom_id);
    buf_clear(&x->line);
    int rc = 0;
    if (x->format == EXPORT_OPENAI) {
        rc = put_openai(x, r, tree, e);
    } else {
        char note[96];
        struct summary s = summarize(r, tree, note);
        if (x->format == EXPORT_JSONL)
            put_jsonl(x, r, &s);
        else
            put_csv(x, r, &s);
    }
    cJSON_Delete(tree);
    return rc ? rc : buf_check(&x->line, "result line", e);
}

int export_put(struct export *x, const struct queue_result *r, struct error *e)
{
    int rc = make_line(x, r, e);
    if (rc)
        return rc;
    bool good = is_good(r);
    struct export_sink *to = !good && x->bad.open ? &x->bad : &x->good;
    /* JSON escapes what a terminal would obey. The line's own end is no text. */
    if (x->format == EXPORT_CSV && to->out && to->out->terminal)
        output_harmless(x->line.ptr, x->line.len - 2, true);
    rc = sink_put(to, buf_str(&x->line), e);
    x->n_good += rc == 0 && good;
    x->n_empty += rc == 0 && good && r->empty;
    x->n_bad += rc == 0 && !good;
    return rc;
}

/* ---- Beginning and end ------------------------------------------------------------------------ */

int export_begin(struct export *x, enum export_format format, const char *path, const char *errors,
                 struct output *out, struct error *e)
{
    memset(x, 0, sizeof(*x));
    x->format = format;
    buf_init(&x->line, LINE_MAX_BYTES);
    int rc = sink_open(&x->good, path, out, e);
    if (rc == 0 && errors)
        rc = sink_open(&x->bad, errors, NULL, e);
    struct str titles =
        str_of("custom_id,state,finish_reason,prompt_tokens,completion_tokens,text,error\r\n");
    if (rc == 0 && format == EXPORT_CSV)
        rc = sink_put(&x->good, titles, e);
    if (rc == 0 && format == EXPORT_CSV && errors)
        rc = sink_put(&x->bad, titles, e);
    return rc;
}

int export_commit(struct export *x, struct error *e)
{
    int rc = sink_commit(&x->good, e);
    return rc ? rc : sink_commit(&x->bad, e);
}

void export_release(struct export *x)
{
    sink_release(&x->good);
    sink_release(&x->bad);
    buf_release(&x->line);
}
