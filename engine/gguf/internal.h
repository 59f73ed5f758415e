/*
 * What the files of engine/gguf share: the directory's structures and the limits they keep.
 *
 * A shard's header is read whole and kept; keys, values and names are slices of it. Tensors of all
 * shards stand in one array, shard after shard, in file order.
 */
#ifndef ENGINE_GGUF_INTERNAL_H
#define ENGINE_GGUF_INTERNAL_H

#include "engine/gguf/gguf.h"
#include "engine/gguf/names.h"

/* Far above what any model has; below them a file's own size is the limit. */
#define GGUF_HEADER_BYTES_MAX (1ull << 30)
#define GGUF_STRING_BYTES_MAX (1ull << 30)
#define GGUF_KEY_BYTES_MAX 65535u
#define GGUF_ARRAY_COUNT_MAX (1ull << 30)
#define GGUF_KEYS_MAX (1u << 16)
#define GGUF_TENSORS_MAX (1u << 20)
#define GGUF_NAME_BYTES_MAX 63u
#define GGUF_DIMS_MAX 4u
#define GGUF_ALIGNMENT_DEFAULT 32u

struct gguf_kv {
    struct str name;
    struct gguf_value value;
};

struct gguf_shard {
    struct file file;
    uint8_t *header; /* from the first byte to the last tensor row */
    size_t header_bytes;
    struct gguf_kv *keys;
    size_t n_keys, keys_cap;
    struct names key_index;
    struct gguf_tensor *tensors; /* moved into struct gguf once all shards are read */
    size_t n_tensors, tensors_cap;
    uint64_t alignment;
    uint64_t data_start;
};

struct gguf {
    struct gguf_shard *shards;
    size_t n_shards;
    struct gguf_tensor *tensors;
    size_t n_tensors;
    struct names tensor_index;
};

/* Reads and checks the header of an opened shard; tensors get `number` as their shard. */
int gguf_header_read(struct gguf_shard *s, uint32_t number, struct error *e);

bool gguf_shard_find(const struct gguf_shard *s, const char *key, struct gguf_value *ret_value);
/* As gguf_u32, from this shard's own keys. */
int gguf_shard_u32(const struct gguf_shard *s, const char *key, bool required, uint32_t *ret,
                   struct error *e);

/* Rules about the vocabulary's arrays and ids (engine-spec 1.2, rules 11 and 12). */
int gguf_vocabulary_check(const struct gguf *g, struct error *e);

/* Bytes of one element of a value of that type; 0: strings and arrays, which vary. */
size_t gguf_type_bytes(enum gguf_type type);
const char *gguf_type_name(enum gguf_type type);

/* Block of any ggml type that a file may hold, decodable or not; false: removed, or never was. */
struct gguf_layout {
    uint32_t block_elems;
    uint32_t block_bytes;
};
bool gguf_layout_of(uint32_t ggml_id, struct gguf_layout *ret);
/* Bytes of the tensor in its file, also where t->bytes is 0 because there is no decoder. */
uint64_t gguf_tensor_disk_bytes(const struct gguf_tensor *t);

/* The text with everything but printable ASCII as '?', cut to fit; for messages. Returns out. */
#define GGUF_SHOWN_BYTES 96
const char *gguf_show(struct str text, char out[GGUF_SHOWN_BYTES]);

#endif
