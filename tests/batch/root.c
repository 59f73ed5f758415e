#include "tests/batch/root.h"

#include <string.h>

#include "base/file.h"
#include "tests/test.h"

void root_put_bytes(const char *path, const char *bytes, size_t n)
{
    char full[4200];
    struct error e = {0};
    snprintf(full, sizeof(full), "root/%s", path);
    CHECK_OK(file_make_parent(full, &e), &e);
    CHECK_OK(file_write_all(full, bytes, n, &e), &e);
}

void root_put(const char *path, const char *text)
{
    root_put_bytes(path, text, strlen(text));
}
