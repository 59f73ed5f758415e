/*
 * What makes two runs comparable. A prompt's ids are not part of it: they follow from the request, the
 * vocabulary and the chat format, which are.
 */
#include <string.h>

#include "base/sha256.h"
#include "engine/local/local.h"

static void add_text(struct sha256 *h, const char *text)
{
    sha256_add_field(h, text, strlen(text));
}

int engine_fingerprint(struct engine *en, struct error *e)
{
    uint8_t digest[32];
    int rc = gguf_fingerprint(en->gguf, digest, e);
    if (rc < 0)
        return rc;
    const uint8_t version[2] = {NUMERIC_VERSION & 0xFF, NUMERIC_VERSION >> 8};
    struct sha256 h;
    sha256_init(&h);
    sha256_add_field(&h, digest, sizeof(digest));
    add_text(&h, en->kernels->name);
    add_text(&h, en->o.exact ? "exact" : "default");
    add_text(&h, en->o.exact ? "cache f32" : "cache f16");
    add_text(&h, en->chat ? chat_format_name(en->chat) : "");
    sha256_add_field(&h, version, sizeof(version));
    sha256_end(&h, digest);
    sha256_hex(digest, en->fingerprint);
    return 0;
}
