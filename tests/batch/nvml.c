#include "tests/batch/nvml.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <unistd.h>

#include "tests/test.h"

static void find_folder(char out[4096])
{
    snprintf(out, 4096, "%.3900s", test_program());
    char *slash = strrchr(out, '/');
    CHECK(slash != NULL);
    *slash = '\0';
    char *emulated = strstr(out, "/emulated"); /* the program is a script there */
    if (emulated)
        *emulated = '\0';
    strncat(out, "/tests/nvml", 4096 - strlen(out) - 1);
}

/* Renamed into place, so that nobody reads half of it. */
void nvml_says(const char *fmt, ...)
{
    char folder[4096], path[4200];
    va_list args;
    snprintf(path, sizeof(path), "%s/nvml.txt", test_dir());
    FILE *f = fopen("nvml.tmp", "w");
    CHECK(f != NULL);
    va_start(args, fmt);
    CHECK(vfprintf(f, fmt, args) >= 0);
    va_end(args);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(rename("nvml.tmp", path), 0);
    find_folder(folder);
    CHECK_INT(setenv("NVML_FAKE", path, 1), 0);
    CHECK_INT(setenv("LD_LIBRARY_PATH", folder, 1), 0);
}

/* Once loaded by its path, it is found by its name. */
void nvml_load(void)
{
    char folder[4096], path[4200];
    find_folder(folder);
    snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", folder);
    const void *library = dlopen(path, RTLD_NOW); /* until the process ends */
    if (!library)
        test_fail(__FILE__, __LINE__, "%s", dlerror());
    /* cppcheck-suppress resourceLeak */
}
