#include "base/sha256.h"

#include <sha2.h>
#include <stdalign.h>

_Static_assert(sizeof(SHA2_CTX) <= sizeof(struct sha256), "struct sha256 is too small");
_Static_assert(alignof(SHA2_CTX) <= alignof(struct sha256), "struct sha256 is not aligned enough");

/* -fno-strict-aliasing is on; the struct's words are never touched as anything but a SHA2_CTX. */
static SHA2_CTX *context_of(struct sha256 *h)
{
    return (SHA2_CTX *)(void *)h->state;
}

void sha256_init(struct sha256 *h)
{
    SHA256Init(context_of(h));
}

void sha256_add(struct sha256 *h, const void *bytes, size_t n)
{
    if (n > 0)
        SHA256Update(context_of(h), bytes, n);
}

void sha256_add_field(struct sha256 *h, const void *bytes, size_t n)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)n >> (8 * i));
    sha256_add(h, length, sizeof(length));
    sha256_add(h, bytes, n);
}

void sha256_end(struct sha256 *h, uint8_t out[32])
{
    SHA256Final(out, context_of(h));
}

void sha256_hex(const uint8_t digest[32], char out[65])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[64] = '\0';
}
