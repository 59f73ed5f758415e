#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct error_info error_rows[] = {
#define ERR(row_name, row_text, status, http, may_retry, whose)                                    \
    [ERROR_##row_name] = {.name = #row_name,                                                       \
                          .text = row_text,                                                        \
                          .exit_status = status,                                                   \
                          .http_status = http,                                                     \
                          .retry = may_retry,                                                      \
                          .fault = ERROR_FAULT_##whose},
#include "base/error.def"
#undef ERR
};

/* The arguments may point into e->text, so the sentence is built aside and copied last. */
static void write_text(struct error *e, const char *fmt, va_list args) ATTR_PRINTF(2, 0);

static void write_text(struct error *e, const char *fmt, va_list args)
{
    char text[sizeof(e->text)];
    vsnprintf(text, sizeof(text), fmt, args);
    memcpy(e->text, text, sizeof(text));
}

static void append_text(struct error *e, const char *separator, const char *more)
{
    size_t used = strlen(e->text);
    snprintf(e->text + used, sizeof(e->text) - used, "%s%s", separator, more);
}

int error_set(struct error *e, enum error_code code, const char *fmt, ...)
{
    if (e) {
        va_list args;
        va_start(args, fmt);
        write_text(e, fmt, args);
        va_end(args);
        e->code = (int)code;
        e->sys = 0;
    }
    return -(int)code;
}

int error_sys(struct error *e, enum error_code code, int sys, const char *fmt, ...)
{
    if (code == ERROR_IO && (sys == ENOSPC || sys == EDQUOT))
        code = ERROR_FULL;
    if (e) {
        va_list args;
        va_start(args, fmt);
        write_text(e, fmt, args);
        va_end(args);
        char reason[128];
        append_text(e, ": ", strerror_r(sys, reason, sizeof(reason)));
        e->code = (int)code;
        e->sys = sys;
    }
    return -(int)code;
}

int error_wrap(struct error *e, const char *fmt, ...)
{
    if (!e)
        return -ERROR_IO;
    char old[sizeof(e->text)];
    memcpy(old, e->text, sizeof(old));
    va_list args;
    va_start(args, fmt);
    write_text(e, fmt, args);
    va_end(args);
    append_text(e, ": ", old);
    return -e->code;
}

void error_clear(struct error *e)
{
    if (!e)
        return;
    e->code = ERROR_NONE;
    e->sys = 0;
    e->text[0] = '\0';
}

const struct error_info *error_describe(int code)
{
    /* Not -code first: the most negative int has no opposite. */
    if (code < 0 && code > -(int)ERROR_COUNT)
        code = -code;
    if (code <= ERROR_NONE || code >= (int)ERROR_COUNT)
        code = ERROR_IO;
    return &error_rows[code];
}
