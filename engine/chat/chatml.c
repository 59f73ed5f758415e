/* ChatML: every turn between <|im_start|> and <|im_end|>, in the order of the messages. */
#include <string.h>

#include "engine/chat/internal.h"

#define START "<|im_start|>"
#define END "<|im_end|>"
#define THINK "<think>"
#define THINK_END "</think>"

static struct str skip_newlines(struct str s)
{
    while (s.len > 0 && s.ptr[0] == '\n')
        s = str_slice(s.ptr + 1, s.len - 1);
    return s;
}

static struct str drop_newlines(struct str s)
{
    while (s.len > 0 && s.ptr[s.len - 1] == '\n')
        s.len--;
    return s;
}

/* Takes an answer apart: what was thought (empty if nothing was) and what was said. */
static void split_reasoning(struct str content, struct str *reasoning, struct str *said)
{
    *reasoning = str_of("");
    *said = content;
    if (content.len == 0)
        return;
    const char *end = memmem(content.ptr, content.len, THINK_END, strlen(THINK_END));
    if (!end)
        return;
    struct str before = drop_newlines(str_slice(content.ptr, (size_t)(end - content.ptr)));
    *reasoning = skip_newlines(chat_after_last(before, THINK));
    *said = skip_newlines(chat_after_last(content, THINK_END));
}

static bool wraps(struct str s, const char *head, const char *tail)
{
    size_t n_head = strlen(head);
    size_t n_tail = strlen(tail);
    return s.len >= n_head && s.len >= n_tail && memcmp(s.ptr, head, n_head) == 0 &&
           memcmp(s.ptr + s.len - n_tail, tail, n_tail) == 0;
}

/* The last question that is not a tool's answer; the last message when there is none. */
static size_t last_question(const struct chat_message *messages, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        if (str_equal_c(messages[i].role, "user") &&
            !wraps(messages[i].content, "<tool_response>", "</tool_response>"))
            return i;
    }
    return n - 1;
}

/* An answer without its reasoning, which only those after the last question keep. */
static int put_answer(struct prompt *p, const struct chat_message *m, bool keep, struct error *e)
{
    struct str reasoning = m->reasoning;
    struct str said = m->content;
    if (reasoning.len == 0)
        split_reasoning(m->content, &reasoning, &said);
    if (!keep || reasoning.len == 0) {
        prompt_text(p, said);
        return 0;
    }
    int rc = prompt_tag(p, THINK, e);
    prompt_text_c(p, "\n");
    prompt_text(p, drop_newlines(skip_newlines(reasoning)));
    prompt_text_c(p, "\n");
    if (rc == 0)
        rc = prompt_tag(p, THINK_END, e);
    prompt_text_c(p, "\n\n");
    prompt_text(p, skip_newlines(said));
    return rc;
}

static int open_turn(struct prompt *p, struct str role, struct error *e)
{
    int rc = prompt_marker(p, START, e);
    prompt_text(p, role);
    prompt_text_c(p, "\n");
    return rc;
}

static int close_turn(struct prompt *p, struct error *e)
{
    int rc = prompt_marker(p, END, e);
    prompt_text_c(p, "\n");
    return rc;
}

static int put_turn(struct prompt *p, const struct chat_message *m, bool keep_reasoning,
                    struct error *e)
{
    int rc = open_turn(p, m->role, e);
    if (rc < 0)
        return rc;
    if (p->format->strip_reasoning && str_equal_c(m->role, "assistant"))
        rc = put_answer(p, m, keep_reasoning, e);
    else
        prompt_text(p, m->content);
    return rc == 0 ? close_turn(p, e) : rc;
}

static int render(struct prompt *p, const struct chat_message *messages, size_t n, struct error *e)
{
    int rc = 0;
    const char *system = p->format->system;
    size_t question = last_question(messages, n);
    if (system && !str_equal_c(messages[0].role, "system")) {
        struct chat_message m = {.role = str_of("system"), .content = str_of(system)};
        rc = put_turn(p, &m, false, e);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_turn(p, &messages[i], i > question, e);
    return rc == 0 ? open_turn(p, str_of("assistant"), e) : rc;
}

const struct chat_renderer chat_renderer_chatml = {
    .name = "chatml", .markers = {START, END}, .render = render};
