/*
 * One `submit`: prompts, documents and JSONL lines into one batch, all of it or nothing.
 *
 * Owns the batch being written (until published) and the template. Stays true: nobody sees a request
 * before submission_publish succeeded; what makes requests different is in their identity before
 * seeds are filled in; a request without a seed gets one, so that its answer can be had again. Memory
 * does not grow with the input. One thread.
 *
 * Settings of the command line (max-tokens and the like) go into new bodies and change those of JSONL
 * lines only where a flag said so: a line's own values are stronger than a configuration file.
 */
#ifndef BATCH_SUBMISSION_H
#define BATCH_SUBMISSION_H

#include "base/error.h"
#include "batch/options.h"
#include "batch/parameters.h"
#include "jobs/identity.h"
#include "jobs/jsonl.h"
#include "jobs/template.h"
#include "queue/queue.h"

struct submission {
    struct queue *queue;
    const struct options *options;
    struct parameters fresh;  /* for bodies made here */
    struct parameters change; /* for bodies of JSONL lines */
    struct prompt_template *template;
    struct job_identity identity;
    const struct job_kind *kind; /* of the whole batch, from its first request */
    struct queue_submit *submit; /* NULL until the first request */
    struct queue_id *after;      /* [n_after] */
    size_t n_after;
    struct buf body, seeded, prompt;
    uint64_t n_requests;
    struct jsonl_notes notes;
};

int submission_begin(struct submission *s, struct queue *q, const struct options *o,
                     struct error *e);
int submission_add_prompts(struct submission *s, struct error *e);
/* A .jsonl file, another file, a folder, or "-". */
int submission_add_input(struct submission *s, const char *argument, struct error *e);
int submission_publish(struct submission *s, struct queue_id *ret, bool *ret_found,
                       struct error *e);
void submission_release(struct submission *s); /* deletes what was not published */

#endif
