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

#define CHAT_THINKING_ENDS 3
#define CHAT_THINKING_MARKERS 4
#define CHAT_THINKING_EFFORTS 4

/* A row of thinking.def. Texts are markup: prompt_markup writes them, reasoning.c looks for them. */
struct chat_thinking {
    const char *prompt_on;  /* follows the generation prompt */
    const char *prompt_off; /* the same when there shall be no thought */
    bool is_open;           /* after prompt_on the model is inside its thought */
    bool lines;             /* line feeds around thought and answer are of the format */
    const char *open;       /* begins a thought; NULL: the format does not think */
    const char *close;
    const char *answer; /* opens the answer, also without `close`; NULL: nothing does */
    const char
        *end[CHAT_THINKING_ENDS]; /* any of them ends the answer; NULL: only the model does */
    const char *forced;           /* closes a thought whose budget is spent and opens the answer */
    const char *markers[CHAT_THINKING_MARKERS]; /* NULL after the last */
    const char *effort;                         /* unless the request says one; NULL: none known */
    const char *efforts[CHAT_THINKING_EFFORTS];
};

struct prompt {
    const struct chat_format *format;
    const struct tokenizer *tokenizer;
    const struct chat_options *options;
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
extern const struct chat_renderer chat_renderer_deepseek;
extern const struct chat_renderer chat_renderer_kimi_k3;
extern const struct chat_renderer chat_renderer_llama3;

struct chat_format {
    const char *hash; /* NULL: chosen by name */
    const struct chat_renderer *renderer;
    const char *name;
    const char *system; /* when no message gives one; NULL: no system turn then */
    enum chat_date date;
    bool strip_reasoning; /* earlier answers lose what they thought */
    const struct chat_thinking *thinking;
};

/* The row of a template's hash; NULL: none. */
const struct chat_format *chat_format_of(const char *hash);

/* What follows the last occurrence of the mark; all of s when there is none. */
struct str chat_after_last(struct str s, const char *mark);

/* Text of the current run; a failure shows at the next marker. */
void prompt_text(struct prompt *p, struct str text);
void prompt_text_c(struct prompt *p, const char *text);
/* Ends the run and puts the token with this text. */
int prompt_marker(struct prompt *p, const char *text, struct error *e);
/* The token with this text, or the text itself where the vocabulary has none. */
int prompt_tag(struct prompt *p, const char *text, struct error *e);
/* Text among which the markers of the format's thinking are tokens, as prompt_tag has it. */
int prompt_markup(struct prompt *p, const char *text, struct error *e);
/* Ends the last run. */
int prompt_finish(struct prompt *p, struct error *e);

#endif
