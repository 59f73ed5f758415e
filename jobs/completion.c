/* /v1/completions: a prompt in, its continuation out. */
#include <cjson/cJSON.h>

#include "jobs/body.h"
#include "jobs/json.h"
#include "jobs/kind.h"
#include "jobs/request.h"
#include "jobs/response.h"

static int completion_take_input(struct job_request *r, const struct cJSON *value,
                                 struct job_refusal *why, struct error *e)
{
    const cJSON *text = value;
    if (cJSON_IsArray(value)) {
        text = value->child;
        if (text && text->next)
            return job_refuse(why, e, JOB_CODE_UNSUPPORTED, "prompt",
                              "one prompt a request, not %d", cJSON_GetArraySize(value));
        if (text && cJSON_IsNumber(text))
            return job_refuse(why, e, JOB_CODE_UNSUPPORTED, "prompt",
                              "token ids are not supported, only text");
    }
    if (!text || !cJSON_IsString(text))
        return job_refuse(why, e, JOB_CODE_TYPE, "prompt", "must be a string");
    if (text->valuestring[0] == '\0')
        return job_refuse(why, e, JOB_CODE_VALUE, "prompt",
                          "empty; a model without a begin token could not start");
    r->engine.prompt = str_of(text->valuestring);
    return 0;
}

static void completion_put_input(struct buf *out, const struct job_parameters *p, struct str text)
{
    (void)p;
    json_put_name(out, "prompt");
    json_put_string(out, text);
}

static void completion_put_choice(struct buf *out, const struct job_answer *a)
{
    json_put_name(out, "text");
    json_put_string(out, a->text);
}

const struct job_kind job_kind_completion = {
    .id = JOB_KIND_completion,
    .object = "text_completion",
    .id_prefix = "cmpl-",
    .input = "prompt",
    .take_input = completion_take_input,
    .put_input = completion_put_input,
    .put_choice = completion_put_choice,
};
