#include "batch/sweep/row.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"

#define FILE_MAX_BYTES (16u << 20)
#define LINE_MAX_BYTES 4096
static const char *const state_names[] = {
    [SWEEP_DONE] = "done", [SWEEP_REFUSED] = "refused", [SWEEP_FAILED] = "failed"};

enum kind { COUNT, STATE, NUMBER, TEXT };

/* The columns, in order. */
static const struct column {
    const char *name;
    enum kind kind;
    size_t offset, size;
} columns[] = {
#define COLUMN(name, kind, field)                                                                  \
    {                                                                                              \
        name, kind, offsetof(struct sweep_row, field), sizeof(((struct sweep_row *)NULL)->field)   \
    }
    COLUMN("budget_bytes", COUNT, budget_bytes),
    COLUMN("repetition", COUNT, repetition),
    COLUMN("state", STATE, state),
    COLUMN("decode_tokens_per_second", NUMBER, decode_per_s),
    COLUMN("prefill_tokens_per_second", NUMBER, prefill_per_s),
    COLUMN("bytes_per_token", NUMBER, bytes_per_token),
    COLUMN("hit_rate", NUMBER, hit_rate),
    COLUMN("load_s", NUMBER, load_s),
    COLUMN("peak_rss_bytes", NUMBER, peak_rss_bytes),
    COLUMN("peak_plan_bytes", NUMBER, plan_bytes),
    COLUMN("pressure_some", NUMBER, some),
    COLUMN("pressure_full", NUMBER, full),
    COLUMN("major_faults", NUMBER, major_faults),
    COLUMN("prompt_tokens", NUMBER, prompt_tokens),
    COLUMN("tokens", NUMBER, tokens),
    COLUMN("tokens_sha256", TEXT, digest),
    COLUMN("sweep", TEXT, key),
    COLUMN("at", TEXT, at),
    COLUMN("message", TEXT, message),
#undef COLUMN
};

/* ---- A line ----------------------------------------------------------------------------------- */

static void put_cell(struct buf *out, const struct sweep_row *row, const struct column *c)
{
    const char *at = (const char *)row + c->offset;
    uint64_t count;
    double number;
    switch (c->kind) {
    case COUNT:
    case STATE:
        memcpy(&count, at, sizeof(count));
        if (c->kind == STATE)
            buf_append_c(out, state_names[count]);
        else
            buf_printf(out, "%llu", (unsigned long long)count);
        return;
    case NUMBER:
        memcpy(&number, at, sizeof(number));
        if (isfinite(number))
            buf_printf(out, "%.9g", number);
        return;
    case TEXT:
        break;
    }
    buf_append_c(out, "\"");
    for (; *at; at++) {
        const char byte = *at == '\n' || *at == '\r' ? ' ' : *at;
        buf_append(out, &byte, 1);
        if (byte == '"')
            buf_append(out, &byte, 1);
    }
    buf_append_c(out, "\"");
}

static void put_line(struct buf *out, const struct sweep_row *row)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        if (i > 0)
            buf_append_c(out, ",");
        if (row)
            put_cell(out, row, &columns[i]);
        else
            buf_append_c(out, columns[i].name);
    }
    buf_append_c(out, "\n");
}

/* Takes a cell off *line into `cell`, without its quotes; *ret_last: the line ends behind it. */
static bool take_cell(const char **line, char *cell, size_t size, bool *ret_last)
{
    const char *p = *line;
    const bool quoted = *p == '"';
    size_t n = 0;
    for (p += quoted; *p != '\n' && (quoted || *p != ','); p++) {
        if (quoted && *p == '"' && p[1] != '"')
            break;
        p += quoted && *p == '"';
        if (n + 1 == size)
            return false;
        cell[n++] = *p;
    }
    cell[n] = '\0';
    p += quoted && *p == '"';
    *ret_last = *p == '\n';
    if (*p != ',' && *p != '\n')
        return false;
    *line = p + 1;
    return true;
}

static bool read_number(const char *cell, double *ret)
{
    char *end;
    *ret = *cell ? strtod(cell, &end) : NAN;
    return !*cell || !*end;
}

static bool read_cell(const char *cell, struct sweep_row *row, const struct column *c)
{
    char *at = (char *)row + c->offset;
    uint64_t count = 0;
    double number;
    char *end;
    switch (c->kind) {
    case COUNT:
        count = strtoull(cell, &end, 10);
        memcpy(at, &count, sizeof(count));
        return *cell && !*end;
    case STATE:
        while (count < ARRAY_LEN(state_names) && strcmp(cell, state_names[count]) != 0)
            count++;
        memcpy(at, &count, sizeof(count));
        return count < ARRAY_LEN(state_names);
    case NUMBER:
        if (!read_number(cell, &number))
            return false;
        memcpy(at, &number, sizeof(number));
        return true;
    case TEXT:
        break;
    }
    if (strlen(cell) >= c->size)
        return false;
    memcpy(at, cell, strlen(cell) + 1);
    return true;
}

/* Takes a whole line off *text. */
static bool read_line(const char **text, struct sweep_row *row)
{
    char cell[LINE_MAX_BYTES];
    *row = (struct sweep_row){0};
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        bool last = false;
        if (!take_cell(text, cell, sizeof(cell), &last) || last != (i + 1 == ARRAY_LEN(columns)) ||
            !read_cell(cell, row, &columns[i]))
            return false;
    }
    return true;
}

/* ---- The file --------------------------------------------------------------------------------- */

