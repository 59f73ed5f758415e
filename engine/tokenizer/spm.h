/*
 * SentencePiece as llama uses it: neighbours whose joined text is a token merge, best score first.
 *
 * Spaces are written U+2581. Characters that are no token go out as byte tokens. Immutable after
 * spm_init; any thread, each with its own scratch.
 */
#ifndef ENGINE_TOKENIZER_SPM_H
#define ENGINE_TOKENIZER_SPM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "engine/tokenizer/heap.h"
#include "engine/tokenizer/vocab.h"

struct gguf;
struct tokens;

struct spm {
    int32_t byte[256]; /* the token of each byte; -1: the vocabulary has none */
    bool space_prefix; /* plain text after a special token, or first, gets a space before it */
};

struct spm_symbol {
    uint32_t start; /* in the escaped text */
    uint32_t len;   /* 0: merged into the one before */
    int32_t previous;
    int32_t next; /* -1: none */
};
struct spm_scratch {
    struct buf text; /* escaped */
    struct spm_symbol *symbol;
    size_t cap;
    struct heap heap;
};

int spm_init(struct spm *s, const struct vocab *v, const struct gguf *g, struct error *e);
/* Appends the tokens of a fragment; `first`: nothing or a special token is before it. */
int spm_encode(const struct spm *s, const struct vocab *v, struct spm_scratch *scratch,
               struct str text, bool first, struct tokens *out, struct error *e);
void spm_scratch_release(struct spm_scratch *s);

#endif
