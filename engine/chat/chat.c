#include "engine/chat/chat.h"

#include "base/compiler.h"
#include "base/sha256.h"
#include "engine/chat/internal.h"
#include "engine/gguf/gguf.h"

#define THINKING(id, ...) static const struct chat_thinking thinking_##id = {__VA_ARGS__};
#include "engine/chat/thinking.def"
#undef THINKING

static const struct chat_format known[] = {
#define TEMPLATE(hash, renderer, name, system, date, strip_reasoning, thinking)                    \
    {hash, &chat_renderer_##renderer, name, system, date, strip_reasoning, &thinking_##thinking},
#include "engine/chat/templates.def"
#undef TEMPLATE
};

/* For --chat-format: FORMATS_NAMED lists them for people. */
#define FORMATS_NAMED "chatml|llama3|kimi-k3|qwen3|deepseek-r1"
static const struct chat_format named[] = {
    {.renderer = &chat_renderer_chatml, .name = "chatml", .thinking = &thinking_none},
    {.renderer = &chat_renderer_llama3, .name = "llama3", .thinking = &thinking_none},
    {.renderer = &chat_renderer_kimi_k3, .name = "kimi-k3", .thinking = &thinking_kimi_k3},
    {.renderer = &chat_renderer_chatml,
     .name = "qwen3",
     .strip_reasoning = true,
     .thinking = &thinking_tags},
    {.renderer = &chat_renderer_deepseek, .name = "deepseek-r1", .thinking = &thinking_opened},
};

static int find_named(const struct chat_format **ret, const char *name, struct error *e)
{
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        if (str_equal_c(str_of(name), named[i].name)) {
            *ret = &named[i];
            return 0;
        }
    }
    return error_set(e, ERROR_USAGE, "chat format '%s' is not known (" FORMATS_NAMED " are)", name);
}

const struct chat_format *chat_format_of(const char *hash)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_equal_c(str_of(hash), known[i].hash))
            return &known[i];
    }
    return NULL;
}

int chat_format_find(const struct chat_format **ret, const struct gguf *g, const char *name,
                     struct error *e)
{
    struct str text = {0};
    if (name)
        return find_named(ret, name, e);
    int rc = gguf_str(g, "tokenizer.chat_template", false, &text, e);
    if (rc < 0)
        return rc;
    if (!text.ptr)
        return error_set(e, ERROR_UNSUPPORTED,
                         "the model has no chat template: use --raw, or "
                         "--chat-format " FORMATS_NAMED);
    if (text.len > 0 && text.ptr[text.len - 1] == '\n')
        text.len--;
    struct sha256 sha;
    uint8_t digest[32];
    char hash[65];
    sha256_init(&sha);
    sha256_add(&sha, text.ptr, text.len);
    sha256_end(&sha, digest);
    sha256_hex(digest, hash);
    const struct chat_format *found = chat_format_of(hash);
    if (found) {
        *ret = found;
        return 0;
    }
    return error_set(e, ERROR_UNSUPPORTED,
                     "the chat template %s is not known: use --raw, or "
                     "--chat-format " FORMATS_NAMED,
                     hash);
}

const char *chat_format_name(const struct chat_format *f)
{
    return f->name;
}

int chat_format_check(const struct chat_format *f, const struct tokenizer *t, struct error *e)
{
    const char *const *markers = f->renderer->markers;
    for (size_t i = 0; i < ARRAY_LEN(f->renderer->markers) && markers[i]; i++) {
        if (tokenizer_find(t, str_of(markers[i])) < 0)
            return error_set(e, ERROR_UNSUPPORTED,
                             "chat format %s: the vocabulary has no token '%s'", f->name,
                             markers[i]);
    }
    return 0;
}

static int check_messages(const struct chat_message *messages, size_t n, struct error *e)
{
    if (n == 0)
        return error_set(e, ERROR_INVALID, "a chat needs at least one message");
    for (size_t i = 0; i < n; i++) {
        struct str role = messages[i].role;
        if (!str_equal_c(role, "system") && !str_equal_c(role, "user") &&
            !str_equal_c(role, "assistant"))
            return error_set(
                e, ERROR_UNSUPPORTED,
                "message %zu: role '%.*s' is not supported (system, user, assistant are)", i,
                (int)MIN_OF(role.len, (size_t)64), role.ptr);
    }
    if (str_equal_c(messages[n - 1].role, "assistant"))
        return error_set(e, ERROR_INVALID, "message %zu: the last message is the assistant's",
                         n - 1);
    return 0;
}

/* What was asked for and cannot be had is refused, never left out. */
static int check_options(const struct chat_format *f, const struct chat_options *o, struct error *e)
{
    const struct chat_thinking *t = f->thinking;
    if (o->think == CHAT_THINK_ON && !t->open)
        return error_set(e, ERROR_UNSUPPORTED, "reasoning: chat format %s does not think", f->name);
    if (o->effort.len == 0 || o->think == CHAT_THINK_OFF)
        return 0;
    for (size_t i = 0; t->effort && i < ARRAY_LEN(t->efforts); i++) {
        if (str_equal_c(o->effort, t->efforts[i]))
            return 0;
    }
    return error_set(e, ERROR_UNSUPPORTED, "reasoning_effort: chat format %s %s '%.*s'", f->name,
                     t->effort ? "knows low, medium, high and max, not" : "has no levels, not even",
                     (int)MIN_OF(o->effort.len, (size_t)64), o->effort.ptr);
}

/* What follows the generation prompt so that the model thinks, or does not. */
static int put_thinking(struct prompt *p, struct error *e)
{
    const struct chat_thinking *t = p->format->thinking;
    if (!t->open)
        return 0;
    return prompt_markup(p, p->options->think == CHAT_THINK_OFF ? t->prompt_off : t->prompt_on, e);
}

int chat_render(const struct chat_format *f, const struct tokenizer *t,
                const struct chat_message *messages, size_t n, const struct chat_options *o,
                struct tokens *out, struct error *e)
{
    struct prompt p = {.format = f, .tokenizer = t, .options = o, .out = out};
    size_t before = out->n;
    int32_t bos = tokenizer_bos(t);
    int rc = check_messages(messages, n, e);
    if (rc == 0)
        rc = check_options(f, o, e);
    if (rc == 0)
        rc = chat_format_check(f, t, e);
    if (rc < 0)
        return rc;
    buf_init(&p.run, INT32_MAX);
    if (bos >= 0 && (f->renderer->bos || tokenizer_add_bos(t)))
        rc = tokens_push(out, bos, e);
    if (rc == 0)
        rc = f->renderer->render(&p, messages, n, e);
    if (rc == 0)
        rc = put_thinking(&p, e);
    if (rc == 0)
        rc = prompt_finish(&p, e);
    if (rc < 0)
        out->n = before;
    buf_release(&p.run);
    return rc;
}
