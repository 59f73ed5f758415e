#include "batch/fetch/digest.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/sha256.h"

/* On the stack. */
#define BLOCK_BYTES 65536u
/* The page cache is emptied behind the reader in larger steps than it reads. */
#define FORGET_BYTES (UINT64_C(8) << 20)

static int add_all(struct sha256 *h, const struct file *f,
                   bool (*progress)(void *context, uint64_t more_bytes), void *context,
                   struct error *e)
{
    unsigned char block[BLOCK_BYTES];
    uint64_t forgotten = 0;
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < f->size;) {
        const size_t n = (size_t)MIN_OF((uint64_t)BLOCK_BYTES, f->size - at);
        rc = file_read_at(f, block, n, at, e);
        if (rc < 0)
            break;
        sha256_add(h, block, n);
        at += n;
        if (at - forgotten >= FORGET_BYTES || at == f->size) {
            file_forget(f, (size_t)(at - forgotten), forgotten);
            forgotten = at;
        }
        if (progress && progress(context, n))
            rc = error_set(e, ERROR_INTERRUPTED, "%s: interrupted", f->path);
    }
    return rc;
}

int digest_file(const char *path, bool (*progress)(void *context, uint64_t more_bytes),
                void *context, struct digest *ret, struct error *e)
{
    struct file f = {0};
    struct sha256 h;
    uint8_t bytes[32];
    int rc = file_open(&f, path, e);
    if (rc < 0)
        return rc;
    (void)posix_fadvise(f.fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* advice only */
    sha256_init(&h);
    rc = add_all(&h, &f, progress, context, e);
    if (rc == 0)
        rc = file_unchanged(&f, e);
    if (rc == 0) {
        sha256_end(&h, bytes);
        *ret = (struct digest){.size = f.size, .written_ns = f.written_ns};
        sha256_hex(bytes, ret->sha256);
    }
    file_close(&f);
    return rc;
}
