#include "jobs/response.h"

#include <ctype.h>
#include <string.h>

#include "jobs/json.h"

static void put_text(struct buf *out, const char *name, struct str value)
{
    json_put_name(out, name);
    json_put_string(out, value);
    buf_append_c(out, ",");
}

static void put_ms(struct buf *out, const char *name, double ms)
{
    json_put_name(out, name);
    buf_printf(out, "%.3f,", ms > 0 ? ms : 0);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static const char *finish_text(enum engine_finish finish)
{
    switch (finish) {
    case ENGINE_FINISH_STOP:
        return "stop";
    case ENGINE_FINISH_LENGTH:
        return "length";
    }
    return "stop";
}

static const char *detail_text(enum engine_finish_detail detail)
{
    switch (detail) {
    case ENGINE_DETAIL_EOS:
        return "eos";
    case ENGINE_DETAIL_STOP_STRING:
        return "stop_string";
    case ENGINE_DETAIL_MAX_TOKENS:
        return "max_tokens";
    case ENGINE_DETAIL_CONTEXT:
        return "context";
    }
    return "eos";
}

static bool is_blank(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != ' ' && (text.ptr[i] < '\t' || text.ptr[i] > '\r'))
            return false;
    }
    return true;
}

const char *job_answer_empty(const struct job_answer *a)
{
    if (!is_blank(a->text))
        return NULL;
    bool limited = a->detail == ENGINE_DETAIL_MAX_TOKENS || a->detail == ENGINE_DETAIL_CONTEXT;
    if (limited && a->usage.reasoning_tokens > 0)
        return "tokens_spent_on_thought";
    return a->in_thought ? "ended_in_thought" : "nothing_said";
}

static void put_choices(struct buf *out, const struct job_kind *kind, const struct job_answer *a)
{
    buf_append_c(out, "\"choices\":[{\"index\":0,");
    const char *empty = job_answer_empty(a);
    kind->put_choice(out, a);
    buf_printf(out, ",\"logprobs\":null,\"finish_reason\":\"%s\",\"x_finish_detail\":\"%s\"",
               finish_text(a->finish), detail_text(a->detail));
    if (empty)
        buf_printf(out, ",\"empty_answer\":\"%s\"", empty);
    buf_append_c(out, "}],");
}

static void put_usage(struct buf *out, const struct engine_usage *u)
{
    buf_printf(out,
               "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%llu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":0,\"audio_tokens\":0},"
               "\"completion_tokens_details\":{\"reasoning_tokens\":%u,\"audio_tokens\":0,"
               "\"accepted_prediction_tokens\":0,\"rejected_prediction_tokens\":0}},",
               u->prompt_tokens, u->completion_tokens,
               (unsigned long long)u->prompt_tokens + u->completion_tokens, u->reasoning_tokens);
}

/* One half of `timings`: how many tokens, how long, and both quotients. */
static void put_rate(struct buf *out, const char *prefix, uint32_t n, double ms)
{
    buf_printf(out, "\"%s_n\":%u,", prefix, n);
    buf_printf(out, "\"%s_ms\":%.3f,", prefix, ms > 0 ? ms : 0);
    buf_printf(out, "\"%s_per_token_ms\":%.3f,", prefix, ratio(ms, n));
    buf_printf(out, "\"%s_per_second\":%.3f", prefix, ratio(1000.0 * n, ms));
}

static void put_timings(struct buf *out, const struct engine_usage *u)
{
    uint32_t resumed = MIN_OF(u->resumed_tokens, u->completion_tokens);
    uint32_t fed = u->prompt_tokens + resumed;
    buf_printf(out, "\"timings\":{\"cache_n\":%u,", u->restored_tokens);
    put_rate(out, "prompt", fed - MIN_OF(u->restored_tokens, fed), u->prefill_ms);
    buf_append_c(out, ",");
    put_rate(out, "predicted", u->completion_tokens - resumed, u->decode_ms);
    buf_append_c(out, "},");
}

static void put_x_timing(struct buf *out, const struct job_answer *a)
{
    const struct job_timing *t = &a->timing;
    buf_printf(out, "\"x_timing\":{\"queued_ms\":%lld,\"load_ms\":%lld,\"attempts\":%lld,",
               (long long)t->queued_ms, (long long)t->load_ms, (long long)t->attempts);
    put_ms(out, "prefill_ms", a->usage.prefill_ms);
    put_ms(out, "decode_ms", a->usage.decode_ms);
    buf_printf(out, "\"resumed_tokens\":%u,\"restored_tokens\":%u,", a->usage.resumed_tokens,
               a->usage.restored_tokens);
    buf_printf(out, "\"bytes_read\":%llu,\"expert_hits\":%llu,\"expert_misses\":%llu,",
               (unsigned long long)a->usage.bytes_read, (unsigned long long)a->usage.expert_hits,
               (unsigned long long)a->usage.expert_misses);
    buf_printf(out,
               "\"prefill_bytes_read\":%llu,\"prefill_expert_hits\":%llu,"
               "\"prefill_expert_misses\":%llu,",
               (unsigned long long)a->usage.prefill_bytes_read,
               (unsigned long long)a->usage.prefill_expert_hits,
               (unsigned long long)a->usage.prefill_expert_misses);
    put_ms(out, "read_ms", a->usage.read_ms);
    put_ms(out, "read_wait_ms", a->usage.read_wait_ms);
    buf_printf(out, "\"peak_bytes\":%llu},", (unsigned long long)t->peak_bytes);
}

