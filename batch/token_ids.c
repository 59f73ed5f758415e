#include "batch/token_ids.h"

#include <stdint.h>
#include <string.h>

#include "base/str.h"

int token_ids_parse(const char *text, struct buf *ids, struct error *e)
{
    for (const char *at = text;;) {
        char number[16];
        const size_t n = strcspn(at, ",");
        int64_t value = 0;
        if (n >= sizeof(number))
            return error_set(e, ERROR_USAGE, "--tokens: '%.20s' is no token id", at);
        memcpy(number, at, n);
        number[n] = '\0';
        int rc = str_parse_int(number, 0, INT32_MAX, &value, e);
        if (rc < 0) {
            error_wrap(e, "--tokens");
            return -ERROR_USAGE;
        }
        const int32_t id = (int32_t)value;
        if (buf_append(ids, &id, sizeof(id)) < 0)
            return buf_check(ids, "--tokens", e);
        if (at[n] == '\0')
            return 0;
        at += n + 1;
    }
}
