/* Three ways to read UTF-8 must agree: whole-text validity, character by character, and cut anywhere. */
#include <string.h>

#include "base/str.h"
#include "tests/fuzz/fuzz.h"

FUZZ(utf8)
{
    struct str text = str_slice((const char *)bytes, n);
    size_t bad_at = n;
    bool valid = str_utf8_valid(text, &bad_at);
    demand(valid == (bad_at == n));
    for (size_t pos = 0; pos < bad_at;) {
        uint32_t rune;
        char again[4];
        size_t len = str_utf8_next(str_slice(text.ptr + pos, n - pos), &rune);
        demand(str_utf8_put(rune, again) == len && memcmp(again, text.ptr + pos, len) == 0);
        pos += len;
    }
    size_t whole = str_utf8_whole(text);
    demand(whole <= n && n - whole <= 3);
    demand(!valid || whole == n);
    if (bad_at < whole)
        demand(!str_utf8_valid(str_slice(text.ptr, whole), NULL));
    else
        demand(str_utf8_valid(str_slice(text.ptr, whole), NULL));
}
