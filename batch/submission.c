#include "batch/submission.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "batch/database.h"
#include "jobs/body.h"
#include "jobs/document/document.h"
#include "jobs/request.h"

#define TEMPLATE_MAX_BYTES (4u << 20)

/* ---- Beginning -------------------------------------------------------------------------------- */

static int read_variables(const struct options *o, struct prompt_variable **ret, size_t *ret_n,
                          struct error *e)
{
    size_t n = 0;
    while (option_item(o, OPTION_VARIABLE, n))
        n++;
    struct prompt_variable *v = mem_array(n + 1, sizeof(*v));
    if (!v)
        return error_set(e, ERROR_NOMEM, "out of memory for variables");
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = prompt_variable_parse(option_item(o, OPTION_VARIABLE, i), &v[i], e);
    if (rc) {
        mem_free(v);
        return rc;
    }
    *ret = v;
    *ret_n = n;
    return 0;
}

static int load_template(struct submission *s, struct error *e)
{
    const char *path = option_text(s->options, OPTION_TEMPLATE);
    if (!path && option_item(s->options, OPTION_VARIABLE, 0))
        return error_set(e, ERROR_USAGE, "-v is a variable of a template, but there is no -t");
    if (!path)
        return 0;
    struct prompt_variable *variable = NULL;
    size_t n = 0;
    struct buf text;
    buf_init(&text, TEMPLATE_MAX_BYTES);
    int rc = read_variables(s->options, &variable, &n, e);
    if (rc == 0)
        rc = file_read_all(path, TEMPLATE_MAX_BYTES, &text, e);
    if (rc == 0)
        rc = prompt_template_new(&s->template, path, buf_str(&text), variable, n, e);
    if (rc == 0 && !prompt_template_uses_document(s->template))
        rc = error_set(e, ERROR_INVALID, "%s: no {{document}} in it: the model would not see it",
                       path);
    if (rc == 0)
        job_identity_option(&s->identity, "template", buf_str(&text));
    for (size_t i = 0; i < n && rc == 0; i++) {
        job_identity_option(&s->identity, "variable", variable[i].name);
        job_identity_option(&s->identity, "value", variable[i].value);
    }
    mem_free(variable);
    buf_release(&text);
    return rc;
}

static int find_after(struct submission *s, struct error *e)
{
    size_t n = 0;
    while (option_item(s->options, OPTION_AFTER, n))
        n++;
    if (n == 0)
        return 0;
    s->after = mem_array(n, sizeof(*s->after));
    if (!s->after)
        return error_set(e, ERROR_NOMEM, "out of memory for --after");
    s->n_after = n;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = database_find_batch(s->queue, option_item(s->options, OPTION_AFTER, i), &s->after[i],
                                 e);
    return rc ? error_wrap(e, "--after") : 0;
}

int submission_begin(struct submission *s, struct queue *q, const struct options *o,
                     struct error *e)
{
    memset(s, 0, sizeof(*s));
    s->queue = q;
    s->options = o;
    buf_init(&s->body, JOB_BODY_MAX_BYTES);
    buf_init(&s->seeded, JOB_BODY_MAX_BYTES);
    buf_init(&s->prompt, JOB_BODY_MAX_BYTES);
    job_identity_init(&s->identity);
    int rc = parameters_take(&s->fresh, o, false, e);
    if (rc == 0)
        rc = parameters_take(&s->change, o, true, e);
    if (rc == 0)
        rc = load_template(s, e);
    if (rc == 0)
        rc = find_after(s, e);
    return rc;
}

void submission_release(struct submission *s)
{
    queue_submit_abort(s->submit);
    prompt_template_free(s->template);
    parameters_release(&s->fresh);
    parameters_release(&s->change);
    mem_free(s->after);
    buf_release(&s->body);
    buf_release(&s->seeded);
    buf_release(&s->prompt);
    memset(s, 0, sizeof(*s));
}

/* ---- One request ------------------------------------------------------------------------------ */

static int open_batch(struct submission *s, const struct job_kind *kind, struct error *e)
{
    struct queue_batch_options opt = {
        .name = str_of(option_text(s->options, OPTION_BATCH_NAME)),
        .endpoint = str_of(job_kind_endpoint(kind)),
        .after = s->after,
        .n_after = s->n_after,
    };
    int rc = queue_submit_begin(s->queue, &opt, &s->submit, e);
    if (rc == 0)
        s->kind = kind;
    return rc;
}

/* s->body is the request's; `line` 0: not from a file of lines. */
static int add_body(struct submission *s, const struct job_kind *kind, struct str custom_id,
                    uint64_t line, struct error *e)
{
    int rc = s->submit ? 0 : open_batch(s, kind, e);
    if (rc)
        return rc;
    if (kind != s->kind)
        return error_set(e, ERROR_BADDATA, "'%.*s' is for %s, but the batch is for %s",
                         (int)MIN_OF(custom_id.len, 100), custom_id.ptr, job_kind_endpoint(kind),
                         job_kind_endpoint(s->kind));
    job_identity_add(&s->identity, kind, custom_id, buf_str(&s->body));
    buf_clear(&s->seeded);
    rc = job_body_seed(&s->seeded, buf_str(&s->body), rng_entropy() & JOB_SEED_MASK, e);
    if (rc)
        return rc;
    struct queue_new_request r = {
        .custom_id = custom_id,
        .body = buf_str(&s->seeded),
        .priority = (int)option_int(s->options, OPTION_PRIORITY),
        .not_before_us = option_us(s->options, OPTION_NOT_BEFORE),
        .deadline_us = option_us(s->options, OPTION_DEADLINE),
        .line = line,
    };
    rc = queue_submit_add(s->submit, &r, e);
    if (rc == 0)
        s->n_requests++;
    return rc;
}

