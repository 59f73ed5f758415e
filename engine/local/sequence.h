/*
 * One request being generated: its tokens, where its state is, its stop rules, text and timing.
 *
 * Owns the stop rules and the text; borrows its row of the engine's block of tokens and a slot of the
 * attention cache, which the scheduler takes and returns.
 *
 * Stays true: tokens[0 .. n_tokens) is prompt, then answer; the first n_cached of them have been
 * through the model, those after them part of the way where there are parts (suspended.h). An accepted
 * token goes through the same function whether it was just chosen or resumed from an earlier attempt, so
 * both end alike. Where the format thinks, every byte of text goes through `reasoning` first: only what
 * it gives out is the answer, and stop rules see nothing else.
 */
#ifndef ENGINE_LOCAL_SEQUENCE_H
#define ENGINE_LOCAL_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/file.h"
#include "engine/chat/reasoning.h"
#include "engine/engine.h"
#include "engine/sampler/sampler.h"
#include "engine/tokenizer/tokenizer.h"

enum sequence_state { SEQUENCE_FREE, SEQUENCE_RUNNING, SEQUENCE_FINISHED, SEQUENCE_FAILED };

/* Rows one after the other that so many layers have behind them. */
struct sequence_part {
    uint32_t n_rows, n_layers;
};

/* Each beyond the first takes a stop in the very step that goes on, and a shorter step than the time before. */
#define SEQUENCE_PARTS 4u

struct sequence {
    uint64_t tag;
    enum sequence_state state;
    int slot;        /* of the attention cache; -1: none */
    int32_t *tokens; /* [ctx] */
    uint32_t n_prompt;
    uint32_t n_tokens;
    uint32_t n_cached;
    uint32_t first_row, n_rows; /* of the step that is being run, or suspended */
    struct {
        struct file file; /* a snapshot: what the rows of the parts carry is at `at` and after it */
        uint64_t at;
        struct sequence_part part[SEQUENCE_PARTS];
        uint32_t n_parts; /* 0: no file either */
    } kept;
    uint32_t n_resumed;
    uint32_t n_restored; /* tokens' worth of a snapshot (suspended_worth) */
    uint32_t max_tokens;
    struct engine_sampling sampling;
    struct stop_rules *stop;
    struct detokenizer detok;
    struct reasoning reasoning; /* how NULL: everything is the answer */
    struct buf answer;
    size_t n_safe;  /* bytes of the answer that no stop string can take back */
    size_t n_shown; /* bytes of the answer given out; never more than n_safe */
    size_t n_thought_shown;
    enum engine_finish finish;
    enum engine_finish_detail detail;
    struct sequence_reads {
        uint64_t bytes, expert_hits, expert_misses;
    } reads, first_reads; /* its share of its steps'; of them, up to the first new token */
    double read_ms, read_wait_ms;
    int64_t admitted_us;
    int64_t first_us; /* when the first new token was there; 0: not yet */
    int64_t finished_us;
    struct error error;  /* FAILED: why */
    bool max_by_context; /* the context, not the request, set max_tokens */
};

/* What a request asks of a sequence, checked and with every default filled in. */
struct sequence_start {
    const struct engine_request *request;
    const struct tokenizer *tokenizer;
    const struct reasoner *reasoner; /* NULL: what is asked does not think */
    const int32_t *prompt;
    uint32_t n_prompt;
    uint32_t max_tokens;
    bool max_by_context;
};

/* Begins in an entry that is free (its tokens array stays). On failure it is free again. */
int sequence_begin(struct sequence *s, const struct sequence_start *start, struct error *e);
/* Takes the next token of the answer: text, stop rules, limits. May finish the sequence. */
int sequence_accept(struct sequence *s, int32_t token, struct error *e);
/* Makes the entry free; its slot must have been returned. */
void sequence_end(struct sequence *s);

/* Whether the answer has not begun because the thought has not ended. */
bool sequence_in_thought(const struct sequence *s);
uint32_t sequence_answered(const struct sequence *s); /* tokens of the answer so far */
uint32_t sequence_pending(const struct sequence *s);  /* tokens not yet through the model */
/* The token that must come next; -1: the sampler says. */
int32_t sequence_forced(const struct sequence *s);
/* Text that became certain since the last call; holds until the next token. */
struct str sequence_new_text(struct sequence *s);
struct str sequence_new_thought(struct sequence *s);
void sequence_usage(const struct sequence *s, struct engine_usage *ret);

#endif
