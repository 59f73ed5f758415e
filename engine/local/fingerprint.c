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

/*
 * The fingerprint knows samples of every tensor. Whoever goes on from tokens or state must be sure of
 * all bytes: a file that was written to since is another model until it has computed them again.
 */
static void add_times(struct engine *en, uint8_t digest[32])
{
    struct sha256 h;
    sha256_init(&h);
    sha256_add_field(&h, digest, 32);
    for (size_t i = 0; i < gguf_n_shards(en->gguf); i++) {
        const int64_t written_ns = gguf_shard_written_ns(en->gguf, i);
        sha256_add_field(&h, &written_ns, sizeof(written_ns));
    }
    sha256_end(&h, digest);
    sha256_hex(digest, en->resume_fingerprint);
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
    add_times(en, digest);
    return 0;
}
