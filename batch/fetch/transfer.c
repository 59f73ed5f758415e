#include "batch/fetch/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "batch/fetch/address.h"
#include "batch/version.h"

#define RECEIVE_BYTES 65536L
#define REDIRECTS_MAX 8L
/* Bytes asked for again behind those that are there. */
#define OVERLAP_BYTES 4096u
/* A connection slower than this over the whole of a stall's time is dead. */
#define LEAST_BYTES_PER_S 1024

int transfer_init(struct transfer *t, const struct curl_library *curl, CURLM *multi,
                  struct error *e)
{
    *t = (struct transfer){.curl = curl, .easy = curl->easy_init(), .multi = multi, .fd = -1};
    return t->easy ? 0 : error_set(e, ERROR_NOMEM, "no memory for a connection");
}

static void detach(struct transfer *t)
{
    if (t->owner)
        t->curl->multi_remove_handle(t->multi, t->easy);
    t->curl->slist_free_all(t->headers);
    if (t->fd >= 0)
        close(t->fd);
    t->headers = NULL;
    t->fd = -1;
    t->owner = NULL;
}

void transfer_release(struct transfer *t)
{
    if (!t->easy)
        return;
    detach(t);
    t->curl->easy_cleanup(t->easy);
    *t = (struct transfer){.fd = -1};
}

/* ---- What arrives ----------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t n, void *context)
{
    struct transfer *t = context;
    answer_line(&t->answer, str_slice(line, size * n));
    return size * n;
}

static void judge(struct transfer *t)
{
    if (!t->judged)
        t->verdict = answer_judge(&t->answer, &t->question);
    t->judged = true;
}

/* Compares what is there with what came again; returns how many bytes that were. */
static size_t compare(struct transfer *t, const char *bytes, size_t n)
{
    char there[OVERLAP_BYTES];
    if (t->position >= t->fresh)
        return 0;
    const size_t same =
        (size_t)MIN_OF(MIN_OF((uint64_t)n, t->fresh - t->position), (uint64_t)sizeof(there));
    const ssize_t got = pread(t->fd, there, same, (off_t)t->position);
    t->differs = t->differs || got != (ssize_t)same || memcmp(there, bytes, same) != 0;
    t->position += same;
    return same;
}

/* 0, or -1 when the request is over. */
static int take(struct transfer *t, const char *bytes, size_t n)
{
    struct part *part = t->order.part;
    const size_t again = compare(t, bytes, n);
    bytes += again;
    n -= again;
    if (t->differs)
        return -1;
    if (n > t->end - t->position) {
        t->excess = true;
        return -1;
    }
    if (n > 0 && file_write_fd(t->fd, bytes, n, part->path, &t->error) < 0)
        return -1;
    t->position += n;
    part->done[t->order.segment] += n;
    part->unsaved_bytes += n;
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *context)
{
    struct transfer *t = context;
    judge(t);
    t->mark_bytes += size * n;
    if (t->verdict != VERDICT_OK && !t->order.part)
        t->enough = t->answer.status == 200 || t->answer.status == 206;
    if (t->verdict != VERDICT_OK)
        return 0; /* curl takes that as the end */
    if (!t->order.part) {
        t->enough = true;
        return size * n == 1 ? 1 : 0;
    }
    return take(t, bytes, size * n) == 0 ? size * n : 0;
}

/* ---- The request ------------------------------------------------------------------------------ */

static int open_part(struct transfer *t, struct error *e)
{
    struct part *part = t->order.part;
    const uint32_t i = t->order.segment;
    const uint64_t start = part_segment_start(part, i);
    if (!t->order.ranged)
        part->done[i] = 0; /* it comes from the beginning again */
    t->fresh = start + part->done[i];
    t->position = t->fresh - MIN_OF(part->done[i], (uint64_t)OVERLAP_BYTES);
    t->end = start + part_segment_length(part, i);
    t->fd = open(part->path, O_RDWR | O_CLOEXEC);
    if (t->fd < 0 || lseek(t->fd, (off_t)t->fresh, SEEK_SET) < 0)
        return error_sys(e, ERROR_IO, errno, "%s", part->path);
    return 0;
}

