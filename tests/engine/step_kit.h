/* What tests at the level of steps share: made models, a forward pass over them, rows of one sequence. */
#ifndef TESTS_ENGINE_STEP_KIT_H
#define TESTS_ENGINE_STEP_KIT_H

#include "engine/model/step.h"

/* Writes test_dir()/NAME.gguf with tools/mkmodel and these arguments unless it is there; its path. */
const char *step_kit_model(const char *name, const char *arguments, char path[4096]);

/* Stays where it is: the forward pass points into it. */
struct step_kit {
    struct gguf *gguf;
    struct model model;
    struct ledger *ledger;
    struct expert_store *experts;
    struct trunk *trunk;
    struct kv_pool *kv;
    struct forward *forward;
};

struct step_kit_options {
    const char *isa; /* NULL: exact */
    uint32_t max_rows, max_logits;
    uint64_t expert_slots; /* 0: one for every expert */
    bool lookahead;
    const char *io;                     /* how they are read */
    const struct expert_policy *policy; /* who makes room for whom */
    uint32_t n_streamed;                /* the last layers, which do not stay */
    uint32_t positions;                 /* of a sequence; there may be two */
    /* Called between model_load and the rest; may change the model. NULL: not. */
    void (*change)(struct model *m);
    void (*trace)(void *context, const char *name, uint32_t layer, const float *x, size_t n_cols,
                  uint32_t n_rows);
    void *trace_context;
    bool (*interrupted)(void *context);
    void *interrupted_context;
};
void step_kit_open(struct step_kit *k, const char *path, const struct step_kit_options *o);
void step_kit_close(struct step_kit *k);

/* What a trace gave under one name, all rows of a run. */
struct step_rows {
    float *x; /* [n][n_cols]; the owner frees it */
    size_t n_cols, n;
};
void step_rows_add(struct step_rows *r, const float *x, size_t n_cols, uint32_t n);

/* Any tokens; others with another salt. */
void step_kit_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint32_t salt);
/* Positions [first, first + n) of a sequence in one step; the last `want` rows want logits. */
void step_kit_run(struct step_kit *k, int slot, const int32_t *ids, uint32_t first, uint32_t n,
                  uint32_t want);
/* A sequence of n, `chunk` a step: the last one's logits, which the owner frees. */
float *step_kit_logits(struct step_kit *k, const int32_t *ids, uint32_t n, uint32_t chunk);

#endif
