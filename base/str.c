#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNE_REPLACEMENT 0xFFFDu

struct str str_of(const char *s)
{
    return str_slice(s, s ? strlen(s) : 0);
}

struct str str_slice(const char *ptr, size_t len)
{
    return (struct str){.ptr = ptr, .len = len};
}

bool str_equal(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool str_equal_c(struct str a, const char *b)
{
    return str_equal(a, str_of(b));
}

/*
 * RFC 3629 by its table of lead bytes: how many bytes the character has and which second bytes are
 * allowed (that range alone excludes overlong forms, surrogates and values above U+10FFFF).
 */
static size_t utf8_shape(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *low = 0xA0;
        if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *low = 0x90;
        if (lead == 0xF4)
            *high = 0x8F;
        return 4;
    }
    return 0;
}

enum utf8_state { UTF8_WHOLE, UTF8_CUT, UTF8_BAD };

/* Looks at the character at the start of s (not empty); *ret_len is its full length. */
static enum utf8_state utf8_look(struct str s, size_t *ret_len)
{
    const uint8_t *byte = (const uint8_t *)s.ptr;
    uint8_t low;
    uint8_t high;
    size_t len = utf8_shape(byte[0], &low, &high);
    if (len == 0)
        return UTF8_BAD;
    for (size_t i = 1; i < len; i++) {
        if (i == s.len)
            return UTF8_CUT;
        if (byte[i] < low || byte[i] > high)
            return UTF8_BAD;
        low = 0x80;
        high = 0xBF;
    }
    *ret_len = len;
    return UTF8_WHOLE;
}

bool str_utf8_valid(struct str s, size_t *at)
{
    size_t pos = 0;
    while (pos < s.len) {
        size_t len;
        if (utf8_look(str_slice(s.ptr + pos, s.len - pos), &len) != UTF8_WHOLE) {
            if (at)
                *at = pos;
            return false;
        }
        pos += len;
    }
    return true;
}

size_t str_utf8_whole(struct str s)
{
    /* A character that is cut has at most three of its bytes here. */
    for (size_t back = 1; back <= 3 && back <= s.len; back++) {
        size_t start = s.len - back;
        if (((uint8_t)s.ptr[start] & 0xC0u) == 0x80u)
            continue;
        size_t len;
        enum utf8_state state = utf8_look(str_slice(s.ptr + start, back), &len);
        return state == UTF8_CUT ? start : s.len;
    }
    return s.len;
}

size_t str_utf8_next(struct str s, uint32_t *ret_rune)
{
    const uint8_t *byte = (const uint8_t *)s.ptr;
    size_t len;
    if (utf8_look(s, &len) != UTF8_WHOLE) {
        *ret_rune = RUNE_REPLACEMENT;
        return 1;
    }
    static const uint8_t lead_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t rune = byte[0] & lead_mask[len];
    for (size_t i = 1; i < len; i++)
        rune = rune << 6 | (byte[i] & 0x3Fu);
    *ret_rune = rune;
    return len;
}

size_t str_utf8_put(uint32_t rune, char out[4])
{
    if (rune > 0x10FFFFu || (rune >= 0xD800u && rune <= 0xDFFFu))
        rune = RUNE_REPLACEMENT;
    if (rune < 0x80u) {
        out[0] = (char)rune;
        return 1;
    }
    size_t len = rune < 0x800u ? 2 : rune < 0x10000u ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80u | (rune & 0x3Fu));
        rune >>= 6;
    }
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[len] | rune);
    return len;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The factor of a size suffix; 0 when the text is not one. */
static uint64_t unit_of(const char *suffix)
{
    static const char units[] = "KMGT";
    if (suffix[0] == '\0')
        return 1;
    char upper = suffix[0] >= 'a' ? (char)(suffix[0] - 'a' + 'A') : suffix[0];
    const char *hit = strchr(units, upper);
    if (!hit || suffix[1] != '\0')
        return 0;
    return (uint64_t)1 << (10 * (hit - units + 1));
}

