/* Memory and disk that fail: said, and nothing is lost or left behind. */
#include <dirent.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/engine/gguf_kit.h"

TEST(gguf_open_without_memory)
{
    struct error e = {0};
    kit_write("m.gguf", 1);
    int rc = -ERROR_NOMEM;
    long k = 0;
    while (rc < 0) {
        CHECK(rc == -ERROR_NOMEM && k < 1000);
        mem_fail_after(++k);
        rc = kit_try("m-00001-of-00003.gguf", &e);
        mem_fail_after(0);
    }
    CHECK(k > 10);
}

TEST(gguf_open_when_reads_fail)
{
    static const enum file_fault kinds[] = {FILE_FAULT_EIO, FILE_FAULT_SHORT};
    struct error e = {0};
    kit_write("m.gguf", 1);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        int rc = -ERROR_IO;
        long k = 0;
        while (rc < 0) {
            CHECK(rc == -ERROR_IO && k < 100);
            file_fail_after(++k, kinds[i]);
            rc = kit_try("m-00001-of-00003.gguf", &e);
            file_fail_after(0, FILE_FAULT_NONE);
        }
        CHECK(k > 3);
    }
}

static int write_model(struct error *e)
{
    struct gguf_writer *w = NULL;
    uint8_t zeros[512] = {0};
    int rc = gguf_writer_new(&w, "w.gguf", 2, e);
    if (rc == 0) {
        kit_put(w);
        rc = gguf_writer_begin(w, e);
    }
    if (rc == 0)
        rc = gguf_writer_data(w, zeros, 64 + 408 + 16, e);
    if (rc == 0)
        rc = gguf_writer_end(w, e);
    gguf_writer_free(w);
    return rc;
}

/* Files in the test's folder whose name has the part. */
static size_t count_files(const char *part)
{
    size_t n = 0;
    DIR *dir = opendir(".");
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strstr(entry->d_name, part) != NULL;
    closedir(dir);
    return n;
}

TEST(gguf_write_without_memory)
{
    struct error e = {0};
    int rc = -ERROR_NOMEM;
    long k = 0;
    while (rc < 0) {
        CHECK(rc == -ERROR_NOMEM && k < 1000);
        CHECK_INT(count_files(".tmp"), 0);
        mem_fail_after(++k);
        rc = write_model(&e);
        mem_fail_after(0);
    }
    CHECK(k > 5);
    CHECK_OK(kit_try("w-00001-of-00002.gguf", &e), &e);
}

TEST(gguf_write_on_a_full_disk)
{
    struct error e = {0};
    int rc = -ERROR_FULL;
    long k = 0;
    while (rc < 0) {
        CHECK(rc == -ERROR_FULL && k < 1000);
        CHECK_INT(count_files(".tmp"), 0);
        file_fail_after(++k, FILE_FAULT_ENOSPC);
        rc = write_model(&e);
        file_fail_after(0, FILE_FAULT_NONE);
    }
    CHECK(k > 5);
    CHECK_INT(count_files(".gguf"), 2);
    CHECK_OK(kit_try("w-00001-of-00002.gguf", &e), &e);
}
