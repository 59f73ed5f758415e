#include "engine/tokenizer/vocab.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "engine/gguf/gguf.h"

enum known_kind { KNOWN_END, KNOWN_PAD, KNOWN_REPO, KNOWN_FILE, KNOWN_MARKER, KNOWN_KINDS };

struct known {
    const char *text;
    enum known_kind kind;
};

static const struct known known[] = {
#define KNOWN(text, kind) {text, KNOWN_##kind},
#include "engine/tokenizer/known.def"
#undef KNOWN
};

/* Keys whose token ends a generation; a kind that a key names is not searched for by text. */
static const struct {
    const char *key;
    enum known_kind kind;
} end_keys[] = {
    {"tokenizer.ggml.eos_token_id", KNOWN_END},
    {"tokenizer.ggml.eot_token_id", KNOWN_END},
    {"tokenizer.ggml.eom_token_id", KNOWN_END},
    {"tokenizer.ggml.fim_pad_token_id", KNOWN_PAD},
    {"tokenizer.ggml.fim_rep_token_id", KNOWN_REPO},
    {"tokenizer.ggml.fim_sep_token_id", KNOWN_FILE},
};

_Static_assert(ARRAY_LEN(known) + ARRAY_LEN(end_keys) <= VOCAB_END_MAX, "room for every end");

static int load_texts(struct vocab *v, const struct gguf *g, struct error *e)
{
    struct gguf_strings it;
    struct gguf_value raw;
    uint64_t n;
    int rc = gguf_strings_begin(g, "tokenizer.ggml.tokens", &it, &n, e);
    if (rc == -ERROR_NOTFOUND)
        return error_set(e, ERROR_FORMAT, "the model has no vocabulary ('tokenizer.ggml.tokens')");
    if (rc < 0)
        return rc;
    if (n == 0 || n > INT32_MAX || !gguf_find(g, "tokenizer.ggml.tokens", &raw))
        return error_set(e, ERROR_FORMAT, "vocabulary: %" PRIu64 " tokens, want 1 to %d", n,
                         INT32_MAX);
    rc = texts_reserve(&v->texts, (size_t)n, raw.n_bytes, e);
    for (struct str text; rc == 0 && gguf_strings_next(&it, &text);) {
        v->longest = MAX_OF(v->longest, text.len);
        rc = texts_add(&v->texts, text, e);
    }
    v->n = (int32_t)v->texts.n;
    return rc;
}

/* An array that runs beside the tokens; *ret_found false when the file has none. */
static int find_parallel(const struct vocab *v, const struct gguf *g, const char *key,
                         struct gguf_value *value, bool *ret_found, struct error *e)
{
    *ret_found = gguf_find(g, key, value);
    if (!*ret_found)
        return 0;
    if (value->type != GGUF_ARRAY || value->elem == GGUF_STRING || value->elem == GGUF_ARRAY)
        return error_set(e, ERROR_FORMAT, "key '%s' is not an array of numbers", key);
    if (value->count != (uint64_t)v->n)
        return error_set(e, ERROR_FORMAT, "key '%s' has %" PRIu64 " entries for %d tokens", key,
                         value->count, v->n);
    return 0;
}

static int load_types(struct vocab *v, const struct gguf *g, struct error *e)
{
    struct gguf_value value;
    bool found;
    int rc = find_parallel(v, g, "tokenizer.ggml.token_type", &value, &found, e);
    if (rc < 0)
        return rc;
    v->type = mem_alloc((size_t)v->n);
    if (!v->type)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %d token types", v->n);
    for (int32_t id = 0; id < v->n; id++) {
        int64_t type = found ? gguf_array_int(&value, (uint64_t)id) : TOKEN_NORMAL;
        if (type < 0 || type >= TOKEN_TYPES)
            return error_set(e, ERROR_FORMAT, "token %d has type %" PRId64 ", the last is %d", id,
                             type, TOKEN_TYPES - 1);
        v->type[id] = (uint8_t)type;
    }
    return 0;
}

