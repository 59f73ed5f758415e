#include "tools/model/topics.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/rng.h"

/*
 * How often a value stays from one token of a text to the next, how long a topic lasts on average, and how
 * much of an embedding's variance is the topic's; the rest is the values'. With these the routing of models
 * of 896 experts has the figures that were measured of Kimi-K3 (bench/out-of-core-routing prints both).
 */
#define STAYS 0.64
#define TOPIC_TOKENS 1024.0
#define TOPIC_SHARE 0.4f

enum stream { STREAM_DIRECTIONS, STREAM_TEXT };

int topics_open(struct topics *t, uint32_t n_topics, uint32_t n_vocab, uint64_t seed,
                struct error *e)
{
    *t = (struct topics){.seed = seed, .n_topics = n_topics, .n_vocab = n_vocab};
    t->per_topic = n_topics > 0 ? n_vocab / n_topics : 0;
    while ((t->n_values + 1) * (t->n_values + 1) * (t->n_values + 1) * (t->n_values + 1) <=
           t->per_topic)
        t->n_values++;
    if (n_topics == 0 || n_topics > TOPICS_MAX || t->n_values < 2)
        return error_set(e, ERROR_USAGE,
                         "%" PRIu32 " topics of a vocabulary of %" PRIu32
                         ": each takes 16 tokens at least, and there are at most %u",
                         n_topics, n_vocab, TOPICS_MAX);
    return 0;
}

void topics_close(struct topics *t)
{
    mem_free(t->directions);
    *t = (struct topics){0};
}

static size_t n_directions(const struct topics *t)
{
    return 1 + (size_t)TOPICS_TRAITS * t->n_values;
}

static int make_directions(struct topics *t, uint32_t n_embd, struct error *e)
{
    const size_t n = t->n_topics * n_directions(t) * n_embd;
    const uint64_t seed = rng_u64(t->seed, STREAM_DIRECTIONS);
    t->n_embd = n_embd;
    t->directions = mem_array(n, sizeof(*t->directions));
    if (!t->directions)
        return error_set(e, ERROR_NOMEM, "no memory for the directions of %" PRIu32 " topics",
                         t->n_topics);
    for (size_t i = 0; i < n; i++)
        t->directions[i] = rng_normal(seed, i);
    return 0;
}

static void add(float *out, const float *direction, float share, uint32_t n)
{
    const float factor = sqrtf(share);
    for (uint32_t i = 0; i < n; i++)
        out[i] += factor * direction[i];
}

int topics_embed(struct topics *t, uint32_t id, uint32_t n_embd, float *out, struct error *e)
{
    int rc = t->directions ? 0 : make_directions(t, n_embd, e);
    if (rc < 0)
        return rc;
    memset(out, 0, n_embd * sizeof(*out));
    const uint32_t topic = id / t->per_topic % t->n_topics;
    const float *at = t->directions + topic * n_directions(t) * n_embd;
    add(out, at, TOPIC_SHARE, n_embd);
    uint32_t digits = id % t->per_topic;
    for (uint32_t trait = 0; trait < TOPICS_TRAITS; trait++, digits /= t->n_values) {
        const size_t value = 1 + (size_t)trait * t->n_values + digits % t->n_values;
        add(out, at + value * n_embd, (1.0f - TOPIC_SHARE) / (float)TOPICS_TRAITS, n_embd);
    }
    return 0;
}

/* ------------------------------------------------------------------ texts */

struct text {
    uint64_t seed, next; /* of the random numbers */
    uint32_t topic;
    uint32_t value[TOPICS_TRAITS];
};

static uint32_t pick(struct text *x, uint32_t n)
{
    return (uint32_t)(rng_unit(x->seed, x->next++) * n);
}

static uint32_t next_token(const struct topics *t, struct text *x)
{
    uint32_t id = 0;
    const bool change = rng_unit(x->seed, x->next++) < 1.0 / TOPIC_TOKENS || x->next == 1;
    if (change)
        x->topic = pick(x, t->n_topics);
    for (uint32_t i = TOPICS_TRAITS; i-- > 0;) {
        if (change || rng_unit(x->seed, x->next++) >= STAYS)
            x->value[i] = pick(x, t->n_values);
        id = id * t->n_values + x->value[i];
    }
    return x->topic * t->per_topic + id;
}

int topics_write_text(const struct topics *t, const char *path, uint32_t n, struct error *e)
{
    struct text x = {.seed = rng_u64(t->seed, STREAM_TEXT)};
    struct buf out;
    buf_init(&out, (size_t)n * 12 + 1);
    for (uint32_t i = 0; i < n; i++)
        buf_printf(&out, "%s%" PRIu32, i > 0 ? "," : "", next_token(t, &x));
    buf_append_c(&out, "\n");
    int rc = buf_check(&out, "the text", e);
    if (rc == 0)
        rc = file_write_all(path, out.ptr, out.len, e);
    buf_release(&out);
    return rc;
}
