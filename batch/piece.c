#include "batch/piece.h"

#include "jobs/progress.h"

#define WORD_BYTES 4u

static uint32_t get_word(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void put_word(struct buf *out, uint32_t n)
{
    const unsigned char b[WORD_BYTES] = {(unsigned char)n, (unsigned char)(n >> 8),
                                         (unsigned char)(n >> 16), (unsigned char)(n >> 24)};
    buf_append(out, b, sizeof(b));
}

int piece_put(struct buf *out, struct str text, const int32_t *token, size_t n, struct error *e)
{
    if (text.len > UINT32_MAX)
        return error_set(e, ERROR_INVALID, "a piece of %zu bytes of text", text.len);
    put_word(out, (uint32_t)text.len);
    buf_append_str(out, text);
    int rc = buf_check(out, "progress", e);
    return rc ? rc : job_progress_put(out, token, n, e);
}

static int torn(size_t at, size_t total, struct error *e)
{
    return error_set(e, ERROR_FORMAT, "saved progress is torn at byte %zu of %zu", at, total);
}

int piece_read(struct str bytes, struct buf *tokens, struct buf *text, struct error *e)
{
    size_t at = 0;
    while (at < bytes.len) {
        size_t left = bytes.len - at;
        size_t n_text = left >= WORD_BYTES ? get_word(bytes.ptr + at) : 0;
        if (left < 2 * WORD_BYTES || n_text > left - 2 * WORD_BYTES)
            return torn(at, bytes.len, e);
        const char *words = bytes.ptr + at + WORD_BYTES;
        const char *chunk = words + n_text;
        uint64_t chunk_bytes = WORD_BYTES + (uint64_t)WORD_BYTES * get_word(chunk);
        if (chunk_bytes > left - WORD_BYTES - n_text)
            return torn(at, bytes.len, e);
        size_t n = 0;
        int rc =
            tokens ? job_progress_read(str_slice(chunk, (size_t)chunk_bytes), tokens, &n, e) : 0;
        if (rc)
            return rc;
        if (text)
            buf_append(text, words, n_text);
        at += WORD_BYTES + n_text + (size_t)chunk_bytes;
    }
    return text ? buf_check(text, "text of the progress", e) : 0;
}
