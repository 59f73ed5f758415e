/*
 * DeepSeek-R1 and what was distilled from it: the system text first and without a role, then turns
 * behind a token each. Earlier answers are shown without their thought.
 */
#include "engine/chat/internal.h"

#define USER "<\uFF5CUser\uFF5C>"
#define ASSISTANT "<\uFF5CAssistant\uFF5C>"
#define END "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"
#define THINK_END "</think>"

/* Of several system messages the last one counts. */
static void put_system(struct prompt *p, const struct chat_message *messages, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (str_equal_c(messages[i].role, "system")) {
            prompt_text(p, messages[i].content);
            return;
        }
    }
}

static int put_turn(struct prompt *p, const struct chat_message *m, struct error *e)
{
    if (str_equal_c(m->role, "system"))
        return 0;
    bool answer = str_equal_c(m->role, "assistant");
    int rc = prompt_marker(p, answer ? ASSISTANT : USER, e);
    prompt_text(p, answer ? chat_after_last(m->content, THINK_END) : m->content);
    return rc == 0 && answer ? prompt_marker(p, END, e) : rc;
}

static int render(struct prompt *p, const struct chat_message *messages, size_t n, struct error *e)
{
    int rc = 0;
    put_system(p, messages, n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_turn(p, &messages[i], e);
    return rc == 0 ? prompt_marker(p, ASSISTANT, e) : rc;
}

const struct chat_renderer chat_renderer_deepseek = {
    .name = "deepseek", .markers = {USER, ASSISTANT, END}, .bos = true, .render = render};
