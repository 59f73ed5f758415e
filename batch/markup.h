/*
 * Text inside HTML and SVG. Owns nothing; any thread.
 *
 * Stays true: whatever the bytes are, what is appended is well-formed text of an element and of a
 * quoted attribute: the five characters that mean something are written as entities, and what XML 1.0 has
 * no place for (control characters, broken UTF-8) becomes U+FFFD.
 */
#ifndef BATCH_MARKUP_H
#define BATCH_MARKUP_H

#include "base/buf.h"

int markup_text(struct buf *out, struct str text);

#endif
