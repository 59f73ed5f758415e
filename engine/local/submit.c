/* From a request to a running sequence: the prompt's ids, the limits, admission. */
#include <inttypes.h>

#include "base/alloc.h"
#include "engine/local/local.h"

#define DEFAULT_MAX_TOKENS 2048u
/* Texts up to this are small blocks: their ids are counted exactly. */
#define SHORT_TEXT_BYTES (64u << 10)

static enum chat_think think_of(enum engine_reasoning reasoning)
{
    switch (reasoning) {
    case ENGINE_REASONING_AUTO:
        return CHAT_THINK_AUTO;
    case ENGINE_REASONING_ON:
        return CHAT_THINK_ON;
    case ENGINE_REASONING_OFF:
        return CHAT_THINK_OFF;
    }
    return CHAT_THINK_AUTO;
}

static int render_messages(const struct engine *en, const struct engine_request *r,
                           struct tokens *prompt, struct error *e)
{
    if (!en->chat)
        return error_set(e, ERROR_UNSUPPORTED, "%s", en->chat_refusal.text);
    struct chat_message *messages = mem_array(r->n_messages, sizeof(*messages));
    if (!messages)
        return error_set(e, ERROR_NOMEM, "no memory for %zu messages", r->n_messages);
    for (size_t i = 0; i < r->n_messages; i++)
        messages[i] = (struct chat_message){.role = r->messages[i].role,
                                            .content = r->messages[i].content,
                                            .reasoning = r->messages[i].reasoning,
                                            .name = r->messages[i].name};
    const struct chat_options o = {.submitted_us = r->submitted_us,
                                   .think = think_of(r->reasoning),
                                   .effort = r->reasoning_effort};
    int rc = chat_render(en->chat, en->tokenizer, messages, r->n_messages, &o, prompt, e);
    mem_free(messages);
    return rc;
}

static int check_ids(const struct engine *en, const char *what, const int32_t *ids, size_t n,
                     struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= en->model.hp.n_vocab)
            return error_set(e, ERROR_INVALID, "%s token %zu is %" PRId32 ", the vocabulary has %u",
                             what, i, ids[i], en->model.hp.n_vocab);
    }
    return 0;
}

/* A text that is too long whatever its ids are: making them would take memory that nobody planned. */
static int check_length(const struct engine *en, const struct engine_request *r, struct error *e)
{
    const size_t longest = MAX_OF(tokenizer_longest(en->tokenizer), (size_t)1);
    size_t bytes = r->prompt.len;
    if (r->messages) {
        bytes = 0;
        for (size_t i = 0; i < r->n_messages; i++)
            bytes += r->messages[i].content.len + r->messages[i].reasoning.len;
    }
    if (bytes <= SHORT_TEXT_BYTES || bytes / longest < en->plan.ctx)
        return 0;
    return error_set(e, ERROR_CONTEXT,
                     "the prompt has at least %zu tokens (%zu bytes, a token has %zu at most), the "
                     "context holds %u (prompt and answer)",
                     bytes / longest, bytes, longest, en->plan.ctx);
}

static int encode_prompt(const struct engine *en, const struct engine_request *r,
                         struct tokens *prompt, struct error *e)
{
    if (!r->messages && (r->reasoning == ENGINE_REASONING_ON || r->reasoning_effort.len > 0))
        return error_set(e, ERROR_UNSUPPORTED,
                         "reasoning: a prompt that is plain text has no chat format to think in");
    int rc = r->messages ? render_messages(en, r, prompt, e)
                         : tokenizer_encode(en->tokenizer, r->prompt, TOKENIZE_BOS, prompt, e);
    if (rc == 0 && prompt->n == 0)
        rc = error_set(e, ERROR_INVALID, "the prompt has no tokens");
    if (rc == 0)
        rc = check_ids(en, "prompt", prompt->ids, prompt->n, e);
    if (rc == 0)
        rc = check_ids(en, "resumed", r->resume, r->n_resume, e);
    return rc;
}

/* What an answer may take that nobody limited: a thought with a budget has that on top. */
static uint32_t default_tokens(const struct engine *en, const struct engine_request *r)
{
    bool thinks = en->reasoner && r->messages && r->reasoning != ENGINE_REASONING_OFF;
    uint32_t budget = thinks && r->has_reasoning_budget ? r->reasoning_budget : 0;
    return DEFAULT_MAX_TOKENS + MIN_OF(budget, UINT32_MAX - DEFAULT_MAX_TOKENS);
}

/* How long the answer may become beside that prompt. */
static int limit_answer(const struct engine *en, const struct engine_request *r, size_t n_prompt,
                        struct sequence_start *start, struct error *e)
{
    const uint32_t ctx = en->plan.ctx;
    if (n_prompt >= ctx)
        return error_set(e, ERROR_CONTEXT,
                         "the prompt has %zu tokens, the context holds %u (prompt and answer)",
                         n_prompt, ctx);
    const uint32_t left = ctx - (uint32_t)n_prompt;
    if (r->max_tokens > left)
        return error_set(e, ERROR_CONTEXT,
                         "a prompt of %zu tokens and max_tokens %u need %" PRIu64
                         ", the context holds %u",
                         n_prompt, r->max_tokens, (uint64_t)n_prompt + r->max_tokens, ctx);
    start->n_prompt = (uint32_t)n_prompt;
    const uint32_t fallback = default_tokens(en, r);
    start->max_tokens = r->max_tokens ? r->max_tokens : MIN_OF(left, fallback);
    start->max_by_context = r->max_tokens == 0 && left < fallback;
    return 0;
}

static int admit(struct engine *en, const struct sequence_start *start, enum engine_admission *ret,
                 struct error *e)
{
    struct sequence *s = scheduler_free_entry(en);
    const int slot = kv_reserve(en->kv, start->n_prompt + start->max_tokens);
    if (slot < 0) {
        *ret = ENGINE_BUSY;
        return 0;
    }
    int rc = sequence_begin(s, start, e);
    if (rc < 0) {
        kv_release(en->kv, slot);
        return rc;
    }
    s->slot = slot;
    if (s->state == SEQUENCE_RUNNING)
        en->running[en->n_running++] = s;
    else
        scheduler_finished(en, s); /* the tokens of an earlier attempt were the whole answer */
    *ret = ENGINE_ADMITTED;
    return 0;
}

int engine_submit(struct engine *en, const struct engine_request *r, enum engine_admission *ret,
                  struct error *e)
{
    scheduler_reap(en);
    if (!en->forward || !en->tokenizer)
        return error_set(e, ERROR_UNSUPPORTED, "%s: opened without %s", en->path,
                         en->forward ? "vocabulary" : "weights");
    int rc = sampler_check(&r->sampling, e);
    if (rc < 0)
        return rc;
    if (!scheduler_free_entry(en)) {
        *ret = ENGINE_BUSY;
        return 0;
    }
    struct tokens prompt = {0};
    struct sequence_start start = {
        .request = r, .tokenizer = en->tokenizer, .reasoner = r->messages ? en->reasoner : NULL};
    rc = check_length(en, r, e);
    if (rc == 0)
        rc = encode_prompt(en, r, &prompt, e);
    if (rc == 0)
        rc = limit_answer(en, r, prompt.n, &start, e);
    start.prompt = prompt.ids;
    if (rc == 0)
        rc = admit(en, &start, ret, e);
    tokens_release(&prompt);
    return rc;
}

void engine_cancel(struct engine *en, uint64_t tag)
{
    struct sequence *s;
    while ((s = scheduler_find(en, tag)) != NULL)
        scheduler_drop(en, s);
}
