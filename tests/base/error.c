#include "base/error.h"

#include <errno.h>
#include <limits.h>

#include "tests/test.h"

TEST(error_has_a_row_for_every_code)
{
    for (int code = 1; code < ERROR_COUNT; code++) {
        const struct error_info *row = error_describe(code);
        CHECK(row->name && row->name[0] && row->text && row->text[0]);
        CHECK(row == error_describe(-code));
        CHECK(row->exit_status > 1 && row->exit_status < 256);
        CHECK(row->http_status >= 400 && row->http_status < 600);
    }
    CHECK_STR(error_describe(ERROR_CONTEXT)->name, "CONTEXT");
    CHECK_INT(error_describe(ERROR_CONTEXT)->fault, ERROR_FAULT_JOB);
}

TEST(error_describes_unknown_codes_as_io)
{
    static const int strange[] = {0, ERROR_COUNT, -(int)ERROR_COUNT, 9999, INT_MAX, INT_MIN};
    for (size_t i = 0; i < ARRAY_LEN(strange); i++)
        CHECK_STR(error_describe(strange[i])->name, "IO");
}

TEST(error_keeps_sentence_and_code)
{
    struct error e = {0};
    CHECK_INT(error_set(&e, ERROR_FORMAT, "tensor '%s': %d", "a", 3), -ERROR_FORMAT);
    CHECK_INT(error_wrap(&e, "shard %d", 2), -ERROR_FORMAT);
    CHECK_STR(e.text, "shard 2: tensor 'a': 3");
    /* The old sentence may be an argument of the new one. */
    CHECK_INT(error_set(&e, ERROR_IO, "again: %s", e.text), -ERROR_IO);
    CHECK_STR(e.text, "again: shard 2: tensor 'a': 3");
    error_clear(&e);
    CHECK_INT(e.code, 0);
    CHECK_STR(e.text, "");
    CHECK_INT(error_set(NULL, ERROR_BUSY, "x"), -ERROR_BUSY);
    CHECK_INT(error_sys(NULL, ERROR_IO, ENOSPC, "x"), -ERROR_FULL);
    CHECK_INT(error_wrap(NULL, "x"), -ERROR_IO);
}

TEST(error_names_the_systems_reason)
{
    struct error e = {0};
    CHECK_ERROR(error_sys(&e, ERROR_IO, EACCES, "/x"), &e, ERROR_IO, "/x: Permission denied");
    CHECK_INT(e.sys, EACCES);
    CHECK_ERROR(error_sys(&e, ERROR_IO, EDQUOT, "/x"), &e, ERROR_FULL, "/x: ");
    CHECK_ERROR(error_sys(&e, ERROR_BUSY, ENOSPC, "/x"), &e, ERROR_BUSY, "/x: ");
}

TEST(error_cuts_what_does_not_fit)
{
    struct error e = {0};
    char longer[2 * sizeof(e.text)];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    error_set(&e, ERROR_IO, "%s", longer);
    CHECK_INT(strlen(e.text), sizeof(e.text) - 1);
    error_sys(&e, ERROR_IO, EIO, "%s", longer);
    CHECK_INT(strlen(e.text), sizeof(e.text) - 1);
    error_wrap(&e, "front");
    CHECK_INT(strlen(e.text), sizeof(e.text) - 1);
    CHECK(strncmp(e.text, "front: xxx", 10) == 0);
}
