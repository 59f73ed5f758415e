/*
 * The backend that computes here: what engine.h's struct engine is made of.
 *
 * Owns directory, vocabulary, model, attention cache, forward pass and sequences, each taken in that
 * order by engine_open and given back in the reverse order. One thread uses it.
 *
 * Stays true: `running` lists the sequences that have pending tokens, oldest first. The sequence whose
 * last event was handed out (`leaving`) keeps its text until the next call of engine_poll or
 * engine_submit, but counts as gone.
 */
#ifndef ENGINE_LOCAL_LOCAL_H
#define ENGINE_LOCAL_LOCAL_H

#include "engine/chat/chat.h"
#include "engine/engine.h"
#include "engine/experts/io.h"
#include "engine/experts/trace.h"
#include "engine/gguf/gguf.h"
#include "engine/kernels/kernels.h"
#include "engine/kv/kv.h"
#include "engine/local/events.h"
#include "engine/local/plan.h"
#include "engine/local/sequence.h"
#include "engine/model/model.h"
#include "engine/model/step.h"
#include "engine/sampler/sampler.h"
#include "engine/tokenizer/tokenizer.h"

/*
 * Raised whenever the same inputs give other bits than before: progress and snapshots of another
 * number are void. tests/engine/identity.c holds a hash of one run per instruction set.
 */
#define NUMERIC_VERSION 2u

struct engine {
    struct engine_options o; /* pointers in it are not kept, but the callbacks */
    char *path;
    struct ledger *ledger;
    const struct kernels *kernels;

    struct gguf *gguf;
    char *arch;
    char *name;
    struct tokenizer *tokenizer; /* NULL: no_tokenizer, or vocabulary_refusal says why */
    struct error vocabulary_refusal;
    const struct chat_format *chat; /* NULL: chat_refusal says why */
    struct error chat_refusal;
    struct reasoner *reasoner; /* NULL: the format does not think */
    struct model model;
    bool bound;
    struct error model_refusal; /* headers_only and not bound: why */
    struct engine_plan plan;
    uint64_t process_reserved, cache_reserved;

    const char *io;      /* how experts are read */
    struct error io_why; /* why not another way */
    const struct expert_policy *expert_policy;
    struct expert_store *experts; /* NULL: the model has none */
    struct trace_writer *trace;   /* NULL: nobody wants to know which experts are used */
    struct trunk *trunk;          /* NULL: every layer stays */
    struct kv_pool *kv;
    struct forward *forward;
    void *sequences_block; /* what the next four point into, and every tokens array */
    size_t sequences_bytes;
    uint64_t text_reserved;
    struct sequence *sequences; /* [plan.slots] */
    struct sequence **running;  /* [plan.slots] */
    struct events events;
    uint32_t n_running;
    struct sequence *leaving;

    void *step_block;
    size_t step_bytes;
    struct sampler_candidate *candidates; /* [n_vocab] */
    struct step_row *rows;                /* [max_rows] */
    uint32_t n_rows;                      /* of the step that is being run, or suspended */
    uint32_t suspended;                   /* layers that step has behind it; 0: there is none */

    struct engine_counters counters;
    struct engine_counters shared; /* as they were when reads were last shared out */
    char fingerprint[65];
    char resume_fingerprint[65];
};

/* scheduler.c */
int scheduler_open(struct engine *en, struct error *e);
void scheduler_close(struct engine *en);
/*
 * One step of the running sequences; their events. ERROR_INTERRUPTED suspends it, the next call goes on
 * with it; on any other failure every sequence is void.
 */
int scheduler_step(struct engine *en, struct error *e);
/* The sequence whose last event was handed out makes room. */
void scheduler_reap(struct engine *en);
/* Whatever its state is, but free; NULL: unknown. */
struct sequence *scheduler_find(const struct engine *en, uint64_t tag);
/* NULL: every one is taken. */
struct sequence *scheduler_free_entry(const struct engine *en);
/* The sequence finished or failed: its state goes back, its last event waits. */
void scheduler_finished(struct engine *en, struct sequence *s);
/* Makes the entry free, whatever it was doing, and forgets its events. */
void scheduler_drop(struct engine *en, struct sequence *s);

/*
 * The rows of a step, a pure function of what each sequence has pending: one row of every sequence
 * that waits for its next token, then rows of prompts, oldest first, until there are `chunk` rows;
 * at least one of a prompt when there is any. Sets n_rows of each; returns their sum.
 */
uint32_t scheduler_share(struct sequence *const *running, uint32_t n_running, uint32_t chunk);

/* visits.c */
/* Begins the record that was asked for, if any. */
int visits_open(struct engine *en, struct error *e);
void visits_add(void *engine, uint32_t layer, uint32_t n_rows, const uint32_t *ids, uint32_t n);

/* fingerprint.c */
int engine_fingerprint(struct engine *en, struct error *e);

#endif
