/*
 * The directory of a model: keys and tensor rows of a GGUF file (v2, v3) and all its split files.
 *
 * Owns: one open descriptor a shard, the key/value text, the tensor table. Never reads or maps tensor
 * bytes itself: it says which file and offset they are at. Immutable after gguf_open; any thread.
 *
 * Stays true: a file that breaks a rule of the format (engine-spec 1.2; each has a test) is refused
 * with the object's name and both figures; no count from the file is believed before the remaining
 * bytes can hold it; every tensor lies inside its file. Format: ggml docs/gguf.md.
 */
#ifndef ENGINE_GGUF_GGUF_H
#define ENGINE_GGUF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "engine/quant/quant.h"

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPES
};

struct gguf_value {
    enum gguf_type type;
    enum gguf_type elem; /* of an array */
    uint64_t count;      /* elements of an array, 1 otherwise */
    const uint8_t
        *bytes; /* little-endian payload inside the header (strings: u64 length + bytes each) */
    size_t n_bytes;
};

struct gguf_tensor {
    struct str name;
    const struct quant
        *quant; /* NULL: a known ggml type that is not supported here (see ggml_id) */
    uint32_t ggml_id;
    uint32_t n_dims;
    uint64_t ne[4]; /* ne[0] contiguous; 1 beyond n_dims */
    uint32_t shard;
    uint64_t offset; /* in the shard's file */
    uint64_t bytes;  /* 0 when quant is NULL */
};

struct gguf;

int gguf_open(struct gguf **ret, const char *path, struct error *e);
void gguf_close(struct gguf *g);

size_t gguf_n_keys(const struct gguf *g);
/* The i-th key of the first shard, in file order. */
struct str gguf_key(const struct gguf *g, size_t i, struct gguf_value *ret_value);
bool gguf_find(const struct gguf *g, const char *key, struct gguf_value *ret_value);

/*
 * Typed reads. `required` and missing: ERROR_FORMAT naming the key. Missing and not required: *ret is
 * untouched (set the default before). A value of another integer width is converted when it fits,
 * any other type is an error.
 */
int gguf_u32(const struct gguf *g, const char *key, bool required, uint32_t *ret, struct error *e);
int gguf_f32(const struct gguf *g, const char *key, bool required, float *ret, struct error *e);
int gguf_bool(const struct gguf *g, const char *key, bool required, bool *ret, struct error *e);
int gguf_str(const struct gguf *g, const char *key, bool required, struct str *ret,
             struct error *e);
/* A scalar is broadcast; an array must have exactly n entries. out [n]. */
int gguf_u32_layers(const struct gguf *g, const char *key, bool required, uint32_t *out, size_t n,
                    struct error *e);
/* Arrays of strings: a walk with next; the i-th of a numeric array. */
struct gguf_strings {
    const uint8_t *at, *end;
    uint64_t left;
};
int gguf_strings_begin(const struct gguf *g, const char *key, struct gguf_strings *it,
                       uint64_t *ret_n,
                       struct error *e); /* ERROR_NOTFOUND when the key is missing */
bool gguf_strings_next(struct gguf_strings *it, struct str *ret);
int64_t gguf_array_int(const struct gguf_value *v, uint64_t i);
double gguf_array_float(const struct gguf_value *v, uint64_t i);

size_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);

size_t gguf_n_shards(const struct gguf *g);
const char *gguf_shard_path(const struct gguf *g, size_t shard);
/* Whether `opened` is the shard that the directory was read from, unchanged: else ERROR_IO. */
int gguf_shard_same(const struct gguf *g, size_t shard, const struct file *opened, struct error *e);
/* Whether nothing has written to any shard since: else ERROR_IO. A file moved over one is another. */
int gguf_unchanged(const struct gguf *g, struct error *e);
int64_t gguf_shard_written_ns(const struct gguf *g, size_t shard);
uint64_t gguf_total_bytes(const struct gguf *g); /* of all shards' files */
/* Bytes of memory this directory holds (the plan's process term). */
size_t gguf_memory_bytes(const struct gguf *g);
/* SHA-256 over headers, sizes and the first 4 KiB of every tensor. */
int gguf_fingerprint(const struct gguf *g, uint8_t out[32], struct error *e);

#endif
