#include "jobs/document/format.h"

#include <string.h>

#include "jobs/document/document.h"
#include "jobs/text.h"

#define SUFFIX_BYTES_MAX 16u
#define format_none NULL /* recognised so that it can be refused by name */

struct format {
    const char *suffixes;
    const char *magic;
    document_read_fn *read;
    const char *title;
};

static const struct format formats[] = {
#define FORMAT(reader, endings, first, shown)                                                      \
    {.suffixes = (endings), .magic = (first), .read = format_##reader, .title = (shown)},
#include "jobs/document/formats.def"
#undef FORMAT
};

/* ".md " in small letters with the blank that ends it in the table; "" when there is none. */
static void suffix_of(const char *path, char out[SUFFIX_BYTES_MAX + 2])
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash + 1 : path, '.');
    size_t n = dot ? strlen(dot) : 0;
    out[0] = '\0';
    if (n < 2 || n > SUFFIX_BYTES_MAX)
        return;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)(dot[i] >= 'A' && dot[i] <= 'Z' ? dot[i] - 'A' + 'a' : dot[i]);
    memcpy(out + n, " ", 2);
}

static bool matches(const struct format *f, const char *suffix, struct str bytes)
{
    size_t magic = strlen(f->magic);
    if (magic > 0 && bytes.len >= magic && memcmp(bytes.ptr, f->magic, magic) == 0)
        return true;
    return suffix[0] && strstr(f->suffixes, suffix);
}

static const struct format *find_format(const char *path, struct str bytes)
{
    char suffix[SUFFIX_BYTES_MAX + 2];
    suffix_of(path, suffix);
    size_t last = ARRAY_LEN(formats) - 1;
    for (size_t i = 0; i < last; i++) {
        if (matches(&formats[i], suffix, bytes))
            return &formats[i];
    }
    return &formats[last];
}

static bool is_blank(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!strchr(" \t\r\n\f\v", s.ptr[i]))
            return false;
    }
    return true;
}

int document_text(const char *path, struct buf *bytes, struct str *ret, struct error *e)
{
    const struct format *f = find_format(path, buf_str(bytes));
    if (!f->read)
        return error_set(e, ERROR_BADDATA, "%s: %s", path, f->title);
    struct str text;
    int rc = f->read(path, bytes, &text, e);
    if (rc == 0)
        rc = job_text_check(path, text, e);
    if (rc < 0)
        return rc;
    if (is_blank(text))
        return error_set(e, ERROR_BADDATA, "%s: no text in %zu bytes", path, bytes->len);
    *ret = text;
    return 0;
}
