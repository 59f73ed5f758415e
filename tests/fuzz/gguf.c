/* Any bytes as a model: refused, or everything that the directory offers can be read. */
#include "engine/gguf/gguf.h"

#include <stdio.h>

#include "tests/fuzz/fuzz.h"

static void read_value(const struct gguf *g, const char *key, const struct gguf_value *v)
{
    struct gguf_strings it;
    struct str text;
    uint64_t n = 0;
    if (gguf_strings_begin(g, key, &it, &n, NULL) == 0) {
        while (gguf_strings_next(&it, &text))
            demand(text.len <= v->n_bytes);
    }
    for (uint64_t i = 0; i < v->count && v->elem != GGUF_STRING; i += 1 + v->count / 64) {
        (void)gguf_array_int(v, i);
        (void)gguf_array_float(v, i);
    }
    uint32_t u;
    uint32_t layers[3];
    float f;
    bool flag;
    (void)gguf_u32(g, key, true, &u, NULL);
    (void)gguf_u32_layers(g, key, true, layers, 3, NULL);
    (void)gguf_f32(g, key, true, &f, NULL);
    (void)gguf_bool(g, key, true, &flag, NULL);
    (void)gguf_str(g, key, true, &text, NULL);
}

static void read_all(const struct gguf *g, size_t file_size)
{
    uint8_t digest[32];
    demand(gguf_total_bytes(g) == file_size);
    for (size_t i = 0; i < gguf_n_keys(g); i++) {
        struct gguf_value v;
        struct str name = gguf_key(g, i, &v);
        char key[256];
        snprintf(key, sizeof(key), "%.*s", (int)(name.len < 255 ? name.len : 255), name.ptr);
        read_value(g, key, &v);
    }
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        demand(t->offset <= file_size && t->bytes <= file_size - t->offset);
    }
    demand(gguf_fingerprint(g, digest, NULL) == 0);
}

FUZZ(gguf)
{
    char path[64];
    const int fd = fuzz_file(bytes, n, path);
    struct gguf *g = NULL;
    struct error e = {0};
    if (gguf_open(&g, path, &e) == 0)
        read_all(g, n);
    else
        demand(g == NULL && e.text[0] != '\0');
    gguf_close(g);
    close(fd);
}
