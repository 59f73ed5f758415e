/*
 * What the command line says about requests, as jobs/ takes it.
 *
 * Owns the array of stop strings. One thread.
 */
#ifndef BATCH_PARAMETERS_H
#define BATCH_PARAMETERS_H

#include "base/error.h"
#include "batch/options.h"
#include "jobs/body.h"

struct parameters {
    struct job_parameters job;
    struct str *stop; /* [job.n_stop] */
};

/* flags_only: settings from file and environment are left out (they are for new requests). */
int parameters_take(struct parameters *p, const struct options *o, bool flags_only,
                    struct error *e);
void parameters_release(struct parameters *p);

#endif
