/* Templates: with braces in what is put in, the output is text and inputs end to end, nothing else. */
#include "jobs/template.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

FUZZ(template)
{
    static const struct prompt_variable v = {.name = {"v", 1}, .value = {"{{document}}", 12}};
    struct prompt_template *t = NULL;
    struct error e = {0};
    size_t n_variables = n > 0 && (bytes[0] & 1u);
    struct str text = str_slice((const char *)bytes, n);
    if (prompt_template_new(&t, "t", text, &v, n_variables, &e) < 0) {
        demand(e.text[0] != 0);
        return;
    }
    struct buf without;
    struct buf with;
    buf_init(&without, 16 * n + 64);
    buf_init(&with, 16 * n + 64);
    demand(prompt_template_render(t, str_of(""), str_of(""), &without, &e) == 0);
    demand(prompt_template_render(t, str_of("{{v}}"), str_of(""), &with, &e) == 0);
    demand(prompt_template_uses_document(t) == (with.len > without.len));
    demand((with.len - without.len) % 5 == 0);
    demand(str_utf8_valid(buf_str(&with), NULL));
    prompt_template_free(t);
    buf_release(&without);
    buf_release(&with);
}
