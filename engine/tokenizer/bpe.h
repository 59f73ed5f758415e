/*
 * Byte-level BPE: merges the characters of one word, best rank first.
 *
 * Pieces are indices into the vocabulary's texts: below vocab.n they are tokens, above they are
 * pieces that only occur inside merges. Immutable after bpe_init; any thread, each with its own
 * scratch. A word of n bytes takes O(n log n).
 */
#ifndef ENGINE_TOKENIZER_BPE_H
#define ENGINE_TOKENIZER_BPE_H

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

struct bpe_merge {
    int32_t left;
    int32_t right;
    int32_t result; /* -1: this slot is free */
    uint32_t rank;
};

struct bpe {
    struct bpe_merge *merge; /* [n_slots] open addressing by (left, right) */
    uint32_t n_slots;
    int32_t byte[256]; /* the piece of each byte */
    bool whole_words;  /* a word that is a token is taken whole */
};

struct bpe_symbol {
    int32_t piece; /* -1: merged into the one before */
    int32_t previous;
    int32_t next; /* -1: none */
};
struct bpe_scratch {
    struct bpe_symbol *symbol;
    size_t cap;
    struct heap heap;
    struct buf mapped; /* a word in the byte alphabet */
};

/*
 * Interns what merges need behind the vocabulary's texts. `flags`: of enum pretok_flags. A file
 * without merges is refused unless PRETOK_RANKED_IDS: then any two tokens merge that make up a
 * normal one, the lowest id first, and a word that is a token is taken whole.
 */
int bpe_init(struct bpe *b, struct vocab *v, const struct gguf *g, unsigned flags, struct error *e);
void bpe_release(struct bpe *b);
/* Appends the word's tokens. A byte that has no token is left out, as in llama.cpp. */
int bpe_word(const struct bpe *b, const struct vocab *v, struct bpe_scratch *scratch,
             struct str word, struct tokens *out, struct error *e);
void bpe_scratch_release(struct bpe_scratch *s);

#endif
