#include "jobs/refusal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* A path may hold a field's name as a stranger wrote it: cut it at a whole character. */
static void copy_param(char out[192], const char *param)
{
    snprintf(out, 192, "%s", param);
    out[str_utf8_whole(str_of(out))] = '\0';
}

int job_refuse(struct job_refusal *why, struct error *e, const char *code, const char *param,
               const char *fmt, ...)
{
    struct job_refusal unwanted;
    if (!why)
        why = &unwanted;
    char sentence[320];
    va_list args;
    va_start(args, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, args);
    va_end(args);
    copy_param(why->param, param);
    why->code = code;
    enum error_code kind =
        strcmp(code, JOB_CODE_UNSUPPORTED) == 0 ? ERROR_UNSUPPORTED : ERROR_INVALID;
    return error_set(e, kind, "%s%s%s", why->param, why->param[0] ? ": " : "", sentence);
}
