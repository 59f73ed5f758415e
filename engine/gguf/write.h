/*
 * Writes GGUF v3 files, whole or split into shards: for test models and converters.
 *
 * Use: writer_new, keys, tensors (declared in file order), writer_begin, then the bytes of each tensor
 * in the declared order, writer_end. Nothing is buffered beyond the header: any size.
 * The key general.alignment, if put, is obeyed in the file that carries it: the first.
 *
 * Stays true: a file appears under its name only when it is whole. One thread.
 */
#ifndef ENGINE_GGUF_WRITE_H
#define ENGINE_GGUF_WRITE_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/gguf/gguf.h"
#include "engine/quant/quant.h"

struct gguf_writer;

/* max_tensors_per_shard 0: one file at `path`; else prefix-00001-of-0000N.gguf beside it. */
int gguf_writer_new(struct gguf_writer **ret, const char *path, uint32_t max_tensors_per_shard,
                    struct error *e);
void gguf_writer_free(struct gguf_writer *w);

/* All keep the first error until writer_begin reports it. */
void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t v);
void gguf_put_i32(struct gguf_writer *w, const char *key, int32_t v);
void gguf_put_f32(struct gguf_writer *w, const char *key, float v);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool v);
void gguf_put_str(struct gguf_writer *w, const char *key, struct str v);
void gguf_put_u32s(struct gguf_writer *w, const char *key, const uint32_t *v, size_t n);
void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *v, size_t n);
void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *v, size_t n);
void gguf_put_strs(struct gguf_writer *w, const char *key, const struct str *v, size_t n);
/* A value as it was read from another file. */
void gguf_put_value(struct gguf_writer *w, struct str key, const struct gguf_value *v);
void gguf_put_tensor(struct gguf_writer *w, const char *name, const struct quant *q,
                     uint32_t n_dims, const uint64_t *ne);

int gguf_writer_begin(struct gguf_writer *w, struct error *e);
/* The next n bytes of tensor data; padding and the change of shard happen by themselves. */
int gguf_writer_data(struct gguf_writer *w, const void *bytes, size_t n, struct error *e);
/* The next n bytes as a hole, which reads as zeros and takes no room on the disk. */
int gguf_writer_hole(struct gguf_writer *w, uint64_t n, struct error *e);
int gguf_writer_end(struct gguf_writer *w, struct error *e); /* refuses when bytes are missing */

#endif
