/*
 * The fields of a request body: reads each into the request or refuses it. Private to jobs/.
 *
 * Owns nothing: strings stay in the tree. Stays true: fields.def is the only list of fields.
 */
#ifndef JOBS_FIELDS_H
#define JOBS_FIELDS_H

#include "base/error.h"
#include "jobs/kind.h"
#include "jobs/refusal.h"
#include "jobs/request.h"

struct cJSON;

/*
 * Every member of the object `body`, in its order; refuses unknown ones and those that come
 * twice.
 */
int fields_take(struct job_request *r, const struct cJSON *body, struct job_refusal *why,
                struct error *e);

#endif
