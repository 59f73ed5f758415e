#include "base/buf.h"

#include <stdint.h>

#include "base/alloc.h"
#include "tests/test.h"

TEST(buf_appends_up_to_its_ceiling)
{
    struct buf b;
    struct error e = {0};
    buf_init(&b, 10);
    CHECK_INT(buf_append_c(&b, "12345"), 0);
    CHECK_INT(buf_append_str(&b, str_of("67890")), 0);
    CHECK_INT(buf_append(&b, NULL, 0), 0);
    CHECK_OK(buf_check(&b, "line", &e), &e);
    CHECK_STR(b.ptr, "1234567890");
    CHECK_INT(buf_append_c(&b, "x"), -ERROR_INVALID);
    CHECK_STR(b.ptr, "1234567890");
    CHECK_ERROR(buf_check(&b, "line", &e), &e, ERROR_INVALID, "line: 11 bytes, limit 10");
    CHECK(b.cap <= 11);
    buf_release(&b);
}

TEST(buf_remembers_its_failure)
{
    struct buf b;
    buf_init(&b, 4);
    CHECK_INT(buf_append_c(&b, "12345"), -ERROR_INVALID);
    CHECK_INT(buf_append_c(&b, "1"),
              -ERROR_INVALID); /* would fit, but the text would have a hole */
    CHECK_INT(buf_printf(&b, "%d", 1), -ERROR_INVALID);
    CHECK_INT(b.len, 0);
    buf_clear(&b);
    CHECK_INT(buf_append_c(&b, "1234"), 0);
    CHECK_STR(b.ptr, "1234");
    buf_clear(&b);
    CHECK_STR(b.ptr, "");
    buf_release(&b);
}

TEST(buf_survives_sizes_near_the_end)
{
    struct buf b;
    struct error e = {0};
    buf_init(&b, SIZE_MAX);
    CHECK_INT(buf_append_c(&b, "ab"), 0);
    CHECK(buf_append(&b, "x", SIZE_MAX - 1) < 0);
    CHECK(buf_check(&b, "line", &e) < 0);
    CHECK_STR(b.ptr, "ab");
    buf_release(&b);
}

TEST(buf_prints_and_hands_over)
{
    struct buf b;
    buf_init(&b, 100000);
    CHECK(buf_take(&b) == NULL);
    for (int i = 0; i < 1000; i++)
        CHECK_INT(buf_printf(&b, "%04d ", i), 0);
    CHECK_INT(buf_str(&b).len, 5000);
    char *text = buf_take(&b);
    CHECK(memcmp(text + 4995, "0999 ", 6) == 0);
    mem_free(text);
    CHECK_INT(b.len, 0);
    CHECK_INT(b.max, 100000);
    CHECK_INT(buf_append_c(&b, "again"), 0);
    buf_clear(&b);
    CHECK(buf_take(&b) == NULL);
}

static int fill(struct buf *b)
{
    for (int i = 0; i < 200; i++)
        buf_printf(b, "line %d\n", i);
    return buf_check(b, "page", NULL);
}

TEST(buf_keeps_its_content_when_memory_ends)
{
    int rc = -1;
    long k = 1;
    for (; rc != 0; k++) {
        struct buf b;
        buf_init(&b, 1 << 20);
        mem_fail_after(k);
        rc = fill(&b);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        if (b.len > 0)
            CHECK(b.ptr[b.len] == '\0' && b.ptr[b.len - 1] == '\n');
        buf_release(&b);
    }
    CHECK(k > 3);
}
