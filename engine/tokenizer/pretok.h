/*
 * Cuts text into the words that BPE may not merge across, as pretok.def says (PCRE2).
 *
 * Stays true: the words, one after another, are the text; a pattern that PCRE2 gives up on is an
 * error, never another cut. Immutable after pretok_new; any thread, each with a run of its own.
 */
#ifndef ENGINE_TOKENIZER_PRETOK_H
#define ENGINE_TOKENIZER_PRETOK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

enum pretok_flags {
    PRETOK_WHOLE_WORDS = 1, /* a word that is a token is taken whole, whatever the merges say */
    PRETOK_BOS = 2,         /* a BOS token comes first unless the file says otherwise */
    PRETOK_RANKED_IDS = 4,  /* a file without merges means that ids are ranks */
};

struct pretok;
struct pretok_run; /* match data of one caller */

/* An unknown name is ERROR_UNSUPPORTED. */
int pretok_new(struct pretok **ret, struct str name, struct error *e);
void pretok_free(struct pretok *p);
unsigned pretok_flags(const struct pretok *p);
const char *pretok_name(const struct pretok *p);
size_t pretok_memory_bytes(const struct pretok *p);

int pretok_run_new(struct pretok_run **ret, const struct pretok *p, struct error *e);
void pretok_run_free(struct pretok_run *r);
/* Calls word() for every word in order until it fails. The text is well-formed UTF-8. */
int pretok_words(struct pretok_run *r, struct str text,
                 int (*word)(void *ctx, struct str word, struct error *e), void *ctx,
                 struct error *e);

#endif
