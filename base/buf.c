#include "base/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define BUF_FIRST_BYTES 64u

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_release(struct buf *b)
{
    mem_free(b->ptr);
    *b = (struct buf){.max = b->max};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->wanted = 0;
    b->failed = false;
    if (b->ptr)
        b->ptr[0] = '\0';
}

static int buf_fail(struct buf *b, size_t wanted, enum error_code code)
{
    b->failed = true;
    b->wanted = wanted;
    return -(int)code;
}

/* The code of a failure that happened already. */
static enum error_code failure_of(const struct buf *b)
{
    return b->wanted > b->max ? ERROR_INVALID : ERROR_NOMEM;
}

/* Room for n more bytes and the NUL. */
static int buf_reserve(struct buf *b, size_t n)
{
    if (b->failed)
        return -(int)failure_of(b);
    if (n > b->max - b->len)
        return buf_fail(b, n > SIZE_MAX - b->len ? SIZE_MAX : b->len + n, ERROR_INVALID);
    size_t need = b->len + n;
    if (need < b->cap)
        return 0;
    if (need == SIZE_MAX)
        return buf_fail(b, need, ERROR_NOMEM);
    size_t cap = b->cap < BUF_FIRST_BYTES ? BUF_FIRST_BYTES : b->cap;
    while (cap <= need)
        cap = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
    /* Never more than the ceiling can use. */
    if (b->max < cap - 1)
        cap = b->max + 1;
    char *grown = mem_regrow(b->ptr, cap, 1);
    if (!grown)
        return buf_fail(b, need, ERROR_NOMEM);
    b->ptr = grown;
    b->cap = cap;
    return 0;
}

int buf_append(struct buf *b, const void *bytes, size_t n)
{
    int rc = buf_reserve(b, n);
    if (rc < 0)
        return rc;
    if (n > 0)
        memcpy(b->ptr + b->len, bytes, n);
    b->len += n;
    b->ptr[b->len] = '\0';
    return 0;
}

int buf_append_str(struct buf *b, struct str s)
{
    return buf_append(b, s.ptr, s.len);
}

int buf_append_c(struct buf *b, const char *s)
{
    return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        return buf_fail(b, b->len, ERROR_NOMEM);
    int rc = buf_reserve(b, (size_t)n);
    if (rc < 0)
        return rc;
    va_start(args, fmt);
    vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

int buf_check(const struct buf *b, const char *what, struct error *e)
{
    if (!b->failed)
        return 0;
    if (failure_of(b) == ERROR_INVALID)
        return error_set(e, ERROR_INVALID, "%s: %zu bytes, limit %zu", what, b->wanted, b->max);
    return error_set(e, ERROR_NOMEM, "%s: no memory for %zu bytes", what, b->wanted);
}

struct str buf_str(const struct buf *b)
{
    return str_slice(b->ptr, b->len);
}

char *buf_take(struct buf *b)
{
    char *block = b->ptr;
    if (b->len == 0) {
        mem_free(block);
        block = NULL;
    }
    *b = (struct buf){.max = b->max};
    return block;
}
