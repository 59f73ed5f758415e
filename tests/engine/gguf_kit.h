/*
 * Small GGUF files for tests: one valid model, its bytes, and ways to spoil and open them.
 *
 * Everything happens in the test's own folder. Helpers end the test themselves when they fail.
 */
#ifndef TESTS_ENGINE_GGUF_KIT_H
#define TESTS_ENGINE_GGUF_KIT_H

#include <stdint.h>

#include "base/buf.h"
#include "engine/gguf/gguf.h"
#include "engine/gguf/write.h"
#include "tests/test.h"

/* Keys and tensors of the model that kit_write writes; the tests spoil them by name. */
void kit_put(struct gguf_writer *w);
/* Each tensor's data is bytes 0, 1, 2 ... from its first. */
void kit_data(struct gguf_writer *w, const struct quant *q, uint64_t elems);
/* max_tensors_per_shard as in gguf_writer_new. */
void kit_write(const char *path, uint32_t max_tensors_per_shard);

/* The file's bytes, to be changed in place. */
struct buf kit_load(const char *path);
void kit_save(const char *path, const void *bytes, size_t n);
/* Position after the nth (from 0) place where the text stands. */
size_t kit_find(const struct buf *file, const char *text, int nth);
void kit_set(struct buf *file, size_t at, size_t n_bytes, uint64_t value);

/* Opens and closes; the error of gguf_open. */
int kit_try(const char *path, struct error *e);

#endif
