/* What the writer wrote is what the reader reads; and what real writers wrote is read too. */
#include <dirent.h>
#include <inttypes.h>

#include "base/file.h"
#include "tests/engine/gguf_kit.h"

TEST(gguf_roundtrip_of_keys)
{
    struct error e = {0};
    struct gguf *g = NULL;
    struct gguf_writer *w = NULL;
    const struct str words[] = {str_of("one"), str_of(""), str_slice("\0\xff", 2)};
    CHECK_OK(gguf_writer_new(&w, "m.gguf", 0, &e), &e);
    gguf_put_u32(w, "u32", UINT32_MAX);
    gguf_put_i32(w, "i32", -5);
    gguf_put_f32(w, "f32", -0.125f);
    gguf_put_bool(w, "bool", false);
    gguf_put_str(w, "str", str_of("text"));
    gguf_put_u32s(w, "u32s", (const uint32_t[]){1, UINT32_MAX}, 2);
    gguf_put_i32s(w, "i32s", (const int32_t[]){-1, INT32_MIN}, 2);
    gguf_put_f32s(w, "f32s", (const float[]){0.5f, -2.0f}, 2);
    gguf_put_strs(w, "strs", words, 3);
    gguf_put_strs(w, "none", NULL, 0);
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);

    CHECK_OK(gguf_open(&g, "m.gguf", &e), &e);
    CHECK_INT(gguf_n_keys(g), 10);
    CHECK_INT(gguf_n_tensors(g), 0);
    uint32_t u = 0;
    float f = 0;
    bool flag = true;
    struct str text;
    struct gguf_value v;
    struct gguf_strings it;
    uint64_t n = 0;
    CHECK_OK(gguf_u32(g, "u32", true, &u, &e), &e);
    CHECK_OK(gguf_f32(g, "f32", true, &f, &e), &e);
    CHECK_OK(gguf_bool(g, "bool", true, &flag, &e), &e);
    CHECK_OK(gguf_str(g, "str", true, &text, &e), &e);
    CHECK(u == UINT32_MAX && f == -0.125f && !flag && str_equal_c(text, "text"));
    CHECK(gguf_find(g, "i32", &v) && v.type == GGUF_I32 && gguf_array_int(&v, 0) == -5);
    CHECK(gguf_find(g, "i32s", &v) && v.type == GGUF_ARRAY && v.elem == GGUF_I32 && v.count == 2);
    CHECK(gguf_array_int(&v, 0) == -1 && gguf_array_int(&v, 1) == INT32_MIN);
    CHECK(gguf_array_int(&v, 2) == 0); /* beyond the end */
    CHECK(gguf_find(g, "u32s", &v) && gguf_array_int(&v, 1) == UINT32_MAX);
    CHECK(gguf_find(g, "f32s", &v) && gguf_array_float(&v, 1) == -2.0);
    CHECK_OK(gguf_strings_begin(g, "strs", &it, &n, &e), &e);
    CHECK_INT(n, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK(gguf_strings_next(&it, &text) && str_equal(text, words[i]));
    CHECK(!gguf_strings_next(&it, &text));
    CHECK_OK(gguf_strings_begin(g, "none", &it, &n, &e), &e);
    CHECK(n == 0 && !gguf_strings_next(&it, &text));
    CHECK_ERROR(gguf_strings_begin(g, "nothing", &it, &n, &e), &e, ERROR_NOTFOUND, "'nothing'");
    CHECK(str_equal_c(gguf_key(g, 9, &v), "none") && v.count == 0);
    gguf_close(g);
}

/* Each tensor's bytes stand where its row says: kit_data's pattern starts anew with each. */
static void check_tensor(const struct gguf *g, const char *name, const char *quant, uint64_t bytes)
{
    struct error e = {0};
    struct file f;
    uint8_t data[512];
    const struct gguf_tensor *t = gguf_tensor_find(g, name);
    CHECK(t && t->quant == quant_by_name(quant));
    CHECK_INT(t->bytes, bytes);
    CHECK(bytes <= sizeof(data));
    CHECK_OK(file_open(&f, gguf_shard_path(g, t->shard), &e), &e);
    CHECK_OK(file_read_at(&f, data, (size_t)bytes, t->offset, &e), &e);
    for (size_t i = 0; i < bytes; i++)
        CHECK(data[i] == (uint8_t)i);
    file_close(&f);
}

