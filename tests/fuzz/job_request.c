/*
 * A request body: what is accepted survives being written again, and says the same then; what is
 * refused has a sentence.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs/body.h"
#include "jobs/request.h"
#include "tests/fuzz/fuzz.h"

static void demand_same(const struct job_request *a, const struct job_request *b)
{
    demand(memcmp(&a->engine.sampling.temperature, &b->engine.sampling.temperature,
                  sizeof(float)) == 0);
    demand(a->engine.max_tokens == b->engine.max_tokens);
    demand(a->engine.n_stop == b->engine.n_stop);
    demand(a->engine.n_messages == b->engine.n_messages);
    demand(str_equal(a->engine.prompt, b->engine.prompt));
    for (size_t i = 0; i < a->engine.n_messages; i++) {
        demand(str_equal(a->engine.messages[i].role, b->engine.messages[i].role));
        demand(str_equal(a->engine.messages[i].content, b->engine.messages[i].content));
        demand(str_utf8_valid(a->engine.messages[i].content, NULL));
    }
}

static void try_kind(const struct job_kind *kind, struct str body)
{
    struct job_request first;
    struct job_request second;
    struct job_refusal why;
    struct error e = {0};
    if (job_request_parse(&first, kind, body, &why, &e) < 0) {
        demand(e.code != 0 && e.text[0] != 0);
        demand(str_utf8_valid(str_of(why.param), NULL));
        return;
    }
    struct buf seeded;
    buf_init(&seeded, 8 * (body.len + 64));
    demand(job_body_seed(&seeded, body, 5, &e) == 0);
    demand(job_request_parse(&second, kind, buf_str(&seeded), &why, &e) == 0);
    demand(second.has_seed);
    demand(second.engine.sampling.seed == (first.has_seed ? first.engine.sampling.seed : 5));
    demand_same(&first, &second);
    job_request_release(&first);
    job_request_release(&second);
    buf_release(&seeded);
}

FUZZ(job_request)
{
    for (size_t i = 0; i < JOB_KIND_COUNT; i++)
        try_kind(job_kind_at(i), str_slice((const char *)bytes, n));
}
