#include "base/cursor.h"

#include "tests/test.h"

static const unsigned char sample[] = {
    0x01, 0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 0xef, 0xcd, 0xab,
    0x89, 0x67, 0x45, 0x23, 0x01, 0x00, 0x00, 0xc0, 0x3f, /* 1.5f */
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xf8, 0xbf,       /* -1.5 */
    'n',  'o',  'c'};

TEST(cursor_reads_little_endian)
{
    struct cursor c;
    cursor_init(&c, sample, sizeof(sample));
    CHECK_INT(cursor_u8(&c), 0x01);
    CHECK_INT(cursor_u16(&c), 0x1234);
    CHECK_INT(cursor_u32(&c), 0x12345678);
    CHECK(cursor_u64(&c) == 0x0123456789abcdefull);
    CHECK(cursor_f32(&c) == 1.5f);
    CHECK(cursor_f64(&c) == -1.5);
    CHECK_INT(cursor_left(&c), 3);
    CHECK(str_equal_c(cursor_bytes(&c, 3), "noc"));
    CHECK(!c.failed);
    CHECK_INT(cursor_left(&c), 0);
}

/* Every width against every length that is too short; the bytes end at the end of an allocation. */
TEST(cursor_never_reads_outside)
{
    for (size_t len = 0; len < 8; len++) {
        char *bytes = malloc(len + (len == 0));
        memset(bytes, 0xff, len);
        struct cursor c;
        cursor_init(&c, bytes, len);
        CHECK_INT(cursor_u64(&c), 0);
        CHECK(c.failed);
        CHECK_INT(c.failed_at, 0);
        CHECK_INT(c.wanted, 8);
        CHECK_INT(c.pos, 0);
        if (len < 4) {
            cursor_init(&c, bytes, len);
            CHECK_INT(cursor_u32(&c), 0);
            CHECK(c.failed);
        }
        free(bytes);
    }
}

TEST(cursor_keeps_its_first_error)
{
    struct cursor c;
    cursor_init(&c, sample, 6);
    cursor_skip(&c, 4);
    CHECK_INT(cursor_u32(&c), 0);
    CHECK_INT(cursor_u8(&c), 0); /* there are two bytes left, but nothing is read any more */
    CHECK_INT(cursor_left(&c), 0);
    cursor_skip(&c, 100);
    CHECK(cursor_bytes(&c, 1).ptr == NULL);
    CHECK_INT(c.failed_at, 4);
    CHECK_INT(c.wanted, 4);
    CHECK_INT(c.pos, 4);
}

TEST(cursor_refuses_lengths_that_overflow)
{
    static const uint64_t huge[] = {7, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 1};
    for (size_t i = 0; i < ARRAY_LEN(huge); i++) {
        struct cursor c;
        cursor_init(&c, sample, 6);
        cursor_skip(&c, 2);
        CHECK_INT(cursor_bytes(&c, huge[i]).len, 0);
        CHECK(c.failed);
        cursor_init(&c, sample, 6);
        cursor_skip(&c, huge[i]);
        CHECK(c.failed);
        CHECK_INT(c.pos, 0);
    }
}
