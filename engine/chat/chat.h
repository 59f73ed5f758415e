/*
 * Messages to prompt tokens, in the form the model was trained on.
 *
 * Until templates are executed: a table (templates.def) keyed by the SHA-256 of the template
 * (without its final newline, which rendering drops), naming renderer, default system text and date
 * rule. An unknown template is refused with its hash and the ways on (--raw, --chat-format).
 * Template text is never stored here.
 *
 * Stays true: markers are tokens, the text between them is never parsed for special tokens, so no
 * content can become a marker; the result is what the model's own template gives (goldens).
 */
#ifndef ENGINE_CHAT_CHAT_H
#define ENGINE_CHAT_CHAT_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/tokenizer/tokenizer.h"

struct gguf;

struct chat_message {
    struct str role; /* system, user, assistant (others: refused by the renderer) */
    struct str content;
    struct str reasoning; /* what the assistant thought, apart from its content; may be empty */
    struct str name;      /* of who speaks; may be empty; most formats do not show it */
};

enum chat_think {
    CHAT_THINK_AUTO, /* as the format does by default */
    CHAT_THINK_ON,
    CHAT_THINK_OFF,
};

struct chat_options {
    int64_t submitted_us; /* wall time that dates in templates show (UTC day) */
    enum chat_think think;
    struct str effort; /* "low" ...; empty: the format's default */
};

struct chat_format; /* one row of the table, or a renderer named explicitly */

/*
 * name NULL: by the hash of tokenizer.chat_template; "chatml", "llama3", "kimi-k3", "qwen3" (ChatML
 * that thinks), "deepseek-r1": that format without default system text. ERROR_UNSUPPORTED names the
 * hash. *ret NULL is never a success.
 */
int chat_format_find(const struct chat_format **ret, const struct gguf *g, const char *name,
                     struct error *e);
const char *chat_format_name(const struct chat_format *f); /* "chatml (SmolLM2)" */

/* Whether the vocabulary has the format's markers; chat_render asks too. */
int chat_format_check(const struct chat_format *f, const struct tokenizer *t, struct error *e);

/*
 * Appends the whole prompt, generation prompt included. The last message must not be from the
 * assistant. ERROR_UNSUPPORTED when the options ask for thinking that the format does not do.
 */
int chat_render(const struct chat_format *f, const struct tokenizer *t,
                const struct chat_message *messages, size_t n, const struct chat_options *o,
                struct tokens *out, struct error *e);

#endif
