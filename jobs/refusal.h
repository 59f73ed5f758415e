/*
 * What an error answer says beside its sentence: the field at fault and a word for programs.
 *
 * Owns nothing. Stays true: both strings are empty or NUL-terminated; param is a path such as
 * "messages[2].content[0].type", cut to fit.
 */
#ifndef JOBS_REFUSAL_H
#define JOBS_REFUSAL_H

#include "base/compiler.h"
#include "base/error.h"

struct job_refusal {
    char param[192];
    const char *code; /* "unsupported_parameter"; NULL: from the error */
};

/* The words of `code`; they are OpenAI's where it has one. */
#define JOB_CODE_MISSING "missing_required_parameter"
#define JOB_CODE_UNKNOWN "unknown_parameter"
#define JOB_CODE_UNSUPPORTED "unsupported_parameter"
#define JOB_CODE_TYPE "invalid_type"
#define JOB_CODE_VALUE "invalid_value"
#define JOB_CODE_DUPLICATE "duplicate_parameter"
#define JOB_CODE_JSON "invalid_json"
#define JOB_CODE_CONTEXT "context_length_exceeded"

/*
 * Fills `why` (may be NULL) and the error with "param: sentence"; ERROR_UNSUPPORTED for
 * JOB_CODE_UNSUPPORTED, ERROR_INVALID for the other words. Returns the negative code.
 */
int job_refuse(struct job_refusal *why, struct error *e, const char *code, const char *param,
               const char *fmt, ...) ATTR_PRINTF(5, 6);

#endif
