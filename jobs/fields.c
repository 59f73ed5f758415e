#include "jobs/fields.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

enum where {
    CHAT = 1u << JOB_KIND_chat,
    TEXT = 1u << JOB_KIND_completion,
    BOTH = CHAT | TEXT,
};

/* What a rule gets to see; a struct because it travels through small functions. */
struct field_value {
    const struct field *field;
    const cJSON *json;
    struct job_request *request;
    struct job_refusal *why;
    struct error *e;
};

struct field {
    const char *name;
    unsigned where; /* 1 << enum job_kind_id */
    int (*take)(const struct field_value *v);
    size_t place; /* offset in struct job_request */
    double low, high;
};

static int bad_type(const struct field_value *v, const char *wanted)
{
    return job_refuse(v->why, v->e, JOB_CODE_TYPE, v->field->name, "must be %s", wanted);
}

static int unsupported(const struct field_value *v, const char *only)
{
    return job_refuse(v->why, v->e, JOB_CODE_UNSUPPORTED, v->field->name,
                      "not supported; leave it out%s%s", only[0] ? " or say " : "", only);
}

static void *place_of(const struct field_value *v)
{
    return (char *)v->request + v->field->place;
}

/* A number within the row's range. */
static int number_in_range(const struct field_value *v, double *ret)
{
    if (!cJSON_IsNumber(v->json))
        return bad_type(v, "a number");
    double value = v->json->valuedouble;
    if (value < v->field->low || value > v->field->high)
        return job_refuse(v->why, v->e, JOB_CODE_VALUE, v->field->name,
                          "%.17g is not from %.17g to %.17g", value, v->field->low, v->field->high);
    *ret = value;
    return 0;
}

static int integer_in_range(const struct field_value *v, int64_t *ret)
{
    double value = 0;
    int rc = number_in_range(v, &value);
    if (rc < 0)
        return rc;
    if (value != floor(value))
        return bad_type(v, "an integer");
    *ret = (int64_t)value;
    return 0;
}

static int field_fraction(const struct field_value *v)
{
    double value = 0;
    int rc = number_in_range(v, &value);
    if (rc == 0)
        *(float *)place_of(v) = (float)value;
    return rc;
}

static int field_whole(const struct field_value *v)
{
    int64_t value = 0;
    int rc = integer_in_range(v, &value);
    if (rc == 0)
        *(int32_t *)place_of(v) = (int32_t)value;
    return rc;
}

static int field_limit(const struct field_value *v)
{
    int64_t value = 0;
    int rc = integer_in_range(v, &value);
    if (rc == 0)
        *(uint32_t *)place_of(v) = (uint32_t)value;
    return rc;
}

static int field_seed(const struct field_value *v)
{
    int64_t value = 0;
    int rc = integer_in_range(v, &value);
    if (rc < 0)
        return rc;
    v->request->engine.sampling.seed = (uint64_t)value;
    v->request->has_seed = true;
    return 0;
}

static int field_model(const struct field_value *v)
{
    if (!cJSON_IsString(v->json))
        return bad_type(v, "a string");
    v->request->model = str_of(v->json->valuestring);
    return 0;
}

static int field_input(const struct field_value *v)
{
    return v->request->kind->take_input(v->request, v->json, v->why, v->e);
}

static int add_stop(const struct field_value *v, const cJSON *text)
{
    struct job_request *r = v->request;
    if (!cJSON_IsString(text))
        return bad_type(v, "a string or an array of strings");
    if (text->valuestring[0] == '\0')
        return job_refuse(v->why, v->e, JOB_CODE_VALUE, v->field->name,
                          "an empty string would stop at once");
    if (r->engine.n_stop == JOB_STOP_MAX)
        return job_refuse(v->why, v->e, JOB_CODE_VALUE, v->field->name, "more than %u stop strings",
                          JOB_STOP_MAX);
    r->stop[r->engine.n_stop++] = str_of(text->valuestring);
    return 0;
}

