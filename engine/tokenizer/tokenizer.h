/*
 * Text to token ids and back, as the model's own vocabulary says.
 *
 * Owns a copy of what it needs of the file: lives on after gguf_close. Immutable after load; any
 * thread (PCRE2 match data is taken per call).
 *
 * Stays true: user text is never parsed for special tokens unless asked; ids are llama.cpp's for
 * the same text and flags; the detokeniser never gives out half a UTF-8 character.
 * Kinds (tokenizer.ggml.model): gpt2 (byte-level BPE) and llama (SentencePiece).
 */
#ifndef ENGINE_TOKENIZER_TOKENIZER_H
#define ENGINE_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct gguf;
struct tokenizer;

/* A growing list of token ids. */
struct tokens {
    int32_t *ids;
    size_t n;
    size_t cap;
};
int tokens_push(struct tokens *t, int32_t id, struct error *e);
void tokens_release(struct tokens *t);

int tokenizer_new(struct tokenizer **ret, const struct gguf *g, struct error *e);
void tokenizer_free(struct tokenizer *t);

enum tokenize_flags {
    TOKENIZE_SPECIAL = 1, /* the texts of special tokens become their ids */
    TOKENIZE_BOS = 2,     /* a BOS first, if the vocabulary wants one (add_bos) */
};
/* Appends to out. Invalid UTF-8 counts as U+FFFD, byte by byte. */
int tokenizer_encode(const struct tokenizer *t, struct str text, unsigned flags, struct tokens *out,
                     struct error *e);

int32_t tokenizer_n_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);
bool tokenizer_add_bos(const struct tokenizer *t);
bool tokenizer_is_eog(const struct tokenizer *t,
                      int32_t id); /* ends generation (engine-spec 7.8) */
/* Id of the token with exactly this text (special or not); -1: none. */
int32_t tokenizer_find(const struct tokenizer *t, struct str text);
const char *tokenizer_pre(const struct tokenizer *t); /* "smollm", "default", ... or "spm" */
/* Bytes of text that one token stands for at most. */
size_t tokenizer_longest(const struct tokenizer *t);
size_t tokenizer_memory_bytes(const struct tokenizer *t);

/*
 * Ids to text, one at a time. Bytes that do not end a UTF-8 character yet are held back; an id's
 * text goes through verbatim (control tokens give nothing unless special is set). At the end
 * detokenizer_finish gives what is held as U+FFFD.
 */
struct detokenizer {
    const struct tokenizer *t;
    bool special;
    bool first; /* SentencePiece: the space before the first word is dropped */
    unsigned char held[4];
    unsigned n_held;
};
void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, bool special);
int detokenizer_push(struct detokenizer *d, int32_t id, struct buf *out, struct error *e);
int detokenizer_finish(struct detokenizer *d, struct buf *out, struct error *e);

#endif
