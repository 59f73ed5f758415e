#include "tests/batch/well_formed.h"

#include <stdio.h>
#include <string.h>

bool well_formed(const char *text)
{
    char open[32][16];
    int depth = 0;
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 && *p != '\n')
            return false;
        if (*p == '&' && strncmp(p, "&amp;", 5) != 0 && strncmp(p, "&lt;", 4) != 0 &&
            strncmp(p, "&gt;", 4) != 0 && strncmp(p, "&quot;", 6) != 0 &&
            strncmp(p, "&#39;", 5) != 0)
            return false;
        if (*p != '<')
            continue;
        const bool closing = p[1] == '/';
        const char *name = p + 1 + closing;
        const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
        bool quoted = false;
        for (p = name + n; *p && (quoted || *p != '>'); p++) {
            if (*p == '<')
                return false;
            quoted = quoted != (*p == '"');
        }
        if (!*p || n == 0 || n > 15)
            return false;
        if (closing) {
            if (depth == 0 || strncmp(open[--depth], name, n) != 0 || open[depth][n])
                return false;
        } else if (p[-1] != '/') {
            snprintf(open[depth++], sizeof(open[0]), "%.*s", (int)n, name);
        }
        if (depth == 32)
            return false;
    }
    return depth == 0;
}
