/* Token ids as people write them: "1,15043,3186" for --tokens. */
#ifndef BATCH_TOKEN_IDS_H
#define BATCH_TOKEN_IDS_H

#include "base/buf.h"
#include "base/error.h"

#define TOKEN_IDS_MAX_BYTES (64u << 20)

/* Appended to ids as int32_t; ERROR_USAGE names what is none. */
int token_ids_parse(const char *text, struct buf *ids, struct error *e);

#endif
