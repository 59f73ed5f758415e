#include "batch/fetch/answer.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"

#define RETRY_AFTER_MAX_S 3600

void answer_init(struct answer *a)
{
    *a = (struct answer){.length = FETCH_UNKNOWN, .total = FETCH_UNKNOWN, .retry_after_s = -1};
    a->remote.size = FETCH_UNKNOWN;
}

/* ---- Lines ------------------------------------------------------------------------------------ */

static struct str trim(struct str s)
{
    while (s.len > 0 && isspace((unsigned char)s.ptr[0]))
        s = str_slice(s.ptr + 1, s.len - 1);
    while (s.len > 0 && isspace((unsigned char)s.ptr[s.len - 1]))
        s.len--;
    return s;
}

/* The number at the beginning of *s, which moves behind it. */
static bool take_number(struct str *s, uint64_t *ret)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i < s->len && isdigit((unsigned char)s->ptr[i]); i++) {
        const uint64_t digit = (uint64_t)(s->ptr[i] - '0');
        if (n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *s = str_slice(s->ptr + i, s->len - i);
    *ret = n;
    return i > 0;
}

static bool take_char(struct str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = str_slice(s->ptr + 1, s->len - 1);
    return true;
}

static uint64_t whole_number(struct str s)
{
    uint64_t n = 0;
    return take_number(&s, &n) && s.len == 0 ? n : FETCH_UNKNOWN;
}

/* "bytes 0-9/100", "bytes 0-9/\*", "bytes \*\/100" */
static void read_range(struct answer *a, struct str s)
{
    uint64_t first = 0, last = 0, total = FETCH_UNKNOWN;
    a->has_range = a->range_unsatisfied = false;
    if (s.len < 6 || strncasecmp(s.ptr, "bytes ", 6) != 0)
        return;
    s = str_slice(s.ptr + 6, s.len - 6);
    const bool unsatisfied = take_char(&s, '*');
    if (!unsatisfied && !(take_number(&s, &first) && take_char(&s, '-') && take_number(&s, &last)))
        return;
    if (!take_char(&s, '/') || (!take_char(&s, '*') && !take_number(&s, &total)) || s.len > 0)
        return;
    if (!unsatisfied && (first > last || last >= total))
        return;
    a->has_range = !unsatisfied;
    a->range_unsatisfied = unsatisfied;
    a->first = first;
    a->last = last;
    a->total = total;
}

static void copy_validator(char out[VALIDATOR_MAX], struct str s)
{
    /* One that was cut could match another's beginning. */
    if (s.len < VALIDATOR_MAX)
        snprintf(out, VALIDATOR_MAX, "%.*s", (int)s.len, s.ptr);
    for (char *c = out; *c; c++) {
        if ((unsigned char)*c < ' ')
            out[0] = '\0';
    }
}

static void read_linked(struct remote *r, struct str s)
{
    if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"')
        s = str_slice(s.ptr + 1, s.len - 2);
    (void)fetch_is_sha256(s.ptr, s.len, r->linked_sha256);
}

static void read_retry_after(struct answer *a, struct str s)
{
    const uint64_t n = whole_number(s);
    /* A date is not worth a parser: the pause is ours then. */
    if (n != FETCH_UNKNOWN)
        a->retry_after_s = (int64_t)MIN_OF(n, (uint64_t)RETRY_AFTER_MAX_S);
}

static bool contains(struct str s, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= s.len; i++) {
        if (strncasecmp(s.ptr + i, word, n) == 0)
            return true;
    }
    return false;
}

/* A response begins: what earlier ones said is forgotten, but for what a hub said of the file. */
static void begin(struct answer *a, struct str line)
{
    struct answer next;
    answer_init(&next);
    next.remote.size = a->remote.size;
    memcpy(next.remote.linked_sha256, a->remote.linked_sha256, sizeof(next.remote.linked_sha256));
    const char *space = memchr(line.ptr, ' ', line.len);
    uint64_t status = 0;
    if (space) {
        struct str rest = str_slice(space + 1, line.len - (size_t)(space + 1 - line.ptr));
        if (take_number(&rest, &status) && status < 1000)
            next.status = (int)status;
    }
    *a = next;
}

