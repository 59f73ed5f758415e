/* /v1/chat/completions: messages in, a message out. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "jobs/body.h"
#include "jobs/json.h"
#include "jobs/kind.h"
#include "jobs/request.h"
#include "jobs/response.h"

/* One message being read; `index` names it in refusals. */
struct message_reader {
    struct job_request *request;
    struct job_refusal *why;
    struct error *e;
    size_t index;
    bool has_role;
    bool has_content;
};

/* Refuses "messages[index]" + rest. */
static int refuse_at(const struct message_reader *m, const char *code, const char *rest,
                     const char *sentence)
{
    char param[192];
    snprintf(param, sizeof(param), "messages[%zu]%s%.120s", m->index,
             rest[0] && rest[0] != '[' && rest[0] != '.' ? "." : "", rest);
    return job_refuse(m->why, m->e, code, param, "%s", sentence);
}

static struct engine_message *message_of(const struct message_reader *m)
{
    return &m->request->message[m->index];
}

static int take_role(struct message_reader *m, const cJSON *value)
{
    if (!cJSON_IsString(value))
        return refuse_at(m, JOB_CODE_TYPE, "role", "must be a string");
    const char *role = value->valuestring;
    /* OpenAI's newer name for the same thing; models' templates know only the older one. */
    if (strcmp(role, "developer") == 0)
        role = "system";
    if (strcmp(role, "tool") == 0 || strcmp(role, "function") == 0)
        return refuse_at(m, JOB_CODE_UNSUPPORTED, "role", "tools are not supported");
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
        return refuse_at(m, JOB_CODE_VALUE, "role", "must be system, developer, user or assistant");
    message_of(m)->role = str_of(role);
    m->has_role = true;
    return 0;
}

/* The text of one part of an array content; the sentence names its place. */
static int part_text(const struct message_reader *m, const cJSON *part, size_t i, const char **ret)
{
    char place[64];
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(part, "type");
    snprintf(place, sizeof(place), "content[%zu].type", i);
    if (!cJSON_IsString(type))
        return refuse_at(m, JOB_CODE_TYPE, place, "must be a string");
    if (strcmp(type->valuestring, "text") != 0)
        return refuse_at(m, JOB_CODE_UNSUPPORTED, place, "only text parts are supported");
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(part, "text");
    snprintf(place, sizeof(place), "content[%zu].text", i);
    if (!cJSON_IsString(text))
        return refuse_at(m, JOB_CODE_TYPE, place, "must be a string");
    snprintf(place, sizeof(place), "content[%zu]", i);
    if (cJSON_GetArraySize(part) != 2)
        return refuse_at(m, JOB_CODE_UNKNOWN, place, "must have type and text and nothing else");
    *ret = text->valuestring;
    return 0;
}

static int join_parts(struct message_reader *m, const cJSON *parts, struct buf *out)
{
    size_t i = 0;
    for (const cJSON *part = parts->child; part; part = part->next, i++) {
        const char *text = NULL;
        int rc = part_text(m, part, i, &text);
        if (rc < 0)
            return rc;
        if (i > 0)
            buf_append_c(out, "\n");
        buf_append_c(out, text);
    }
    if (i == 0)
        return refuse_at(m, JOB_CODE_VALUE, "content", "has no parts");
    return buf_check(out, "the joined parts of a message", m->e);
}

static int take_content(struct message_reader *m, const cJSON *value)
{
    struct engine_message *message = message_of(m);
    m->has_content = true;
    if (cJSON_IsString(value)) {
        message->content = str_of(value->valuestring);
        return 0;
    }
    if (!cJSON_IsArray(value))
        return refuse_at(m, JOB_CODE_TYPE, "content", "must be a string or an array of text parts");
    struct buf text;
    buf_init(&text, 2 * (size_t)JOB_BODY_MAX_BYTES);
    int rc = join_parts(m, value, &text);
    if (rc < 0) {
        buf_release(&text);
        return rc;
    }
    size_t len = text.len;
    char *joined = buf_take(&text);
    m->request->joined[m->index] = joined;
    message->content = str_slice(joined ? joined : "", len);
    return 0;
}

/* Texts beside the content that templates of some models show. */
static int take_text(struct message_reader *m, const cJSON *value, struct str *ret)
{
    if (!cJSON_IsNull(value) && !cJSON_IsString(value))
        return refuse_at(m, JOB_CODE_TYPE, value->string, "must be a string");
    *ret = str_of(cJSON_IsString(value) ? value->valuestring : "");
    return 0;
}