static bool set_long(struct transfer *t, CURLoption option, long value)
{
    return t->curl->easy_setopt(t->easy, option, value) == CURLE_OK;
}

static bool set_pointer(struct transfer *t, CURLoption option, const void *value)
{
    return t->curl->easy_setopt(t->easy, option, value) == CURLE_OK;
}

static bool add_header(struct transfer *t, const char *name, const char *value)
{
    char line[VALIDATOR_MAX + 32];
    if (!*value)
        return true;
    snprintf(line, sizeof(line), "%s: %s", name, value);
    struct curl_slist *more = t->curl->slist_append(t->headers, line);
    if (more)
        t->headers = more;
    return more != NULL;
}

static bool set_range(struct transfer *t)
{
    char range[64];
    if (!t->order.ranged)
        return true;
    snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, t->question.first, t->question.last);
    return set_pointer(t, CURLOPT_RANGE, range) &&
           (!t->order.remote || add_header(t, "If-Range", remote_if_range(t->order.remote)));
}

/* Given to the host of the URL only: curl drops it when another host is redirected to. */
static bool set_token(struct transfer *t)
{
    return !t->order.token || (set_long(t, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER) &&
                               set_pointer(t, CURLOPT_XOAUTH2_BEARER, t->order.token));
}

static bool set_callbacks(struct transfer *t)
{
    return t->curl->easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header) == CURLE_OK &&
           t->curl->easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
           set_pointer(t, CURLOPT_HEADERDATA, t) && set_pointer(t, CURLOPT_WRITEDATA, t) &&
           set_pointer(t, CURLOPT_PRIVATE, t) && set_pointer(t, CURLOPT_ERRORBUFFER, t->message);
}

