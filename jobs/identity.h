/*
 * The identity of a submit: the same files and options submitted twice are one batch.
 *
 * SHA-256 over the endpoint, every option that shapes requests (template text, -v values), and each
 * request's custom_id and body in order, before seeds are filled in. Fields carry their lengths, so
 * none can run into the next. Owns nothing but its state; one thread.
 */
#ifndef JOBS_IDENTITY_H
#define JOBS_IDENTITY_H

#include <stdint.h>

#include "base/sha256.h"
#include "base/str.h"
#include "jobs/kind.h"

#define JOB_IDENTITY_BYTES 32u

struct job_identity {
    struct sha256 hash;
    uint64_t n_requests;
};

void job_identity_init(struct job_identity *i);
/* Options, in a fixed order of the caller's. */
void job_identity_option(struct job_identity *i, const char *name, struct str value);
void job_identity_add(struct job_identity *i, const struct job_kind *kind, struct str custom_id,
                      struct str body);
void job_identity_end(struct job_identity *i, uint8_t out[JOB_IDENTITY_BYTES]);

#endif