static int keep(struct sweep_rows *r, const struct sweep_row *row, struct error *e)
{
    if (r->n == SWEEP_ROWS_MAX)
        return error_set(e, ERROR_INVALID,
                         "%s has %d runs, which is as many as it may; name another",
                         r->path ? r->path : "the sweep", SWEEP_ROWS_MAX);
    struct sweep_row *copy = mem_alloc(sizeof(*copy));
    if (!copy)
        return error_set(e, ERROR_NOMEM, "no memory for %zu runs", r->n + 1);
    struct sweep_row **grown = mem_regrow(r->row, r->n + 1, sizeof(struct sweep_row *));
    if (!grown) {
        mem_free(copy);
        return error_set(e, ERROR_NOMEM, "no memory for %zu runs", r->n + 1);
    }
    *copy = *row;
    r->row = grown;
    r->row[r->n++] = copy;
    return 0;
}

static int put(struct sweep_rows *r, const struct sweep_row *row, struct error *e)
{
    struct buf line;
    if (!r->path)
        return 0;
    buf_init(&line, LINE_MAX_BYTES);
    put_line(&line, row);
    int rc = buf_check(&line, "a line of the sweep", e);
    if (rc == 0)
        rc = file_write_fd(r->fd, line.ptr, line.len, r->path, e);
    if (rc == 0)
        rc = file_flush(r->fd, r->path, e);
    buf_release(&line);
    return rc;
}

static int read_rows(struct sweep_rows *r, const char *at, const char *key, struct error *e)
{
    int rc = 0;
    for (size_t line = 2; rc == 0 && *at; line++) {
        struct sweep_row row;
        if (!read_line(&at, &row))
            rc = error_set(e, ERROR_BADDATA, "%s: line %zu is damaged", r->path, line);
        else if (strcmp(row.key, key) != 0)
            rc = error_set(e, ERROR_INVALID,
                           "%s: line %zu is of another sweep (%s, this one is %s): the model, the "
                           "request or an option differs; name another file",
                           r->path, line, row.key, key);
        else
            rc = keep(r, &row, e);
    }
    return rc;
}

/* Takes in what is there and takes off a last line without its end; nothing is changed before it is ours. */
static int read_text(struct sweep_rows *r, struct buf *text, const char *key, struct error *e)
{
    struct buf head;
    buf_init(&head, LINE_MAX_BYTES);
    put_line(&head, NULL);
    int rc = buf_check(&head, "the head of the sweep", e);
    if (rc == 0 && (text->len < head.len || memcmp(text->ptr, head.ptr, head.len) != 0) &&
        (text->len >= head.len || memcmp(text->ptr, head.ptr, text->len) != 0))
        rc = error_set(e, ERROR_INVALID, "%s: not a file of a sweep; nothing is written there",
                       r->path);
    size_t whole = text->len;
    while (whole > 0 && text->ptr[whole - 1] != '\n')
        whole--;
    if (rc == 0 && whole > 0) {
        text->ptr[whole] = '\0';
        rc = read_rows(r, text->ptr + head.len, key, e);
    }
    if (rc == 0 && whole < text->len && ftruncate(r->fd, (off_t)whole) != 0)
        rc = error_sys(e, ERROR_IO, errno, "%s", r->path);
    if (rc == 0 && whole == 0)
        rc = put(r, NULL, e);
    buf_release(&head);
    return rc;
}

static int read_file(struct sweep_rows *r, const char *key, struct error *e)
{
    struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    int rc = file_read_text(r->path, FILE_MAX_BYTES, &text, e);
    if (rc == 0)
        rc = text.len > 0 ? read_text(r, &text, key, e) : put(r, NULL, e);
    buf_release(&text);
    return rc;
}

int sweep_rows_open(struct sweep_rows *r, const char *path, const char *key, struct error *e)
{
    *r = (struct sweep_rows){.path = path, .fd = -1};
    if (!path)
        return 0;
    r->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return error_sys(e, ERROR_IO, errno, "%s", path);
    return read_file(r, key, e);
}

void sweep_rows_close(struct sweep_rows *r)
{
    if (r->path && r->fd >= 0)
        close(r->fd);
    for (size_t i = 0; i < r->n; i++)
        mem_free(r->row[i]);
    mem_free(r->row);
    *r = (struct sweep_rows){.fd = -1};
}

int sweep_rows_add(struct sweep_rows *r, const struct sweep_row *row, struct error *e)
{
    int rc = keep(r, row, e);
    return rc ? rc : put(r, row, e);
}

/* ---- Questions -------------------------------------------------------------------------------- */

const struct sweep_row *sweep_rows_find(const struct sweep_rows *r, uint64_t budget_bytes,
                                        uint64_t repetition)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct sweep_row *row = r->row[i];
        if (row->budget_bytes == budget_bytes &&
            (row->state == SWEEP_REFUSED ||
             (row->state == SWEEP_DONE && row->repetition == repetition)))
            return row;
    }
    return NULL;
}

int sweep_rows_agree(const struct sweep_rows *r, struct error *e)
{
    const struct sweep_row *first = NULL;
    char one[24], other[24];
    for (size_t i = 0; i < r->n; i++) {
        const struct sweep_row *row = r->row[i];
        if (row->state != SWEEP_DONE)
            continue;
        if (first && strcmp(first->digest, row->digest) != 0)
            return error_set(
                e, ERROR_BADDATA,
                "the same request gave other tokens: repetition %llu with %s and repetition %llu "
                "with %s differ (sha256 %.12s and %.12s)",
                (unsigned long long)first->repetition, str_format_size(first->budget_bytes, one),
                (unsigned long long)row->repetition, str_format_size(row->budget_bytes, other),
                first->digest, row->digest);
        first = first ? first : row;
    }
    return 0;
}
