/*
 * The byte alphabet of GPT-2: every byte as a printable character.
 *
 * Bytes 33-126, 161-172 and 174-255 stand for themselves (as code points); the other 68, in order,
 * are U+0100 and on. Vocabularies of byte-level BPE are written in these characters.
 */
#ifndef ENGINE_TOKENIZER_BYTEMAP_H
#define ENGINE_TOKENIZER_BYTEMAP_H

#include <stdint.h>

static inline uint32_t bytemap_rune(uint8_t byte)
{
    if (byte <= 32)
        return 0x100u + byte;
    if (byte >= 127 && byte <= 160)
        return 0x100u + 33u + (byte - 127u);
    return byte == 173 ? 0x100u + 67u : byte;
}

/* The byte that a character stands for; -1: none. */
static inline int bytemap_byte(uint32_t rune)
{
    if (rune < 0x100u)
        return bytemap_rune((uint8_t)rune) == rune ? (int)rune : -1;
    if (rune <= 0x100u + 32u)
        return (int)(rune - 0x100u);
    if (rune < 0x100u + 67u)
        return (int)(rune - 0x100u - 33u + 127u);
    return rune == 0x100u + 67u ? 173 : -1;
}

#endif
