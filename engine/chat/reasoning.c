#include "engine/chat/reasoning.h"

#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "engine/chat/internal.h"

/* 0xF8 to 0xFF occur nowhere in UTF-8: the detokeniser never writes them. */
#define MARKER_BYTE 0xF8u
/* Tokens that a spent budget waits at most for the end of a character or of markup. */
#define PATIENCE 8u

enum pattern { OPEN, CLOSE, OPEN_ANSWER, END_ANSWER, PATTERNS = END_ANSWER + CHAT_THINKING_ENDS };

struct reasoner {
    const struct chat_thinking *row;
    const struct tokenizer *tokenizer;
    int32_t marker[CHAT_THINKING_MARKERS]; /* -1: none, or spelled in letters */
    struct buf pattern[PATTERNS];          /* empty: the row has none */
    struct tokens forced;
};

/* ------------------------------------------------------------------ made ready */

/* The marker that the text begins with; -1: none. */
static int marker_at(const struct reasoner *how, const char *text)
{
    for (int i = 0; i < CHAT_THINKING_MARKERS && how->row->markers[i]; i++) {
        const char *marker = how->row->markers[i];
        if (how->marker[i] >= 0 && strncmp(text, marker, strlen(marker)) == 0)
            return i;
    }
    return -1;
}

static int compile(struct reasoner *how, enum pattern p, const char *text, struct error *e)
{
    struct buf *out = &how->pattern[p];
    buf_init(out, SIZE_MAX);
    while (text && *text) {
        int marker = marker_at(how, text);
        char byte = marker < 0 ? *text : (char)(MARKER_BYTE + (unsigned)marker);
        buf_append(out, &byte, 1);
        text += marker < 0 ? 1 : strlen(how->row->markers[marker]);
    }
    return buf_check(out, "markup of a chat format", e);
}

static int compile_forced(struct reasoner *how, const struct chat_format *f, struct error *e)
{
    struct prompt p = {.format = f, .tokenizer = how->tokenizer, .out = &how->forced};
    buf_init(&p.run, INT32_MAX);
    int rc = prompt_markup(&p, how->row->forced, e);
    if (rc == 0)
        rc = prompt_finish(&p, e);
    buf_release(&p.run);
    return rc;
}

static int compile_all(struct reasoner *how, const struct chat_format *f, struct error *e)
{
    const struct chat_thinking *row = how->row;
    for (int i = 0; i < CHAT_THINKING_MARKERS; i++)
        how->marker[i] =
            row->markers[i] ? tokenizer_find(how->tokenizer, str_of(row->markers[i])) : -1;
    int rc = compile(how, OPEN, row->open, e);
    if (rc == 0)
        rc = compile(how, CLOSE, row->close, e);
    if (rc == 0)
        rc = compile(how, OPEN_ANSWER, row->answer, e);
    for (int i = 0; rc == 0 && i < CHAT_THINKING_ENDS; i++)
        rc = compile(how, (enum pattern)(END_ANSWER + i), row->end[i], e);
    return rc == 0 ? compile_forced(how, f, e) : rc;
}

int reasoner_new(struct reasoner **ret, const struct chat_format *f, const struct tokenizer *t,
                 struct error *e)
{
    *ret = NULL;
    if (!f->thinking->open)
        return 0;
    struct reasoner *how = mem_zalloc(sizeof *how);
    if (!how)
        return error_set(e, ERROR_NOMEM, "chat format %s: no memory", f->name);
    how->row = f->thinking;
    how->tokenizer = t;
    int rc = compile_all(how, f, e);
    if (rc < 0) {
        reasoner_free(how);
        return rc;
    }
    *ret = how;
    return 0;
}

void reasoner_free(struct reasoner *how)
{
    if (!how)
        return;
    for (int i = 0; i < PATTERNS; i++)
        buf_release(&how->pattern[i]);
    tokens_release(&how->forced);
    mem_free(how);
}

/* ------------------------------------------------------------------ looking for markup */

enum match { MATCH_NO, MATCH_PARTLY, MATCH_WHOLE };

/* How the text begins: with the pattern, with what may become it, or with neither. */
static enum match begins(const struct reasoner *how, struct str text, enum pattern p)
{
    const struct buf *pattern = &how->pattern[p];
    size_t n = MIN_OF(text.len, pattern->len);
    if (pattern->len == 0 || (n > 0 && memcmp(text.ptr, pattern->ptr, n) != 0))
        return MATCH_NO;
    return n == pattern->len ? MATCH_WHOLE : MATCH_PARTLY;
}

/*
 * The first of the patterns from..to that the text has: MATCH_WHOLE with its place, MATCH_PARTLY where
 * one may have begun, MATCH_NO (*ret_at is then the whole text).
 */
