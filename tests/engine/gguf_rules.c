/*
 * Every rule of the container (engine-spec 1.2), broken once: a valid file in which one number was
 * changed is refused, with the object's name and what is wrong; unchanged it opens.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/engine/gguf_kit.h"

/* `n` bytes become `value`, `skip` bytes after the end of the text `after` (NULL: from the start). */
struct mutation {
    const char *after;
    long skip;
    size_t n;
    uint64_t value;
    const char *object, *reason;
};

static void expect_refusal(const struct mutation *m, const struct buf *valid)
{
    struct error e = {0};
    struct buf file;
    buf_init(&file, valid->len);
    CHECK(buf_append(&file, valid->ptr, valid->len) == 0);
    size_t at = m->after ? kit_find(valid, m->after, 0) : 0;
    kit_set(&file, (size_t)((long)at + m->skip), m->n, m->value);
    CHECK(memcmp(file.ptr, valid->ptr, valid->len) != 0);
    kit_save("broken.gguf", file.ptr, file.len);
    int rc = kit_try("broken.gguf", &e);
    if (rc != -ERROR_FORMAT || !strstr(e.text, m->object) || !strstr(e.text, m->reason) ||
        !strstr(e.text, "broken.gguf"))
        test_fail(__FILE__, __LINE__, "%s%+ld = %" PRIu64 ": %d: \"%s\", want \"%s\" and \"%s\"",
                  m->after ? m->after : "start", m->skip, m->value, rc, e.text, m->object,
                  m->reason);
    buf_release(&file);
}

static void expect_refusals(const struct mutation *m, size_t n)
{
    struct error e = {0};
    kit_write("valid.gguf", 0);
    struct buf valid = kit_load("valid.gguf");
    for (size_t i = 0; i < n; i++)
        expect_refusal(&m[i], &valid);
    CHECK_OK(kit_try("valid.gguf", &e), &e); /* the control */
    buf_release(&valid);
}

/* The same, but the changed file has to open. */
static void expect_accepted(const char *after, long skip, size_t n, uint64_t value)
{
    struct error e = {0};
    kit_write("valid.gguf", 0);
    struct buf file = kit_load("valid.gguf");
    kit_set(&file, (size_t)((long)(after ? kit_find(&file, after, 0) : 0) + skip), n, value);
    kit_save("changed.gguf", file.ptr, file.len);
    CHECK_OK(kit_try("changed.gguf", &e), &e);
    buf_release(&file);
}

/* Rule 1. */
TEST(gguf_magic_and_version)
{
    static const struct mutation m[] = {
        {NULL, 0, 1, 'g', "header", "starts with 'gGUF', want 'GGUF'"},
        {NULL, 4, 4, 0, "header", "version 0, want 2 or 3"},
        {NULL, 4, 4, 1, "header", "version 1, want 2 or 3"},
        {NULL, 4, 4, 4, "header", "version 4, want 2 or 3"},
        {NULL, 4, 4, 0x03000000, "header", "version 0x03000000: a big-endian file"},
    };
    expect_refusals(m, ARRAY_LEN(m));
    expect_accepted(NULL, 4, 4, 2);
}

