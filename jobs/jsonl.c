#include "jobs/jsonl.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "jobs/json.h"
#include "jobs/request.h"
#include "jobs/text.h"

#define READ_BYTES (64u << 10)

struct jsonl {
    char *name;
    jsonl_read_fn *read;
    void *context;
    int fd;
    bool at_end;     /* the source said so */
    uint64_t number; /* of the line given last */
    struct buf data; /* bytes read; [start, len) are not used yet */
    size_t start;
    size_t searched; /* no line feed in [start, searched) */
    struct buf body;
    char custom_id[JOB_CUSTOM_ID_MAX_BYTES + 1];
    const struct job_kind *kind; /* of every line; NULL before the first */
    struct jsonl_notes notes;
    char chunk[READ_BYTES];
};

/* ---- Bytes to lines -------------------------------------------------------------------------- */

static int64_t read_fd(void *context, void *out, size_t n, struct error *e)
{
    const struct jsonl *j = context;
    for (;;) {
        ssize_t got = read(j->fd, out, n);
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return error_sys(e, ERROR_IO, errno, "%s: cannot read", j->name);
    }
}

/* NULL when there is no memory. */
static struct jsonl *reader_new(const char *name, jsonl_read_fn *read_bytes, void *context)
{
    struct jsonl *j = mem_zalloc(sizeof(*j));
    char *copy = mem_strdup(name);
    if (!j || !copy) {
        mem_free(j);
        mem_free(copy);
        return NULL;
    }
    j->name = copy;
    j->read = read_bytes;
    j->context = context;
    j->fd = -1;
    buf_init(&j->data, (size_t)JSONL_LINE_MAX_BYTES + READ_BYTES);
    buf_init(&j->body, JOB_BODY_MAX_BYTES);
    return j;
}

int jsonl_open(struct jsonl **ret, const char *name, jsonl_read_fn *read_bytes, void *context,
               struct error *e)
{
    struct jsonl *j = reader_new(name, read_bytes, context);
    if (!j)
        return error_set(e, ERROR_NOMEM, "%s: no memory to read it", name);
    *ret = j;
    return 0;
}

int jsonl_open_fd(struct jsonl **ret, const char *name, int fd, struct error *e)
{
    struct jsonl *j = reader_new(name, read_fd, NULL);
    if (!j)
        return error_set(e, ERROR_NOMEM, "%s: no memory to read it", name);
    j->fd = fd;
    j->context = j;
    *ret = j;
    return 0;
}

void jsonl_close(struct jsonl *j)
{
    if (!j)
        return;
    buf_release(&j->data);
    buf_release(&j->body);
    mem_free(j->name);
    mem_free(j);
}

/* Moves what is not used to the front, so that the buffer stays as long as one line. */
static void drop_used(struct jsonl *j)
{
    if (j->start == 0 || !j->data.ptr)
        return;
    size_t left = j->data.len - j->start;
    memmove(j->data.ptr, j->data.ptr + j->start, left);
    j->data.len = left;
    j->data.ptr[left] = '\0';
    j->searched -= j->start;
    j->start = 0;
}

static int fill(struct jsonl *j, struct error *e)
{
    drop_used(j);
    int64_t n = j->read(j->context, j->chunk, sizeof(j->chunk), e);
    if (n < 0)
        return (int)n;
    j->at_end = n == 0;
    buf_append(&j->data, j->chunk, (size_t)n);
    return buf_check(&j->data, j->name, e);
}

/* The next line without its line feed: 1, 0 at the end, or a negative code. */
static int next_line(struct jsonl *j, struct str *ret, struct error *e)
{
    for (;;) {
        char *from = j->data.len > 0 ? j->data.ptr + j->searched : NULL;
        const char *feed = from ? memchr(from, '\n', j->data.len - j->searched) : NULL;
        size_t end = feed ? (size_t)(feed - j->data.ptr) : j->data.len;
        if (end - j->start > JSONL_LINE_MAX_BYTES) {
            j->number++;
            return error_set(e, ERROR_BADDATA, "longer than %u bytes", JSONL_LINE_MAX_BYTES);
        }
        if (!feed && !j->at_end) {
            j->searched = j->data.len;
            int rc = fill(j, e);
            if (rc < 0)
                return rc;
            continue;
        }
        if (!feed && end == j->start)
            return 0;
        *ret = str_slice(j->data.ptr + j->start, end - j->start);
        j->start = j->searched = feed ? end + 1 : end;
        j->number++;
        return 1;
    }
}

