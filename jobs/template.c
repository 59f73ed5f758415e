#include "jobs/template.h"

#include <string.h>

#include "base/alloc.h"
#include "jobs/text.h"

#define NAME_BYTES_MAX 64u

/* Where a piece of the output comes from. */
enum piece_kind { PIECE_TEXT, PIECE_DOCUMENT, PIECE_FILENAME };

struct piece {
    enum piece_kind kind;
    struct str text; /* PIECE_TEXT: into the template's own copies */
};

struct prompt_template {
    char *text;
    char *values; /* the variables' values, one after the other */
    struct piece *piece;
    size_t n_pieces;
    size_t max_pieces;
    bool uses_document;
};

/* What parsing needs beside the result. */
struct parser {
    struct prompt_template *t;
    const char *what;
    const struct prompt_variable *variable;
    struct str *value; /* [n]: the copies */
    bool *used;        /* [n] */
    size_t n;
    struct error *e;
};

static bool is_name_byte(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && c >= '0' && c <= '9');
}

static bool is_name(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_name_byte(s.ptr[i], i == 0))
            return false;
    }
    return s.len > 0 && s.len <= NAME_BYTES_MAX;
}

int prompt_variable_parse(const char *text, struct prompt_variable *ret, struct error *e)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return error_set(e, ERROR_USAGE, "variable '%s': must be name=value", text);
    struct str name = str_slice(text, (size_t)(equals - text));
    if (!is_name(name))
        return error_set(e, ERROR_USAGE,
                         "variable '%s': a name is 1 to %u letters, digits and underscores", text,
                         NAME_BYTES_MAX);
    *ret = (struct prompt_variable){.name = name, .value = str_of(equals + 1)};
    return 0;
}

static int add_piece(struct parser *p, struct piece piece)
{
    struct prompt_template *t = p->t;
    if (piece.kind == PIECE_TEXT && piece.text.len == 0)
        return 0;
    if (t->n_pieces == t->max_pieces) {
        size_t more = t->max_pieces > 0 ? 2 * t->max_pieces : 8;
        struct piece *grown = mem_regrow(t->piece, more, sizeof(*grown));
        if (!grown)
            return error_set(p->e, ERROR_NOMEM, "%s: no memory for the template", p->what);
        t->piece = grown;
        t->max_pieces = more;
    }
    t->piece[t->n_pieces++] = piece;
    return 0;
}

static unsigned long line_of(const struct parser *p, const char *at)
{
    unsigned long line = 1;
    for (const char *c = p->t->text; c < at; c++)
        line += *c == '\n';
    return line;
}

static int add_variable(struct parser *p, struct str name)
{
    if (str_equal_c(name, "document")) {
        p->t->uses_document = true;
        return add_piece(p, (struct piece){.kind = PIECE_DOCUMENT});
    }
    if (str_equal_c(name, "filename"))
        return add_piece(p, (struct piece){.kind = PIECE_FILENAME});
    for (size_t i = 0; i < p->n; i++) {
        if (!str_equal(name, p->variable[i].name))
            continue;
        p->used[i] = true;
        return add_piece(p, (struct piece){.kind = PIECE_TEXT, .text = p->value[i]});
    }
    return error_set(p->e, ERROR_INVALID, "%s: line %lu: unknown variable '%.*s' (give it with -v)",
                     p->what, line_of(p, name.ptr), (int)name.len, name.ptr);
}

