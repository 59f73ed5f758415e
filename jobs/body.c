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
    if (p->has_seed)
        put_integer(out, "seed", p->seed);
}

/* Whether a member gives way to what p says. */
static bool replaced(const struct job_parameters *p, const char *name)
{
    static const char *const limits[] = {"max_completion_tokens", "max_tokens", "n_predict"};
    for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
        if (strcmp(name, limits[i]) == 0)
            return p->has_max_tokens;
    }
    return (strcmp(name, "model") == 0 && p->model.len > 0) ||
           (strcmp(name, "temperature") == 0 && p->has_temperature) ||
           (strcmp(name, "top_p") == 0 && p->has_top_p) ||
           (strcmp(name, "seed") == 0 && p->has_seed);
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
        rc = job_text_check("the system message", p->system, e);
    if (rc == 0)
        rc = job_text_check("the model's name", p->model, e);
    if (rc < 0)
        return rc;
    size_t start = out->len;
    buf_append_c(out, "{");
    kind->put_input(out, p, text);
    put_parameters(out, p);
    buf_append_c(out, "}");
    return check_result(out, start, kind, e);
}

/* Whether two requests with the same input would be run differently. */
static bool differs(const struct job_request *a, const struct job_request *b)
{
    const struct engine_sampling *x = &a->engine.sampling;
    const struct engine_sampling *y = &b->engine.sampling;
    return !str_equal(a->model, b->model) || a->has_seed != b->has_seed || x->seed != y->seed ||
           x->temperature != y->temperature || x->top_p != y->top_p ||
           a->engine.max_tokens != b->engine.max_tokens;
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
    int rc = job_text_check("the model's name", p->model, e);
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
