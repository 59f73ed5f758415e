#include "tests/engine/tokenizer_kit.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
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
