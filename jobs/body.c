#include "jobs/body.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "jobs/json.h"
#include "jobs/request.h"
#include "jobs/text.h"

static void put_integer(struct buf *out, const char *name, int64_t value)
{
    buf_append_c(out, ",");
    json_put_name(out, name);
    buf_printf(out, "%lld", (long long)value);
}

static void put_fraction(struct buf *out, const char *name, double value)
{
    buf_append_c(out, ",");
    json_put_name(out, name);
    json_put_number(out, value);
}

static void put_stop(struct buf *out, const struct job_parameters *p)
{
    buf_append_c(out, ",");
    json_put_name(out, "stop");
    for (size_t i = 0; i < p->n_stop; i++) {
        buf_append_c(out, i ? "," : "[");
        json_put_string(out, p->stop[i]);
    }
    buf_append_c(out, "]");
}

/* Everything of p but system, each with a comma before it. */
static void put_parameters(struct buf *out, const struct job_parameters *p)
{
    if (p->model.len > 0) {
        buf_append_c(out, ",");
        json_put_name(out, "model");
        json_put_string(out, p->model);
    }
    if (p->has_max_tokens)
        put_integer(out, "max_tokens", p->max_tokens);
    if (p->has_temperature)
        put_fraction(out, "temperature", p->temperature);
    if (p->has_top_p)
        put_fraction(out, "top_p", p->top_p);
    if (p->has_top_k)
        put_integer(out, "top_k", p->top_k);
    if (p->has_min_p)
        put_fraction(out, "min_p", p->min_p);
    if (p->has_repeat_penalty)
        put_fraction(out, "repeat_penalty", p->repeat_penalty);
    if (p->reasoning.len > 0) {
        buf_append_c(out, ",");
        json_put_name(out, "reasoning");
        json_put_string(out, p->reasoning);
    }
    if (p->has_reasoning_budget)
        put_integer(out, "reasoning_budget", p->reasoning_budget);
    if (p->n_stop > 0)
        put_stop(out, p);
    if (p->has_seed)
        put_integer(out, "seed", p->seed);
}

