#include "jobs/identity.h"

#include <string.h>

static void add_text(struct job_identity *i, struct str s)
{
    sha256_add_field(&i->hash, s.ptr, s.len);
}

void job_identity_init(struct job_identity *i)
{
    *i = (struct job_identity){.n_requests = 0};
    sha256_init(&i->hash);
}

void job_identity_option(struct job_identity *i, const char *name, struct str value)
{
    add_text(i, str_of("option"));
    add_text(i, str_of(name));
    add_text(i, value);
}

void job_identity_add(struct job_identity *i, const struct job_kind *kind, struct str custom_id,
                      struct str body)
{
    add_text(i, str_of("request"));
    add_text(i, str_of(job_kind_endpoint(kind)));
    add_text(i, custom_id);
    add_text(i, body);
    i->n_requests++;
}

void job_identity_end(struct job_identity *i, uint8_t out[JOB_IDENTITY_BYTES])
{
    sha256_end(&i->hash, out);
}