void answer_line(struct answer *a, struct str line)
{
    line = trim(line);
    if (line.len >= 5 && strncasecmp(line.ptr, "HTTP/", 5) == 0) {
        begin(a, line);
        return;
    }
    const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
    if (!colon)
        return;
    const struct str name = str_slice(line.ptr, (size_t)(colon - line.ptr));
    const struct str value = trim(str_slice(colon + 1, line.len - name.len - 1));
#define IS(text) (name.len == sizeof(text) - 1 && strncasecmp(name.ptr, text, name.len) == 0)
    if (IS("content-length"))
        a->length = whole_number(value);
    else if (IS("content-range"))
        read_range(a, value);
    else if (IS("content-encoding"))
        a->encoded = value.len > 0 && !contains(value, "identity");
    else if (IS("content-type")) {
        a->parts = contains(value, "multipart/");
        a->html = contains(value, "text/html");
    } else if (IS("etag"))
        copy_validator(a->remote.etag, value);
    else if (IS("last-modified"))
        copy_validator(a->remote.modified, value);
    else if (IS("retry-after"))
        read_retry_after(a, value);
    else if (IS("x-linked-etag"))
        read_linked(&a->remote, value);
    else if (IS("x-linked-size"))
        a->remote.size = whole_number(value);
#undef IS
}

/* ---- Files ------------------------------------------------------------------------------------ */

int remote_same(const struct remote *a, const struct remote *b)
{
    if (a->size != FETCH_UNKNOWN && b->size != FETCH_UNKNOWN && a->size != b->size)
        return 0;
    if (a->linked_sha256[0] && b->linked_sha256[0])
        return strcmp(a->linked_sha256, b->linked_sha256) == 0;
    if (a->etag[0] && b->etag[0])
        return strcmp(a->etag, b->etag) == 0;
    if (a->modified[0] && b->modified[0])
        return strcmp(a->modified, b->modified) == 0;
    return -1;
}

void remote_sha256(const struct remote *r, char out[65])
{
    const size_t len = strlen(r->etag);
    memcpy(out, r->linked_sha256, 65);
    if (!out[0] && len > 2 && r->etag[0] == '"')
        (void)fetch_is_sha256(r->etag + 1, len - 2, out);
}

bool remote_has_validator(const struct remote *r)
{
    return r->linked_sha256[0] || r->etag[0] || r->modified[0];
}

const char *remote_if_range(const struct remote *r)
{
    /* Behind a hub the servers' own validators may differ; its hash is compared instead. */
    if (r->linked_sha256[0])
        return "";
    return r->etag[0] == '"' ? r->etag : r->etag[0] ? "" : r->modified;
}

/* ---- Verdicts --------------------------------------------------------------------------------- */

static enum verdict judge_status(int status)
{
    if (status == 401 || status == 403)
        return VERDICT_DENIED;
    if (status == 404 || status == 410)
        return VERDICT_GONE;
    if (status == 408 || status == 425 || status == 429 || status >= 500)
        return VERDICT_LATER;
    return VERDICT_REFUSED;
}

uint64_t answer_size(const struct answer *a)
{
    if (a->has_range || a->range_unsatisfied)
        return a->total;
    return a->status == 200 ? a->length : FETCH_UNKNOWN;
}

enum verdict answer_judge(const struct answer *a, const struct question *q)
{
    const bool body = a->status == 200 || a->status == 206;
    if (a->status == 416)
        return q->remote ? VERDICT_CHANGED : VERDICT_LIES;
    if (!body)
        return judge_status(a->status);
    if (a->encoded)
        return VERDICT_REFUSED;
    struct remote seen = a->remote;
    if (answer_size(a) != FETCH_UNKNOWN)
        seen.size = answer_size(a);
    const int same = q->remote ? remote_same(q->remote, &seen) : 1;
    if (same == 0 || (same < 0 && !q->hashed && remote_has_validator(q->remote)))
        return VERDICT_CHANGED;
    if (!q->ranged)
        return a->status == 200 ? VERDICT_OK : VERDICT_LIES;
    /* Fewer bytes than asked for are allowed, and are seen by their number. */
    return a->status == 206 && a->has_range && !a->parts && a->first == q->first &&
                   a->last <= q->last
               ? VERDICT_OK
               : VERDICT_LIES;
}

const char *answer_text(const struct answer *a, const struct question *q, char out[200])
{
    if (a->encoded)
        snprintf(out, 200, "status %d with the bytes encoded", a->status);
    else if (a->has_range && q->ranged)
        snprintf(out, 200,
                 "status %d with bytes %" PRIu64 " to %" PRIu64 " for %" PRIu64 " to %" PRIu64,
                 a->status, a->first, a->last, q->first, q->last);
    else if (a->status == 200 && q->ranged)
        snprintf(out, 200, "the whole file for bytes %" PRIu64 " to %" PRIu64, q->first, q->last);
    else
        snprintf(out, 200, "status %d%s", a->status, a->html ? " and a web page" : "");
    return out;
}