/* Whether a member gives way to what p says. */
static bool replaced(const struct job_parameters *p, const char *name)
{
    const struct {
        const char *name;
        bool said;
    } rules[] = {
        {"max_completion_tokens", p->has_max_tokens},
        {"max_tokens", p->has_max_tokens},
        {"n_predict", p->has_max_tokens},
        {"model", p->model.len > 0},
        {"temperature", p->has_temperature},
        {"top_p", p->has_top_p},
        {"top_k", p->has_top_k},
        {"min_p", p->has_min_p},
        {"repeat_penalty", p->has_repeat_penalty},
        {"seed", p->has_seed},
        {"reasoning", p->reasoning.len > 0},
        {"reasoning_budget", p->has_reasoning_budget},
        {"thinking_budget_tokens", p->has_reasoning_budget},
        {"stop", p->n_stop > 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (strcmp(name, rules[i].name) == 0)
            return rules[i].said;
    }
    return false;
}

/* The object without what p replaces, and then p. It keeps at least its input, so commas fit. */
static void put_changed(struct buf *out, const cJSON *body, const struct job_parameters *p)
{
    const char *separator = "{";
    for (const cJSON *member = body->child; member; member = member->next) {
        if (replaced(p, member->string))
            continue;
        buf_append_c(out, separator);
        json_put_name(out, member->string);
        json_put_tree(out, member);
        separator = ",";
    }
    put_parameters(out, p);
    buf_append_c(out, "}");
}

/* What can be wrong with the texts of p before they are JSON. */
static int check_texts(const struct job_parameters *p, struct error *e)
{
    int rc = job_text_check("the system message", p->system, e);
    if (rc == 0)
        rc = job_text_check("the model's name", p->model, e);
    if (rc == 0)
        rc = job_text_check("reasoning", p->reasoning, e);
    for (size_t i = 0; i < p->n_stop && rc == 0; i++)
        rc = job_text_check("a stop string", p->stop[i], e);
    return rc;
}

/* The checks of request.h on what was appended from `start`. */
static int check_result(const struct buf *out, size_t start, const struct job_kind *kind,
                        struct error *e)
{
    int rc = buf_check(out, "request body", e);
    if (rc < 0)
        return rc;
    struct job_request r;
    rc = job_request_parse(&r, kind, str_slice(out->ptr + start, out->len - start), NULL, e);
    if (rc == 0)
        job_request_release(&r);
    return rc;
}

int job_body_make(struct buf *out, const struct job_kind *kind, const struct job_parameters *p,
                  struct str text, struct error *e)
{
    if (p->system.len > 0 && kind->id != JOB_KIND_chat)
        return error_set(e, ERROR_UNSUPPORTED, "system: %s has no system message",
                         job_kind_endpoint(kind));
    int rc = job_text_check("the prompt", text, e);
    if (rc == 0)
        rc = check_texts(p, e);
    if (rc < 0)
        return rc;
    size_t start = out->len;
    buf_append_c(out, "{");
    kind->put_input(out, p, text);
    put_parameters(out, p);
    buf_append_c(out, "}");
    return check_result(out, start, kind, e);
}

static bool same_stop(const struct engine_request *a, const struct engine_request *b)
{
    for (size_t i = 0; i < MIN_OF(a->n_stop, b->n_stop); i++) {
        if (!str_equal(a->stop[i], b->stop[i]))
            return false;
    }
    return a->n_stop == b->n_stop;
}

static bool same_thought(const struct engine_request *a, const struct engine_request *b)
{
    return a->reasoning == b->reasoning && str_equal(a->reasoning_effort, b->reasoning_effort) &&
           a->has_reasoning_budget == b->has_reasoning_budget &&
           a->reasoning_budget == b->reasoning_budget;
}

/* Whether two requests with the same input would be run differently. */
static bool differs(const struct job_request *a, const struct job_request *b)
{
    const struct engine_sampling *x = &a->engine.sampling;
    const struct engine_sampling *y = &b->engine.sampling;
    return !str_equal(a->model, b->model) || a->has_seed != b->has_seed || x->seed != y->seed ||
           x->temperature != y->temperature || x->top_p != y->top_p || x->top_k != y->top_k ||
           x->min_p != y->min_p || x->repeat_penalty != y->repeat_penalty ||
           a->engine.max_tokens != b->engine.max_tokens || !same_stop(&a->engine, &b->engine) ||
           !same_thought(&a->engine, &b->engine);
}

static int append_changed(struct buf *out, const struct job_request *before,
                          const struct job_parameters *p, bool *ret_changed, struct error *e)
{
    size_t start = out->len;
    put_changed(out, before->tree, p);
    int rc = buf_check(out, "request body", e);
    if (rc < 0)
        return rc;
    struct job_request after;
    struct str made = str_slice(out->ptr + start, out->len - start);
    rc = job_request_parse(&after, before->kind, made, NULL, e);
    if (rc < 0)
        return rc;
    if (ret_changed)
        *ret_changed = differs(before, &after);
    job_request_release(&after);
    return 0;
}

int job_body_change(struct buf *out, const struct job_kind *kind, const struct job_parameters *p,
                    struct str body, bool *ret_changed, struct error *e)
{
    if (p->system.len > 0)
        return error_set(e, ERROR_USAGE,
                         "a system message cannot be put into a request that has its messages");
    int rc = check_texts(p, e);
    if (rc < 0)
        return rc;
    struct job_request before;
    rc = job_request_parse(&before, kind, body, NULL, e);
    if (rc < 0)
        return rc;
    rc = append_changed(out, &before, p, ret_changed, e);
    job_request_release(&before);
    return rc;
}

int job_body_seed(struct buf *out, struct str body, uint64_t seed, struct error *e)
{
    cJSON *tree = NULL;
    int rc = json_parse(&tree, body, e);
    if (rc < 0)
        return rc;
    const cJSON *old = cJSON_GetObjectItemCaseSensitive(tree, "seed");
    if (old && !cJSON_IsNull(old)) {
        buf_append_str(out, body);
    } else {
        const struct job_parameters p = {.has_seed = true, .seed = (int64_t)(seed & JOB_SEED_MASK)};
        put_changed(out, tree, &p);
    }
    json_free(tree);
    return buf_check(out, "request body", e);
}
