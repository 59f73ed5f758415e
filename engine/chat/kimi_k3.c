/*
 * Kimi-K3: sections between tokens. <|open|>tag attribute="value"<|sep|> opens one and
 * <|close|>tag<|sep|> closes it; only the four markers are tokens, the rest is text. A message of the
 * assistant has a section for its thought, even an empty one, and one for its response.
 */
#include "engine/chat/internal.h"

#define OPEN "<|open|>"
#define CLOSE "<|close|>"
#define SEPARATOR "<|sep|>"
#define END "<|end_of_msg|>"

static void put_attribute(struct prompt *p, const char *name, struct str value)
{
    prompt_text_c(p, " ");
    prompt_text_c(p, name);
    prompt_text_c(p, "=\"");
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] == '&')
            prompt_text_c(p, "&amp;");
        else if (value.ptr[i] == '"')
            prompt_text_c(p, "&quot;");
        else
            prompt_text(p, str_slice(value.ptr + i, 1));
    }
    prompt_text_c(p, "\"");
}

static int open_message(struct prompt *p, struct str role, const char *attribute, struct str value,
                        struct error *e)
{
    int rc = prompt_marker(p, OPEN, e);
    prompt_text_c(p, "message");
    put_attribute(p, "role", role);
    if (value.len > 0)
        put_attribute(p, attribute, value);
    return rc == 0 ? prompt_marker(p, SEPARATOR, e) : rc;
}

static int put_tag(struct prompt *p, const char *marker, const char *tag, struct error *e)
{
    int rc = prompt_marker(p, marker, e);
    prompt_text_c(p, tag);
    return rc == 0 ? prompt_marker(p, SEPARATOR, e) : rc;
}

static int put_section(struct prompt *p, const char *tag, struct str text, struct error *e)
{
    int rc = put_tag(p, OPEN, tag, e);
    prompt_text(p, text);
    return rc == 0 ? put_tag(p, CLOSE, tag, e) : rc;
}

static int close_message(struct prompt *p, struct error *e)
{
    int rc = put_tag(p, CLOSE, "message", e);
    return rc == 0 ? prompt_marker(p, END, e) : rc;
}

/* A thought of blanks is rendered as none. */
static struct str thought_of(const struct chat_message *m)
{
    for (size_t i = 0; i < m->reasoning.len; i++) {
        char c = m->reasoning.ptr[i];
        if (c != ' ' && (c < '\t' || c > '\r'))
            return m->reasoning;
    }
    return str_of("");
}

static int put_message(struct prompt *p, const struct chat_message *m, bool think, struct error *e)
{
    bool answer = str_equal_c(m->role, "assistant");
    int rc = open_message(p, m->role, "name", m->name, e);
    if (rc == 0 && answer && think)
        rc = put_section(p, "think", thought_of(m), e);
    if (rc == 0 && answer)
        rc = put_section(p, "response", m->content, e);
    if (!answer)
        prompt_text(p, m->content);
    return rc == 0 ? close_message(p, e) : rc;
}

static int put_effort(struct prompt *p, struct error *e)
{
    int rc = open_message(p, str_of("system"), "type", str_of("thinking-effort"), e);
    prompt_text_c(p, "`thinking_effort` guides on how much to think in your thinking channel (not "
                     "including the response channel), supported values include `low`, `medium`, "
                     "`high`, and `max`.\nNow the system is invoked with `thinking_effort=");
    if (p->options->effort.len > 0)
        prompt_text(p, p->options->effort);
    else
        prompt_text_c(p, p->format->thinking->effort);
    prompt_text_c(p, "`.");
    return rc == 0 ? close_message(p, e) : rc;
}

static int render(struct prompt *p, const struct chat_message *messages, size_t n, struct error *e)
{
    bool think = p->options->think != CHAT_THINK_OFF;
    int rc = think ? put_effort(p, e) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_message(p, &messages[i], think, e);
    return rc == 0 ? open_message(p, str_of("assistant"), "", str_of(""), e) : rc;
}

const struct chat_renderer chat_renderer_kimi_k3 = {
    .name = "kimi-k3", .markers = {OPEN, CLOSE, SEPARATOR, END}, .render = render};