TEST(gguf_counts_are_not_believed)
{
    static const struct mutation m[] = {
        {NULL, 8, 8, UINT64_MAX, "header", "-1 tensors of at least 25 bytes"},
        {NULL, 8, 8, 1ull << 60, "header", "1152921504606846976 tensors of at least 25 bytes"},
        {NULL, 16, 8, UINT64_MAX, "header", "-1 keys of at least 14 bytes"},
        {NULL, 16, 8, 1ull << 60, "header", "1152921504606846976 keys of at least 14 bytes"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rule 2. Before a key's or tensor's name stand the 8 bytes of its length. */
TEST(gguf_strings)
{
    static const struct mutation m[] = {
        {"general.architecture", 4, 8, 1ull << 60, "key 'general.architecture'",
         "string of 1152921504606846976 bytes, limit 1073741824"},
        {"general.architecture", 4, 8, (1ull << 30) + 1, "key 'general.architecture'",
         "string of 1073741825 bytes, limit 1073741824"},
        {"general.architecture", 4, 8, 1ull << 30, "key 'general.architecture'",
         "1073741824 bytes wanted at offset"},
        {"tokenizer.ggml.tokens", 16, 8, 9999, "key 'tokenizer.ggml.tokens'",
         "9999 bytes wanted at offset"},
        {"x.one", -13, 8, 65536, "key 2", "name of 65536 bytes, limit 65535"},
        {"x.one", -13, 8, 0, "key 2", "name of 0 bytes, want at least 1"},
        {"x.onf", -1, 1, 'e', "key 'x.one'", "stands in the file twice, again as number 3"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rule 3. After a key's name stand u32 type; of an array, u32 element type and u64 count. */
TEST(gguf_value_types_and_arrays)
{
    static const struct mutation m[] = {
        {"x.one", 0, 4, 13, "key 'x.one'", "value of type 13, types are 0..12"},
        {"x.list", 0, 4, UINT32_MAX, "key 'x.list'", "value of type 4294967295"},
        {"x.list", 4, 4, 13, "key 'x.list'", "array of type 13"},
        {"x.list", 4, 4, 9, "key 'x.list'", "array of type 9"},
        {"x.list", 8, 8, 1ull << 60, "key 'x.list'",
         "array of 1152921504606846976 elements, limit 1073741824"},
        {"x.list", 8, 8, 1ull << 30, "key 'x.list'",
         "array of 1073741824 elements of at least 4 bytes, the file has"},
        {"tokenizer.ggml.tokens", 8, 8, 1ull << 60, "key 'tokenizer.ggml.tokens'",
         "array of 1152921504606846976 elements, limit 1073741824"},
        {"tokenizer.ggml.tokens", 8, 8, 1ull << 30, "key 'tokenizer.ggml.tokens'",
         "array of 1073741824 elements of at least 8 bytes, the file has"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rule 4: other bytes than 0 and 1 are true. */
TEST(gguf_bool_bytes)
{
    expect_accepted("x.flag", 4, 1, 2);
    struct error e = {0};
    struct gguf *g = NULL;
    bool flag = false;
    CHECK_OK(gguf_open(&g, "changed.gguf", &e), &e);
    CHECK_OK(gguf_bool(g, "x.flag", true, &flag, &e), &e);
    CHECK(flag);
    gguf_close(g);
}

/* Rule 5. */
TEST(gguf_alignment)
{
    static const struct mutation m[] = {
        {"general.alignment", 0, 4, GGUF_I32, "key 'general.alignment'", "type i32, want u32"},
        {"general.alignment", 4, 4, 0, "key 'general.alignment'", "0 is not a power of two"},
        {"general.alignment", 4, 4, 48, "key 'general.alignment'", "48 is not a power of two"},
    };
    expect_refusals(m, ARRAY_LEN(m));
    /* Without the key it is 32. */
    expect_accepted("general.alignmen", 0, 1, 'x');
}

/* Rule 6. After a tensor's name stand u32 n_dims, the dimensions, u32 type, u64 offset. */
TEST(gguf_tensor_names_and_shapes)
{
    static const struct mutation m[] = {
        {"alphb", -13, 8, 64, "tensor 1", "name of 64 bytes, limit 63"},
        {"alphb", -13, 8, 0, "tensor 1", "name of 0 bytes, want at least 1"},
        {"alphb", -1, 1, 'a', "tensor 'alpha'",
         "stands in the model twice, again as number 1 of 3"},
        {"alphb", 0, 4, 5, "tensor 'alphb'", "5 dimensions, limit 4"},
        {"alphb", 4, 8, 0, "tensor 'alphb'", "dimension 0 is 0, want at least 1"},
        {"alphb", 20, 8, 0, "tensor 'alphb'", "dimension 2 is 0, want at least 1"},
        {"alphb", 12, 8, UINT64_MAX, "tensor 'alphb'", "dimension 1 is -1, want at least 1"},
        {"alphb", 12, 8, 1ull << 60, "tensor 'alphb'",
         "64 x 1152921504606846976 elements, limit 9223372036854775807"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rule 7. */
TEST(gguf_tensor_types)
{
    static const uint32_t removed[] = {4, 5, 31, 32, 33, 36, 37, 38, 43, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(removed); i++) {
        struct mutation m = {"gamma",
                             12,
                             4,
                             removed[i],
                             "tensor 'gamma'",
                             "is unknown or was removed from the format"};
        expect_refusals(&m, 1);
    }
}

/* Rule 8. */
TEST(gguf_tensor_sizes)
{
    static const struct mutation m[] = {
        {"alphb", 4, 8, 65, "tensor 'alphb'",
         "65 columns are not a multiple of the 32 elements of a block of type 8"},
        {"gamma", 4, 8, 1ull << 62, "tensor 'gamma'",
         "4611686018427387904 blocks of 4 bytes, limit 9223372036854775807 bytes"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rule 9. alpha ends at 64, alphb (408 bytes) at 472, so gamma stands at 480. */
TEST(gguf_tensor_offsets)
{
    static const struct mutation m[] = {
        {"alphb", 32, 8, 65, "tensor 'alphb'", "offset 65 is not a multiple of the alignment, 32"},
        {"alphb", 32, 8, 96, "tensor 'alphb'", "offset 96, the tensors before it end at 64"},
        {"alphb", 32, 8, 32, "tensor 'alphb'", "offset 32, the tensors before it end at 64"},
        {"gamma", 16, 8, 0, "tensor 'gamma'", "offset 0, the tensors before it end at 480"},
        {"alpha", 24, 8, 32, "tensor 'alpha'", "offset 32, the tensors before it end at 0"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rule 10. The padding after the last tensor may be missing, its bytes may not. */
TEST(gguf_tensors_lie_inside_the_file)
{
    struct error e = {0};
    kit_write("valid.gguf", 0);
    struct buf file = kit_load("valid.gguf");
    size_t end = file.len - 16; /* gamma's 16 bytes are followed by as much padding */
    kit_save("cut.gguf", file.ptr, end);
    CHECK_OK(kit_try("cut.gguf", &e), &e);
    kit_save("cut.gguf", file.ptr, end - 1);
    char want[96];
    snprintf(want, sizeof(want), "tensor 'gamma': ends at byte %zu, the file has %zu", end,
             end - 1);
    CHECK_ERROR(kit_try("cut.gguf", &e), &e, ERROR_FORMAT, want);
    buf_release(&file);
    static const struct mutation m[] = {
        {"gamma", 4, 8, 1ull << 40, "tensor 'gamma'",
         "4398046511104 bytes at offset 480, the file"},
    };
    expect_refusals(m, ARRAY_LEN(m));
}

/* Rules 11 and 12, as far as they concern the container: ids and lengths of the vocabulary. */
TEST(gguf_vocabulary)
{
    static const struct mutation m[] = {
        {"tokenizer.ggml.bos_token_id", 4, 4, 3, "key 'tokenizer.ggml.bos_token_id'",
         "is 3, the vocabulary has 3"},
        {"tokenizer.ggml.scorez", -1, 1, 's', "key 'tokenizer.ggml.scores'",
         "has 2 entries, 'tokenizer.ggml.tokens' has 3"},
    };
    expect_refusals(m, ARRAY_LEN(m));
    expect_accepted("tokenizer.ggml.bos_token_id", 4, 4, UINT32_MAX); /* none */
}

/* Rule 11: a key of another type than the one asked for. */
TEST(gguf_typed_reads)
{
    struct error e = {0};
    struct gguf *g = NULL;
    uint32_t n = 5;
    uint32_t list[4];
    float f = 1.5f;
    bool flag = false;
    struct str text = {0};
    kit_write("valid.gguf", 0);
    CHECK_OK(gguf_open(&g, "valid.gguf", &e), &e);
    CHECK_ERROR(gguf_u32(g, "general.architecture", true, &n, &e), &e, ERROR_FORMAT,
                "key 'general.architecture' has type string, want an integer");
    CHECK_ERROR(gguf_u32(g, "x.list", true, &n, &e), &e, ERROR_FORMAT,
                "key 'x.list' has type array of u32, want an integer");
    CHECK_ERROR(gguf_f32(g, "x.one", true, &f, &e), &e, ERROR_FORMAT, "has type u32, want f32");
    CHECK_ERROR(gguf_bool(g, "x.one", true, &flag, &e), &e, ERROR_FORMAT, "want bool");
    CHECK_ERROR(gguf_str(g, "x.one", true, &text, &e), &e, ERROR_FORMAT, "want string");
    CHECK_ERROR(gguf_u32(g, "x.none", true, &n, &e), &e, ERROR_FORMAT, "key 'x.none' is missing");
    CHECK_OK(gguf_u32(g, "x.none", false, &n, &e), &e);
    CHECK_OK(gguf_f32(g, "x.none", false, &f, &e), &e);
    CHECK(n == 5 && f == 1.5f);
    CHECK_ERROR(gguf_u32_layers(g, "x.list", true, list, 3, &e), &e, ERROR_FORMAT,
                "key 'x.list' has 4 entries, want 3");
    CHECK_OK(gguf_u32_layers(g, "x.list", true, list, 4, &e), &e);
    CHECK(list[0] == 1 && list[3] == 4);
    CHECK_OK(gguf_u32_layers(g, "x.one", true, list, 4, &e), &e);
    CHECK(list[0] == 7 && list[3] == 7);
    gguf_close(g);
}

/* Integers of another width or sign are converted where they fit. */
TEST(gguf_integer_conversions)
{
    static const struct {
        uint64_t value;
        size_t bytes;
        const char *refusal; /* NULL: it fits */
        enum gguf_type type;
    } cases[] = {
        {200, 1, NULL, GGUF_U8},
        {0xff, 1, "is -1, want 0 to 4294967295", GGUF_I8},
        {0x8000, 2, "is -32768, want 0", GGUF_I16},
        {123456, 4, NULL, GGUF_I32},
        {1ull << 32, 8, "is 4294967296, want 0 to 4294967295", GGUF_I64},
        {UINT64_MAX, 8, "is 18446744073709551615, limit 4294967295", GGUF_U64},
        {UINT32_MAX, 8, NULL, GGUF_U64},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct error e = {0};
        struct gguf_writer *w = NULL;
        struct gguf *g = NULL;
        uint8_t bytes[8];
        uint32_t n = 0;
        for (size_t k = 0; k < 8; k++)
            bytes[k] = (uint8_t)(cases[i].value >> (8 * k));
        struct gguf_value v = {.type = cases[i].type,
                               .elem = cases[i].type,
                               .count = 1,
                               .bytes = bytes,
                               .n_bytes = cases[i].bytes};
        CHECK_OK(gguf_writer_new(&w, "int.gguf", 0, &e), &e);
        gguf_put_value(w, str_of("n"), &v);
        CHECK_OK(gguf_writer_begin(w, &e), &e);
        CHECK_OK(gguf_writer_end(w, &e), &e);
        gguf_writer_free(w);
        CHECK_OK(gguf_open(&g, "int.gguf", &e), &e);
        if (!cases[i].refusal) {
            CHECK_OK(gguf_u32(g, "n", true, &n, &e), &e);
            CHECK_INT(n, cases[i].value);
        } else {
            CHECK_ERROR(gguf_u32(g, "n", true, &n, &e), &e, ERROR_FORMAT, cases[i].refusal);
        }
        gguf_close(g);
    }
}

TEST(gguf_cut_at_every_byte_of_the_header)
{
    struct error e = {0};
    kit_write("valid.gguf", 0);
    struct buf file = kit_load("valid.gguf");
    size_t n = kit_find(&file, "gamma", 0) + 24;
    buf_release(&file);
    while (n-- > 0) {
        error_clear(&e);
        CHECK(truncate("valid.gguf", (off_t)n) == 0);
        int rc = kit_try("valid.gguf", &e);
        if (rc != -ERROR_FORMAT || !strstr(e.text, "valid.gguf: "))
            test_fail(__FILE__, __LINE__, "cut at %zu: %d: %s", n, rc, e.text);
    }
}

/* Any one byte of the header, any of a few values: refused or opened, never more than that. */
TEST(gguf_any_changed_byte)
{
    static const char values[] = {0, 1, 0x7f, (char)0x80, (char)0xff};
    struct error e = {0};
    size_t n_refused = 0;
    kit_write("valid.gguf", 0);
    struct buf file = kit_load("valid.gguf");
    int fd = open("valid.gguf", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    for (size_t at = 0; at < kit_find(&file, "gamma", 0) + 24; at++) {
        for (size_t i = 0; i < ARRAY_LEN(values); i++) {
            CHECK(pwrite(fd, &values[i], 1, (off_t)at) == 1);
            int rc = kit_try("valid.gguf", &e);
            CHECK(rc == 0 || rc == -ERROR_FORMAT);
            n_refused += rc < 0;
        }
        CHECK(pwrite(fd, &file.ptr[at], 1, (off_t)at) == 1);
    }
    close(fd);
    CHECK(n_refused > 1000);
    CHECK_OK(kit_try("valid.gguf", &e), &e); /* all is as it was */
    buf_release(&file);
}

/*
 * A huge file gives room to huge claims: the header's own ceiling refuses them, before any memory is
 * taken. 600 MiB of address space would not hold the claimed GiB.
 */
TEST(gguf_huge_header)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("sanitizers need the address space");
#else
    struct error e = {0};
    kit_write("valid.gguf", 0);
    struct buf file = kit_load("valid.gguf");
    kit_set(&file, kit_find(&file, "x.list", 0) + 8, 8, 1ull << 30);
    kit_save("huge.gguf", file.ptr, file.len);
    CHECK(truncate("huge.gguf", (off_t)8 << 30) == 0);
    struct rlimit limit = {.rlim_cur = 600u << 20, .rlim_max = 600u << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    CHECK_ERROR(kit_try("huge.gguf", &e), &e, ERROR_FORMAT, "key 'x.list': the header needs");
    buf_release(&file);
#endif
}
