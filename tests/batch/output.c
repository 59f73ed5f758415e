/* What is printed for programs. */
#include "batch/output.h"

#include "tests/test.h"

static void check_printed(const char *json, bool pretty, const char *want)
{
    struct error e = {0};
    struct output out;
    output_init(&out, -1, true);
    CHECK_OK(output_json(&out, cJSON_Parse(json), pretty, &e), &e);
    struct str got = buf_str(&out.text);
    if (got.len != strlen(want) || memcmp(got.ptr, want, got.len) != 0)
        test_fail(__FILE__, __LINE__, "%s became %.*s", json, (int)got.len, got.ptr);
    output_release(&out);
}

TEST(output_json_keeps_every_digit_of_a_whole_number)
{
    check_printed("{\"seed\":4873698995984899,\"in\":[{\"max\":9007199254740991}]}", false,
                  "{\"seed\":4873698995984899,\"in\":[{\"max\":9007199254740991}]}\n");
    check_printed("[-4873698995984899,999999999999999,0.1,1e300]", false,
                  "[-4873698995984899,999999999999999,0.1,1e+300]\n");
    check_printed("4873698995984899", true, "4873698995984899\n");
}

TEST(output_json_without_a_value_is_out_of_memory)
{
    struct error e = {0};
    struct output out;
    output_init(&out, -1, true);
    CHECK_INT(output_json(&out, NULL, false, &e), -ERROR_NOMEM);
    output_release(&out);
}

static void check_text(bool terminal, const char *want)
{
    struct output out;
    output_init(&out, -1, true);
    out.terminal = terminal;
    output_text(&out, str_of("a\tb\n\x1b[31m\r\x7f \xc2\x9b \xc2\xa0 \xc3\xa9"));
    struct str got = buf_str(&out.text);
    if (got.len != strlen(want) || memcmp(got.ptr, want, got.len) != 0)
        test_fail(__FILE__, __LINE__, "%.*s, want %s", (int)got.len, got.ptr, want);
    output_release(&out);
}

TEST(output_text_gives_a_terminal_nothing_to_obey)
{
    check_text(true, "a\tb\n?[31m?? ?? \xc2\xa0 \xc3\xa9");
    check_text(false, "a\tb\n\x1b[31m\r\x7f \xc2\x9b \xc2\xa0 \xc3\xa9");
}
