#include "batch/host/figures.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/file.h"

#define TEXT_BYTES (1u << 18)

const char *figures_read(struct buf *out, const char *folder, const char *file)
{
    char path[FIGURES_PATH_BYTES];
    buf_init(out, TEXT_BYTES);
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, file);
    if (n < 0 || (size_t)n >= sizeof(path) || file_read_text(path, TEXT_BYTES - 1, out, NULL) < 0 ||
        buf_append(out, "", 1) < 0)
        return "";
    return out->ptr;
}

int64_t figure_of(const char *text, const char *key)
{
    const size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) != 0)
            continue;
        const char *at = line + n;
        while (*at == ' ' || *at == '\t' || (n > 0 && *at == ':'))
            at++;
        if (isdigit((unsigned char)*at) && (n == 0 || at > line + n))
            return (int64_t)MIN_OF(strtoull(at, NULL, 10), (unsigned long long)INT64_MAX);
    }
    return -1;
}

int64_t figure_in(const char *folder, const char *file, const char *key)
{
    struct buf text;
    const int64_t n = figure_of(figures_read(&text, folder, file), key);
    buf_release(&text);
    return n;
}

int64_t figure_since(int64_t before, int64_t now)
{
    return before < 0 || now < 0 ? -1 : MAX_OF(now - before, INT64_C(0));
}
