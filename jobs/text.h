/* Whether bytes are text that a prompt may hold: well-formed UTF-8 without NUL. Owns nothing. */
#ifndef JOBS_TEXT_H
#define JOBS_TEXT_H

#include "base/error.h"
#include "base/str.h"

#define JOB_CUSTOM_ID_MAX_BYTES 512u

/* ERROR_BADDATA "what: invalid UTF-8 at byte N" (1-based), or the same for a NUL. */
int job_text_check(const char *what, struct str text, struct error *e);

#endif
