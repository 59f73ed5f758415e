/* Text and Markdown: the bytes as they are, without a byte order mark. */
#include <string.h>

#include "jobs/document/format.h"

static bool begins(struct str s, const char *mark, size_t n)
{
    return s.len >= n && memcmp(s.ptr, mark, n) == 0;
}

int format_text(const char *path, struct buf *bytes, struct str *ret, struct error *e)
{
    struct str text = buf_str(bytes);
    if (begins(text, "\xFF\xFE", 2) || begins(text, "\xFE\xFF", 2))
        return error_set(e, ERROR_BADDATA,
                         "%s: UTF-16 or UTF-32 (byte order mark); convert it to UTF-8", path);
    size_t mark = begins(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
    *ret = str_slice(text.ptr + mark, text.len - mark);
    return 0;
}
