/*
 * What a model writes, taken apart: its thought and its answer.
 *
 * A reasoner is a row of thinking.def made ready for one vocabulary: immutable, any thread. A struct
 * reasoning is where one sequence stands; it owns the thought and the bytes whose side is not certain
 * yet.
 *
 * Stays true:
 *  - The state is a pure function of the tokens pushed: fed again after a restart they give the same
 *    thought, the same answer and the same tokens to force.
 *  - Nothing of the markup reaches either side; what is only text does, verbatim, but for the line
 *    feeds around both where the row says that they are of the format.
 *  - A marker that the vocabulary has is recognised by its id, never by its letters.
 *
 *   BEFORE --open--> THOUGHT --close--> BETWEEN --its opening--> ANSWER --its end--> AFTER
 *      |                |                  +---anything else------^
 *      +---other text---+------------------its opening------------^
 *
 * BETWEEN is left at once by formats whose answer has no opening of its own.
 *
 * The budget: after that many tokens inside the thought, the tokens that close it and open the answer
 * are the only ones allowed. They wait for the end of a character and of markup that has begun, but
 * not for long. Forced tokens are tokens of the thought.
 */
#ifndef ENGINE_CHAT_REASONING_H
#define ENGINE_CHAT_REASONING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "engine/chat/chat.h"
#include "engine/tokenizer/tokenizer.h"

#define REASONING_UNLIMITED UINT32_MAX

struct reasoner;

/* *ret is NULL where the format does not think. The tokenizer must outlive it. */
int reasoner_new(struct reasoner **ret, const struct chat_format *f, const struct tokenizer *t,
                 struct error *e);
void reasoner_free(struct reasoner *r);

enum reasoning_part {
    REASONING_BEFORE,
    REASONING_THOUGHT,
    REASONING_BETWEEN,
    REASONING_ANSWER,
    REASONING_AFTER,
};

struct reasoning {
    const struct reasoner *how;
    enum reasoning_part part;
    struct buf thought;
    uint32_t n_tokens; /* spent on the thought, its markup included */
    /* Private from here. */
    struct buf held; /* markers are single bytes that no UTF-8 has */
    uint32_t n_before, n_inside, budget, n_forced, n_overdue;
    bool forcing, after_thought;
};

/* think: the prompt asked for it. */
void reasoning_begin(struct reasoning *r, const struct reasoner *how, bool think, uint32_t budget);
void reasoning_release(struct reasoning *r); /* a zeroed struct is fine */
/* Takes a token, which does not end the generation; what is certain of the answer is appended. */
int reasoning_push(struct reasoning *r, struct detokenizer *d, int32_t token, struct buf *answer,
                   struct error *e);
/* Nothing more comes: what is held goes where it belongs. */
int reasoning_finish(struct reasoning *r, struct detokenizer *d, struct buf *answer,
                     struct error *e);
/* The only token that may come next; -1: any. */
int32_t reasoning_forced(const struct reasoning *r);
/* Bytes of the thought that stay, whatever comes. */
size_t reasoning_certain(const struct reasoning *r);
/* Whether the answer has not begun. */
bool reasoning_is_thinking(const struct reasoning *r);

#endif