static enum match search(const struct reasoner *how, struct str text, enum pattern from,
                         enum pattern to, size_t *ret_at, enum pattern *ret_which)
{
    for (size_t at = 0; at < text.len; at++) {
        for (int p = (int)from; p <= (int)to; p++) {
            struct str rest = str_slice(text.ptr + at, text.len - at);
            enum match m = begins(how, rest, (enum pattern)p);
            if (m == MATCH_NO)
                continue;
            *ret_at = at;
            *ret_which = (enum pattern)p;
            return m;
        }
    }
    *ret_at = text.len;
    return MATCH_NO;
}

static void drop(struct buf *b, size_t n)
{
    if (n == 0)
        return;
    memmove(b->ptr, b->ptr + n, b->len - n);
    b->len -= n;
}

/* A marker that marks nothing here: its text where it has one. */
static int put_marker(const struct reasoning *r, unsigned marker, struct buf *out, struct error *e)
{
    struct detokenizer d;
    detokenizer_init(&d, r->how->tokenizer, false);
    return detokenizer_push(&d, r->how->marker[marker], out, e);
}

/* Moves the first n held bytes to `out`, which takes no line feeds while it is empty and `lines`. */
static int move(struct reasoning *r, size_t n, struct buf *out, bool lines, struct error *e)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        uint8_t byte = (uint8_t)r->held.ptr[i];
        if (byte >= MARKER_BYTE)
            rc = put_marker(r, byte - MARKER_BYTE, out, e);
        else if (out->len > 0 || !lines || byte != '\n')
            buf_append(out, &byte, 1);
    }
    drop(&r->held, n);
    return rc == 0 ? buf_check(out, "answer", e) : rc;
}

/* ------------------------------------------------------------------ the parts */

/* White space before the thought is nobody's; before an answer it is the answer's. */
static bool leave_before(struct reasoning *r)
{
    struct str held = buf_str(&r->held);
    size_t blank = 0;
    if (held.len == 0)
        return false;
    while (blank < held.len && (held.ptr[blank] == '\n' || held.ptr[blank] == ' '))
        blank++;
    enum match m = begins(r->how, str_slice(held.ptr + blank, held.len - blank), OPEN);
    if (blank == held.len || m == MATCH_PARTLY)
        return false;
    r->part = m == MATCH_WHOLE ? REASONING_THOUGHT : REASONING_ANSWER;
    if (m == MATCH_WHOLE)
        drop(&r->held, blank + r->how->pattern[OPEN].len);
    return true;
}

static void close_thought(struct reasoning *r)
{
    r->thought.len = reasoning_certain(r);
    if (r->thought.ptr)
        r->thought.ptr[r->thought.len] = '\0';
    r->after_thought = true;
}

static int leave_thought(struct reasoning *r, bool *ret_left, struct error *e)
{
    size_t at;
    enum pattern which = CLOSE;
    enum match m = search(r->how, buf_str(&r->held), CLOSE, OPEN_ANSWER, &at, &which);
    int rc = move(r, at, &r->thought, r->how->row->lines, e);
    *ret_left = rc == 0 && m == MATCH_WHOLE;
    if (!*ret_left)
        return rc;
    drop(&r->held, r->how->pattern[which].len);
    close_thought(r);
    bool opened = which == OPEN_ANSWER || r->how->pattern[OPEN_ANSWER].len == 0;
    r->part = opened ? REASONING_ANSWER : REASONING_BETWEEN;
    return 0;
}

static bool leave_between(struct reasoning *r)
{
    enum match m = begins(r->how, buf_str(&r->held), OPEN_ANSWER);
    if (r->held.len == 0 || m == MATCH_PARTLY)
        return false;
    if (m == MATCH_WHOLE)
        drop(&r->held, r->how->pattern[OPEN_ANSWER].len);
    r->part = REASONING_ANSWER;
    return true;
}

static int leave_answer(struct reasoning *r, struct buf *answer, bool *ret_left, struct error *e)
{
    size_t at;
    enum pattern which;
    enum match m =
        search(r->how, buf_str(&r->held), END_ANSWER, (enum pattern)(PATTERNS - 1), &at, &which);
    int rc = move(r, at, answer, r->after_thought && r->how->row->lines, e);
    *ret_left = rc == 0 && m == MATCH_WHOLE;
    if (*ret_left)
        r->part = REASONING_AFTER;
    return rc;
}