TEST(gguf_roundtrip_of_tensors)
{
    struct error e = {0};
    for (uint32_t per_shard = 0; per_shard <= 3; per_shard++) {
        struct gguf *g = NULL;
        char first[64] = "t.gguf";
        size_t n_shards = per_shard ? (3 + per_shard - 1) / per_shard : 1;
        kit_write("t.gguf", per_shard);
        if (per_shard)
            snprintf(first, sizeof(first), "t-00001-of-%05zu.gguf", n_shards);
        CHECK_OK(gguf_open(&g, first, &e), &e);
        CHECK_INT(gguf_n_shards(g), n_shards);
        CHECK_INT(gguf_n_tensors(g), 3);
        check_tensor(g, "alpha", "F32", 64);
        check_tensor(g, "alphb", "Q8_0", 408);
        check_tensor(g, "gamma", "F32", 16);
        const struct gguf_tensor *t = gguf_tensor_at(g, 1);
        CHECK(str_equal_c(t->name, "alphb") && t->n_dims == 3);
        CHECK(t->ne[0] == 64 && t->ne[1] == 3 && t->ne[2] == 2 && t->ne[3] == 1);
        CHECK(!gguf_tensor_find(g, "delta"));
        uint64_t total = 0;
        for (size_t i = 0; i < n_shards; i++) {
            struct buf file = kit_load(gguf_shard_path(g, i));
            total += file.len;
            buf_release(&file);
        }
        CHECK_INT(gguf_total_bytes(g), total);
        gguf_close(g);
    }
}

/* Many names, and a header that takes several steps to read. */
TEST(gguf_large_header)
{
    enum { N_TENSORS = 3000, N_WORDS = 100000 };
    struct error e = {0};
    struct gguf *g = NULL;
    struct gguf_writer *w = NULL;
    static char texts[N_WORDS][16];
    static struct str words[N_WORDS];
    for (size_t i = 0; i < N_WORDS; i++)
        words[i] = str_slice(texts[i], (size_t)snprintf(texts[i], 16, "word %zu", i));
    CHECK_OK(gguf_writer_new(&w, "large.gguf", 0, &e), &e);
    gguf_put_strs(w, "words", words, N_WORDS);
    for (int i = 0; i < N_TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "blk.%d.weight", i);
        gguf_put_tensor(w, name, quant_by_name("F32"), 1, (const uint64_t[]){1});
    }
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    for (int i = 0; i < N_TENSORS; i++)
        CHECK_OK(gguf_writer_data(w, &(const float){(float)i}, sizeof(float), &e), &e);
    CHECK_OK(gguf_writer_end(w, &e), &e);
    gguf_writer_free(w);

    CHECK_OK(gguf_open(&g, "large.gguf", &e), &e);
    CHECK_INT(gguf_n_tensors(g), N_TENSORS);
    for (int i = 0; i < N_TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "blk.%d.weight", i);
        CHECK(gguf_tensor_find(g, name) == gguf_tensor_at(g, (size_t)i));
    }
    struct gguf_strings it;
    struct str text;
    uint64_t n = 0;
    CHECK_OK(gguf_strings_begin(g, "words", &it, &n, &e), &e);
    for (size_t i = 0; i < N_WORDS; i++)
        CHECK(gguf_strings_next(&it, &text) && str_equal(text, words[i]));
    /* The header alone; no slack is kept. */
    CHECK(gguf_memory_bytes(g) < gguf_total_bytes(g) + N_TENSORS * 256u);
    gguf_close(g);
}