/* Members of a message that no template of a supported model shows, or that must be empty. */
static int check_other(const struct message_reader *m, const cJSON *value)
{
    static const char *const ignored[] = {"annotations"};
    static const char *const empty[] = {"refusal", "tool_calls", "function_call", "audio",
                                        "tool_call_id"};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++) {
        if (strcmp(value->string, ignored[i]) == 0)
            return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
        if (strcmp(value->string, empty[i]) != 0)
            continue;
        bool is_empty = cJSON_IsNull(value) || (cJSON_IsArray(value) && !value->child) ||
                        (cJSON_IsString(value) && value->valuestring[0] == '\0');
        return is_empty ? 0 : refuse_at(m, JOB_CODE_UNSUPPORTED, empty[i], "not supported");
    }
    return refuse_at(m, JOB_CODE_UNKNOWN, value->string, "unknown field of a message");
}

static int take_member(struct message_reader *m, const cJSON *value)
{
    bool role = strcmp(value->string, "role") == 0;
    bool content = strcmp(value->string, "content") == 0;
    if ((role && m->has_role) || (content && m->has_content))
        return refuse_at(m, JOB_CODE_DUPLICATE, value->string, "given twice");
    if (role)
        return take_role(m, value);
    if (content)
        return take_content(m, value);
    if (strcmp(value->string, "reasoning_content") == 0)
        return take_text(m, value, &message_of(m)->reasoning);
    if (strcmp(value->string, "name") == 0)
        return take_text(m, value, &message_of(m)->name);
    return check_other(m, value);
}

static int take_message(struct message_reader *m, const cJSON *json)
{
    if (!cJSON_IsObject(json))
        return refuse_at(m, JOB_CODE_TYPE, "", "must be an object");
    for (const cJSON *value = json->child; value; value = value->next) {
        int rc = take_member(m, value);
        if (rc < 0)
            return rc;
    }
    if (!m->has_role)
        return refuse_at(m, JOB_CODE_MISSING, "role", "missing");
    if (!m->has_content)
        return refuse_at(m, JOB_CODE_MISSING, "content", "missing");
    if (message_of(m)->reasoning.len > 0 && !str_equal_c(message_of(m)->role, "assistant"))
        return refuse_at(m, JOB_CODE_UNSUPPORTED, "reasoning_content", "only assistant's");
    return 0;
}

static int chat_take_input(struct job_request *r, const struct cJSON *value,
                           struct job_refusal *why, struct error *e)
{
    int n = cJSON_IsArray(value) ? cJSON_GetArraySize(value) : 0;
    if (n == 0)
        return job_refuse(why, e, JOB_CODE_TYPE, "messages", "must be an array of messages");
    r->engine.n_messages = (size_t)n;
    r->message = mem_array((size_t)n, sizeof(*r->message));
    r->joined = mem_array((size_t)n, sizeof(*r->joined));
    if (!r->message || !r->joined)
        return error_set(e, ERROR_NOMEM, "messages: no memory for %d of them", n);
    struct message_reader m = {.request = r, .why = why, .e = e};
    for (const cJSON *json = value->child; json; json = json->next, m.index++) {
        m.has_role = m.has_content = false;
        int rc = take_message(&m, json);
        if (rc < 0)
            return rc;
    }
    m.index--;
    if (str_equal_c(message_of(&m)->role, "assistant"))
        return refuse_at(&m, JOB_CODE_UNSUPPORTED, "role",
                         "the last message cannot be assistant's");
    r->engine.messages = r->message;
    return 0;
}

static void put_message(struct buf *out, const char *role, struct str content)
{
    buf_append_c(out, "{");
    json_put_name(out, "role");
    json_put_string(out, str_of(role));
    buf_append_c(out, ",");
    json_put_name(out, "content");
    json_put_string(out, content);
    buf_append_c(out, "}");
}

static void chat_put_input(struct buf *out, const struct job_parameters *p, struct str text)
{
    json_put_name(out, "messages");
    buf_append_c(out, "[");
    if (p->system.len > 0) {
        put_message(out, "system", p->system);
        buf_append_c(out, ",");
    }
    put_message(out, "user", text);
    buf_append_c(out, "]");
}

static void chat_put_choice(struct buf *out, const struct job_answer *a)
{
    buf_append_c(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    json_put_string(out, a->text);
    if (a->usage.reasoning_tokens > 0) {
        buf_append_c(out, ",\"reasoning_content\":");
        json_put_string(out, a->reasoning);
    }
    buf_append_c(out, ",\"refusal\":null,\"tool_calls\":[]}");
}

const struct job_kind job_kind_chat = {
    .id = JOB_KIND_chat,
    .object = "chat.completion",
    .id_prefix = "chatcmpl-",
    .input = "messages",
    .take_input = chat_take_input,
    .put_input = chat_put_input,
    .put_choice = chat_put_choice,
};
