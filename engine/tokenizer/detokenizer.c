/* Ids to text: each token's bytes, then only whole characters out of them. */
#include "base/compiler.h"
#include "engine/tokenizer/bytemap.h"
#include "engine/tokenizer/internal.h"
#include "engine/tokenizer/tokenizer.h"

#define REPLACEMENT "\xEF\xBF\xBD"
#define ESCAPED_SPACE 0x2581u

void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, bool special)
{
    *d = (struct detokenizer){.t = t, .special = special, .first = true};
}

/* What is held cannot become a character any more: one U+FFFD in its place. */
static void give_up(struct detokenizer *d, struct buf *out)
{
    if (d->n_held > 0)
        buf_append_c(out, REPLACEMENT);
    d->n_held = 0;
}

static void push_byte(struct detokenizer *d, uint8_t byte, struct buf *out)
{
    d->held[d->n_held++] = byte;
    struct str held = str_slice((const char *)d->held, d->n_held);
    if (str_utf8_valid(held, NULL)) {
        buf_append_str(out, held);
        d->n_held = 0;
    } else if (str_utf8_whole(held) > 0) { /* it does not go on as a character could */
        d->n_held--;
        bool alone = d->n_held == 0;
        give_up(d, out);
        if (alone)
            buf_append_c(out, REPLACEMENT);
        else
            push_byte(d, byte, out);
    }
}

static void push_text(struct detokenizer *d, struct str text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++)
        push_byte(d, (uint8_t)text.ptr[i], out);
}

/* Characters outside the byte alphabet stand for themselves. */
static void push_mapped(struct detokenizer *d, struct str text, struct buf *out)
{
    while (text.len > 0) {
        uint32_t rune;
        size_t n = str_utf8_next(text, &rune);
        int byte = bytemap_byte(rune);
        if (byte >= 0)
            push_byte(d, (uint8_t)byte, out);
        else
            push_text(d, str_slice(text.ptr, n), out);
        text = str_slice(text.ptr + n, text.len - n);
    }
}

static void push_escaped(struct detokenizer *d, struct str text, struct buf *out)
{
    bool drop = d->first && d->t->spm.space_prefix;
    while (text.len > 0) {
        uint32_t rune;
        size_t n = str_utf8_next(text, &rune);
        if (rune != ESCAPED_SPACE)
            push_text(d, str_slice(text.ptr, n), out);
        else if (!drop)
            push_byte(d, ' ', out);
        drop = false;
        text = str_slice(text.ptr + n, text.len - n);
    }
}

int detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out, struct error *e)
{
    const struct vocab *v = &d->t->vocab;
    if (id < 0 || id >= v->n)
        return error_set(e, ERROR_INVALID, "token %d of a vocabulary of %d", id, v->n);
    struct str text = texts_at(&v->texts, (uint32_t)id);
    switch ((enum token_type)v->type[id]) {
    case TOKEN_CONTROL:
    case TOKEN_UNKNOWN:
        if (!d->special)
            return 0;
        push_text(d, text, out);
        break;
    case TOKEN_USER_DEFINED:
        push_text(d, text, out);
        break;
    case TOKEN_NORMAL:
        if (d->t->pretok)
            push_mapped(d, text, out);
        else
            push_escaped(d, text, out);
        break;
    case TOKEN_BYTE:
        if (!d->t->pretok)
            push_byte(d, (uint8_t)vocab_byte_of(text), out);
        break;
    case TOKEN_UNUSED:
    case TOKEN_UNDEFINED:
    case TOKEN_TYPES:
        break;
    }
    d->first = false;
    return buf_check(out, "text", e);
}

int detokenizer_finish(struct detokenizer *d, struct buf *out, struct error *e)
{
    give_up(d, out);
    return buf_check(out, "text", e);
}
