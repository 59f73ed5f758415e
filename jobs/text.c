#include "jobs/text.h"

#include <string.h>

int job_text_check(const char *what, struct str text, struct error *e)
{
    const char *nul = text.len > 0 ? memchr(text.ptr, 0, text.len) : NULL;
    size_t at = nul ? (size_t)(nul - text.ptr) : text.len;
    /* Whichever comes first: a binary file mostly breaks both rules. */
    if (!str_utf8_valid(str_slice(text.ptr, at), &at))
        return error_set(e, ERROR_BADDATA, "%s: invalid UTF-8 at byte %zu", what, at + 1);
    if (nul)
        return error_set(e, ERROR_BADDATA, "%s: a NUL byte at byte %zu", what, at + 1);
    return 0;
}