int job_answer_json(struct buf *out, const struct job_kind *kind, const struct job_answer *a,
                    struct error *e)
{
    buf_printf(out, "{\"id\":\"%s", kind->id_prefix);
    buf_append_str(out, a->id);
    buf_printf(out, "\",\"object\":\"%s\",\"created\":%lld,", kind->object,
               (long long)a->created_s);
    put_text(out, "model", a->model);
    put_text(out, "system_fingerprint", a->fingerprint);
    put_choices(out, kind, a);
    put_usage(out, &a->usage);
    put_timings(out, &a->usage);
    put_x_timing(out, a);
    if (a->tokens_sha256.len > 0)
        put_text(out, "x_tokens_sha256", a->tokens_sha256);
    buf_printf(out, "\"x_seed\":%llu}", (unsigned long long)a->seed);
    return buf_check(out, "answer", e);
}

int job_error_status(const struct error *failure)
{
    return error_describe(failure->code)->http_status;
}

/* The error's own name in small letters, unless OpenAI has a word for it. */
static void put_code(struct buf *out, const struct error *failure, const struct job_refusal *why)
{
    if (why && why->code) {
        json_put_string(out, str_of(why->code));
        return;
    }
    if (failure->code == ERROR_CONTEXT) {
        json_put_string(out, str_of(JOB_CODE_CONTEXT));
        return;
    }
    buf_append_c(out, "\"");
    for (const char *c = error_describe(failure->code)->name; *c; c++) {
        char small = (char)tolower((unsigned char)*c);
        buf_append(out, &small, 1);
    }
    buf_append_c(out, "\"");
}

static void put_param(struct buf *out, const struct job_kind *kind, const struct error *failure,
                      const struct job_refusal *why)
{
    if (why && why->param[0])
        json_put_string(out, str_of(why->param));
    else if (failure->code == ERROR_CONTEXT)
        json_put_string(out, str_of(kind->input));
    else
        buf_append_c(out, "null");
}

int job_error_json(struct buf *out, const struct job_kind *kind, const struct error *failure,
                   const struct job_refusal *why, struct error *e)
{
    bool theirs = job_error_status(failure) < 500;
    buf_append_c(out, "{\"error\":{");
    put_text(out, "message", str_of(failure->text));
    put_text(out, "type", str_of(theirs ? "invalid_request_error" : "server_error"));
    json_put_name(out, "param");
    put_param(out, kind, failure, why);
    buf_append_c(out, ",");
    json_put_name(out, "code");
    put_code(out, failure, why);
    buf_append_c(out, "}}");
    return buf_check(out, "error object", e);
}

static void put_response(struct buf *out, const struct job_line *l)
{
    if (l->body.len == 0) {
        buf_append_c(out, "null");
        return;
    }
    buf_printf(out, "{\"status_code\":%d,\"request_id\":\"req_", l->status);
    buf_append_str(out, l->id);
    buf_append_c(out, "\",\"body\":");
    buf_append_str(out, l->body);
    buf_append_c(out, "}");
}

static void put_line_error(struct buf *out, const struct job_line *l)
{
    if (l->body.len > 0) {
        buf_append_c(out, "null");
        return;
    }
    buf_append_c(out, "{");
    put_text(out, "code", str_of(l->error_code));
    json_put_name(out, "message");
    json_put_string(out, str_of(l->error_message));
    buf_append_c(out, "}");
}

int job_line_json(struct buf *out, const struct job_line *l, struct error *e)
{
    buf_append_c(out, "{\"id\":\"batch_req_");
    buf_append_str(out, l->id);
    buf_append_c(out, "\",");
    put_text(out, "custom_id", l->custom_id);
    buf_append_c(out, "\"response\":");
    put_response(out, l);
    buf_append_c(out, ",\"error\":");
    put_line_error(out, l);
    if (l->timing.len > 0) {
        buf_append_c(out, ",\"x_timing\":");
        buf_append_str(out, l->timing);
    }
    buf_append_c(out, "}");
    return buf_check(out, "output line", e);
}
