/*
 * A vocabulary that needs no training text: the 256 bytes, then a space or letter and a letter, then
 * those and a letter more, in the order of how common letters are in English. Every merged token has
 * exactly one way to be made, so a merge is (the token without its last letter, that letter).
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/gguf/gguf.h"
#include "tools/model/spec.h"

static const char letters[] = "etaoinshrdlucmfwypvbgkjqxz";
enum { N_LETTERS = sizeof(letters) - 1, N_BYTES = 256, TEXT_BYTES = 24 };

enum token_type { TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };

/* The last tokens of the vocabulary, by what the pre-tokenizer says of the model. */
struct specials {
    const char *pre; /* NULL: of all others */
    const char *text[8];
    uint32_t n, bos, eos;
};
static const struct specials specials_of[] = {
    {.pre = "kimi-k2",
     .text = {"[BOS]", "[EOS]", "<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>", "[EOT]",
              "[PAD]"},
     .n = 8,
     .bos = 0,
     .eos = 2},
    {.text = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, .n = 3, .bos = 0, .eos = 2},
};

struct vocab {
    char (*text)[TEXT_BYTES];  /* [n] */
    char (*merge)[TEXT_BYTES]; /* [n_merges] */
    int32_t *type;             /* [n] */
    struct str *slices;        /* [n], of either */
    uint32_t n, n_tokens, n_merges;
    const struct specials *specials;
};

/* GPT-2's table: printable bytes stand for themselves, the others for U+0100 and up. */
static uint32_t byte_rune(unsigned byte)
{
    uint32_t n_hidden = 0;
    for (unsigned b = 0; b <= byte; b++) {
        bool shown = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte)
            return shown ? b : 256 + n_hidden;
        n_hidden += !shown;
    }
    return 0;
}

static void add_bytes(struct vocab *v)
{
    for (unsigned b = 0; b < N_BYTES; b++) {
        size_t len = str_utf8_put(byte_rune(b), v->text[b]);
        v->text[b][len] = '\0';
        v->type[b] = TOKEN_NORMAL;
    }
    v->n_tokens = N_BYTES;
}

/* Token `from` and each letter, as long as there is room. */
static void add_longer(struct vocab *v, const char *from, uint32_t limit)
{
    for (size_t i = 0; i < N_LETTERS && v->n_tokens < limit; i++) {
        snprintf(v->text[v->n_tokens], TEXT_BYTES, "%.*s%c", TEXT_BYTES - 4, from, letters[i]);
        snprintf(v->merge[v->n_merges++], TEXT_BYTES, "%.*s %c", TEXT_BYTES - 4, from, letters[i]);
        v->type[v->n_tokens++] = TOKEN_NORMAL;
    }
}

static void add_merged(struct vocab *v, uint32_t limit)
{
    uint32_t shorter = v->n_tokens;
    add_longer(v, v->text[' '], limit);
    for (size_t i = 0; i < N_LETTERS; i++)
        add_longer(v, v->text[(unsigned char)letters[i]], limit);
    while (v->n_tokens < limit)
        add_longer(v, v->text[shorter++], limit);
}

static void add_specials(struct vocab *v)
{
    for (size_t i = 0; i < v->specials->n; i++) {
        snprintf(v->text[v->n_tokens], TEXT_BYTES, "%s", v->specials->text[i]);
        v->type[v->n_tokens++] = TOKEN_CONTROL;
    }
}

static const struct str *slices_of(struct vocab *v, char (*texts)[TEXT_BYTES], size_t n)
{
    for (size_t i = 0; i < n; i++)
        v->slices[i] = str_of(texts[i]);
    return v->slices;
}

static void put(struct gguf_writer *w, struct vocab *v, const char *pre)
{
    gguf_put_str(w, "tokenizer.ggml.model", str_of("gpt2"));
    gguf_put_str(w, "tokenizer.ggml.pre", str_of(pre));
    gguf_put_strs(w, "tokenizer.ggml.tokens", slices_of(v, v->text, v->n), v->n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", v->type, v->n);
    gguf_put_strs(w, "tokenizer.ggml.merges", slices_of(v, v->merge, v->n_merges), v->n_merges);
    uint32_t first_special = v->n - v->specials->n;
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", first_special + v->specials->bos);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", first_special + v->specials->eos);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", false);
}

int vocab_put_made(struct gguf_writer *w, uint32_t n, const char *pre, struct error *e)
{
    if (n < VOCAB_TOKENS_MIN || n > VOCAB_TOKENS_MAX)
        return error_set(e, ERROR_USAGE, "a vocabulary of %u tokens, want %u to %u", n,
                         VOCAB_TOKENS_MIN, VOCAB_TOKENS_MAX);
    struct vocab v = {.n = n, .specials = specials_of};
    while (v.specials->pre && strcmp(v.specials->pre, pre) != 0)
        v.specials++;
    v.text = mem_array(n, TEXT_BYTES);
    v.merge = mem_array(n, TEXT_BYTES);
    v.type = mem_array(n, sizeof(*v.type));
    v.slices = mem_array(n, sizeof(*v.slices));
    int rc = 0;
    if (v.text && v.merge && v.type && v.slices) {
        add_bytes(&v);
        add_merged(&v, n - v.specials->n);
        add_specials(&v);
        put(w, &v, pre);
    } else {
        rc = error_set(e, ERROR_NOMEM, "no memory for a vocabulary of %u tokens", n);
    }
    mem_free(v.text);
    mem_free(v.merge);
    mem_free(v.type);
    mem_free(v.slices);
    return rc;
}

static const char template_key[] = "tokenizer.chat_template";

int vocab_count(const char *path, uint32_t *ret_n, struct error *e)
{
    struct gguf *g = NULL;
    struct gguf_strings it;
    uint64_t n = 0;
    int rc = gguf_open(&g, path, e);
    if (rc == 0)
        rc = gguf_strings_begin(g, "tokenizer.ggml.tokens", &it, &n, e);
    if (rc == 0)
        *ret_n = (uint32_t)n; /* the reader's limit is 2^30 */
    gguf_close(g);
    return rc;
}

int vocab_put_copied(struct gguf_writer *w, const char *path, bool with_template, struct error *e)
{
    static const char prefix[] = "tokenizer.";
    struct gguf *g = NULL;
    int rc = gguf_open(&g, path, e);
    for (size_t i = 0; rc == 0 && i < gguf_n_keys(g); i++) {
        struct gguf_value v;
        struct str key = gguf_key(g, i, &v);
        bool ours = key.len >= sizeof(prefix) && memcmp(key.ptr, prefix, sizeof(prefix) - 1) == 0;
        if (ours && (with_template || !str_equal_c(key, template_key)))
            gguf_put_value(w, key, &v);
    }
    gguf_close(g);
    return rc;
}

int vocab_put_template(struct gguf_writer *w, const char *path, struct error *e)
{
    struct gguf *g = NULL;
    struct str text;
    int rc = gguf_open(&g, path, e);
    if (rc == 0)
        rc = gguf_str(g, template_key, true, &text, e);
    if (rc == 0)
        gguf_put_str(w, template_key, text);
    gguf_close(g);
    return rc;
}
