/*
 * Tokens that are kin, and texts of them: what makes the routing of a random model as persistent as that
 * of a real one.
 *
 * The vocabulary is cut into topics. Inside a topic a token's number, in digits, says which value it has
 * of each of TOPICS_TRAITS traits. An embedding is the sum of a direction of the topic and
 * one of each value, so tokens with much in common stand close together, and an ordinary router sends them to
 * many of the same experts. A text stays in its topic for long, and its next token keeps
 * most values of the last.
 *
 * Stays true: embeddings and texts are pure functions of (seed, vocabulary, topics).
 */
#ifndef TOOLS_MODEL_TOPICS_H
#define TOOLS_MODEL_TOPICS_H

#include <stdint.h>

#include "base/error.h"

#define TOPICS_TRAITS 4u
#define TOPICS_MAX 64u

/*
 * So much longer than what a layer adds to the residual stream that the last layers still tell the tokens
 * apart by it: root mean square of an embedding.
 */
#define TOPICS_RMS 24.0f

struct topics {
    uint64_t seed;
    uint32_t n_topics, n_vocab;
    uint32_t per_topic; /* tokens */
    uint32_t n_values;  /* of a trait; the tokens beyond repeat the first ones' */
    uint32_t n_embd;
    float *directions; /* [n_topics][1 + TOPICS_TRAITS * n_values][n_embd] of unit variance */
};

/* ERROR_USAGE where a topic would have too few tokens. */
int topics_open(struct topics *t, uint32_t n_topics, uint32_t n_vocab, uint64_t seed,
                struct error *e);
void topics_close(struct topics *t); /* a zeroed struct is fine */

/* Token id's embedding, each element of variance 1. The first call makes the directions. */
int topics_embed(struct topics *t, uint32_t id, uint32_t n_embd, float *out, struct error *e);
/* A text of n tokens as decimal numbers with commas between them. */
int topics_write_text(const struct topics *t, const char *path, uint32_t n, struct error *e);

#endif
