#include "batch/piece.h"

#include "tests/test.h"

static void make(struct buf *out)
{
    struct error e = {0};
    const int32_t first[] = {7, 0, 2000000}, second[] = {5};
    buf_init(out, 4096);
    CHECK_OK(piece_put(out, str_of("one "), first, 3, &e), &e);
    CHECK_OK(piece_put(out, str_of(""), second, 1, &e), &e);
    CHECK_OK(piece_put(out, str_of("two"), second, 1, &e), &e);
}

TEST(piece_gives_back_what_was_put)
{
    struct error e = {0};
    struct buf bytes, tokens, text;
    make(&bytes);
    buf_init(&tokens, 4096);
    buf_init(&text, 4096);
    CHECK_OK(piece_read(buf_str(&bytes), &tokens, &text, &e), &e);
    const int32_t want[] = {7, 0, 2000000, 5, 5};
    CHECK_INT(tokens.len, sizeof(want));
    CHECK(memcmp(tokens.ptr, want, sizeof(want)) == 0);
    CHECK_STR(text.ptr, "one two");
    CHECK_OK(piece_read(str_slice(NULL, 0), &tokens, &text, &e), &e);
    buf_release(&bytes);
    buf_release(&tokens);
    buf_release(&text);
}

/* Cut anywhere but between two pieces, it is refused; no byte outside is read (address sanitizer). */
TEST(piece_refuses_torn_progress)
{
    struct buf bytes;
    make(&bytes);
    size_t n_whole = 0;
    for (size_t n = 1; n < bytes.len; n++) {
        struct error e = {0};
        struct buf tokens;
        buf_init(&tokens, 4096);
        char *exact = malloc(n);
        memcpy(exact, bytes.ptr, n);
        int rc = piece_read(str_slice(exact, n), &tokens, NULL, &e);
        CHECK(rc == 0 || rc == -ERROR_FORMAT);
        n_whole += rc == 0;
        free(exact);
        buf_release(&tokens);
    }
    CHECK_INT(n_whole, 2);
    buf_release(&bytes);
}

TEST(piece_refuses_lengths_beyond_its_end)
{
    struct error e = {0};
    struct buf tokens;
    buf_init(&tokens, 4096);
    static const char long_text[] = "\xff\xff\xff\xff\0\0\0\0";
    static const char long_chunk[] = "\0\0\0\0\xff\xff\xff\xff";
    CHECK_ERROR(piece_read(str_slice(long_text, 8), &tokens, NULL, &e), &e, ERROR_FORMAT, "torn");
    CHECK_ERROR(piece_read(str_slice(long_chunk, 8), &tokens, NULL, &e), &e, ERROR_FORMAT, "torn");
    buf_release(&tokens);
}
