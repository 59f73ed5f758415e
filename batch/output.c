#include "batch/output.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define OUTPUT_FLUSH_BYTES 65536u

void output_init(struct output *o, int fd, bool no_color)
{
    memset(o, 0, sizeof(*o));
    buf_init(&o->text, 256u << 20);
    o->fd = fd;
    o->terminal = isatty(fd) == 1;
    o->color = o->terminal && !no_color;
    struct winsize size;
    if (o->terminal && ioctl(fd, TIOCGWINSZ, &size) == 0)
        o->columns = size.ws_col;
}

int output_flush(struct output *o, struct error *e)
{
    if (o->sys == 0 && o->text.failed)
        o->sys = ENOMEM;
    if (o->sys == 0 && o->text.len) {
        struct error why = {0};
        if (file_write_fd(o->fd, o->text.ptr, o->text.len, "standard output", &why))
            o->sys = why.sys ? why.sys : EIO;
    }
    buf_clear(&o->text);
    return o->sys ? error_sys(e, ERROR_IO, o->sys, "writing to standard output") : 0;
}

void output_release(struct output *o)
{
    buf_release(&o->text);
}

bool output_broken(const struct output *o)
{
    return o->sys != 0;
}

static void flush_when_large(struct output *o)
{
    if (o->text.len >= OUTPUT_FLUSH_BYTES)
        (void)output_flush(o, NULL);
}

void output_put(struct output *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char small[512];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof(small), fmt, args);
    if (n >= 0 && (size_t)n < sizeof(small)) {
        buf_append(&o->text, small, (size_t)n);
    } else if (n >= 0) {
        char *large = mem_alloc((size_t)n + 1);
        if (large)
            buf_append(&o->text, large, (size_t)vsnprintf(large, (size_t)n + 1, fmt, again));
        else
            o->text.failed = true;
        mem_free(large);
    }
    va_end(again);
    va_end(args);
    flush_when_large(o);
}

void output_bytes(struct output *o, struct str s)
{
    buf_append_str(&o->text, s);
    flush_when_large(o);
}

void output_harmless(char *text, size_t n, bool lines)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        bool kept = lines && (c == '\n' || c == '\t');
        if ((c < ' ' && !kept) || c == 127)
            text[i] = '?';
        if (c == 0xC2 && i + 1 < n && (unsigned char)text[i + 1] < 0xA0)
            text[i] = text[i + 1] = '?';
    }
}

void output_text(struct output *o, struct str s)
{
    size_t before = o->text.len;
    buf_append_str(&o->text, s);
    if (o->terminal && o->text.len > before)
        output_harmless(o->text.ptr + before, o->text.len - before, true);
    flush_when_large(o);
}

/*
 * cJSON prints 15 digits where the difference is below its epsilon: a seed of 16 would come out as
 * its neighbour. Whole numbers beyond 15 digits become text that it prints as it is.
 */
static bool write_out_large(cJSON *value)
{
    for (cJSON *v = value; v; v = v->next) {
        if (v->child && !write_out_large(v->child))
            return false;
        if (!cJSON_IsNumber(v) || fabs(v->valuedouble) < 1e15 || fabs(v->valuedouble) >= 0x1p63)
            continue;
        char digits[24];
        snprintf(digits, sizeof(digits), "%lld", (long long)v->valuedouble);
        v->valuestring = cJSON_malloc(strlen(digits) + 1);
        if (!v->valuestring)
            return false;
        memcpy(v->valuestring, digits, strlen(digits) + 1);
        v->type = (v->type & ~0xFF) | cJSON_Raw;
    }
    return true;
}

static char *print_json(cJSON *value, bool pretty)
{
    if (!value || !write_out_large(value))
        return NULL;
    return pretty ? cJSON_Print(value) : cJSON_PrintUnformatted(value);
}

int output_json(struct output *o, cJSON *value, bool pretty, struct error *e)
{
    char *text = print_json(value, pretty);
    cJSON_Delete(value);
    if (!text)
        return error_set(e, ERROR_NOMEM, "out of memory for JSON");
    output_bytes(o, str_of(text));
    output_bytes(o, str_of("\n"));
    cJSON_free(text);
    return 0;
}

void output_colored(struct output *o, enum output_color color, const char *text)
{
    static const char *const code[] = {[OUTPUT_RED] = "31",
                                       [OUTPUT_GREEN] = "32",
                                       [OUTPUT_YELLOW] = "33",
                                       [OUTPUT_BOLD] = "1",
                                       [OUTPUT_DIM] = "2"};
    if (o->color)
        output_put(o, "\033[%sm%s\033[0m", code[color], text);
    else
        output_put(o, "%s", text);
}

/* ---- Tables ----------------------------------------------------------------------------------- */

void table_init(struct table *t, struct output *out, const char *const *titles)
{
    memset(t, 0, sizeof(*t));
    t->out = out;
    buf_init(&t->cells, 64u << 20);
    for (; titles[t->n_columns]; t->n_columns++) {
        t->title[t->n_columns] = titles[t->n_columns];
        const char *title = titles[t->n_columns];
        table_cell(t, "%s", *title == '>' ? title + 1 : title);
    }
}

void table_cell(struct table *t, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (n >= (int)sizeof(text)) {
        /* Long names are cut where a character ends. */
        text[str_utf8_whole(str_slice(text, sizeof(text) - 1))] = '\0';
    }
    output_harmless(text, strlen(text), false);
    buf_append(&t->cells, text, strlen(text) + 1);
    t->n_cells++;
}

static size_t width_of(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void print_cell(struct table *t, const char *text, int column, size_t width)
{
    int pad = (int)(width - MIN_OF(width, width_of(text)));
    bool last = column == t->n_columns - 1;
    if (t->title[column][0] == '>')
        output_put(t->out, "%*s%s%s", pad, "", text, last ? "" : "  ");
    else
        output_put(t->out, "%s%*s", text, last ? 0 : pad + 2, "");
}

int table_end(struct table *t, struct error *e)
{
    int rc = buf_check(&t->cells, "table", e);
    if (rc == 0) {
        size_t width[TABLE_COLUMNS] = {0};
        const char *cell = t->cells.ptr;
        for (size_t i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1) {
            size_t column = i % (size_t)t->n_columns;
            width[column] = MAX_OF(width[column], width_of(cell));
        }
        cell = t->cells.ptr;
        for (size_t i = 0; i < t->n_cells; i++, cell += strlen(cell) + 1) {
            size_t column = i % (size_t)t->n_columns;
            print_cell(t, cell, (int)column, width[column]);
            if (column + 1 == (size_t)t->n_columns)
                output_put(t->out, "\n");
        }
    }
    buf_release(&t->cells);
    return rc;
}

/* ---- Messages --------------------------------------------------------------------------------- */

void message(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    int used = snprintf(text, sizeof(text), "nocturne: ");
    int n = vsnprintf(text + used, sizeof(text) - (size_t)used - 1, fmt, args);
    va_end(args);
    size_t end = MIN_OF((size_t)used + (size_t)MAX_OF(n, 0), sizeof(text) - 2);
    /* What files and servers say is quoted. */
    output_harmless(text, end, true);
    text[end++] = '\n';
    /* A closed stderr is nobody's reason to stop. */
    (void)file_write_fd(STDERR_FILENO, text, end, "standard error", NULL);
}