TEST(gguf_writer_refuses)
{
    static const struct {
        const char *name, *quant;
        uint32_t n_dims;
        uint64_t ne[2];
        const char *want;
    } cases[] = {
        {"", "F32", 1, {1, 0}, "name of 0 bytes"},
        {"a234567890123456789012345678901234567890123456789012345678901234",
         "F32",
         1,
         {1, 0},
         "name of 64 bytes, want 1 to 63"},
        {"t", "F32", 0, {1, 0}, "tensor 't': 0 dimensions"},
        {"t", "F32", 5, {1, 0}, "tensor 't': 5 dimensions"},
        {"t", "F32", 2, {1, 0}, "tensor 't': dimension 1 is 0"},
        {"t", "Q4_K", 1, {255, 0}, "tensor 't': 255 columns, a block of Q4_K has 256"},
        {"t", "F32", 2, {1ull << 40, 1ull << 40}, "tensor 't': dimension 1 is 1099511627776"},
    };
    struct error e = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct gguf_writer *w = NULL;
        CHECK_OK(gguf_writer_new(&w, "w.gguf", 0, &e), &e);
        gguf_put_tensor(w, cases[i].name, quant_by_name(cases[i].quant), cases[i].n_dims,
                        cases[i].ne);
        CHECK_ERROR(gguf_writer_begin(w, &e), &e, ERROR_INVALID, cases[i].want);
        gguf_writer_free(w);
    }
    struct gguf_writer *w = NULL;
    CHECK_OK(gguf_writer_new(&w, "w.gguf", 0, &e), &e);
    gguf_put_tensor(w, "t", quant_by_name("F32"), 1, (const uint64_t[]){2});
    CHECK_OK(gguf_writer_begin(w, &e), &e);
    CHECK_OK(gguf_writer_data(w, "1234", 4, &e), &e);
    CHECK_ERROR(gguf_writer_end(w, &e), &e, ERROR_INVALID, "tensor 't': 4 of 8 bytes missing");
    CHECK_ERROR(gguf_writer_data(w, "56789", 5, &e), &e, ERROR_INVALID, "1 bytes beyond the last");
    gguf_writer_free(w);
    CHECK_ERROR(kit_try("w.gguf", &e), &e, ERROR_NOTFOUND, "w.gguf"); /* never shown by half */
}

TEST(gguf_fingerprint_tells_models_apart)
{
    struct error e = {0};
    struct gguf *g = NULL;
    uint8_t digest[6][32];
    kit_write("valid.gguf", 0);
    struct buf file = kit_load("valid.gguf");
    size_t name = kit_find(&file, "llama", 0) - 1;
    size_t data = file.len - 32; /* gamma */
    for (int i = 0; i < 5; i++) {
        char old[2] = {file.ptr[name], file.ptr[data]};
        if (i == 2)
            file.ptr[name] = 'o';
        if (i == 3)
            file.ptr[data] ^= 1;
        kit_save("f.gguf", file.ptr, file.len - (i == 4));
        CHECK_OK(gguf_open(&g, "f.gguf", &e), &e);
        CHECK_OK(gguf_fingerprint(g, digest[i], &e), &e);
        gguf_close(g);
        file.ptr[name] = old[0];
        file.ptr[data] = old[1];
    }
    CHECK(memcmp(digest[0], digest[1], 32) == 0);
    for (int i = 1; i < 5; i++) {
        for (int k = i + 1; k < 5; k++)
            CHECK(memcmp(digest[i], digest[k], 32) != 0);
    }
    buf_release(&file);
}

/* Opens every GGUF file of a folder of the goldens; returns how many. */
static size_t open_folder(const char *name)
{
    struct error e = {0};
    char path[4096];
    char file[8192];
    size_t n = 0;
    if (!test_golden(name, path))
        return 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct gguf *g = NULL;
        uint8_t digest[32];
        size_t len = strlen(entry->d_name);
        if (len < 5 || strcmp(entry->d_name + len - 5, ".gguf") != 0)
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        CHECK_OK(gguf_open(&g, file, &e), &e);
        CHECK_OK(gguf_fingerprint(g, digest, &e), &e);
        CHECK(gguf_n_keys(g) > 0);
        gguf_close(g);
        n++;
    }
    closedir(dir);
    return n;
}

TEST(gguf_reads_every_golden)
{
    size_t n_models = open_folder("models");
    size_t n_vocabularies = open_folder("tok");
    if (n_models + n_vocabularies == 0)
        SKIP("no golden files here");
    CHECK(n_models > 0 && n_vocabularies > 0);
    test_note("%zu models, %zu vocabularies", n_models, n_vocabularies);
}
