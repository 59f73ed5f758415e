#include "engine/tokenizer/spm.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

#define ESCAPED_SPACE "\xE2\x96\x81" /* U+2581 */

int spm_init(struct spm *s, const struct vocab *v, const struct gguf *g, struct error *e)
{
    s->space_prefix = true;
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[8];
        char verbatim = (char)byte;
        snprintf(name, sizeof name, "<0x%02X>", byte);
        s->byte[byte] = vocab_find(v, str_of(name));
        if (s->byte[byte] < 0)
            s->byte[byte] = vocab_find(v, str_slice(&verbatim, 1));
    }
    for (int32_t id = 0; id < v->n; id++) {
        struct str text = texts_at(&v->texts, (uint32_t)id);
        if (v->type[id] == TOKEN_BYTE && vocab_byte_of(text) < 0)
            return error_set(e, ERROR_FORMAT, "token %d is a byte and its text is not <0xAB>", id);
    }
    return gguf_bool(g, "tokenizer.ggml.add_space_prefix", false, &s->space_prefix, e);
}

void spm_scratch_release(struct spm_scratch *s)
{
    buf_release(&s->text);
    mem_free(s->symbol);
    heap_release(&s->heap);
    *s = (struct spm_scratch){0};
}

static int escape(struct spm_scratch *s, struct str text, bool space_first, struct error *e)
{
    s->text.max = INT32_MAX; /* positions are 32 bits wide */
    buf_clear(&s->text);
    if (space_first)
        buf_append_c(&s->text, ESCAPED_SPACE);
    while (text.len > 0) {
        const char *space = memchr(text.ptr, ' ', text.len);
        size_t plain = space ? (size_t)(space - text.ptr) : text.len;
        buf_append(&s->text, text.ptr, plain);
        if (space)
            buf_append_c(&s->text, ESCAPED_SPACE);
        size_t done = plain + (space ? 1 : 0);
        text = str_slice(text.ptr + done, text.len - done);
    }
    return buf_check(&s->text, "text to tokenise", e);
}

/* One symbol a character; *ret_n how many. */
static int begin(struct spm_scratch *s, int32_t *ret_n, struct error *e)
{
    struct str text = buf_str(&s->text);
    if (text.len > s->cap) {
        struct spm_symbol *symbol = mem_regrow(s->symbol, text.len, sizeof *symbol);
        if (!symbol)
            return error_set(e, ERROR_NOMEM, "tokenizer: no memory for %zu bytes of text",
                             text.len);
        s->symbol = symbol;
        s->cap = text.len;
    }
    int32_t n = 0;
    for (size_t at = 0; at < text.len; n++) {
        uint32_t rune;
        size_t len = str_utf8_next(str_slice(text.ptr + at, text.len - at), &rune);
        s->symbol[n] = (struct spm_symbol){(uint32_t)at, (uint32_t)len, n - 1, n + 1};
        at += len;
    }
    s->symbol[n - 1].next = -1;
    *ret_n = n;
    /* Every merge takes one candidate off and adds at most two. */
    return heap_start(&s->heap, 2 * (size_t)n, e);
}

/* The token that a symbol and the one after it spell; -1: none. */
static int32_t joined(const struct vocab *v, const struct spm_scratch *s, int32_t at)
{
    if (at < 0 || s->symbol[at].len == 0 || s->symbol[at].next < 0)
        return -1;
    const struct spm_symbol *left = &s->symbol[at];
    size_t len = left->len + (size_t)s->symbol[left->next].len;
    if (len > v->longest)
        return -1;
    return vocab_find(v, str_slice(s->text.ptr + left->start, len));
}

/* Scores as integers, the highest score the smallest. */
static uint32_t order_of(float score)
{
    uint32_t bits;
    float zero_is_positive = score + 0.0f;
    memcpy(&bits, &zero_is_positive, sizeof bits);
    return bits & 0x80000000u ? bits : 0x7FFFFFFFu - bits;
}

static void offer(const struct vocab *v, struct spm_scratch *s, int32_t at)
{
    int32_t id = joined(v, s, at);
    if (id >= 0)
        heap_push(&s->heap, order_of(v->score[id]), (uint32_t)at);
}

static void merge_all(const struct vocab *v, struct spm_scratch *s)
{
    while (s->heap.n > 0) {
        uint64_t key = heap_pop(&s->heap);
        int32_t at = (int32_t)heap_place(key);
        int32_t id = joined(v, s, at);
        /* Out of date, unless what is there now has the same score: then its turn is now too. */
        if (id < 0 || order_of(v->score[id]) != heap_order(key))
            continue;
        struct spm_symbol *left = &s->symbol[at];
        struct spm_symbol *right = &s->symbol[left->next];
        left->len += right->len;
        left->next = right->next;
        right->len = 0;
        if (left->next >= 0)
            s->symbol[left->next].previous = at;
        offer(v, s, left->previous);
        offer(v, s, at);
    }
}

/* Only a single character can be no token here: whatever was merged is one. */
static int emit(const struct spm *s, const struct vocab *v, struct str text, struct tokens *out,
                struct error *e)
{
    int32_t id = vocab_find(v, text);
    if (id >= 0)
        return tokens_push(out, id, e);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < text.len; i++) {
        int32_t byte = s->byte[(uint8_t)text.ptr[i]];
        if (byte < 0)
            byte = v->unknown;
        if (byte >= 0)
            rc = tokens_push(out, byte, e);
    }
    return rc;
}

int spm_encode(const struct spm *s, const struct vocab *v, struct spm_scratch *scratch,
               struct str text, bool first, struct tokens *out, struct error *e)
{
    int32_t n = 0;
    int rc = escape(scratch, text, first && s->space_prefix, e);
    if (rc == 0)
        rc = begin(scratch, &n, e);
    if (rc < 0)
        return rc;
    for (int32_t i = 0; i < n; i++)
        offer(v, scratch, i);
    merge_all(v, scratch);
    for (int32_t i = 0; rc == 0 && i >= 0; i = scratch->symbol[i].next) {
        const struct spm_symbol *symbol = &scratch->symbol[i];
        rc = emit(s, v, str_slice(scratch->text.ptr + symbol->start, symbol->len), out, e);
    }
    return rc;
}
