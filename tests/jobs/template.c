/* Templates: what they put where, and which variable an error names. */
#include "jobs/template.h"

#include "base/alloc.h"
#include "tests/test.h"

static const struct prompt_variable tone = {.name = {"tone", 4}, .value = {"dry {{document}}", 16}};

static void check_render(const char *text, const char *want)
{
    struct prompt_template *t = NULL;
    struct error e;
    bool with_tone = strstr(text, "tone") != NULL;
    CHECK_OK(prompt_template_new(&t, "t.txt", str_of(text), &tone, with_tone, &e), &e);
    struct buf out;
    buf_init(&out, 4096);
    CHECK_OK(prompt_template_render(t, str_of("D{{tone}}"), str_of("f.md"), &out, &e), &e);
    CHECK_STR(out.len > 0 ? out.ptr : "", want);
    buf_release(&out);
    prompt_template_free(t);
}

TEST(template_substitutes_once)
{
    check_render("", "");
    check_render("plain { } }} { {", "plain { } }} { {");
    check_render("{{document}}", "D{{tone}}");
    check_render("a {{ filename }}:{{\tdocument }}b", "a f.md:D{{tone}}b");
    check_render("{{tone}}{{tone}}", "dry {{document}}dry {{document}}");
    check_render("{{{{document}}", "{{document}}");
    check_render("{{{{{{document}}", "{{D{{tone}}");
    check_render("{ {{document}} }", "{ D{{tone}} }");
    check_render("\xC3\xA9{{filename}}\n", "\xC3\xA9"
                                           "f.md\n");
}

TEST(template_errors_name_the_variable)
{
    static const struct {
        const char *text;
        int code;
        const char *reason;
    } cases[] = {
        {"a\nb {{tone}} {{colour}}", ERROR_INVALID, "t.txt: line 2: unknown variable 'colour'"},
        {"no variable", ERROR_INVALID, "t.txt: variable 'tone' is given but not used"},
        {"{{tone}}\n\n{{ tone", ERROR_INVALID, "t.txt: line 3: {{ without }}"},
        {"{{tone}}{{}}", ERROR_INVALID, "line 1: no variable's name"},
        {"{{tone}}{{1a}}", ERROR_INVALID, "no variable's name"},
        {"{{tone}}{{a b}}", ERROR_INVALID, "no variable's name"},
        {"{{tone}}{{{a}}", ERROR_INVALID, "no variable's name"},
        {"{{tone}}{{Document}}", ERROR_INVALID, "unknown variable 'Document'"},
        {"{{tone}}\xFF", ERROR_BADDATA, "t.txt: invalid UTF-8 at byte 9"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct prompt_template *t = NULL;
        struct error e;
        CHECK_ERROR(prompt_template_new(&t, "t.txt", str_of(cases[i].text), &tone, 1, &e), &e,
                    cases[i].code, cases[i].reason);
    }
}

TEST(template_variables_are_checked)
{
    struct prompt_template *t = NULL;
    struct error e;
    struct prompt_variable v[2];
    CHECK_OK(prompt_variable_parse("a=b=c", &v[0], &e), &e);
    CHECK(str_equal_c(v[0].name, "a") && str_equal_c(v[0].value, "b=c"));
    CHECK_OK(prompt_variable_parse("a_1=", &v[1], &e), &e);
    CHECK_INT(v[1].value.len, 0);
    CHECK_ERROR(prompt_variable_parse("ab", &v[0], &e), &e, ERROR_USAGE, "'ab'");
    CHECK_ERROR(prompt_variable_parse("=b", &v[0], &e), &e, ERROR_USAGE, "'=b'");
    CHECK_ERROR(prompt_variable_parse("1a=b", &v[0], &e), &e, ERROR_USAGE, "'1a=b'");
    CHECK_OK(prompt_variable_parse("document=x", &v[0], &e), &e);
    CHECK_ERROR(prompt_template_new(&t, "t", str_of("{{document}}"), v, 1, &e), &e, ERROR_USAGE,
                "'document'");
    v[0] = v[1] = tone;
    CHECK_ERROR(prompt_template_new(&t, "t", str_of("{{tone}}"), v, 2, &e), &e, ERROR_USAGE,
                "'tone': given twice");
}

TEST(template_tells_whether_it_shows_the_document)
{
    static const char *const texts[] = {"{{filename}}", "{{{{document}}", "x{{document}}"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct prompt_template *t = NULL;
        struct error e;
        CHECK_OK(prompt_template_new(&t, "t", str_of(texts[i]), NULL, 0, &e), &e);
        CHECK_INT(prompt_template_uses_document(t), i == 2);
        prompt_template_free(t);
    }
}

TEST(template_survives_every_failing_allocation)
{
    int rc = -1;
    for (long k = 1; rc < 0; k++) {
        struct prompt_template *t = NULL;
        struct error e;
        struct buf out;
        buf_init(&out, 4096);
        mem_fail_after(k);
        rc = prompt_template_new(&t, "t",
                                 str_of("{{tone}}1{{document}}2{{document}}3{{document}}4"
                                        "{{document}}5{{document}}"),
                                 &tone, 1, &e);
        if (rc == 0)
            rc = prompt_template_render(t, str_of("d"), str_of("f"), &out, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        buf_release(&out);
        prompt_template_free(t);
        CHECK(k < 100);
    }
}
