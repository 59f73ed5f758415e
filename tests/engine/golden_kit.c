#include "tests/engine/golden_kit.h"

#include <unistd.h>

#include "base/file.h"
#include "tests/test.h"

cJSON *golden_json(const char *name)
{
    char path[4096];
    if (!test_golden(name, path))
        SKIP("no golden set here (%s); NOCTURNE_GOLDEN names its folder", name);
    struct buf text;
    struct error e = {0};
    buf_init(&text, 256u << 20);
    CHECK_OK(file_read_all(path, text.max, &text, &e), &e);
    cJSON *json = cJSON_ParseWithLength(text.ptr, text.len);
    CHECK(json != NULL);
    buf_release(&text);
    return json;
}

void golden_use_whole_set(void)
{
    char folder[4096];
    char file[4200];
    const char *given = getenv("NOCTURNE_GOLDEN");
    if (given)
        snprintf(folder, sizeof(folder), "%s", given);
    else
        snprintf(folder, sizeof(folder), "%.3800s/../shared/golden", test_source_root());
    snprintf(file, sizeof(file), "%s/models/llama.Q6_K.gguf", folder);
    if (access(file, R_OK) != 0)
        SKIP("the whole golden set is not here (%s); NOCTURNE_GOLDEN names its folder", folder);
    CHECK_INT(setenv("NOCTURNE_GOLDEN", folder, 1), 0);
}
