/* SHA-256 (FIPS 180-4), over libmd's implementation. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
    uint64_t state[32]; /* opaque; large enough for libmd's SHA2_CTX (checked at compile time) */
};

void sha256_init(struct sha256 *h);
void sha256_add(struct sha256 *h, const void *bytes, size_t n);
/* Adds the length as 8 bytes, then the bytes: fields cannot run into each other. */
void sha256_add_field(struct sha256 *h, const void *bytes, size_t n);
void sha256_end(struct sha256 *h, uint8_t out[32]);
void sha256_hex(const uint8_t digest[32], char out[65]);

#endif
