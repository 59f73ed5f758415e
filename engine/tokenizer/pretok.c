#include "engine/tokenizer/pretok.h"

#include <assert.h>
#include <stdint.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/alloc.h"
#include "base/compiler.h"

#define PRETOK_PATTERNS 6

struct pretok_row {
    const char *name;
    unsigned flags;
    const char *pattern[PRETOK_PATTERNS]; /* NULL after the last */
};

static const struct pretok_row rows[] = {
#define PRETOK(name, flags, ...) {name, flags, {__VA_ARGS__}},
#include "engine/tokenizer/pretok.def"
#undef PRETOK
};

struct pretok {
    const struct pretok_row *row;
    pcre2_general_context *memory;
    pcre2_code *code[PRETOK_PATTERNS];
    int n;
};

struct pretok_run {
    const struct pretok *p;
    pcre2_match_data *match[PRETOK_PATTERNS];
    int (*word)(void *ctx, struct str word, struct error *e);
    void *ctx;
};

static void *pcre_alloc(size_t n, void *ctx)
{
    (void)ctx;
    return mem_alloc(n);
}

static void pcre_free(void *block, void *ctx)
{
    (void)ctx;
    mem_free(block);
}

static const struct pretok_row *find_row(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (str_equal_c(name, rows[i].name))
            return &rows[i];
    }
    return NULL;
}

static int no_memory(struct error *e)
{
    return error_set(e, ERROR_NOMEM, "pre-tokeniser: no memory");
}

static int compile(struct pretok *p, const char *pattern, struct error *e)
{
    int code;
    size_t at;
    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    if (!context)
        return no_memory(e);
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!compiled)
        return code == PCRE2_ERROR_HEAP_FAILED
                   ? no_memory(e)
                   : error_set(e, ERROR_UNSUPPORTED,
                               "pre-tokeniser '%s': PCRE2 refuses the pattern at byte %zu (%d)",
                               p->row->name, at, code);
    /* Without JIT, where the system forbids it, the same matches take longer. */
    (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    p->code[p->n++] = compiled;
    return 0;
}

int pretok_new(struct pretok **ret, struct str name, struct error *e)
{
    const struct pretok_row *row = find_row(name);
    if (!row)
        return error_set(e, ERROR_UNSUPPORTED, "pre-tokeniser '%.*s' is not supported",
                         (int)MIN_OF(name.len, (size_t)64), name.ptr);
    struct pretok *p = mem_zalloc(sizeof *p);
    if (!p)
        return no_memory(e);
    p->row = row;
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    int rc = p->memory ? 0 : no_memory(e);
    for (int i = 0; rc == 0 && i < PRETOK_PATTERNS && row->pattern[i]; i++)
        rc = compile(p, row->pattern[i], e);
    if (rc < 0) {
        pretok_free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void pretok_free(struct pretok *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n; i++)
        pcre2_code_free(p->code[i]);
    pcre2_general_context_free(p->memory);
    mem_free(p);
}

unsigned pretok_flags(const struct pretok *p)
{
    return p->row->flags;
}

const char *pretok_name(const struct pretok *p)
{
    return p->row->name;
}

size_t pretok_memory_bytes(const struct pretok *p)
{
    size_t sum = sizeof *p;
    for (int i = 0; i < p->n; i++) {
        size_t code = 0;
        size_t jit = 0;
        (void)pcre2_pattern_info(p->code[i], PCRE2_INFO_SIZE, &code);
        (void)pcre2_pattern_info(p->code[i], PCRE2_INFO_JITSIZE, &jit);
        sum += code + jit;
    }
    return sum;
}

int pretok_run_new(struct pretok_run **ret, const struct pretok *p, struct error *e)
{
    struct pretok_run *r = mem_zalloc(sizeof *r);
    if (!r)
        return no_memory(e);
    r->p = p;
    for (int i = 0; i < p->n; i++) {
        r->match[i] = pcre2_match_data_create(1, p->memory);
        if (!r->match[i]) {
            pretok_run_free(r);
            return no_memory(e);
        }
    }
    *ret = r;
    return 0;
}

void pretok_run_free(struct pretok_run *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->p->n; i++)
        pcre2_match_data_free(r->match[i]);
    mem_free(r);
}

/* The next match at or after `from`: 1, 0 none, or an error. */
static int find(struct pretok_run *r, int level, struct str text, size_t from, struct error *e)
{
    const pcre2_code *code = r->p->code[level];
    pcre2_match_data *match = r->match[level];
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    /* The text is known to be well formed; checking it again at every match would be quadratic. */
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(code, subject, text.len, from, options, match, NULL);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, subject, text.len, from, options | PCRE2_NO_JIT, match, NULL);
    if (rc >= 0)
        return 1;
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return no_memory(e);
    return error_set(e, ERROR_INVALID, "pre-tokeniser '%s': PCRE2 gives up on %zu bytes (%d)",
                     r->p->row->name, text.len, rc);
}

/* Cuts a piece with pattern `level` and hands what comes out to the next one. */
static int cut(struct pretok_run *r, int level, struct str piece, struct error *e)
{
    if (piece.len == 0)
        return 0;
    if (level == r->p->n)
        return r->word(r->ctx, piece, e);
    size_t done = 0;
    while (done < piece.len) {
        int found = find(r, level, piece, done, e);
        if (found < 0)
            return found;
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(r->match[level]);
        size_t start = found ? span[0] : piece.len;
        size_t end = found ? span[1] : piece.len;
        assert(!found || end > start); /* no pattern matches nothing */
        int rc = cut(r, level + 1, str_slice(piece.ptr + done, start - done), e);
        if (rc == 0)
            rc = cut(r, level + 1, str_slice(piece.ptr + start, end - start), e);
        if (rc < 0)
            return rc;
        done = end;
    }
    return 0;
}

int pretok_words(struct pretok_run *r, struct str text,
                 int (*word)(void *ctx, struct str word, struct error *e), void *ctx,
                 struct error *e)
{
    r->word = word;
    r->ctx = ctx;
    return cut(r, 0, text, e);
}
