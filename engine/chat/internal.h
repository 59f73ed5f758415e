/*
 * Rows of the table, and the prompt that renderers write.
 *
 * A prompt is markers and the text between them. Literal text and content that stand side by side
 * are tokenised as one run, because merges cross from one into the other in the reference as well;
 * no run is parsed for special tokens.
 */
#ifndef ENGINE_CHAT_INTERNAL_H
#define ENGINE_CHAT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "engine/chat/chat.h"

enum chat_date {
    CHAT_NO_DATE,
    CHAT_FIXED_DATE, /* the template fixes it */
    CHAT_DATE_OF_REQUEST,
};

struct prompt {
    const struct chat_format *format;
    const struct tokenizer *tokenizer;
    int64_t submitted_us;
    struct buf run; /* text since the last marker */
    struct tokens *out;
};

struct chat_renderer {
    const char *name;
    const char *markers[4]; /* tokens that it cannot do without; NULL after the last */
    bool bos;               /* the template writes the BOS token itself */
    int (*render)(struct prompt *p, const struct chat_message *messages, size_t n, struct error *e);
};
extern const struct chat_renderer chat_renderer_chatml;
extern const struct chat_renderer chat_renderer_llama3;

struct chat_format {
    const char *hash; /* NULL: chosen by name */
    const struct chat_renderer *renderer;
    const char *name;
    const char *system; /* when no message gives one; NULL: no system turn then */
    enum chat_date date;
    bool strip_reasoning; /* earlier answers lose what they thought */
};

/* The row of a template's hash; NULL: none. */
const struct chat_format *chat_format_of(const char *hash);

/* Text of the current run; a failure shows at the next marker. */
void prompt_text(struct prompt *p, struct str text);
void prompt_text_c(struct prompt *p, const char *text);
/* Ends the run and puts the token with this text. */
int prompt_marker(struct prompt *p, const char *text, struct error *e);
/* The token with this text, or the text itself where the vocabulary has none. */
int prompt_tag(struct prompt *p, const char *text, struct error *e);
/* Ends the last run. */
int prompt_finish(struct prompt *p, struct error *e);

#endif
