#include "tests/engine/tokenizer_kit.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/file.h"
#include "engine/gguf/write.h"
#include "engine/tokenizer/bytemap.h"
#include "tests/test.h"

struct tokenizer *kit_tokenizer(const char *path)
{
    struct error e = {0};
    struct gguf *g;
    struct tokenizer *t;
    CHECK_OK(gguf_open(&g, path, &e), &e);
    int rc = tokenizer_new(&t, g, &e);
    gguf_close(g);
    CHECK_OK(rc, &e);
    return t;
}

struct tokenizer *kit_golden_tokenizer(const char *name)
{
    char file[128];
    char path[4096];
    snprintf(file, sizeof file, "tok/%s", name);
    if (!test_golden(file, path))
        SKIP("no golden %s", file);
    return kit_tokenizer(path);
}

const char *const kit_kimi_k3[] = {"<|end_of_msg|>", "<|open|>", "<|close|>", "<|sep|>", NULL};

struct tokenizer *kit_byte_tokenizer(const char *const *specials)
{
    enum { BYTES = 256, MOST = 16 };
    static const char path[] = "bytes.gguf";
    struct error e = {0};
    struct gguf_writer *w;
    struct str token[BYTES + MOST];
    int32_t type[BYTES + MOST];
    char text[BYTES][4];
    size_t n = BYTES;
    for (size_t i = 0; i < BYTES; i++) {
        token[i] = str_slice(text[i], str_utf8_put(bytemap_rune((uint8_t)i), text[i]));
        type[i] = 1;
    }
    for (; specials[n - BYTES]; n++) {
        token[n] = str_of(specials[n - BYTES]);
        type[n] = 3;
    }
    CHECK_OK(gguf_writer_new(&w, path, 0, &e), &e);
    gguf_put_str(w, "general.architecture", str_of("llama"));
    gguf_put_str(w, "tokenizer.ggml.model", str_of("gpt2"));
    gguf_put_str(w, "tokenizer.ggml.pre", str_of("kimi-k2"));
    gguf_put_strs(w, "tokenizer.ggml.tokens", token, n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", type, n);
    gguf_put_u32(w, "tokenizer.ggml.eos_token_id", BYTES);
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);
    return kit_tokenizer(path);
}

bool kit_vocabulary(const char *file, char path[4096])
{
    const char *home = getenv("HOME");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *folder = getenv("NOCTURNE_VOCABS");
    if (folder) {
        snprintf(path, 4096, "%s/%s", folder, file);
        return access(path, R_OK) == 0;
    }
    snprintf(path, 4096, "%s/.cache/llama-peer/src/llama.cpp/models/%s", home ? home : "", file);
    if (access(path, R_OK) == 0)
        return true;
    snprintf(path, 4096, "%s%s/nocturne/%s",
             cache  ? cache
             : home ? home
                    : "",
             cache ? "" : "/.cache", file);
    return access(path, R_OK) == 0;
}

cJSON *kit_json(const char *path)
{
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    CHECK(fseek(f, 0, SEEK_END) == 0);
    long size = ftell(f);
    CHECK(size >= 0);
    rewind(f);
    char *text = mem_alloc((size_t)size + 1);
    CHECK(text != NULL);
    CHECK(fread(text, 1, (size_t)size, f) == (size_t)size);
    fclose(f);
    text[size] = '\0';
    cJSON *json = cJSON_Parse(text);
    mem_free(text);
    CHECK(json != NULL);
    return json;
}

void kit_check_ids(const struct tokenizer *t, struct str text, unsigned flags, const cJSON *want)
{
    struct error e = {0};
    struct tokens got = {0};
    CHECK_OK(tokenizer_encode(t, text, flags, &got, &e), &e);
    size_t i = 0;
    const cJSON *id;
    cJSON_ArrayForEach(id, want)
    {
        int is = i < got.n ? got.ids[i] : -1;
        if (is != id->valueint)
            test_fail(__FILE__, __LINE__, "\"%.*s\": token %zu is %d, want %d", (int)text.len,
                      text.ptr, i, is, id->valueint);
        i++;
    }
    if (got.n != i)
        test_fail(__FILE__, __LINE__, "\"%.*s\": %zu tokens, want %zu", (int)text.len, text.ptr,
                  got.n, i);
    tokens_release(&got);
}

void kit_decode(const struct tokenizer *t, const struct tokens *ids, bool special, struct buf *out)
{
    struct error e = {0};
    struct detokenizer d;
    detokenizer_init(&d, t, special);
    for (size_t i = 0; i < ids->n; i++)
        CHECK_OK(detokenizer_push(&d, ids->ids[i], out, &e), &e);
    CHECK_OK(detokenizer_finish(&d, out, &e), &e);
}
