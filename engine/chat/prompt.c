#include "engine/chat/internal.h"

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
