/* Batch input: the same lines come out however the bytes arrive. */
#include "jobs/jsonl.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "jobs/text.h"
#include "tests/fuzz/fuzz.h"

struct source {
    struct str left;
    size_t step;
};

static int64_t read_source(void *context, void *out, size_t n, struct error *e)
{
    struct source *s = context;
    (void)e;
    size_t take = n < s->step ? n : s->step;
    take = take < s->left.len ? take : s->left.len;
    if (take > 0)
        memcpy(out, s->left.ptr, take);
    s->left = str_slice(s->left.ptr + take, s->left.len - take);
    return (int64_t)take;
}

/* Everything that the reader says about the text, as one digest. */
static void digest_of(struct str text, size_t step, uint8_t out[32])
{
    struct source s = {.left = text, .step = step};
    struct jsonl *j = NULL;
    struct jsonl_line line;
    struct error e = {0};
    struct sha256 h;
    sha256_init(&h);
    demand(jsonl_open(&j, "in", read_source, &s, &e) == 0);
    int rc = jsonl_next(j, &line, &e);
    for (; rc > 0; rc = jsonl_next(j, &line, &e)) {
        demand(line.custom_id.len > 0 && line.custom_id.len <= JOB_CUSTOM_ID_MAX_BYTES);
        demand(str_utf8_valid(line.custom_id, NULL) && str_utf8_valid(line.body, NULL));
        demand(!memchr(line.body.ptr, '\n', line.body.len));
        sha256_add_field(&h, line.custom_id.ptr, line.custom_id.len);
        sha256_add_field(&h, line.body.ptr, line.body.len);
        sha256_add_field(&h, &line.number, sizeof(line.number));
    }
    demand(rc == 0 || strncmp(e.text, "in: line ", 9) == 0);
    sha256_add_field(&h, e.text, strlen(e.text));
    sha256_end(&h, out);
    jsonl_close(j);
}

FUZZ(jsonl)
{
    uint8_t whole[32];
    uint8_t pieces[32];
    struct str text = str_slice((const char *)bytes, n);
    digest_of(text, SIZE_MAX, whole);
    digest_of(text, 7, pieces);
    demand(memcmp(whole, pieces, sizeof(whole)) == 0);
}
