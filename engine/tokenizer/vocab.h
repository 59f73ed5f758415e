/*
 * The vocabulary of a model file: text, type and score of every token, and what some of them mean.
 *
 * Owns copies of all it needs. Immutable once loaded, except that bpe.c interns pieces that are not
 * tokens behind the tokens' texts (indices >= n) while it loads. Stays true: every id in here is in
 * [0, n) or -1; a text names the first token that has it.
 */
#ifndef ENGINE_TOKENIZER_VOCAB_H
#define ENGINE_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/tokenizer/texts.h"

struct gguf;

/* tokenizer.ggml.token_type as the files have it. */
enum token_type {
    TOKEN_UNDEFINED = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
    TOKEN_TYPES
};

/* More than known.def and the keys together can name. */
#define VOCAB_END_MAX 64

struct vocab {
    int32_t n;
    struct texts texts; /* the first n are the tokens' */
    size_t longest;     /* bytes of the longest token */
    uint8_t *type;      /* [n] enum token_type */
    float *score;       /* [n]; NULL for byte-level BPE */
    int32_t bos;
    int32_t eos;
    int32_t unknown;
    bool add_bos;
    int32_t end[VOCAB_END_MAX]; /* ids that end a generation, each once */
    int n_end;
};

/* `scores`: they are needed. `add_bos`: what holds when the file does not say. */
int vocab_load(struct vocab *v, const struct gguf *g, bool scores, bool add_bos, struct error *e);
void vocab_release(struct vocab *v);
int32_t vocab_find(const struct vocab *v, struct str text); /* -1: no token has this text */
bool vocab_is_end(const struct vocab *v, int32_t id);
/* The byte of a token "<0xAB>"; -1 when the text is not of that form. */
int vocab_byte_of(struct str text);

#endif