static struct str without_mark(struct str line)
{
    if (line.len >= 3 && memcmp(line.ptr, "\xEF\xBB\xBF", 3) == 0)
        return str_slice(line.ptr + 3, line.len - 3);
    return line;
}

static bool is_blank(struct str line)
{
    for (size_t i = 0; i < line.len; i++) {
        if (line.ptr[i] != ' ' && line.ptr[i] != '\t' && line.ptr[i] != '\r')
            return false;
    }
    return true;
}

/* ---- Lines to requests ----------------------------------------------------------------------- */

/* The members of a full line; the tree owns them. */
struct members {
    cJSON *custom_id, *method, *url, *body;
};

static cJSON **member_place(struct members *m, const char *name)
{
    if (strcmp(name, "custom_id") == 0)
        return &m->custom_id;
    if (strcmp(name, "method") == 0)
        return &m->method;
    if (strcmp(name, "url") == 0)
        return &m->url;
    return strcmp(name, "body") == 0 ? &m->body : NULL;
}

static int find_members(cJSON *tree, struct members *m, struct error *e)
{
    for (cJSON *child = tree->child; child; child = child->next) {
        cJSON **place = member_place(m, child->string);
        if (!place)
            return error_set(e, ERROR_BADDATA, "%.100s: unknown field of a batch line",
                             child->string);
        if (*place)
            return error_set(e, ERROR_BADDATA, "%s: given twice", child->string);
        *place = child;
    }
    return 0;
}

static int take_kind(struct jsonl *j, const struct job_kind *kind, struct error *e)
{
    if (j->kind && j->kind != kind)
        return error_set(e, ERROR_BADDATA, "url: %s, but the lines before it are for %s",
                         job_kind_endpoint(kind), job_kind_endpoint(j->kind));
    j->kind = kind;
    return 0;
}

static int take_custom_id(struct jsonl *j, const cJSON *value, struct error *e)
{
    if (!value)
        return error_set(e, ERROR_BADDATA, "custom_id: missing");
    if (!cJSON_IsString(value))
        return error_set(e, ERROR_BADDATA, "custom_id: must be a string");
    size_t n = strlen(value->valuestring);
    if (n == 0 || n > JOB_CUSTOM_ID_MAX_BYTES)
        return error_set(e, ERROR_BADDATA, "custom_id: %zu bytes, must be 1 to %u", n,
                         JOB_CUSTOM_ID_MAX_BYTES);
    memcpy(j->custom_id, value->valuestring, n + 1);
    if (n > JSONL_CUSTOM_ID_LONG_BYTES)
        j->notes.n_long_ids++;
    return 0;
}

static int take_method(struct jsonl *j, const cJSON *method, struct error *e)
{
    if (!method) {
        j->notes.n_without_method++;
        return 0;
    }
    if (!cJSON_IsString(method) || strcmp(method->valuestring, "POST") != 0)
        return error_set(e, ERROR_BADDATA, "method: must be \"POST\"");
    return 0;
}

static int take_url(struct jsonl *j, const cJSON *url, struct error *e)
{
    if (!url)
        return error_set(e, ERROR_BADDATA, "url: missing");
    if (!cJSON_IsString(url))
        return error_set(e, ERROR_BADDATA, "url: must be a string");
    const struct job_kind *kind = job_kind_find(str_of(url->valuestring));
    if (!kind)
        return error_set(e, ERROR_UNSUPPORTED, "url: %.100s is not supported", url->valuestring);
    return take_kind(j, kind, e);
}

