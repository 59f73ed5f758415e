#include "base/cursor.h"

#include <string.h>

void cursor_init(struct cursor *c, const void *bytes, size_t len)
{
    *c = (struct cursor){.start = bytes, .len = len};
}

size_t cursor_left(const struct cursor *c)
{
    return c->failed ? 0 : c->len - c->pos;
}

/* The next n bytes, or NULL after recording the failure. */
static const uint8_t *cursor_take(struct cursor *c, uint64_t n)
{
    if (c->failed)
        return NULL;
    if (n > c->len - c->pos) {
        c->failed = true;
        c->failed_at = c->pos;
        c->wanted = n > SIZE_MAX ? SIZE_MAX : (size_t)n;
        return NULL;
    }
    const uint8_t *bytes = c->start + c->pos;
    c->pos += (size_t)n;
    return bytes;
}

static uint64_t cursor_integer(struct cursor *c, size_t n)
{
    const uint8_t *bytes = cursor_take(c, n);
    if (!bytes)
        return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

uint8_t cursor_u8(struct cursor *c)
{
    return (uint8_t)cursor_integer(c, 1);
}

uint16_t cursor_u16(struct cursor *c)
{
    return (uint16_t)cursor_integer(c, 2);
}

uint32_t cursor_u32(struct cursor *c)
{
    return (uint32_t)cursor_integer(c, 4);
}

uint64_t cursor_u64(struct cursor *c)
{
    return cursor_integer(c, 8);
}

float cursor_f32(struct cursor *c)
{
    uint32_t bits = cursor_u32(c);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

double cursor_f64(struct cursor *c)
{
    uint64_t bits = cursor_u64(c);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

struct str cursor_bytes(struct cursor *c, uint64_t n)
{
    const uint8_t *bytes = cursor_take(c, n);
    return str_slice((const char *)bytes, bytes ? (size_t)n : 0);
}

void cursor_skip(struct cursor *c, uint64_t n)
{
    (void)cursor_take(c, n);
}