static bool set_options(struct transfer *t)
{
    const bool secure = strncasecmp(t->order.url, "https://", 8) == 0;
    t->curl->easy_reset(t->easy);
    return set_range(t) && set_token(t) && set_callbacks(t) &&
           set_pointer(t, CURLOPT_URL, t->order.url) &&
           set_pointer(t, CURLOPT_HTTPHEADER, t->headers) &&
           set_pointer(t, CURLOPT_USERAGENT, "nocturne/" NOCTURNE_VERSION) &&
           set_pointer(t, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_pointer(t, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https") &&
           set_long(t, CURLOPT_FOLLOWLOCATION, 1) &&
           set_long(t, CURLOPT_MAXREDIRS, REDIRECTS_MAX) &&
           set_long(t, CURLOPT_UNRESTRICTED_AUTH, 0) &&
           /* Several streams inside one connection would share its speed. */
           set_long(t, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
           set_long(t, CURLOPT_NOSIGNAL, 1) && set_long(t, CURLOPT_TCP_KEEPALIVE, 1) &&
           set_long(t, CURLOPT_BUFFERSIZE, RECEIVE_BYTES) &&
           set_long(t, CURLOPT_CONNECTTIMEOUT_MS, (long)(t->order.stall_us / 1000));
}

int transfer_start(struct transfer *t, void *owner, const struct transfer_order *order,
                   struct error *e)
{
    *t = (struct transfer){.curl = t->curl,
                           .easy = t->easy,
                           .multi = t->multi,
                           .order = *order,
                           .fd = -1,
                           .mark_us = clock_mono_us()};
    answer_init(&t->answer);
    int rc = order->part ? open_part(t, e) : 0;
    t->question = (struct question){.ranged = order->ranged,
                                    .first = t->position,
                                    .last = order->part ? t->end - 1 : 0,
                                    .remote = order->remote,
                                    .hashed = order->hashed};
    if (rc == 0 && !set_options(t))
        rc = error_set(e, ERROR_UNSUPPORTED, "libcurl takes no order: older than 7.85?");
    if (rc == 0 && t->curl->multi_add_handle(t->multi, t->easy) != CURLM_OK)
        rc = error_set(e, ERROR_NOMEM, "no memory for a connection");
    if (rc == 0)
        t->owner = owner;
    else
        detach(t);
    return rc;
}

bool transfer_stalled(struct transfer *t, int64_t now_us)
{
    if (now_us - t->mark_us < t->order.stall_us)
        return false;
    const double least = (double)(now_us - t->mark_us) / 1e6 * LEAST_BYTES_PER_S;
    const bool stalled = (double)t->mark_bytes < least;
    t->mark_us = now_us;
    t->mark_bytes = 0;
    return stalled;
}

/* ---- How it ended ----------------------------------------------------------------------------- */

static enum transfer_kind kind_of_verdict(const struct transfer *t)
{
    switch (t->verdict) {
    case VERDICT_OK:
        return TRANSFER_DONE;
    case VERDICT_LIES:
        return TRANSFER_LIES;
    case VERDICT_CHANGED:
        return TRANSFER_CHANGED;
    case VERDICT_LATER:
        return TRANSFER_AGAIN;
    case VERDICT_DENIED:
    case VERDICT_GONE:
    case VERDICT_REFUSED:
        break;
    }
    /* What once was given will be given again, most likely: servers behind a hub have their moods. */
    return t->order.part ? TRANSFER_AGAIN : TRANSFER_FAILED;
}

static enum error_code code_of_verdict(enum verdict v)
{
    return v == VERDICT_GONE ? ERROR_NOTFOUND : ERROR_INVALID;
}

static bool hopeless(CURLcode code)
{
    return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_URL_MALFORMAT ||
           code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_TOO_MANY_REDIRECTS ||
           code == CURLE_SSL_CACERT_BADFILE || code == CURLE_OUT_OF_MEMORY;
}

/* The headers were not what was asked for. */
static void end_judged(struct transfer *t, struct transfer_outcome *ret)
{
    char text[200];
    ret->kind = kind_of_verdict(t);
    ret->retry_after_s = t->answer.retry_after_s;
    (void)error_set(&ret->why, code_of_verdict(t->verdict), "the server answers with %s%s",
                    answer_text(&t->answer, &t->question, text),
                    t->verdict == VERDICT_DENIED ? "; a gated file needs --token-file" : "");
}

/* They were, and then? */
static void end_body(struct transfer *t, CURLcode code, struct transfer_outcome *ret)
{
    char url[ADDRESS_MAX];
    const bool all = t->enough || (t->order.part && t->position == t->end);
    if (t->error.code) {
        ret->kind = TRANSFER_BROKEN;
        ret->why = t->error;
    } else if (t->differs) {
        ret->kind = TRANSFER_LIES;
        (void)error_set(&ret->why, ERROR_BADDATA, "bytes that came before came again as others");
    } else if (t->excess) {
        ret->kind = t->order.ranged ? TRANSFER_LIES : TRANSFER_AGAIN;
        (void)error_set(&ret->why, ERROR_BADDATA, "more bytes came than the file has");
    } else if (all || (code == CURLE_OK && !t->order.part)) {
        ret->kind = TRANSFER_DONE;
    } else if (hopeless(code)) {
        address_plain(t->order.url, url);
        ret->kind = TRANSFER_FAILED;
        (void)error_set(&ret->why, ERROR_IO, "%s (%.300s)",
                        t->message[0] ? t->message : t->curl->easy_strerror(code), url);
    } else {
        ret->kind = TRANSFER_AGAIN;
        (void)error_set(&ret->why, ERROR_UNFINISHED, "%s",
                        code == CURLE_OK                   ? "the answer ended too soon"
                        : code == CURLE_OPERATION_TIMEDOUT ? "nothing comes any more"
                        : t->message[0]                    ? t->message
                                                           : t->curl->easy_strerror(code));
    }
}

void transfer_end(struct transfer *t, CURLcode code, struct transfer_outcome *ret)
{
    *ret = (struct transfer_outcome){.retry_after_s = -1};
    if (!t->judged && code == CURLE_OK)
        judge(t);
    if (t->judged && t->verdict != VERDICT_OK)
        end_judged(t, ret);
    else
        end_body(t, code, ret);
    detach(t);
}
