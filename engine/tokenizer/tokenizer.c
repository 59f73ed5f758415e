#include "engine/tokenizer/tokenizer.h"

#include "base/alloc.h"
#include "base/compiler.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/internal.h"

/* Positions inside a text are 32 bits wide, and U+2581 is three bytes for a space. */
#define TEXT_MAX_BYTES ((size_t)INT32_MAX / 4)

int tokens_push(struct tokens *t, int32_t id, struct error *e)
{
    if (t->n == t->cap) {
        size_t cap = MAX_OF(t->cap * 2, (size_t)64);
        int32_t *grown = mem_regrow(t->ids, cap, sizeof *grown);
        if (!grown)
            return error_set(e, ERROR_NOMEM, "no memory for %zu tokens", cap);
        t->ids = grown;
        t->cap = cap;
    }
    t->ids[t->n++] = id;
    return 0;
}

void tokens_release(struct tokens *t)
{
    mem_free(t->ids);
    *t = (struct tokens){0};
}

static int load_bpe(struct tokenizer *t, const struct gguf *g, struct error *e)
{
    struct str pre = str_of("default");
    int rc = gguf_str(g, "tokenizer.ggml.pre", false, &pre, e);
    if (rc == 0)
        rc = pretok_new(&t->pretok, pre, e);
    if (rc < 0)
        return rc;
    unsigned flags = pretok_flags(t->pretok);
    rc = vocab_load(&t->vocab, g, false, flags & PRETOK_BOS, e);
    return rc == 0 ? bpe_init(&t->bpe, &t->vocab, g, flags, e) : rc;
}

static int load_spm(struct tokenizer *t, const struct gguf *g, struct error *e)
{
    int rc = vocab_load(&t->vocab, g, true, true, e);
    return rc == 0 ? spm_init(&t->spm, &t->vocab, g, e) : rc;
}

static int load(struct tokenizer *t, const struct gguf *g, struct error *e)
{
    struct str model;
    int rc = gguf_str(g, "tokenizer.ggml.model", true, &model, e);
    if (rc < 0)
        return rc;
    if (str_equal_c(model, "gpt2"))
        rc = load_bpe(t, g, e);
    else if (str_equal_c(model, "llama"))
        rc = load_spm(t, g, e);
    else
        rc = error_set(e, ERROR_UNSUPPORTED, "tokenizer '%.*s' is not supported (gpt2, llama are)",
                       (int)MIN_OF(model.len, (size_t)64), model.ptr);
    return rc == 0 ? specials_init(&t->specials, &t->vocab, e) : rc;
}

