#include "batch/fetch/library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The name that every distribution has had since 2006. */
#define LIBRARY "libcurl.so.4"

static const struct {
    const char *name;
    size_t offset; /* in struct curl_library */
} functions[] = {
#define FUNCTION(name) {"curl_" #name, offsetof(struct curl_library, name)},
    CURL_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

int curl_library_open(struct curl_library *c, struct error *e)
{
    struct curl_library found = {0};
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(e, ERROR_UNSUPPORTED, "needs libcurl (package libcurl4): %s", dlerror());
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function)
            return error_set(e, ERROR_UNSUPPORTED, LIBRARY " is too old: it has no %s",
                             functions[i].name);
        memcpy((char *)&found + functions[i].offset, &function, sizeof(function));
    }
    if (found.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return error_set(e, ERROR_NOMEM, "libcurl does not start");
    *c = found;
    return 0;
}

void curl_library_close(const struct curl_library *c)
{
    if (c->global_cleanup)
        c->global_cleanup();
}
