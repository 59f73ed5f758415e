/* The identity of a model's bytes, without reading all of them. */
#include "base/sha256.h"
#include "engine/gguf/internal.h"

enum { SAMPLE_BYTES = 4096 };

static int add_tensor(struct sha256 *h, const struct gguf *g, const struct gguf_tensor *t,
                      struct error *e)
{
    uint8_t sample[SAMPLE_BYTES];
    uint64_t bytes = gguf_tensor_disk_bytes(t);
    size_t n = (size_t)MIN_OF(bytes, (uint64_t)SAMPLE_BYTES);
    int rc = file_read_at(&g->shards[t->shard].file, sample, n, t->offset, e);
    if (rc == 0)
        sha256_add_field(h, sample, n);
    return rc;
}

int gguf_fingerprint(const struct gguf *g, uint8_t out[32], struct error *e)
{
    struct sha256 h;
    sha256_init(&h);
    for (size_t i = 0; i < g->n_shards; i++) {
        const struct gguf_shard *s = &g->shards[i];
        uint8_t size[8];
        for (size_t byte = 0; byte < sizeof(size); byte++)
            size[byte] = (uint8_t)(s->file.size >> (8 * byte));
        sha256_add_field(&h, s->header, s->header_bytes);
        sha256_add_field(&h, size, sizeof(size));
    }
    for (size_t i = 0; i < g->n_tensors; i++) {
        int rc = add_tensor(&h, g, &g->tensors[i], e);
        if (rc < 0)
            return rc;
    }
    sha256_end(&h, out);
    return 0;
}