static int add_text(struct submission *s, struct str custom_id, struct str text, struct error *e)
{
    const struct job_kind *kind = job_kind_at(JOB_KIND_chat);
    buf_clear(&s->body);
    int rc = job_body_make(&s->body, kind, &s->fresh.job, text, e);
    return rc ? rc : add_body(s, kind, custom_id, 0, e);
}

/* ---- Inputs ----------------------------------------------------------------------------------- */

int submission_add_prompts(struct submission *s, struct error *e)
{
    const char *text;
    bool one = !option_item(s->options, OPTION_PROMPT, 1);
    for (size_t i = 0; (text = option_item(s->options, OPTION_PROMPT, i)) != NULL; i++) {
        char id[32];
        snprintf(id, sizeof(id), one ? "prompt" : "prompt-%zu", i + 1);
        struct str t = str_of(text);
        if (!str_utf8_valid(t, NULL))
            return error_set(e, ERROR_BADDATA, "-p: the text is not UTF-8");
        int rc = add_text(s, str_of(id), t, e);
        if (rc)
            return error_wrap(e, "-p");
    }
    return 0;
}

static int add_document(struct submission *s, const struct document *d, struct error *e)
{
    struct str text = d->text;
    int rc = 0;
    if (s->template) {
        buf_clear(&s->prompt);
        rc = prompt_template_render(s->template, d->text, d->filename, &s->prompt, e);
        text = buf_str(&s->prompt);
    }
    if (rc == 0)
        rc = add_text(s, d->custom_id, text, e);
    return rc ? error_wrap(e, "%.*s", (int)d->custom_id.len, d->custom_id.ptr) : 0;
}

static int add_documents(struct submission *s, const char *argument, struct error *e)
{
    struct document_walk *walk = NULL;
    int rc = document_walk_open(&walk, argument, e);
    if (rc)
        return rc;
    struct document d;
    uint64_t before = s->n_requests;
    while ((rc = document_walk_next(walk, &d, e)) > 0) {
        rc = add_document(s, &d, e);
        if (rc)
            break;
    }
    document_walk_close(walk);
    if (rc == 0 && s->n_requests == before)
        return error_set(e, ERROR_NOTFOUND, "%s: no documents in it", argument);
    return rc;
}

static int add_line(struct submission *s, const char *path, const struct jsonl_line *line,
                    struct error *e)
{
    buf_clear(&s->body);
    int rc = job_body_change(&s->body, line->kind, &s->change.job, line->body, NULL, e);
    if (rc)
        return error_wrap(e, "%s:%llu", path, (unsigned long long)line->number);
    rc = add_body(s, line->kind, line->custom_id, line->number, e);
    return rc ? error_wrap(e, "%s", path) : 0;
}

static int add_lines(struct submission *s, const char *path, struct error *e)
{
    if (s->template)
        return error_set(e, ERROR_USAGE,
                         "%s: a template is for documents; these lines have their prompts", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(e, errno == ENOENT ? ERROR_NOTFOUND : ERROR_IO, errno, "%s", path);
    struct jsonl *lines = NULL;
    int rc = jsonl_open_fd(&lines, path, fd, e);
    struct jsonl_line line;
    while (rc == 0 && (rc = jsonl_next(lines, &line, e)) > 0)
        rc = add_line(s, path, &line, e);
    if (rc == 0) {
        struct jsonl_notes notes = {0};
        jsonl_notes(lines, &notes);
        s->notes.n_lines += notes.n_lines;
        s->notes.n_without_method += notes.n_without_method;
        s->notes.n_long_ids += notes.n_long_ids;
        if (notes.n_lines == 0)
            rc = error_set(e, ERROR_BADDATA, "%s: no requests in it", path);
    }
    jsonl_close(lines);
    close(fd);
    return rc;
}

static bool is_jsonl(const char *path)
{
    size_t n = strlen(path);
    return n > 6 && strcmp(path + n - 6, ".jsonl") == 0;
}

int submission_add_input(struct submission *s, const char *argument, struct error *e)
{
    return is_jsonl(argument) ? add_lines(s, argument, e) : add_documents(s, argument, e);
}

int submission_publish(struct submission *s, struct queue_id *ret, bool *ret_found, struct error *e)
{
    uint8_t identity[JOB_IDENTITY_BYTES];
    job_identity_end(&s->identity, identity);
    int rc = queue_submit_publish(s->submit, identity, option_on(s->options, OPTION_FORCE), ret,
                                  ret_found, e);
    if (rc == 0)
        s->submit = NULL;
    return rc;
}
