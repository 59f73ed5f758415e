#include "engine/local/sequence.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

#define US_PER_MS 1000.0

static void finish(struct sequence *s, enum engine_finish finish, enum engine_finish_detail detail)
{
    s->state = SEQUENCE_FINISHED;
    s->finish = finish;
    s->detail = detail;
    s->finished_us = clock_mono_us();
}

/*
 * Nothing more comes: what the detokeniser holds of a character is given out, and bytes that were
 * held back because they could have begun a stop string are certain now.
 */
static int close_text(struct sequence *s, struct error *e)
{
    return s->reasoning.how ? reasoning_finish(&s->reasoning, &s->detok, &s->answer, e)
                            : detokenizer_finish(&s->detok, &s->answer, e);
}

static int push_text(struct sequence *s, int32_t token, struct error *e)
{
    return s->reasoning.how ? reasoning_push(&s->reasoning, &s->detok, token, &s->answer, e)
                            : detokenizer_push(&s->detok, token, &s->answer, e);
}

bool sequence_in_thought(const struct sequence *s)
{
    return s->reasoning.how && reasoning_is_thinking(&s->reasoning);
}

int sequence_accept(struct sequence *s, int32_t token, struct error *e)
{
    assert(s->state == SEQUENCE_RUNNING);
    s->tokens[s->n_tokens++] = token;
    if (tokenizer_is_eog(s->detok.t, token)) {
        /* A model that ends inside its thought has not answered: that is never a "stop". */
        finish(s, sequence_in_thought(s) ? ENGINE_FINISH_LENGTH : ENGINE_FINISH_STOP,
               ENGINE_DETAIL_EOS);
        return close_text(s, e);
    }
    const size_t new_from = s->answer.len;
    int rc = push_text(s, token, e);
    if (rc < 0)
        return rc;
    size_t safe = 0;
    if (stop_rules_check(s->stop, buf_str(&s->answer), new_from, &safe)) {
        s->answer.len = safe;
        finish(s, ENGINE_FINISH_STOP, ENGINE_DETAIL_STOP_STRING);
        return 0;
    }
    s->n_safe = safe;
    if (sequence_answered(s) < s->max_tokens)
        return 0;
    finish(s, ENGINE_FINISH_LENGTH,
           s->max_by_context ? ENGINE_DETAIL_CONTEXT : ENGINE_DETAIL_MAX_TOKENS);
    return close_text(s, e);
}

/* The tokens of an earlier attempt, as output, up to the one that ends the answer. */
static int replay(struct sequence *s, const struct engine_request *r, struct error *e)
{
    for (size_t i = 0; i < r->n_resume && s->state == SEQUENCE_RUNNING; i++) {
        int rc = sequence_accept(s, r->resume[i], e);
        if (rc < 0)
            return rc;
    }
    s->n_resumed = sequence_answered(s);
    /* The earlier attempt has given these out. */
    (void)sequence_new_text(s);
    (void)sequence_new_thought(s);
    return 0;
}

int sequence_begin(struct sequence *s, const struct sequence_start *start, struct error *e)
{
    const struct engine_request *r = start->request;
    int32_t *tokens = s->tokens;
    *s = (struct sequence){.state = SEQUENCE_RUNNING,
                           .tag = r->tag,
                           .slot = -1,
                           .tokens = tokens,
                           .n_prompt = start->n_prompt,
                           .n_tokens = start->n_prompt,
                           .max_tokens = start->max_tokens,
                           .max_by_context = start->max_by_context,
                           .sampling = r->sampling,
                           .admitted_us = clock_mono_us()};
    memcpy(tokens, start->prompt, start->n_prompt * sizeof(*tokens));
    buf_init(&s->answer, SIZE_MAX);
    detokenizer_init(&s->detok, start->tokenizer, false);
    s->detok.first = false; /* an answer goes on from the prompt: its first space is its own */
    if (start->reasoner)
        reasoning_begin(&s->reasoning, start->reasoner, r->reasoning != ENGINE_REASONING_OFF,
                        r->has_reasoning_budget ? r->reasoning_budget : REASONING_UNLIMITED);
    int rc = stop_rules_new(&s->stop, r->stop, r->n_stop, e);
    if (rc == 0)
        rc = replay(s, r, e);
    if (rc < 0)
        sequence_end(s);
    return rc;
}

void sequence_end(struct sequence *s)
{
    stop_rules_free(s->stop);
    buf_release(&s->answer);
    reasoning_release(&s->reasoning);
    file_close(&s->kept.file);
    *s = (struct sequence){.state = SEQUENCE_FREE, .slot = -1, .tokens = s->tokens};
}

uint32_t sequence_answered(const struct sequence *s)
{
    return s->n_tokens - s->n_prompt;
}

uint32_t sequence_pending(const struct sequence *s)
{
    return s->n_tokens - s->n_cached;
}

int32_t sequence_forced(const struct sequence *s)
{
    return s->reasoning.how ? reasoning_forced(&s->reasoning) : -1;
}

struct str sequence_new_thought(struct sequence *s)
{
    if (!s->reasoning.how)
        return str_of("");
    const size_t until = reasoning_certain(&s->reasoning);
    struct str text =
        str_slice(s->reasoning.thought.ptr + s->n_thought_shown, until - s->n_thought_shown);
    s->n_thought_shown = until;
    return text;
}

struct str sequence_new_text(struct sequence *s)
{
    const size_t until = s->state == SEQUENCE_FINISHED ? s->answer.len : s->n_safe;
    struct str text = str_slice(s->answer.ptr + s->n_shown, until - s->n_shown);
    s->n_shown = until;
    return text;
}

void sequence_usage(const struct sequence *s, struct engine_usage *ret)
{
    const int64_t until = s->finished_us ? s->finished_us : clock_mono_us();
    const int64_t first = s->first_us ? s->first_us : until;
    const struct sequence_reads *prefill = s->first_us ? &s->first_reads : &s->reads;
    *ret = (struct engine_usage){.prompt_tokens = s->n_prompt,
                                 .completion_tokens = sequence_answered(s),
                                 .reasoning_tokens = s->reasoning.n_tokens,
                                 .resumed_tokens = s->n_resumed,
                                 .restored_tokens = s->n_restored,
                                 .bytes_read = s->reads.bytes,
                                 .expert_hits = s->reads.expert_hits,
                                 .expert_misses = s->reads.expert_misses,
                                 .prefill_bytes_read = prefill->bytes,
                                 .prefill_expert_hits = prefill->expert_hits,
                                 .prefill_expert_misses = prefill->expert_misses,
                                 .read_ms = s->read_ms,
                                 .read_wait_ms = s->read_wait_ms,
                                 .prefill_ms = (double)(first - s->admitted_us) / US_PER_MS,
                                 .decode_ms = (double)(until - first) / US_PER_MS};
}
