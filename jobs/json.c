#include "jobs/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* cJSON copies a number to 64 bytes before it reads it. */
#define NUMBER_BYTES_MAX 63u
#define INTEGER_LIMIT 9007199254740992.0 /* 2^53 */

void json_init(void)
{
    cJSON_Hooks hooks = {.malloc_fn = mem_alloc, .free_fn = mem_free};
    cJSON_InitHooks(&hooks);
}

/* ---- The strict check ------------------------------------------------------------------------ */

struct scan {
    const char *text;
    size_t len;
    size_t pos;
    size_t n_values;
    const char *why; /* set once, by the rule that was broken */
};

static bool scan_value(struct scan *s, unsigned depth);

static bool scan_fail(struct scan *s, const char *why)
{
    s->why = why;
    return false;
}

/* The byte at hand; 0, which no rule accepts, at the end. */
static unsigned char scan_peek(const struct scan *s)
{
    return s->pos < s->len ? (unsigned char)s->text[s->pos] : 0;
}

static bool scan_take(struct scan *s, char c)
{
    if (s->pos >= s->len || s->text[s->pos] != c)
        return false;
    s->pos++;
    return true;
}

static void scan_blanks(struct scan *s)
{
    while (scan_take(s, ' ') || scan_take(s, '\t') || scan_take(s, '\n') || scan_take(s, '\r'))
        continue;
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* The four digits after \u; -1 when they are none. */
static int scan_hex4(struct scan *s)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = scan_peek(s);
        unsigned char lower = c | 0x20u;
        if (is_digit(c))
            value = value * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f')
            value = value * 16 + (lower - 'a' + 10);
        else
            return -1;
        s->pos++;
    }
    return value;
}

static bool scan_unicode(struct scan *s)
{
    int unit = scan_hex4(s);
    if (unit < 0)
        return scan_fail(s, "\\u needs four hexadecimal digits");
    if (unit == 0)
        return scan_fail(s, "a NUL character (\\u0000) is not supported");
    if (unit >= 0xDC00 && unit <= 0xDFFF)
        return scan_fail(s, "half of a surrogate pair");
    if (unit < 0xD800 || unit > 0xDBFF)
        return true;
    if (!scan_take(s, '\\') || !scan_take(s, 'u'))
        return scan_fail(s, "half of a surrogate pair");
    int low = scan_hex4(s);
    if (low < 0xDC00 || low > 0xDFFF)
        return scan_fail(s, "half of a surrogate pair");
    return true;
}

static bool scan_string(struct scan *s)
{
    if (!scan_take(s, '"'))
        return scan_fail(s, "a string is expected");
    for (;;) {
        if (s->pos >= s->len)
            return scan_fail(s, "the string has no end");
        unsigned char c = (unsigned char)s->text[s->pos++];
        if (c == '"')
            return true;
        if (c < 0x20) {
            s->pos--;
            return scan_fail(s, c == 0 ? "a NUL byte" : "a control character inside a string");
        }
        if (c != '\\')
            continue;
        unsigned char escape = scan_peek(s);
        if (escape == 0 || !strchr("\"\\/bfnrtu", escape))
            return scan_fail(s, "an unknown escape");
        s->pos++;
        if (escape == 'u' && !scan_unicode(s))
            return false;
    }
}

static bool scan_digits(struct scan *s)
{
    if (!is_digit(scan_peek(s)))
        return scan_fail(s, "a digit is expected");
    while (is_digit(scan_peek(s)))
        s->pos++;
    return true;
}

static bool scan_number(struct scan *s)
{
    size_t start = s->pos;
    scan_take(s, '-');
    if (!scan_take(s, '0') && !scan_digits(s))
        return false;
    if (scan_take(s, '.') && !scan_digits(s))
        return false;
    if (scan_take(s, 'e') || scan_take(s, 'E')) {
        if (!scan_take(s, '+'))
            scan_take(s, '-');
        if (!scan_digits(s))
            return false;
    }
    if (s->pos - start > NUMBER_BYTES_MAX)
        return scan_fail(s, "a number of more than 63 characters");
    return true;
}

static bool scan_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    if (s->len - s->pos < n || memcmp(s->text + s->pos, word, n) != 0)
        return scan_fail(s, "a value is expected");
    s->pos += n;
    return true;
}

