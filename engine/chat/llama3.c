/* Llama 3: a header of tokens before every turn, content trimmed, <|eot_id|> after it. */
#include "base/clock.h"
#include "engine/chat/internal.h"

#define HEADER "<|start_header_id|>"
#define HEADER_END "<|end_header_id|>"
#define END "<|eot_id|>"

/* What Python's str.strip takes for white space: the templates were written for that. */
static bool is_blank(uint32_t rune)
{
    return (rune >= 0x09 && rune <= 0x0D) || (rune >= 0x1C && rune <= 0x20) || rune == 0x85 ||
           rune == 0xA0 || rune == 0x1680 || (rune >= 0x2000 && rune <= 0x200A) || rune == 0x2028 ||
           rune == 0x2029 || rune == 0x202F || rune == 0x205F || rune == 0x3000;
}

static struct str trim(struct str s)
{
    uint32_t rune;
    while (s.len > 0) {
        size_t n = str_utf8_next(s, &rune);
        if (!is_blank(rune))
            break;
        s = str_slice(s.ptr + n, s.len - n);
    }
    while (s.len > 0) {
        size_t start = s.len - 1;
        while (start > 0 && s.len - start < 4 && ((uint8_t)s.ptr[start] & 0xC0u) == 0x80u)
            start--;
        size_t n = str_utf8_next(str_slice(s.ptr + start, s.len - start), &rune);
        if (n != s.len - start || !is_blank(rune))
            break;
        s.len = start;
    }
    return s;
}

/* "26 Jul 2024", the UTC day. */
static void put_date(struct prompt *p)
{
    static const char month[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char text[32]; /* 2026-11-30T22:00:00Z */
    if (p->format->date == CHAT_FIXED_DATE) {
        prompt_text_c(p, "26 Jul 2024");
        return;
    }
    clock_format(p->options->submitted_us, text);
    int m = (text[5] - '0') * 10 + (text[6] - '0');
    buf_printf(&p->run, "%.2s %s %.4s", text + 8, month[m - 1], text);
}

static int open_turn(struct prompt *p, struct str role, struct error *e)
{
    int rc = prompt_marker(p, HEADER, e);
    prompt_text(p, role);
    if (rc == 0)
        rc = prompt_marker(p, HEADER_END, e);
    prompt_text_c(p, "\n\n");
    return rc;
}

static int put_turn(struct prompt *p, struct str role, struct str content, struct error *e)
{
    int rc = open_turn(p, role, e);
    prompt_text(p, trim(content));
    return rc == 0 ? prompt_marker(p, END, e) : rc;
}

/* The system turn that is always there and starts with dates. */
static int put_dated_system(struct prompt *p, struct str content, struct error *e)
{
    int rc = open_turn(p, str_of("system"), e);
    prompt_text_c(p, "Cutting Knowledge Date: December 2023\nToday Date: ");
    put_date(p);
    prompt_text_c(p, "\n\n");
    prompt_text(p, trim(content));
    return rc == 0 ? prompt_marker(p, END, e) : rc;
}

static int render(struct prompt *p, const struct chat_message *messages, size_t n, struct error *e)
{
    int rc = 0;
    size_t i = 0;
    if (p->format->date != CHAT_NO_DATE) {
        struct str content = str_of("");
        if (str_equal_c(messages[0].role, "system"))
            content = messages[i++].content;
        rc = put_dated_system(p, content, e);
    }
    for (; rc == 0 && i < n; i++)
        rc = put_turn(p, messages[i].role, messages[i].content, e);
    return rc == 0 ? open_turn(p, str_of("assistant"), e) : rc;
}

const struct chat_renderer chat_renderer_llama3 = {
    .name = "llama3", .markers = {HEADER, HEADER_END, END}, .bos = true, .render = render};
