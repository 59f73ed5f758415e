#include "tests/engine/gguf_kit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

struct kit_tensor {
    const char *name, *quant;
    uint32_t n_dims;
    uint64_t ne[4];
};

static const struct kit_tensor kit_tensors[] = {
    {"alpha", "F32", 2, {8, 2, 1, 1}},
    {"alphb", "Q8_0", 3, {64, 3, 2, 1}},
    {"gamma", "F32", 1, {4, 1, 1, 1}},
};

void kit_put(struct gguf_writer *w)
{
    const struct str tokens[] = {str_of("a"), str_of("b"), str_of("ab")};
    const float scores[] = {0.0f, -1.0f, -2.0f};
    const int32_t kinds[] = {1, 1, 3};
    gguf_put_str(w, "general.architecture", str_of("llama"));
    gguf_put_u32(w, "general.alignment", 32);
    gguf_put_u32(w, "x.one", 7);
    gguf_put_u32(w, "x.onf", 8);
    gguf_put_bool(w, "x.flag", true);
    gguf_put_u32s(w, "x.list", (const uint32_t[]){1, 2, 3, 4}, 4);
    gguf_put_f32s(w, "tokenizer.ggml.scorez", scores, 2);
    gguf_put_strs(w, "tokenizer.ggml.tokens", tokens, 3);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", kinds, 3);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", 2);
    for (size_t i = 0; i < ARRAY_LEN(kit_tensors); i++) {
        const struct kit_tensor *t = &kit_tensors[i];
        gguf_put_tensor(w, t->name, quant_by_name(t->quant), t->n_dims, t->ne);
    }
}

void kit_data(struct gguf_writer *w, const struct quant *q, uint64_t elems)
{
    struct error e = {0};
    size_t bytes = quant_row_bytes(q, elems);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)i;
        CHECK_OK(gguf_writer_data(w, &byte, 1, &e), &e);
    }
}

void kit_write(const char *path, uint32_t max_tensors_per_shard)
{
    struct error e = {0};
    struct gguf_writer *w = NULL;
    CHECK_OK(gguf_writer_new(&w, path, max_tensors_per_shard, &e), &e);
    kit_put(w);
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(kit_tensors); i++) {
        const uint64_t *ne = kit_tensors[i].ne;
        kit_data(w, quant_by_name(kit_tensors[i].quant), ne[0] * ne[1] * ne[2] * ne[3]);
    }
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);
}

struct buf kit_load(const char *path)
{
    struct error e = {0};
    struct buf file;
    buf_init(&file, 1 << 20);
    CHECK_OK(file_read_all(path, 1 << 20, &file, &e), &e);
    return file;
}

void kit_save(const char *path, const void *bytes, size_t n)
{
    struct error e = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_OK(file_write_fd(fd, bytes, n, path, &e), &e);
    close(fd);
}

size_t kit_find(const struct buf *file, const char *text, int nth)
{
    size_t from = 0;
    for (;;) {
        const char *at = memmem(file->ptr + from, file->len - from, text, strlen(text));
        if (!at)
            test_fail(__FILE__, __LINE__, "'%s' does not stand in the file", text);
        from = (size_t)(at - file->ptr) + strlen(text);
        if (nth-- == 0)
            return from;
    }
}

void kit_set(struct buf *file, size_t at, size_t n_bytes, uint64_t value)
{
    CHECK(at + n_bytes <= file->len);
    for (size_t i = 0; i < n_bytes; i++)
        file->ptr[at + i] = (char)(value >> (8 * i));
}

int kit_try(const char *path, struct error *e)
{
    struct gguf *g = NULL;
    int rc = gguf_open(&g, path, e);
    CHECK((rc == 0) == (g != NULL)); /* untouched on failure */
    gguf_close(g);
    return rc;
}