/* Writes the body and checks it; takes `body`, which stands in no tree any more. */
static int take_body(struct jsonl *j, cJSON *body, struct error *e)
{
    buf_clear(&j->body);
    json_put_tree(&j->body, body);
    struct job_request request;
    int rc = job_request_adopt(&request, j->kind, body, NULL, e);
    if (rc < 0)
        return rc;
    job_request_release(&request);
    return buf_check(&j->body, "body", e);
}

static int take_full(struct jsonl *j, cJSON *tree, struct error *e)
{
    struct members m = {.body = NULL};
    int rc = find_members(tree, &m, e);
    if (rc == 0)
        rc = take_custom_id(j, m.custom_id, e);
    if (rc == 0)
        rc = take_method(j, m.method, e);
    if (rc == 0)
        rc = take_url(j, m.url, e);
    if (rc < 0)
        return rc;
    return take_body(j, cJSON_DetachItemViaPointer(tree, m.body), e);
}

/*
 * A body by itself; takes the tree. A second custom_id stays in it and is refused there as an
 * unknown field.
 */
static int take_bare(struct jsonl *j, cJSON *tree, const struct job_kind *kind, struct error *e)
{
    cJSON *custom_id = cJSON_DetachItemFromObjectCaseSensitive(tree, "custom_id");
    int rc = take_kind(j, kind, e);
    if (!custom_id)
        snprintf(j->custom_id, sizeof(j->custom_id), "line-%llu", (unsigned long long)j->number);
    else if (rc == 0)
        rc = take_custom_id(j, custom_id, e);
    json_free(custom_id);
    if (rc < 0) {
        json_free(tree);
        return rc;
    }
    j->notes.n_bare++;
    return take_body(j, tree, e);
}

static const struct job_kind *bare_kind(const cJSON *tree)
{
    for (size_t i = 0; job_kind_at(i); i++) {
        if (cJSON_GetObjectItemCaseSensitive(tree, job_kind_at(i)->input))
            return job_kind_at(i);
    }
    return NULL;
}

static int take_line(struct jsonl *j, struct str line, struct error *e)
{
    cJSON *tree = NULL;
    int rc = json_parse(&tree, line, e);
    if (rc < 0)
        return rc;
    const struct job_kind *bare = bare_kind(tree);
    bool full = cJSON_GetObjectItemCaseSensitive(tree, "body") != NULL;
    if (bare && !full)
        return take_bare(j, tree, bare, e);
    if (full)
        rc = take_full(j, tree, e);
    else
        rc = error_set(e, ERROR_BADDATA,
                       cJSON_IsObject(tree) ? "body: missing" : "must be a JSON object");
    json_free(tree);
    return rc;
}

/* Names the line; whatever a line does wrong, for the submitter the file is bad data. */
static int blame_line(const struct jsonl *j, struct error *failure, struct error *e)
{
    if (failure->code == ERROR_INVALID || failure->code == ERROR_UNSUPPORTED)
        failure->code = ERROR_BADDATA;
    if (failure->code != ERROR_IO)
        error_wrap(failure, "%s: line %llu", j->name, (unsigned long long)j->number);
    if (e)
        *e = *failure;
    return -failure->code;
}

int jsonl_next(struct jsonl *j, struct jsonl_line *ret, struct error *e)
{
    struct str line = str_of("");
    struct error failure = {0};
    int rc;
    do {
        rc = next_line(j, &line, &failure);
        if (rc > 0 && j->number == 1)
            line = without_mark(line);
    } while (rc > 0 && is_blank(line));
    if (rc == 0)
        return 0;
    if (rc > 0)
        rc = take_line(j, line, &failure);
    if (rc < 0)
        return blame_line(j, &failure, e);
    *ret = (struct jsonl_line){.number = j->number,
                               .custom_id = str_of(j->custom_id),
                               .kind = j->kind,
                               .body = buf_str(&j->body)};
    j->notes.n_lines++;
    return 1;
}

void jsonl_notes(const struct jsonl *j, struct jsonl_notes *ret)
{
    *ret = j->notes;
}
