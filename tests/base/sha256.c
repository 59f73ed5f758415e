#include "base/sha256.h"

#include "tests/test.h"

static const char *digest_of(const char *bytes, size_t n, size_t step, char out[65])
{
    struct sha256 h;
    uint8_t digest[32];
    sha256_init(&h);
    for (size_t i = 0; i < n; i += step)
        sha256_add(&h, bytes + i, n - i < step ? n - i : step);
    sha256_end(&h, digest);
    sha256_hex(digest, out);
    return out;
}

/* The examples of FIPS 180-4. */
TEST(sha256_gives_the_standards_digests)
{
    char hex[65];
    CHECK_STR(digest_of("", 0, 1, hex),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_STR(digest_of("abc", 3, 3, hex),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    for (size_t step = 1; step < 60; step++)
        CHECK_STR(digest_of(two, strlen(two), step, hex),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(sha256_fields_do_not_run_together)
{
    uint8_t first[32];
    uint8_t second[32];
    struct sha256 h;
    sha256_init(&h);
    sha256_add_field(&h, "ab", 2);
    sha256_add_field(&h, "c", 1);
    sha256_end(&h, first);
    sha256_init(&h);
    sha256_add_field(&h, "a", 1);
    sha256_add_field(&h, "bc", 2);
    sha256_end(&h, second);
    CHECK(memcmp(first, second, 32) != 0);
}
