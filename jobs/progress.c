#include "jobs/progress.h"

#include "base/cursor.h"

static void put_u32(struct buf *out, uint32_t v)
{
    const uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
                              (uint8_t)(v >> 24)};
    buf_append(out, bytes, sizeof(bytes));
}

int job_progress_put(struct buf *out, const int32_t *token, size_t n, struct error *e)
{
    if (n == 0)
        return 0;
    if (n > UINT32_MAX)
        return error_set(e, ERROR_INVALID, "progress: %zu tokens in one chunk", n);
    put_u32(out, (uint32_t)n);
    for (size_t i = 0; i < n; i++)
        put_u32(out, (uint32_t)token[i]);
    return buf_check(out, "progress", e);
}

/* One chunk: its tokens are appended, *ret_n grows by their count. */
static int read_chunk(struct cursor *c, struct buf *tokens, size_t *ret_n, struct error *e)
{
    size_t start = c->pos;
    uint32_t n = cursor_u32(c);
    if (c->failed || n == 0 || n > cursor_left(c) / 4)
        return error_set(e, ERROR_FORMAT,
                         "progress: the chunk at byte %zu is torn (%u tokens, %zu bytes left)",
                         start, (unsigned)n, cursor_left(c));
    for (uint32_t i = 0; i < n; i++) {
        int32_t token = (int32_t)cursor_u32(c);
        if (token < 0)
            return error_set(e, ERROR_FORMAT, "progress: token %d at byte %zu", (int)token,
                             c->pos - 4);
        buf_append(tokens, &token, sizeof(token));
    }
    *ret_n += n;
    return buf_check(tokens, "progress", e);
}

int job_progress_read(struct str bytes, struct buf *tokens, size_t *ret_n, struct error *e)
{
    struct cursor c;
    cursor_init(&c, bytes.ptr, bytes.len);
    size_t n = 0;
    while (cursor_left(&c) > 0) {
        int rc = read_chunk(&c, tokens, &n, e);
        if (rc < 0)
            return rc;
    }
    *ret_n = n;
    return 0;
}
