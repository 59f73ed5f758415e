/*
 * Errors: a code from error.def, an errno where there is one, and one sentence for people.
 *
 * Owns nothing: the caller provides `struct error`. The function that detects a failure writes the
 * sentence, names the object and gives both figures ("tensor 'blk.3.attn_q.weight': 4096 columns,
 * model says 2048"); callers may put a prefix before it with error_wrap. Only batch/ prints it.
 *
 * Stays true: functions return 0 or a negative code, iterators (*_next) 1, 0 or a negative code;
 * the struct is untouched on success; every pointer to one may be NULL.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

#include "base/compiler.h"

enum error_code {
    ERROR_NONE = 0,
#define ERR(name, text, exit_status, http, retry, fault) ERROR_##name,
#include "base/error.def"
#undef ERR
    ERROR_COUNT
};

enum error_fault { ERROR_FAULT_JOB, ERROR_FAULT_WORKER };

struct error_info {
    const char *name; /* "CONTEXT" */
    const char *text;
    int exit_status;
    int http_status;
    bool retry;
    enum error_fault fault;
};

struct error {
    int code; /* enum error_code; 0 when nothing has failed */
    int sys;  /* errno or 0 */
    char text[640];
};

/* Writes the sentence (truncated to fit) and returns -code. */
int error_set(struct error *e, enum error_code code, const char *fmt, ...) ATTR_PRINTF(3, 4);

/* The same with ": <strerror(sys)>" appended. ENOSPC and EDQUOT turn ERROR_IO into ERROR_FULL. */
int error_sys(struct error *e, enum error_code code, int sys, const char *fmt, ...)
    ATTR_PRINTF(4, 5);

/* Puts "prefix: " before the sentence and returns -e->code (-ERROR_IO when e is NULL). */
int error_wrap(struct error *e, const char *fmt, ...) ATTR_PRINTF(2, 3);

void error_clear(struct error *e);

/* Accepts a code or its negative. Never NULL: an unknown code answers the row of ERROR_IO. */
const struct error_info *error_describe(int code);

#endif