static struct str trimmed(struct str s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = str_slice(s.ptr + 1, s.len - 1);
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* `open` points at the first of two braces; *ret_after gets where the text goes on. */
static int parse_braces(struct parser *p, const char *open, const char **ret_after)
{
    if (strncmp(open, "{{{{", 4) == 0) {
        *ret_after = open + 4;
        return add_piece(p, (struct piece){.kind = PIECE_TEXT, .text = str_slice(open, 2)});
    }
    const char *close = strstr(open, "}}");
    if (!close)
        return error_set(p->e, ERROR_INVALID,
                         "%s: line %lu: {{ without }} (write {{{{ for two braces)", p->what,
                         line_of(p, open));
    struct str name = trimmed(str_slice(open + 2, (size_t)(close - open) - 2));
    if (!is_name(name))
        return error_set(p->e, ERROR_INVALID,
                         "%s: line %lu: no variable's name between {{ and }} "
                         "(write {{{{ for two braces)",
                         p->what, line_of(p, open));
    *ret_after = close + 2;
    return add_variable(p, name);
}

static int parse_text(struct parser *p)
{
    const char *at = p->t->text;
    for (;;) {
        const char *open = strstr(at, "{{");
        struct str plain = str_slice(at, open ? (size_t)(open - at) : strlen(at));
        int rc = add_piece(p, (struct piece){.kind = PIECE_TEXT, .text = plain});
        if (rc < 0 || !open)
            return rc;
        rc = parse_braces(p, open, &at);
        if (rc < 0)
            return rc;
    }
}

static int check_variables(const struct parser *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct str name = p->variable[i].name;
        if (!is_name(name))
            return error_set(p->e, ERROR_USAGE, "variable '%.*s': not a name",
                             (int)MIN_OF(name.len, (size_t)NAME_BYTES_MAX), name.ptr);
        if (str_equal_c(name, "document") || str_equal_c(name, "filename"))
            return error_set(p->e, ERROR_USAGE, "variable '%.*s': set for every document by itself",
                             (int)name.len, name.ptr);
        for (size_t k = 0; k < i; k++) {
            if (str_equal(name, p->variable[k].name))
                return error_set(p->e, ERROR_USAGE, "variable '%.*s': given twice", (int)name.len,
                                 name.ptr);
        }
    }
    return 0;
}

static int check_used(const struct parser *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct str name = p->variable[i].name;
        if (!p->used[i])
            return error_set(p->e, ERROR_INVALID, "%s: variable '%.*s' is given but not used",
                             p->what, (int)name.len, name.ptr);
    }
    return 0;
}

/* Copies text and values into the template. */
static int copy_inputs(struct parser *p, struct str text)
{
    size_t total = 1;
    for (size_t i = 0; i < p->n; i++)
        total += p->variable[i].value.len;
    p->t->text = mem_strndup(text.len > 0 ? text.ptr : "", text.len);
    p->t->values = mem_alloc(total);
    p->value = mem_array(p->n + 1, sizeof(*p->value));
    p->used = mem_array(p->n + 1, sizeof(*p->used));
    if (!p->t->text || !p->t->values || !p->value || !p->used)
        return error_set(p->e, ERROR_NOMEM, "%s: no memory for the template", p->what);
    char *end = p->t->values;
    for (size_t i = 0; i < p->n; i++) {
        struct str value = p->variable[i].value;
        if (value.len > 0)
            memcpy(end, value.ptr, value.len);
        p->value[i] = str_slice(end, value.len);
        end += value.len;
    }
    return 0;
}

int prompt_template_new(struct prompt_template **ret, const char *what, struct str text,
                        const struct prompt_variable *variable, size_t n, struct error *e)
{
    struct parser p = {.what = what, .variable = variable, .n = n, .e = e};
    int rc = job_text_check(what, text, e);
    if (rc == 0)
        rc = check_variables(&p);
    if (rc < 0)
        return rc;
    p.t = mem_zalloc(sizeof(*p.t));
    if (!p.t)
        return error_set(e, ERROR_NOMEM, "%s: no memory for the template", what);
    rc = copy_inputs(&p, text);
    if (rc == 0)
        rc = parse_text(&p);
    if (rc == 0)
        rc = check_used(&p);
    mem_free(p.value);
    mem_free(p.used);
    if (rc < 0) {
        prompt_template_free(p.t);
        return rc;
    }
    *ret = p.t;
    return 0;
}

void prompt_template_free(struct prompt_template *t)
{
    if (!t)
        return;
    mem_free(t->text);
    mem_free(t->values);
    mem_free(t->piece);
    mem_free(t);
}

bool prompt_template_uses_document(const struct prompt_template *t)
{
    return t->uses_document;
}

int prompt_template_render(const struct prompt_template *t, struct str document,
                           struct str filename, struct buf *out, struct error *e)
{
    for (size_t i = 0; i < t->n_pieces; i++) {
        const struct piece *piece = &t->piece[i];
        switch (piece->kind) {
        case PIECE_TEXT:
            buf_append_str(out, piece->text);
            break;
        case PIECE_DOCUMENT:
            buf_append_str(out, document);
            break;
        case PIECE_FILENAME:
            buf_append_str(out, filename);
            break;
        }
    }
    return buf_check(out, "the prompt made by the template", e);
}