/* Reads "92.25" into whole and fraction; returns what follows, or NULL. */
static const char *scan_decimal(const char *text, uint64_t *whole, double *fraction)
{
    if (!is_digit(*text))
        return NULL;
    *whole = 0;
    *fraction = 0;
    for (; is_digit(*text); text++) {
        if (__builtin_mul_overflow(*whole, 10u, whole) ||
            __builtin_add_overflow(*whole, (uint64_t)(*text - '0'), whole))
            return NULL;
    }
    if (*text != '.')
        return text;
    text++;
    if (!is_digit(*text))
        return NULL;
    for (double scale = 0.1; is_digit(*text); text++, scale /= 10)
        *fraction += scale * (*text - '0');
    return text;
}

int str_parse_size(const char *text, uint64_t *ret_bytes, struct error *e)
{
    uint64_t whole;
    double fraction;
    uint64_t bytes;
    const char *suffix = scan_decimal(text, &whole, &fraction);
    uint64_t unit = suffix ? unit_of(suffix) : 0;
    if (unit == 0 || (unit == 1 && fraction > 0))
        return error_set(e, ERROR_USAGE, "'%s' is not a size (like 92G, 512M, 1.5T or 4096)", text);
    if (__builtin_mul_overflow(whole, unit, &bytes) ||
        __builtin_add_overflow(bytes, (uint64_t)(fraction * (double)unit + 0.5), &bytes) ||
        bytes == UINT64_MAX) /* LEDGER_NO_LIMIT */
        return error_set(e, ERROR_USAGE, "'%s' is larger than any memory", text);
    *ret_bytes = bytes;
    return 0;
}

int str_parse_int(const char *text, int64_t min, int64_t max, int64_t *ret, struct error *e)
{
    if (!is_digit(text[0]) && !(text[0] == '-' && is_digit(text[1])))
        return error_set(e, ERROR_USAGE, "'%s' is not a number", text);
    errno = 0;
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*end != '\0')
        return error_set(e, ERROR_USAGE, "'%s' is not a number", text);
    if (errno == ERANGE || value < min || value > max)
        return error_set(e, ERROR_USAGE, "%s is not between %" PRId64 " and %" PRId64, text, min,
                         max);
    *ret = value;
    return 0;
}

bool str_take_word(const char **list, char *out, size_t size)
{
    const char *word = *list;
    const size_t len = strcspn(word, ",");
    const size_t n = MIN_OF(len, size - 1);
    memcpy(out, word, n);
    out[n] = '\0';
    *list = word[len] ? word + len + 1 : NULL;
    return len < size;
}

int str_parse_double(const char *text, double min, double max, double *ret, struct error *e)
{
    /* strtod would also take blanks, hexadecimal, "inf" and "nan". */
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || text[strspn(text, "0123456789.eE+-")] != '\0')
        return error_set(e, ERROR_USAGE, "'%s' is not a number", text);
    if (!isfinite(value) || value < min || value > max)
        return error_set(e, ERROR_USAGE, "%s is not between %g and %g", text, min, max);
    *ret = value;
    return 0;
}

const char *str_format_size(uint64_t bytes, char out[24])
{
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, 24, "%u B", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    size_t i = 0;
    /* 1023.96 would print as 1024.0. */
    for (; value >= 1023.95 && i + 1 < ARRAY_LEN(unit); i++)
        value /= 1024;
    snprintf(out, 24, "%.1f %s", value, unit[i]);
    return out;
}

const char *str_format_duration(int64_t seconds, char out[24])
{
    const char *sign = seconds < 0 ? "-" : "";
    uint64_t s = seconds < 0 ? 0 - (uint64_t)seconds : (uint64_t)seconds;
    uint64_t hours = MIN_OF(s / 3600, (uint64_t)999999999);
    unsigned minutes = (unsigned)(s / 60 % 60);
    unsigned rest = (unsigned)(s % 60);
    if (hours > 0)
        snprintf(out, 24, "%s%uh %02um %02us", sign, (unsigned)hours, minutes, rest);
    else if (minutes > 0)
        snprintf(out, 24, "%s%um %02us", sign, minutes, rest);
    else
        snprintf(out, 24, "%s%us", sign, rest);
    return out;
}
