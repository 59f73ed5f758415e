#include <string.h>

#include "base/compiler.h"
#include "engine/chat/internal.h"

struct str chat_after_last(struct str s, const char *mark)
{
    size_t mark_len = strlen(mark);
    for (;;) {
        const char *hit = s.len > 0 ? memmem(s.ptr, s.len, mark, mark_len) : NULL;
        if (!hit)
            return s;
        size_t past = (size_t)(hit - s.ptr) + mark_len;
        s = str_slice(s.ptr + past, s.len - past);
    }
}

void prompt_text(struct prompt *p, struct str text)
{
    buf_append_str(&p->run, text);
}

void prompt_text_c(struct prompt *p, const char *text)
{
    buf_append_c(&p->run, text);
}

int prompt_finish(struct prompt *p, struct error *e)
{
    int rc = buf_check(&p->run, "prompt", e);
    if (rc == 0 && p->run.len > 0)
        rc = tokenizer_encode(p->tokenizer, buf_str(&p->run), 0, p->out, e);
    buf_clear(&p->run);
    return rc;
}

int prompt_marker(struct prompt *p, const char *text, struct error *e)
{
    int rc = prompt_finish(p, e);
    return rc == 0 ? tokens_push(p->out, tokenizer_find(p->tokenizer, str_of(text)), e) : rc;
}

int prompt_tag(struct prompt *p, const char *text, struct error *e)
{
    if (tokenizer_find(p->tokenizer, str_of(text)) >= 0)
        return prompt_marker(p, text, e);
    prompt_text_c(p, text);
    return 0;
}

static const char *marker_at(const struct chat_thinking *t, const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(t->markers) && t->markers[i]; i++) {
        if (strncmp(text, t->markers[i], strlen(t->markers[i])) == 0)
            return t->markers[i];
    }
    return NULL;
}

int prompt_markup(struct prompt *p, const char *text, struct error *e)
{
    int rc = 0;
    while (rc == 0 && *text) {
        const char *marker = marker_at(p->format->thinking, text);
        if (marker)
            rc = prompt_tag(p, marker, e);
        else
            prompt_text(p, str_slice(text, 1));
        text += marker ? strlen(marker) : 1;
    }
    return rc;
}
