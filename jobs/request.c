#include "jobs/request.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "base/alloc.h"
#include "jobs/fields.h"
#include "jobs/json.h"

#define REPEAT_LAST_N_DEFAULT 64

static void set_defaults(struct job_request *r, const struct job_kind *kind, cJSON *tree)
{
    *r = (struct job_request){.kind = kind, .tree = tree, .model = str_of("")};
    r->engine.sampling = (struct engine_sampling){
        .top_p = 1, .repeat_penalty = 1, .repeat_last_n = REPEAT_LAST_N_DEFAULT};
}

/* The first limit that was given, in the order of precedence. */
static uint32_t effective_limit(const struct job_request *r)
{
    for (size_t i = 0; i < ARRAY_LEN(r->max_tokens); i++) {
        if (r->max_tokens[i] > 0)
            return r->max_tokens[i];
    }
    return 0;
}

/* Of several fields that say the same thing the first counts, in the order of the struct. */
static void take_thought(struct job_request *r)
{
    struct engine_request *q = &r->engine;
    for (size_t i = ARRAY_LEN(r->thought); i-- > 0;) {
        if (r->thought[i].reasoning != ENGINE_REASONING_AUTO)
            q->reasoning = r->thought[i].reasoning;
        if (r->thought[i].effort.len > 0)
            q->reasoning_effort = r->thought[i].effort;
    }
    for (size_t i = ARRAY_LEN(r->reasoning_budget); i-- > 0;) {
        if (!r->reasoning_budget[i].said)
            continue;
        q->has_reasoning_budget = r->reasoning_budget[i].tokens >= 0;
        q->reasoning_budget = q->has_reasoning_budget ? (uint32_t)r->reasoning_budget[i].tokens : 0;
    }
}

static int take_body(struct job_request *r, struct job_refusal *why, struct error *e)
{
    if (!cJSON_IsObject(r->tree))
        return job_refuse(why, e, JOB_CODE_TYPE, "", "the body must be a JSON object");
    int rc = fields_take(r, r->tree, why, e);
    if (rc < 0)
        return rc;
    if (r->engine.n_messages == 0 && !r->engine.prompt.ptr)
        return job_refuse(why, e, JOB_CODE_MISSING, r->kind->input, "missing");
    r->engine.max_tokens = effective_limit(r);
    take_thought(r);
    r->engine.stop = r->stop;
    /* -1 says "all" to vLLM; here 0 does. */
    if (r->engine.sampling.top_k < 0)
        r->engine.sampling.top_k = 0;
    return 0;
}

int job_request_adopt(struct job_request *r, const struct job_kind *kind, struct cJSON *tree,
                      struct job_refusal *why, struct error *e)
{
    set_defaults(r, kind, tree);
    int rc = take_body(r, why, e);
    if (rc < 0)
        job_request_release(r);
    return rc;
}

/* The field that a sentence of json_parse begins with ("seed: a number ..."). */
static void blame_field(struct job_refusal *why, const char *sentence)
{
    const char *end = strchr(sentence, ':');
    size_t n = end ? (size_t)(end - sentence) : 0;
    if (n >= sizeof(why->param))
        n = 0;
    memcpy(why->param, sentence, n);
    why->param[n] = '\0';
    why->code = JOB_CODE_VALUE;
}

static int parse_tree(cJSON **ret, struct str body, struct job_refusal *why, struct error *e)
{
    struct error failure = {0};
    int rc = json_parse(ret, body, &failure);
    if (rc == -ERROR_BADDATA)
        return job_refuse(why, e, JOB_CODE_JSON, "", "%s", failure.text);
    if (rc == -ERROR_INVALID && why)
        blame_field(why, failure.text);
    if (rc < 0 && e)
        *e = failure;
    return rc;
}

int job_request_parse(struct job_request *r, const struct job_kind *kind, struct str body,
                      struct job_refusal *why, struct error *e)
{
    if (why)
        *why = (struct job_refusal){.code = NULL};
    if (body.len > JOB_BODY_MAX_BYTES)
        return job_refuse(why, e, JOB_CODE_VALUE, "", "the body has %zu bytes, limit %u", body.len,
                          JOB_BODY_MAX_BYTES);
    cJSON *tree = NULL;
    int rc = parse_tree(&tree, body, why, e);
    if (rc < 0)
        return rc;
    return job_request_adopt(r, kind, tree, why, e);
}

void job_request_release(struct job_request *r)
{
    for (size_t i = 0; r->joined && i < r->engine.n_messages; i++)
        mem_free(r->joined[i]);
    mem_free(r->joined);
    mem_free(r->message);
    json_free(r->tree);
    *r = (struct job_request){.kind = NULL};
}
