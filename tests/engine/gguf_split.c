/* Split models (engine-spec 1.3): which files belong together, and what happens when they do not. */
#include <unistd.h>

#include "tests/engine/gguf_kit.h"

#define FIRST "s-00001-of-00003.gguf"
#define SECOND "s-00002-of-00003.gguf"
#define THIRD "s-00003-of-00003.gguf"

/* Three files of a tensor each. */
static void write_split(void)
{
    struct error e = {0};
    kit_write("s.gguf", 1);
    CHECK_OK(kit_try(FIRST, &e), &e);
}

static void copy(const char *from, const char *to)
{
    struct buf file = kit_load(from);
    kit_save(to, file.ptr, file.len);
    buf_release(&file);
}

/* n bytes, `skip` after the end of the text, become the value. */
static void change(const char *path, const char *after, long skip, size_t n, uint64_t value)
{
    struct buf file = kit_load(path);
    kit_set(&file, (size_t)((long)kit_find(&file, after, 0) + skip), n, value);
    kit_save(path, file.ptr, file.len);
    buf_release(&file);
}

TEST(gguf_split_file_missing)
{
    struct error e = {0};
    write_split();
    CHECK(unlink(SECOND) == 0);
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_NOTFOUND, SECOND);
}

TEST(gguf_split_opened_at_another_file)
{
    struct error e = {0};
    write_split();
    CHECK_ERROR(kit_try(SECOND, &e), &e, ERROR_FORMAT,
                "key 'split.no' is 1, want 0: open the first file");
}

TEST(gguf_split_files_swapped)
{
    struct error e = {0};
    write_split();
    copy(THIRD, SECOND);
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT, SECOND ": key 'split.no' is 2, want 1");
}

TEST(gguf_split_of_another_count)
{
    struct error e = {0};
    write_split();
    change(THIRD, "split.count", 4, 2, 4);
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT,
                THIRD ": key 'split.count' is 4, the first file says 3");
}

TEST(gguf_split_without_its_keys)
{
    struct error e = {0};
    write_split();
    change(SECOND, "split.n", 0, 1, 'x');
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT, SECOND ": key 'split.no' is missing");
    write_split();
    change(FIRST, "split.tensors.coun", 0, 1, 'x');
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT, "key 'split.tensors.count' is missing");
}

TEST(gguf_split_under_another_name)
{
    struct error e = {0};
    write_split();
    copy(FIRST, "renamed.gguf");
    CHECK_ERROR(kit_try("renamed.gguf", &e), &e, ERROR_FORMAT,
                "the first of 3 files has to be named PREFIX-00001-of-00003.gguf");
}

TEST(gguf_split_total_is_wrong)
{
    struct error e = {0};
    write_split();
    change(FIRST, "split.tensors.count", 4, 4, 4);
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT,
                "key 'split.tensors.count' is 4, the 3 files have 3");
}

TEST(gguf_split_tensor_in_two_files)
{
    struct error e = {0};
    write_split();
    change(SECOND, "alphb", -1, 1, 'a');
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT,
                SECOND ": tensor 'alpha' stands in the model twice");
}

TEST(gguf_split_later_file_is_spoiled)
{
    struct error e = {0};
    write_split();
    change(THIRD, "gamma", 12, 4, 4);
    CHECK_ERROR(kit_try(FIRST, &e), &e, ERROR_FORMAT, THIRD ": tensor 'gamma': type 4 is unknown");
}

/* The keys of the model are the first file's; what others carry besides is not looked at. */
TEST(gguf_split_keys_are_the_first_files)
{
    struct error e = {0};
    struct gguf *g = NULL;
    struct gguf_value v;
    write_split();
    CHECK_OK(gguf_open(&g, FIRST, &e), &e);
    CHECK(gguf_find(g, "x.one", &v));
    CHECK(gguf_find(g, "split.no", &v) && v.type == GGUF_U16 && gguf_array_int(&v, 0) == 0);
    CHECK(gguf_find(g, "split.tensors.count", &v) && v.type == GGUF_I32);
    CHECK_INT(gguf_tensor_find(g, "gamma")->shard, 2);
    gguf_close(g);
}
