#include "batch/markup.h"

#define REPLACEMENT 0xfffd

static const char *entity(uint32_t rune)
{
    switch (rune) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static bool allowed(uint32_t rune)
{
    const bool space = rune == '\t' || rune == '\n' || rune == '\r';
    return space || (rune >= 0x20 && rune != 0x7f && rune != 0xfffe && rune != 0xffff);
}

int markup_text(struct buf *out, struct str text)
{
    while (text.len > 0) {
        uint32_t rune;
        char utf8[4];
        const size_t n = str_utf8_next(text, &rune);
        const char *named = entity(rune);
        if (named)
            buf_append_c(out, named);
        else
            buf_append(out, utf8, str_utf8_put(allowed(rune) ? rune : REPLACEMENT, utf8));
        text = str_slice(text.ptr + n, text.len - n);
    }
    return out->failed ? -ERROR_NOMEM : 0;
}
