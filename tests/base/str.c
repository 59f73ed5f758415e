#include "base/str.h"

#include "tests/test.h"

/* Well-formed and not, from RFC 3629 and the Unicode standard's table 3-7. */
static const struct utf8_case {
    const char *text;
    long bad_at; /* -1: well-formed */
} utf8_cases[] = {
    {"", -1},
    {"plain", -1},
    {"\x7f", -1},
    {"\xc2\x80", -1},
    {"\xdf\xbf", -1},
    {"\xe0\xa0\x80", -1},
    {"\xed\x9f\xbf", -1},
    {"\xee\x80\x80", -1},
    {"\xef\xbf\xbf", -1},
    {"\xf0\x90\x80\x80", -1},
    {"\xf4\x8f\xbf\xbf", -1},
    {"a\xe2\x82\xac\xf0\x9f\x98\x80z", -1},
    {"\x80", 0}, /* a continuation alone */
    {"ab\xbf", 2},
    {"\xc0\x80", 0}, /* overlong NUL */
    {"\xc1\xbf", 0},
    {"\xe0\x9f\xbf", 0},     /* overlong */
    {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
    {"\xed\xa0\x80", 0},     /* surrogate */
    {"\xed\xbf\xbf", 0},
    {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
    {"\xf5\x80\x80\x80", 0},
    {"\xff", 0},
    {"x\xc2", 1}, /* cut */
    {"x\xe2\x82", 1},
    {"x\xf0\x9f\x98", 1},
    {"\xe2\x28\xa1", 0},     /* bad second byte */
    {"\xe2\x82\x28", 0},     /* bad third byte */
    {"\xf0\x9f\x98\x28", 0}, /* bad fourth byte */
};

TEST(str_tells_utf8_from_not)
{
    for (size_t i = 0; i < ARRAY_LEN(utf8_cases); i++) {
        size_t at = 999;
        bool valid = str_utf8_valid(str_of(utf8_cases[i].text), &at);
        CHECK_INT(valid, utf8_cases[i].bad_at < 0);
        CHECK_INT(at, utf8_cases[i].bad_at < 0 ? 999 : utf8_cases[i].bad_at);
    }
    CHECK(!str_utf8_valid(str_of("\xff"), NULL));
}

TEST(str_never_ends_inside_a_character)
{
    static const struct {
        const char *text;
        size_t whole;
    } cases[] = {
        {"", 0},
        {"abc", 3},
        {"ab\xc3", 2},
        {"ab\xc3\xa9", 4},
        {"\xe2", 0},
        {"a\xe2\x82", 1},
        {"a\xe2\x82\xac", 4},
        {"a\xf0\x9f\x98", 1},
        {"a\xf0\x9f\x98\x80", 5},
        {"a\xff", 2},             /* invalid for ever: nothing to wait for */
        {"a\x80\x80\x80\x80", 5}, /* the same */
        {"\xe0\x80", 2},          /* overlong: no byte can mend it */
        {"\xed\xa0", 2},          /* half a surrogate */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_INT(str_utf8_whole(str_of(cases[i].text)), cases[i].whole);
}

TEST(str_decodes_what_it_encodes)
{
    for (uint32_t rune = 0; rune <= 0x10FFFF; rune++) {
        if (rune == 0xD800)
            rune = 0xE000;
        char text[4];
        size_t n = str_utf8_put(rune, text);
        uint32_t back = 0;
        CHECK_INT(str_utf8_next(str_slice(text, n), &back), n);
        CHECK_INT(back, rune);
        CHECK(str_utf8_valid(str_slice(text, n), NULL));
        CHECK_INT(str_utf8_whole(str_slice(text, n - 1)), 0);
    }
}

TEST(str_replaces_what_is_no_character)
{
    uint32_t rune;
    CHECK_INT(str_utf8_next(str_of("\xff\x80"), &rune), 1);
    CHECK_INT(rune, 0xFFFD);
    CHECK_INT(str_utf8_next(str_of("\xe2\x82"), &rune), 1);
    CHECK_INT(rune, 0xFFFD);
    char text[4];
    CHECK_INT(str_utf8_put(0xD800, text), 3);
    CHECK(memcmp(text, "\xef\xbf\xbd", 3) == 0);
    CHECK_INT(str_utf8_put(0x110000, text), 3);
}

TEST(str_parses_sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"1K", 1024},
        {"512M", 512ull << 20},
        {"92G", 92ull << 30},
        {"92g", 92ull << 30},
        {"1.5T", 3ull << 39},
        {"0.25G", 256ull << 20},
        {"7.0", 7},
        {"18446744073709551614", UINT64_MAX - 1},
        {"16777215T", 16777215ull << 40},
    };
    static const char *const bad[] = {"",    "G",     "-1",   "+1",        " 1",
                                      "1 ",  "1.",    ".5G",  "1.5",       "1GB",
                                      "1GG", "1X",    "0x10", "1e3",       "1.5.5G",
                                      "nan", "92G\n", "1.G",  "16777216T", "18446744073709551615"};
    struct error e = {0};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        uint64_t bytes = 1;
        CHECK_OK(str_parse_size(good[i].text, &bytes, &e), &e);
        CHECK_INT(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        uint64_t bytes = 77;
        error_clear(&e);
        CHECK_ERROR(str_parse_size(bad[i], &bytes, &e), &e, ERROR_USAGE, bad[i]);
        CHECK_INT(bytes, 77);
    }
}

TEST(str_parses_numbers)
{
    struct error e = {0};
    int64_t n = 5;
    CHECK_OK(str_parse_int("-12", -20, 20, &n, &e), &e);
    CHECK_INT(n, -12);
    CHECK_OK(str_parse_int("9223372036854775807", 0, INT64_MAX, &n, &e), &e);
    CHECK_INT(n, INT64_MAX);
    static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "1x", "0x1", "1.0", "--1"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERROR(str_parse_int(bad[i], -9, 9, &n, &e), &e, ERROR_USAGE, "is not a number");
    CHECK_ERROR(str_parse_int("21", -20, 20, &n, &e), &e, ERROR_USAGE, "21 is not between -20");
    CHECK_ERROR(str_parse_int("9223372036854775808", 0, INT64_MAX, &n, &e), &e, ERROR_USAGE,
                "between");
    CHECK_INT(n, INT64_MAX);

    double x = 1;
    CHECK_OK(str_parse_double("0.75", 0, 1, &x, &e), &e);
    CHECK(x == 0.75);
    CHECK_OK(str_parse_double("-1e-3", -1, 1, &x, &e), &e);
    CHECK(x == -1e-3);
    static const char *const bad_real[] = {"", " 1", "1 ", "inf", "nan", "0x1p3", "1e", "1,5"};
    for (size_t i = 0; i < ARRAY_LEN(bad_real); i++)
        CHECK_ERROR(str_parse_double(bad_real[i], -9, 9, &x, &e), &e, ERROR_USAGE,
                    "is not a number");
    CHECK_ERROR(str_parse_double("1e999", 0, 2, &x, &e), &e, ERROR_USAGE, "between");
    CHECK(x == -1e-3);
}

TEST(str_takes_words_off_a_list)
{
    char word[4];
    const char *list = "ab,,xyz,1234,5";
    static const char *const words[] = {"ab", "", "xyz", "123", "5"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        CHECK(list != NULL);
        CHECK(str_take_word(&list, word, sizeof(word)) == (i != 3));
        CHECK_STR(word, words[i]);
    }
    CHECK(list == NULL);
    list = "a,";
    CHECK(str_take_word(&list, word, sizeof(word)) && str_take_word(&list, word, sizeof(word)));
    CHECK(word[0] == '\0' && list == NULL);
}

TEST(str_formats_sizes_and_durations)
{
    char text[24];
    CHECK_STR(str_format_size(0, text), "0 B");
    CHECK_STR(str_format_size(1023, text), "1023 B");
    CHECK_STR(str_format_size(1536, text), "1.5 KiB");
    CHECK_STR(str_format_size(1048575, text), "1.0 MiB");
    CHECK_STR(str_format_size(92ull << 30, text), "92.0 GiB");
    CHECK_STR(str_format_size(UINT64_MAX, text), "16.0 EiB");
    CHECK_STR(str_format_duration(0, text), "0s");
    CHECK_STR(str_format_duration(59, text), "59s");
    CHECK_STR(str_format_duration(60, text), "1m 00s");
    CHECK_STR(str_format_duration(3723, text), "1h 02m 03s");
    CHECK_STR(str_format_duration(-61, text), "-1m 01s");
    CHECK_STR(str_format_duration(360000, text), "100h 00m 00s");
    CHECK(strlen(str_format_duration(INT64_MIN, text)) < sizeof(text));
}