static int load_scores(struct vocab *v, const struct gguf *g, struct error *e)
{
    struct gguf_value value;
    bool found;
    int rc = find_parallel(v, g, "tokenizer.ggml.scores", &value, &found, e);
    if (rc < 0)
        return rc;
    if (!found)
        return error_set(e, ERROR_FORMAT, "key 'tokenizer.ggml.scores' is missing");
    v->score = mem_array((size_t)v->n, sizeof *v->score);
    if (!v->score)
        return error_set(e, ERROR_NOMEM, "vocabulary: no memory for %d scores", v->n);
    for (int32_t id = 0; id < v->n; id++) {
        v->score[id] = (float)gguf_array_float(&value, (uint64_t)id);
        if (v->score[id] != v->score[id])
            return error_set(e, ERROR_FORMAT, "the score of token %d is not a number", id);
    }
    return 0;
}

/* A key that names a token. Missing, or all ones as some converters write "none": -1. */
static int load_id(const struct vocab *v, const struct gguf *g, const char *key, int32_t *ret,
                   struct error *e)
{
    struct gguf_value value;
    *ret = -1;
    if (!gguf_find(g, key, &value))
        return 0;
    bool number = value.type <= GGUF_I32 || value.type == GGUF_U64 || value.type == GGUF_I64;
    if (!number)
        return error_set(e, ERROR_FORMAT, "key '%s' is not a number", key);
    int64_t id = gguf_array_int(&value, 0);
    if (id == -1 || id == UINT32_MAX)
        return 0;
    if (id < 0 || id >= v->n)
        return error_set(e, ERROR_FORMAT, "key '%s' is %" PRId64 ", the vocabulary has %d tokens",
                         key, id, v->n);
    *ret = (int32_t)id;
    return 0;
}

static void add_end(struct vocab *v, int32_t id)
{
    if (id >= 0 && !vocab_is_end(v, id))
        v->end[v->n_end++] = id;
}

static int load_meanings(struct vocab *v, const struct gguf *g, struct error *e)
{
    bool settled[KNOWN_KINDS] = {false};
    int32_t id;
    for (size_t i = 0; i < ARRAY_LEN(end_keys); i++) {
        int rc = load_id(v, g, end_keys[i].key, &id, e);
        if (rc < 0)
            return rc;
        add_end(v, id);
        settled[end_keys[i].kind] = settled[end_keys[i].kind] || id >= 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        enum known_kind kind = known[i].kind;
        bool every = kind == KNOWN_END || kind == KNOWN_MARKER;
        id = vocab_find(v, str_of(known[i].text));
        if (id < 0 || (settled[kind] && !every))
            continue;
        v->type[id] = TOKEN_CONTROL;
        settled[kind] = true;
        if (kind != KNOWN_MARKER)
            add_end(v, id);
    }
    return 0;
}

int vocab_load(struct vocab *v, const struct gguf *g, bool scores, bool add_bos, struct error *e)
{
    v->add_bos = add_bos;
    int rc = load_texts(v, g, e);
    if (rc == 0)
        rc = load_types(v, g, e);
    if (rc == 0 && scores)
        rc = load_scores(v, g, e);
    if (rc == 0)
        rc = load_id(v, g, "tokenizer.ggml.bos_token_id", &v->bos, e);
    if (rc == 0)
        rc = load_id(v, g, "tokenizer.ggml.eos_token_id", &v->eos, e);
    if (rc == 0)
        rc = load_id(v, g, "tokenizer.ggml.unknown_token_id", &v->unknown, e);
    if (rc == 0)
        rc = load_meanings(v, g, e);
    if (rc == 0)
        rc = gguf_bool(g, "tokenizer.ggml.add_bos_token", false, &v->add_bos, e);
    if (rc == 0 && v->add_bos && v->bos < 0)
        rc = error_set(e, ERROR_FORMAT, "the vocabulary wants a BOS token first and names none");
    return rc;
}

void vocab_release(struct vocab *v)
{
    texts_release(&v->texts);
    mem_free(v->type);
    mem_free(v->score);
    *v = (struct vocab){0};
}

int32_t vocab_find(const struct vocab *v, struct str text)
{
    int32_t id = texts_find(&v->texts, text);
    return id < v->n ? id : -1;
}

bool vocab_is_end(const struct vocab *v, int32_t id)
{
    for (int i = 0; i < v->n_end; i++) {
        if (v->end[i] == id)
            return true;
    }
    return false;
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

int vocab_byte_of(struct str text)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>')
        return -1;
    int high = hex_digit(text.ptr[3]);
    int low = hex_digit(text.ptr[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}
