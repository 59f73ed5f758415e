/*
 * Prompt templates: text with {{variables}}.
 *
 * {{name}} stands for a variable; blanks inside the braces are allowed; names are letters, digits
 * and underscores, not beginning with a digit. {{{{ stands for two literal braces; a single brace
 * and }} are themselves. {{document}} and {{filename}} are given per document, the others once
 * (-v k=v).
 *
 * Owns a copy of the text and the values. Stays true: an unknown variable, one that is given and
 * not used, and one given twice are errors that name it; what was put in is never read again for
 * variables. A struct may be rendered from any thread at once.
 */
#ifndef JOBS_TEMPLATE_H
#define JOBS_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct prompt_template;

struct prompt_variable {
    struct str name;
    struct str value;
};

/* "k=v" as given to -v; the parts point into `text`. ERROR_USAGE says what is wrong. */
int prompt_variable_parse(const char *text, struct prompt_variable *ret, struct error *e);

/* `what` names the template in messages: a path. ERROR_INVALID names the variable and its line. */
int prompt_template_new(struct prompt_template **ret, const char *what, struct str text,
                        const struct prompt_variable *variable, size_t n, struct error *e);
void prompt_template_free(struct prompt_template *t); /* NULL is fine */
/* Whether {{document}} stands in it: without it, documents would be asked about but not shown. */
bool prompt_template_uses_document(const struct prompt_template *t);
int prompt_template_render(const struct prompt_template *t, struct str document,
                           struct str filename, struct buf *out, struct error *e);

#endif