/* After the opening bracket; `close` tells object from array. */
static bool scan_members(struct scan *s, char close, unsigned depth)
{
    scan_blanks(s);
    if (scan_take(s, close))
        return true;
    for (;;) {
        if (close == '}') {
            scan_blanks(s);
            if (!scan_string(s))
                return false;
            scan_blanks(s);
            if (!scan_take(s, ':'))
                return scan_fail(s, "':' is expected");
        }
        if (!scan_value(s, depth))
            return false;
        if (scan_take(s, close))
            return true;
        if (!scan_take(s, ','))
            return scan_fail(s, close == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
    }
}

static bool scan_bare_value(struct scan *s, unsigned depth)
{
    switch (scan_peek(s)) {
    case '{':
    case '[':
        if (depth == JSON_DEPTH_MAX)
            return scan_fail(s, "nested more than 64 deep");
        return scan_members(s, s->text[s->pos++] == '{' ? '}' : ']', depth + 1);
    case '"':
        return scan_string(s);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (scan_peek(s) == '-' || is_digit(scan_peek(s)))
            return scan_number(s);
        return scan_fail(s, "a value is expected");
    }
}

/* One value with the blanks around it. The depth is bounded, so recursion is. */
static bool scan_value(struct scan *s, unsigned depth)
{
    if (++s->n_values > JSON_VALUES_MAX)
        return scan_fail(s, "more than 1,000,000 values");
    scan_blanks(s);
    if (!scan_bare_value(s, depth))
        return false;
    scan_blanks(s);
    return true;
}

int json_check(struct str text, struct error *e)
{
    size_t at;
    if (!str_utf8_valid(text, &at))
        return error_set(e, ERROR_BADDATA, "invalid UTF-8 at byte %zu", at + 1);
    struct scan s = {.text = text.ptr, .len = text.len};
    if (scan_value(&s, 0) && s.pos < s.len)
        scan_fail(&s, "text after the end of the value");
    if (s.why)
        return error_set(e, ERROR_BADDATA, "not valid JSON: %s at byte %zu", s.why, s.pos + 1);
    return 0;
}

/* ---- Parsing --------------------------------------------------------------------------------- */

struct path {
    char text[128];
    size_t len;
};

/* Appends the child's place; a path that does not fit is cut. */
static void path_push(struct path *p, const cJSON *child, int index)
{
    char *end = p->text + p->len;
    size_t room = sizeof(p->text) - p->len;
    int n;
    if (child->string)
        n = snprintf(end, room, "%s%s", p->len > 0 ? "." : "", child->string);
    else
        n = snprintf(end, room, "[%d]", index);
    if (n > 0)
        p->len += MIN_OF((size_t)n, room - 1);
    p->len = str_utf8_whole(str_slice(p->text, p->len));
    p->text[p->len] = '\0';
}

/* Looks for a number that a double may have rounded; true leaves its place in p. */
static bool find_inexact(const cJSON *value, struct path *p)
{
    if (cJSON_IsNumber(value))
        return !(fabs(value->valuedouble) < INTEGER_LIMIT);
    int index = 0;
    for (const cJSON *child = value->child; child; child = child->next, index++) {
        bool look = cJSON_IsNumber(child) ? find_inexact(child, p) : child->child != NULL;
        if (!look)
            continue;
        size_t before = p->len;
        path_push(p, child, index);
        if (find_inexact(child, p))
            return true;
        p->len = before;
        p->text[before] = '\0';
    }
    return false;
}

int json_parse(struct cJSON **ret, struct str text, struct error *e)
{
    int rc = json_check(text, e);
    if (rc < 0)
        return rc;
    cJSON *tree = cJSON_ParseWithLengthOpts(text.ptr, text.len, NULL, false);
    if (!tree)
        return error_set(e, ERROR_NOMEM, "JSON of %zu bytes: no memory for its values", text.len);
    struct path path = {.len = 0};
    if (find_inexact(tree, &path)) {
        cJSON_Delete(tree);
        return error_set(e, ERROR_INVALID, "%s: a number of 2^53 or more cannot be kept exactly",
                         path.len > 0 ? path.text : "value");
    }
    *ret = tree;
    return 0;
}

void json_free(struct cJSON *tree)
{
    cJSON_Delete(tree);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void put_escaped(struct buf *out, unsigned char c)
{
    static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    for (const char *pair = shorts; *pair; pair += 2) {
        if ((unsigned char)pair[0] == c) {
            buf_printf(out, "\\%c", pair[1]);
            return;
        }
    }
    buf_printf(out, "\\u%04x", c);
}

/* How many bytes from the start of s may be copied as they are. */
static size_t plain_run(struct str s)
{
    size_t n = 0;
    while (n < s.len) {
        unsigned char c = (unsigned char)s.ptr[n];
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        n++;
    }
    return n;
}

static void put_run(struct buf *out, struct str run)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t bad;
    while (!str_utf8_valid(run, &bad)) {
        buf_append(out, run.ptr, bad);
        buf_append_c(out, replacement);
        run = str_slice(run.ptr + bad + 1, run.len - bad - 1);
    }
    buf_append_str(out, run);
}

void json_put_string(struct buf *out, struct str s)
{
    buf_append_c(out, "\"");
    while (s.len > 0) {
        size_t n = plain_run(s);
        put_run(out, str_slice(s.ptr, n));
        if (n < s.len)
            put_escaped(out, (unsigned char)s.ptr[n++]);
        s = str_slice(s.ptr + n, s.len - n);
    }
    buf_append_c(out, "\"");
}

void json_put_name(struct buf *out, const char *name)
{
    json_put_string(out, str_of(name));
    buf_append_c(out, ":");
}

void json_put_number(struct buf *out, double value)
{
    if (!isfinite(value)) {
        buf_append_c(out, "null");
        return;
    }
    if (fabs(value) < INTEGER_LIMIT && value == floor(value)) {
        buf_printf(out, "%.0f", value);
        return;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buf_append_c(out, text);
}

static void put_children(struct buf *out, const cJSON *parent)
{
    for (const cJSON *child = parent->child; child; child = child->next) {
        if (child != parent->child)
            buf_append_c(out, ",");
        if (child->string)
            json_put_name(out, child->string);
        json_put_tree(out, child);
    }
}

void json_put_tree(struct buf *out, const struct cJSON *value)
{
    if (cJSON_IsObject(value) || cJSON_IsArray(value)) {
        buf_append_c(out, cJSON_IsObject(value) ? "{" : "[");
        put_children(out, value);
        buf_append_c(out, cJSON_IsObject(value) ? "}" : "]");
    } else if (cJSON_IsString(value)) {
        json_put_string(out, str_of(value->valuestring));
    } else if (cJSON_IsNumber(value)) {
        json_put_number(out, value->valuedouble);
    } else if (cJSON_IsBool(value)) {
        buf_append_c(out, cJSON_IsTrue(value) ? "true" : "false");
    } else {
        buf_append_c(out, "null");
    }
}
