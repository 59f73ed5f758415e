/* Rules about the vocabulary that hold whoever reads it: parallel arrays, ids that exist. */
#include <inttypes.h>
#include <string.h>

#include "engine/gguf/internal.h"

static int check_parallel(const struct gguf *g, const char *key, uint64_t n_tokens, struct error *e)
{
    struct gguf_value v;
    if (!gguf_find(g, key, &v)) /* scores and types may be missing */
        return 0;
    if (v.type != GGUF_ARRAY || v.count != n_tokens)
        return error_set(e, ERROR_FORMAT,
                         "%s: key '%s' has %" PRIu64
                         " entries, 'tokenizer.ggml.tokens' has %" PRIu64,
                         gguf_shard_path(g, 0), key, v.count, n_tokens);
    return 0;
}

static bool names_token_id(struct str key)
{
    static const char prefix[] = "tokenizer.ggml.";
    static const char suffix[] = "_token_id";
    size_t prefix_len = sizeof(prefix) - 1;
    size_t suffix_len = sizeof(suffix) - 1;
    return key.len > prefix_len + suffix_len && memcmp(key.ptr, prefix, prefix_len) == 0 &&
           memcmp(key.ptr + key.len - suffix_len, suffix, suffix_len) == 0;
}

/* All ones is how converters write "none". */
static int check_token_id(const struct gguf *g, struct str key, const struct gguf_value *v,
                          uint64_t n_tokens, struct error *e)
{
    int64_t id = gguf_array_int(v, 0);
    bool none = id == -1 || (v->type == GGUF_U32 && id == UINT32_MAX);
    if (none || (id >= 0 && (uint64_t)id < n_tokens))
        return 0;
    char shown[GGUF_SHOWN_BYTES];
    return error_set(e, ERROR_FORMAT, "%s: key '%s' is %" PRId64 ", the vocabulary has %" PRIu64,
                     gguf_shard_path(g, 0), gguf_show(key, shown), id, n_tokens);
}

int gguf_vocabulary_check(const struct gguf *g, struct error *e)
{
    struct gguf_value tokens;
    if (!gguf_find(g, "tokenizer.ggml.tokens", &tokens) || tokens.type != GGUF_ARRAY)
        return 0;
    int rc = check_parallel(g, "tokenizer.ggml.scores", tokens.count, e);
    if (rc == 0)
        rc = check_parallel(g, "tokenizer.ggml.token_type", tokens.count, e);
    for (size_t i = 0; rc == 0 && i < gguf_n_keys(g); i++) {
        struct gguf_value v;
        struct str key = gguf_key(g, i, &v);
        if (names_token_id(key))
            rc = check_token_id(g, key, &v, tokens.count, e);
    }
    return rc;
}