static int field_stop(const struct field_value *v)
{
    if (!cJSON_IsArray(v->json))
        return add_stop(v, v->json);
    for (const cJSON *text = v->json->child; text; text = text->next) {
        int rc = add_stop(v, text);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int field_exactly(const struct field_value *v)
{
    if (!cJSON_IsNumber(v->json))
        return bad_type(v, "a number");
    if (v->json->valuedouble == v->field->low)
        return 0;
    return job_refuse(v->why, v->e, JOB_CODE_UNSUPPORTED, v->field->name,
                      "%.17g is not supported, only %.17g", v->json->valuedouble, v->field->low);
}

static int field_only_false(const struct field_value *v)
{
    return cJSON_IsFalse(v->json) ? 0 : unsupported(v, "false");
}

static int field_only_empty(const struct field_value *v)
{
    if (cJSON_IsString(v->json) && v->json->valuestring[0] == '\0')
        return 0;
    if ((cJSON_IsArray(v->json) || cJSON_IsObject(v->json)) && !v->json->child)
        return 0;
    return unsupported(v, "");
}

static bool is_text(const cJSON *json, const char *text)
{
    return cJSON_IsString(json) && strcmp(json->valuestring, text) == 0;
}

/* "auto" without tools is "none". */
static int field_no_tool(const struct field_value *v)
{
    if (is_text(v->json, "none") || is_text(v->json, "auto"))
        return 0;
    return unsupported(v, "\"none\"");
}

static int field_text_only(const struct field_value *v)
{
    const cJSON *type = cJSON_IsObject(v->json) ? v->json->child : NULL;
    if (type && !type->next && strcmp(type->string, "type") == 0 && is_text(type, "text"))
        return 0;
    return unsupported(v, "{\"type\":\"text\"}");
}

static int field_modalities(const struct field_value *v)
{
    const cJSON *first = cJSON_IsArray(v->json) ? v->json->child : NULL;
    if (first && !first->next && is_text(first, "text"))
        return 0;
    return unsupported(v, "[\"text\"]");
}

static int field_reasoning(const struct field_value *v)
{
    static const char *const words[] = {[ENGINE_REASONING_AUTO] = "auto",
                                        [ENGINE_REASONING_ON] = "on",
                                        [ENGINE_REASONING_OFF] = "off"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (is_text(v->json, words[i])) {
            *(enum engine_reasoning *)place_of(v) = (enum engine_reasoning)i;
            return 0;
        }
    }
    return job_refuse(v->why, v->e, JOB_CODE_VALUE, v->field->name,
                      "must be \"on\", \"off\" or \"auto\"");
}

/* Which levels there are is for the model's chat format to say; "none" is no thought at all. */
static int take_effort(const struct field_value *v, const cJSON *json)
{
    struct job_thought *thought = place_of(v);
    if (!cJSON_IsString(json))
        return bad_type(v, "a string");
    if (is_text(json, "none"))
        thought->reasoning = ENGINE_REASONING_OFF;
    else
        thought->effort = str_of(json->valuestring);
    return 0;
}

static int field_effort(const struct field_value *v)
{
    return take_effort(v, v->json);
}

/* Variables of templates: those that say whether and how much to think. */
static int field_kwargs(const struct field_value *v)
{
    struct job_thought *thought = place_of(v);
    if (!cJSON_IsObject(v->json))
        return bad_type(v, "an object");
    for (const cJSON *item = v->json->child; item; item = item->next) {
        bool thinking =
            strcmp(item->string, "enable_thinking") == 0 || strcmp(item->string, "thinking") == 0;
        bool effort = strcmp(item->string, "thinking_effort") == 0 ||
                      strcmp(item->string, "reasoning_effort") == 0;
        if (!(thinking && cJSON_IsBool(item)) && !effort)
            return job_refuse(v->why, v->e, JOB_CODE_UNSUPPORTED, v->field->name,
                              "only enable_thinking, thinking (true or false), thinking_effort and "
                              "reasoning_effort are supported, not '%.64s'",
                              item->string);
        if (thinking)
            thought->reasoning = cJSON_IsTrue(item) ? ENGINE_REASONING_ON : ENGINE_REASONING_OFF;
        int rc = effort ? take_effort(v, item) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int field_budget(const struct field_value *v)
{
    int64_t value = 0;
    int rc = integer_in_range(v, &value);
    if (rc < 0)
        return rc;
    *(struct job_budget *)place_of(v) = (struct job_budget){.said = true, .tokens = (int32_t)value};
    return 0;
}

/* Thoughts are given apart, which is what these names of llama.cpp's say. */
static int field_apart(const struct field_value *v)
{
    if (is_text(v->json, "auto") || is_text(v->json, "deepseek"))
        return 0;
    return unsupported(v, "\"deepseek\"");
}

static int field_refuse(const struct field_value *v)
{
    return unsupported(v, "");
}

static int field_ignore(const struct field_value *v)
{
    (void)v;
    return 0;
}

/* Rows without a place name this member, which no rule of theirs writes. */
#define NOWHERE kind

static const struct field fields[] = {
#define FIELD(rule, field_name, endpoints, member, least, most)                                    \
    {.name = #field_name,                                                                          \
     .where = (endpoints),                                                                         \
     .take = field_##rule,                                                                         \
     .place = offsetof(struct job_request, member),                                                \
     .low = (double)(least),                                                                       \
     .high = (double)(most)},
#include "jobs/fields.def"
#undef FIELD
};

#undef NOWHERE

/* The row's index, or -1. */
static int find_field(const char *name, enum job_kind_id kind)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if ((fields[i].where & (1u << kind)) && strcmp(fields[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

int fields_take(struct job_request *r, const struct cJSON *body, struct job_refusal *why,
                struct error *e)
{
    bool seen[ARRAY_LEN(fields)] = {false};
    for (const cJSON *json = body->child; json; json = json->next) {
        int i = find_field(json->string, r->kind->id);
        if (i < 0)
            return job_refuse(why, e, JOB_CODE_UNKNOWN, json->string, "unknown field of %s",
                              job_kind_endpoint(r->kind));
        if (seen[i])
            return job_refuse(why, e, JOB_CODE_DUPLICATE, json->string, "given twice");
        seen[i] = true;
        if (cJSON_IsNull(json))
            continue;
        const struct field_value v = {
            .field = &fields[i], .json = json, .request = r, .why = why, .e = e};
        int rc = v.field->take(&v);
        if (rc < 0)
            return rc;
    }
    return 0;
}
