/* What the tests of tokenizer and chat share: opening, comparing ids, golden files. */
#ifndef TESTS_ENGINE_TOKENIZER_KIT_H
#define TESTS_ENGINE_TOKENIZER_KIT_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

/* The tokenizer of a file; fails the test when it cannot be opened. */
struct tokenizer *kit_tokenizer(const char *path);
/* Of golden tok/NAME; skips the test when the golden set is not here. */
struct tokenizer *kit_golden_tokenizer(const char *name);
/*
 * A file of llama.cpp's source package (models/) or the demo model: in $NOCTURNE_VOCABS, else where
 * the scripts that fetch them put them. False when it is not on this machine.
 */
bool kit_vocabulary(const char *file, char path[4096]);

cJSON *kit_json(const char *path);
/*
 * A byte-level vocabulary made here: id b is byte b, from 256 on the control tokens listed (NULL after
 * the last). No merges: every other text is spelled.
 */
struct tokenizer *kit_byte_tokenizer(const char *const *specials);
extern const char *const kit_kimi_k3[]; /* <|end_of_msg|> ends a generation */

/* Encodes and compares with a JSON array of ids; says which text differs and where. */
void kit_check_ids(const struct tokenizer *t, struct str text, unsigned flags, const cJSON *want);
/* Decodes ids, the special ones written out if asked; the caller frees buf. */
void kit_decode(const struct tokenizer *t, const struct tokens *ids, bool special, struct buf *out);

#endif