/* Goes on from part to part as far as what is held says. */
static int settle(struct reasoning *r, struct buf *answer, struct error *e)
{
    int rc = 0;
    for (bool left = true; rc == 0 && left;) {
        left = false;
        switch (r->part) {
        case REASONING_BEFORE:
            left = leave_before(r);
            break;
        case REASONING_THOUGHT:
            rc = leave_thought(r, &left, e);
            break;
        case REASONING_BETWEEN:
            left = leave_between(r);
            break;
        case REASONING_ANSWER:
            rc = leave_answer(r, answer, &left, e);
            break;
        case REASONING_AFTER:
            buf_clear(&r->held);
            break;
        }
    }
    return rc;
}

/* ------------------------------------------------------------------ the budget */

/* A token that opens the answer is the thought's, one that is text of the answer is not. */
static void count(struct reasoning *r, enum reasoning_part before, bool answered)
{
    if (before == REASONING_BEFORE)
        r->n_before++;
    if (before == REASONING_BEFORE && r->part != REASONING_BEFORE) {
        r->n_tokens = r->part == REASONING_ANSWER && !r->after_thought ? 0 : r->n_before;
        return;
    }
    r->n_tokens += before == REASONING_THOUGHT || (before == REASONING_BETWEEN && !answered);
    r->n_inside += before == REASONING_THOUGHT;
}

static void watch_budget(struct reasoning *r, const struct detokenizer *d)
{
    if (r->forcing && ++r->n_forced == r->how->forced.n) {
        r->forcing = false;
        r->budget = REASONING_UNLIMITED;
    }
    if (r->forcing || r->part != REASONING_THOUGHT || r->n_inside < r->budget)
        return;
    bool clean = r->held.len == 0 && (!d || d->n_held == 0);
    r->forcing = clean || r->n_overdue >= PATIENCE;
    r->n_overdue++;
}

int32_t reasoning_forced(const struct reasoning *r)
{
    return r->forcing ? r->how->forced.ids[r->n_forced] : -1;
}

/* ------------------------------------------------------------------ outside */

void reasoning_begin(struct reasoning *r, const struct reasoner *how, bool think, uint32_t budget)
{
    *r = (struct reasoning){.how = how, .budget = budget};
    buf_init(&r->thought, SIZE_MAX);
    buf_init(&r->held, SIZE_MAX);
    if (think && how->row->is_open)
        r->part = REASONING_THOUGHT;
    watch_budget(r, NULL);
}

void reasoning_release(struct reasoning *r)
{
    buf_release(&r->thought);
    buf_release(&r->held);
}

/* The byte that stands for the token; 0: it is none of the format's markers. */
static uint8_t marker_byte(const struct reasoner *how, int32_t token)
{
    for (unsigned i = 0; i < CHAT_THINKING_MARKERS; i++) {
        if (how->marker[i] >= 0 && how->marker[i] == token)
            return (uint8_t)(MARKER_BYTE + i);
    }
    return 0;
}

int reasoning_push(struct reasoning *r, struct detokenizer *d, int32_t token, struct buf *answer,
                   struct error *e)
{
    const enum reasoning_part before = r->part;
    const uint8_t marker = marker_byte(r->how, token);
    int rc = marker ? detokenizer_finish(d, &r->held, e) : detokenizer_push(d, token, &r->held, e);
    if (marker)
        buf_append(&r->held, &marker, 1);
    if (rc == 0)
        rc = buf_check(&r->held, "answer", e);
    if (rc == 0)
        rc = settle(r, answer, e);
    count(r, before, answer->len > 0);
    watch_budget(r, d);
    return rc;
}

/* Markup that was cut short is nobody's; letters that only looked like it are text. */
int reasoning_finish(struct reasoning *r, struct detokenizer *d, struct buf *answer,
                     struct error *e)
{
    int rc = detokenizer_finish(d, &r->held, e);
    if (rc == 0)
        rc = settle(r, answer, e);
    if (rc == 0 && r->held.len > 0 && (uint8_t)r->held.ptr[0] >= MARKER_BYTE)
        buf_clear(&r->held);
    if (rc == 0 && r->part == REASONING_THOUGHT)
        rc = move(r, r->held.len, &r->thought, r->how->row->lines, e);
    else if (rc == 0)
        rc = move(r, r->held.len, answer, false, e);
    if (r->part == REASONING_THOUGHT)
        close_thought(r);
    return rc;
}

size_t reasoning_certain(const struct reasoning *r)
{
    size_t n = r->thought.len;
    while (r->how->row->lines && r->part == REASONING_THOUGHT && n > 0 &&
           r->thought.ptr[n - 1] == '\n')
        n--;
    return n;
}

bool reasoning_is_thinking(const struct reasoning *r)
{
    return r->part == REASONING_THOUGHT || r->part == REASONING_BETWEEN;
}
