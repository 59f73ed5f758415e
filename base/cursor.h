/*
 * Reads untrusted bytes: bounds checked, first error sticks, position kept for the message.
 *
 * Stays true: never reads outside [start, end); after an error every read gives 0 and moves nothing.
 * All integers little-endian.
 */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct cursor {
    const uint8_t *start;
    size_t len;
    size_t pos;
    bool failed;
    size_t failed_at; /* position of the read that failed */
    size_t wanted;    /* bytes that read wanted */
};

void cursor_init(struct cursor *c, const void *bytes, size_t len);
size_t cursor_left(const struct cursor *c);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
float cursor_f32(struct cursor *c);
double cursor_f64(struct cursor *c);
struct str cursor_bytes(struct cursor *c, uint64_t n);
void cursor_skip(struct cursor *c, uint64_t n);

#endif
