#include "batch/token_ids.h"

#include <stdint.h>

#include "base/str.h"

int token_ids_parse(const char *text, struct buf *ids, struct error *e)
{
    while (text) {
        char number[16];
        const char *from = text;
        int64_t value = 0;
        if (!str_take_word(&text, number, sizeof(number)))
            return error_set(e, ERROR_USAGE, "--tokens: '%.20s' is no token id", from);
        int rc = str_parse_int(number, 0, INT32_MAX, &value, e);
        if (rc < 0) {
            error_wrap(e, "--tokens");
            return -ERROR_USAGE;
        }
        const int32_t id = (int32_t)value;
        if (buf_append(ids, &id, sizeof(id)) < 0)
            return buf_check(ids, "--tokens", e);
    }
    return 0;
}
