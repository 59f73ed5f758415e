/*
 * Compiler attributes and the few macros that everything uses.
 *
 * Stays true: nothing here changes which function a name means, and nothing needs another header.
 */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#define ATTR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define ATTR_MUST_USE __attribute__((warn_unused_result))
#define ATTR_UNUSED __attribute__((unused))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))

/* Rounds up to a multiple of a power of two. */
#define ALIGN_UP(n, align) (((n) + ((align)-1)) & ~((__typeof__(n))(align)-1))

#endif
