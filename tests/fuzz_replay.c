/* The committed corpus of a fuzz target, in the ordinary test runner. */
#include <dirent.h>

#include "base/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/test.h"

void fuzz_replay(const char *name, void (*target)(const uint8_t *bytes, size_t n))
{
    char folder[4096];
    size_t n_inputs = 0;
    snprintf(folder, sizeof(folder), "%s/tests/fuzz/corpus/%s", test_source_root(), name);
    DIR *dir = opendir(folder);
    if (!dir)
        test_fail(__FILE__, __LINE__, "%s: no corpus", folder);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096 + 256];
        struct error e = {0};
        struct buf input;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        buf_init(&input, 16 << 20);
        CHECK_OK(file_read_all(path, 16 << 20, &input, &e), &e);
        target((const uint8_t *)input.ptr, input.len);
        buf_release(&input);
        n_inputs++;
    }
    closedir(dir);
    CHECK(n_inputs > 0);
    test_note("%zu inputs", n_inputs);
}
