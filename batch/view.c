#include "batch/view.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "batch/database.h"

static const struct {
    unsigned bit;
    const char *name;
    const char *text;
} holds[] = {
    {QUEUE_HOLD_SUBMITTING, "submitting", "being submitted"},
    {QUEUE_HOLD_NOT_BEFORE, "not_before", "not before its time"},
    {QUEUE_HOLD_DEPENDENCY, "dependency", "after another batch"},
    {QUEUE_HOLD_USER, "user", "by the user"},
};

void view_add_time(cJSON *o, const char *name, int64_t wall_us)
{
    char text[32];
    if (wall_us)
        cJSON_AddStringToObject(o, name, clock_format(wall_us, text));
    else
        cJSON_AddNullToObject(o, name);
}

void view_add_count(cJSON *o, const char *name, int64_t n)
{
    if (n < 0)
        cJSON_AddNullToObject(o, name);
    else
        cJSON_AddNumberToObject(o, name, (double)n);
}

const char *view_time(int64_t wall_us, char out[32])
{
    time_t at = (time_t)(wall_us / 1000000);
    struct tm tm;
    if (!wall_us || !localtime_r(&at, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, 32, "-");
    return out;
}

/* What is worth saying: both bits go in one step, and "being submitted" looks like a stuck submit. */
static unsigned told_hold(enum queue_state state, unsigned hold)
{
    if (state != QUEUE_HELD)
        return 0;
    return hold & QUEUE_HOLD_DEPENDENCY ? hold & ~QUEUE_HOLD_SUBMITTING : hold;
}

const char *view_state(enum queue_state state, unsigned hold, char out[64])
{
    snprintf(out, 64, "%s", queue_state_name(state));
    for (size_t i = 0; i < ARRAY_LEN(holds); i++) {
        size_t used = strlen(out);
        if (told_hold(state, hold) & holds[i].bit)
            snprintf(out + used, 64 - used, ", %s", holds[i].text);
    }
    return out;
}

cJSON *view_counts(const struct queue_counts *c)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "total", (double)c->total);
    for (int s = 0; s < QUEUE_STATE_COUNT; s++)
        cJSON_AddNumberToObject(o, queue_state_name((enum queue_state)s), (double)c->state[s]);
    cJSON_AddNumberToObject(o, "empty_answers", (double)c->empty);
    return o;
}

cJSON *view_batch(const struct queue_batch *b)
{
    char id[37];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", database_id_text(b->id, id));
    cJSON_AddStringToObject(o, "name", b->name ? b->name : "");
    cJSON_AddStringToObject(o, "endpoint", b->endpoint);
    view_add_time(o, "created_at", b->created_us);
    view_add_time(o, "finished_at", b->finished_us);
    view_add_time(o, "cancelled_at", b->cancelled_us);
    cJSON_AddItemToObject(o, "requests", view_counts(&b->counts));
    return o;
}

/* null for NULL. */
static void add_text(cJSON *o, const char *name, const char *text)
{
    cJSON_AddItemToObject(o, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

cJSON *view_run(const struct queue_run *r)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "run", (double)r->key);
    view_add_time(o, "started_at", r->started_us);
    view_add_time(o, "known_until", r->known_us);
    cJSON_AddBoolToObject(o, "running", r->running);
    add_text(o, "why", r->why);
    view_add_count(o, "status", r->status);
    add_text(o, "error", r->error);
    return o;
}

cJSON *view_request(const struct queue_request *r)
{
    char id[37];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", database_id_text(r->id, id));
    cJSON_AddStringToObject(o, "batch", database_id_text(r->batch, id));
    cJSON_AddStringToObject(o, "custom_id", r->custom_id);
    cJSON_AddStringToObject(o, "state", queue_state_name(r->state));
    cJSON *held = cJSON_AddArrayToObject(o, "held");
    for (size_t i = 0; i < ARRAY_LEN(holds); i++) {
        if (told_hold(r->state, r->hold) & holds[i].bit)
            cJSON_AddItemToArray(held, cJSON_CreateString(holds[i].name));
    }
    cJSON_AddNumberToObject(o, "priority", r->priority);
    view_add_time(o, "created_at", r->created_us);
    view_add_time(o, "finished_at", r->finished_us);
    cJSON_AddNumberToObject(o, "attempts", (double)r->attempts);
    add_text(o, "finish", r->finish);
    add_text(o, "empty_answer", r->empty);
    return o;
}

uint64_t view_unfinished(const struct queue_counts *c)
{
    return c->state[QUEUE_HELD] + c->state[QUEUE_QUEUED] + c->state[QUEUE_RUNNING];
}

uint64_t view_unsuccessful(const struct queue_counts *c)
{
    return c->state[QUEUE_FAILED] + c->state[QUEUE_CANCELLED] + c->state[QUEUE_EXPIRED];
}

void view_put_counts(struct output *out, const struct queue_counts *c)
{
    output_put(out, "%llu request%s", (unsigned long long)c->total, c->total == 1 ? "" : "s");
    const char *before = ": ";
    for (int s = 0; s < QUEUE_STATE_COUNT; s++) {
        if (c->state[s]) {
            output_put(out, "%s%llu %s", before, (unsigned long long)c->state[s],
                       queue_state_name((enum queue_state)s));
            if (s == QUEUE_DONE && c->empty)
                output_put(out, " (%llu with an empty answer)", (unsigned long long)c->empty);
            before = ", ";
        }
    }
}

cJSON *view_parse(const char *json)
{
    static const char nul[] = "\\u0000", replacement[] = "\\ufffd";
    const size_t n = strlen(json);
    char *copy = mem_alloc(n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, json, n + 1);
    /* Escapes are taken whole: the second backslash of an escaped one begins nothing. */
    for (char *at = strchr(copy, '\\'); at; at = strchr(at, '\\')) {
        if (strncmp(at, nul, strlen(nul)) == 0)
            memcpy(at, replacement, strlen(nul));
        at += at[1] ? 2 : 1;
    }
    cJSON *tree = cJSON_Parse(copy);
    mem_free(copy);
    return tree;
}

const char *view_error_text(const cJSON *error)
{
    const cJSON *inner = cJSON_GetObjectItem(error, "error");
    return cJSON_GetStringValue(cJSON_GetObjectItem(inner ? inner : error, "message"));
}

const char *view_reasoning(const cJSON *answer)
{
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "choices"), 0);
    const cJSON *message_ = cJSON_GetObjectItem(choice, "message");
    return cJSON_GetStringValue(cJSON_GetObjectItem(message_, "reasoning_content"));
}

const char *view_answer_text(const cJSON *answer)
{
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "choices"), 0);
    const cJSON *message_ = cJSON_GetObjectItem(choice, "message");
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(message_, "content"));
    if (!text)
        text = cJSON_GetStringValue(cJSON_GetObjectItem(choice, "text"));
    if (!text)
        text = view_error_text(answer);
    return text;
}
