/*
 * Cuts text at the tokens that stand for themselves: control, unknown and user-defined ones.
 *
 * Longer texts are cut out first, wherever they are, equals by id. User-defined tokens always
 * count, the others only when the caller asks. Immutable after special_init; any thread.
 */
#ifndef ENGINE_TOKENIZER_SPECIAL_H
#define ENGINE_TOKENIZER_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/tokenizer/vocab.h"

struct specials {
    int32_t *ids;        /* [n] longest text first */
    uint32_t *by_byte;   /* [n] indices into ids, grouped by the first byte of the text */
    uint32_t first[257]; /* where the group of a byte starts in by_byte */
    uint32_t n;
};

/* A stretch of text: a token (id >= 0) or plain. */
struct fragment {
    struct str text;
    int32_t id;
};
struct fragments {
    struct fragment *at;
    size_t n;
    size_t cap;
};

int specials_init(struct specials *s, const struct vocab *v, struct error *e);
void specials_release(struct specials *s);
size_t specials_memory_bytes(const struct specials *s);
/* Puts the fragments of the text into out, in order, none empty. `all`: not only user-defined. */
int specials_split(const struct specials *s, const struct vocab *v, struct str text, bool all,
                   struct fragments *out, struct error *e);
void fragments_release(struct fragments *f);

#endif