int tokenizer_new(struct tokenizer **ret, const struct gguf *g, struct error *e)
{
    struct tokenizer *t = mem_zalloc(sizeof *t);
    if (!t)
        return error_set(e, ERROR_NOMEM, "no memory for a tokenizer");
    int rc = load(t, g, e);
    if (rc < 0) {
        tokenizer_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void tokenizer_free(struct tokenizer *t)
{
    if (!t)
        return;
    specials_release(&t->specials);
    bpe_release(&t->bpe);
    pretok_free(t->pretok);
    vocab_release(&t->vocab);
    mem_free(t);
}

/* What one call of tokenizer_encode works with. */
struct encoder {
    const struct tokenizer *t;
    struct tokens *out;
    struct buf clean; /* the text with what is not UTF-8 replaced */
    struct fragments fragments;
    struct pretok_run *run;
    struct bpe_scratch bpe;
    struct spm_scratch spm;
};

static void encoder_release(struct encoder *c)
{
    buf_release(&c->clean);
    fragments_release(&c->fragments);
    pretok_run_free(c->run);
    bpe_scratch_release(&c->bpe);
    spm_scratch_release(&c->spm);
}

/* Points *text at a copy with U+FFFD in place of every byte that is not part of a character. */
static int clean(struct encoder *c, struct str *text, struct error *e)
{
    struct str left = *text;
    size_t bad;
    buf_init(&c->clean, TEXT_MAX_BYTES);
    if (str_utf8_valid(left, &bad))
        return 0;
    while (!str_utf8_valid(left, &bad)) {
        buf_append(&c->clean, left.ptr, bad);
        buf_append_c(&c->clean, "\xEF\xBF\xBD");
        left = str_slice(left.ptr + bad + 1, left.len - bad - 1);
    }
    buf_append_str(&c->clean, left);
    *text = buf_str(&c->clean);
    return buf_check(&c->clean, "text to tokenise", e);
}

static int encode_word(void *ctx, struct str word, struct error *e)
{
    struct encoder *c = ctx;
    return bpe_word(&c->t->bpe, &c->t->vocab, &c->bpe, word, c->out, e);
}

static int encode_fragment(struct encoder *c, const struct fragment *f, bool first, struct error *e)
{
    if (f->id >= 0)
        return tokens_push(c->out, f->id, e);
    if (c->run)
        return pretok_words(c->run, f->text, encode_word, c, e);
    return spm_encode(&c->t->spm, &c->t->vocab, &c->spm, f->text, first, c->out, e);
}

static int encode(struct encoder *c, struct str text, unsigned flags, struct error *e)
{
    const struct tokenizer *t = c->t;
    int rc = clean(c, &text, e);
    if (rc == 0 && t->pretok)
        rc = pretok_run_new(&c->run, t->pretok, e);
    if (rc == 0)
        rc = specials_split(&t->specials, &t->vocab, text, flags & TOKENIZE_SPECIAL, &c->fragments,
                            e);
    if (rc == 0 && (flags & TOKENIZE_BOS) && t->vocab.add_bos)
        rc = tokens_push(c->out, t->vocab.bos, e);
    for (size_t i = 0; rc == 0 && i < c->fragments.n; i++) {
        bool first = i == 0 || c->fragments.at[i - 1].id >= 0;
        rc = encode_fragment(c, &c->fragments.at[i], first, e);
    }
    return rc;
}

int tokenizer_encode(const struct tokenizer *t, struct str text, unsigned flags, struct tokens *out,
                     struct error *e)
{
    if (text.len > TEXT_MAX_BYTES)
        return error_set(e, ERROR_INVALID, "text to tokenise: %zu bytes, limit %zu", text.len,
                         TEXT_MAX_BYTES);
    struct encoder c = {.t = t, .out = out};
    size_t before = out->n;
    int rc = encode(&c, text, flags, e);
    if (rc < 0)
        out->n = before;
    encoder_release(&c);
    return rc;
}

int32_t tokenizer_n_vocab(const struct tokenizer *t)
{
    return t->vocab.n;
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->vocab.bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->vocab.eos;
}

bool tokenizer_add_bos(const struct tokenizer *t)
{
    return t->vocab.add_bos;
}

bool tokenizer_is_eog(const struct tokenizer *t, int32_t id)
{
    return vocab_is_end(&t->vocab, id);
}

int32_t tokenizer_find(const struct tokenizer *t, struct str text)
{
    return vocab_find(&t->vocab, text);
}

const char *tokenizer_pre(const struct tokenizer *t)
{
    return t->pretok ? pretok_name(t->pretok) : "spm";
}

size_t tokenizer_longest(const struct tokenizer *t)
{
    return t->vocab.longest;
}

size_t tokenizer_memory_bytes(const struct tokenizer *t)
{
    const struct vocab *v = &t->vocab;
    size_t per_token = sizeof *v->type + (v->score ? sizeof *v->score : 0);
    return sizeof *t + texts_memory_bytes(&v->texts) + (size_t)v->n * per_token +
           specials_memory_bytes(&t->specials) + t->bpe.n_slots * sizeof *t->bpe.merge +
           (t->pretok ? pretok_memory_bytes(t->pretok) : 0);
}
