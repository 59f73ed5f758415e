#include "batch/fetch/download.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "batch/fetch/address.h"

#define US_PER_S INT64_C(1000000)
#define PAUSE_DEFAULT_US US_PER_S
#define PAUSE_MAX_US (60 * US_PER_S)
#define DOUBLINGS_MAX 16
/* How often a file may turn out to be another one, or its server to lie, before that is the answer. */
#define RESTARTS_MAX 3
/* One wrong hash may be the line's fault; two are not. */
#define WRONG_MAX 2

int download_init(struct download *d, const struct fetch_item *item, const struct fetch_options *o,
                  struct error *e)
{
    *d = (struct download){.item = item, .options = o, .remote = {.size = FETCH_UNKNOWN}};
    return part_init(&d->part, o->dir, item->name, e);
}

void download_release(struct download *d)
{
    part_release(&d->part);
}

bool download_hashed(const struct download *d)
{
    return d->sha256[0] != '\0';
}

bool download_ranged(const struct download *d)
{
    return !d->plain && (download_hashed(d) || remote_has_validator(&d->remote));
}

uint64_t download_wants_bytes(const struct download *d)
{
    const uint64_t held = part_held_bytes(&d->part);
    if (d->there || d->state == DOWNLOAD_DONE || d->state == DOWNLOAD_FAILED ||
        d->remote.size == FETCH_UNKNOWN)
        return 0;
    return d->remote.size > held ? d->remote.size - held : 0;
}

void download_fail(struct download *d, const struct error *why)
{
    d->state = DOWNLOAD_FAILED;
    d->why = *why;
    (void)error_wrap(&d->why, "%s", d->item->name);
    if (d->options->list->n > 1) /* of one alone the caller says it */
        report_say(d->options->report, LOG_ERROR, "%s", d->why.text);
}

static void fail(struct download *d, enum error_code code, const char *text)
{
    struct error why = {0};
    (void)error_set(&why, code, "%s", text);
    download_fail(d, &why);
}

/* ---- What is there ---------------------------------------------------------------------------- */

int download_look(struct download *d, const struct manifest *m, struct error *e)
{
    struct stat st;
    const struct manifest_entry *known = manifest_find(m, d->item->name);
    if (lstat(d->part.final_path, &st) < 0) {
        const int sys = errno;
        return sys == ENOENT ? 0 : error_sys(e, ERROR_IO, sys, "%s", d->part.final_path);
    }
    const int64_t written_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    d->there = true;
    /* Verified then and not written to since: reading it all again is what `verify` is for. */
    if (known && known->size == (uint64_t)st.st_size && known->written_ns == written_ns &&
        (d->item->size == FETCH_UNKNOWN || d->item->size == known->size) &&
        (!d->item->sha256[0] || strcmp(d->item->sha256, known->sha256) == 0))
        d->state = DOWNLOAD_DONE;
    return 0;
}

/* ---- Trying again ----------------------------------------------------------------------------- */

static int64_t next_pause_us(const struct download *d, int64_t retry_after_s)
{
    const int64_t first = d->options->pause_us > 0 ? d->options->pause_us : PAUSE_DEFAULT_US;
    const unsigned doublings = MIN_OF(d->n_failures - 1, (unsigned)DOUBLINGS_MAX);
    const int64_t pause = MIN_OF(first << doublings, PAUSE_MAX_US);
    return MAX_OF(pause, retry_after_s * US_PER_S);
}

static void fail_later(struct download *d, const struct transfer_outcome *o)
{
    const int64_t now_us = clock_mono_us();
    const uint64_t done = d->opened ? part_done_bytes(&d->part) : 0;
    if (done > d->best_bytes || d->failing_since_us == 0) {
        d->best_bytes = MAX_OF(done, d->best_bytes);
        d->n_failures = 0;
        d->failing_since_us = now_us;
    } else if (now_us < d->not_before_us) {
        return; /* connections that were cut together are one failure */
    }
    d->n_failures++;
    const int64_t pause_us = next_pause_us(d, o->retry_after_s);
    if (now_us + pause_us - d->failing_since_us > d->options->give_up_us) {
        struct error why = o->why;
        char text[24], wait[24], asks[64] = "";
        why.code = ERROR_UNFINISHED;
        if (o->retry_after_s * US_PER_S >= pause_us)
            snprintf(asks, sizeof(asks), ", as the server asks to wait for %s",
                     str_format_duration(o->retry_after_s, wait));
        (void)error_wrap(&why, "gave up after %s without a new byte%s",
                         str_format_duration((now_us - d->failing_since_us) / US_PER_S, text),
                         asks);
        download_fail(d, &why);
        return;
    }
    d->not_before_us = now_us + pause_us;
    /* A cut that the next request mends is not worth a line. */
    report_say(d->options->report, d->n_failures > 1 ? LOG_WARN : LOG_DEBUG,
               "%s: %s; trying again in %.3g s", d->item->name, o->why.text,
               (double)pause_us / (double)US_PER_S);
}

/* From the beginning: what is known of it may be wrong. */
static void start_over(struct download *d, const struct error *why)
{
    if (++d->n_restarts > RESTARTS_MAX) {
        struct error all = *why;
        all.code = ERROR_BADDATA;
        (void)error_wrap(&all, "began anew %d times", RESTARTS_MAX);
        part_discard(&d->part);
        download_fail(d, &all);
        return;
    }
    report_say(d->options->report, LOG_WARN, "%s: %s; beginning anew", d->item->name, why->text);
    part_discard(&d->part);
    d->opened = false;
    d->best_bytes = 0;
    d->state = DOWNLOAD_ASK;
    d->remote = (struct remote){.size = FETCH_UNKNOWN};
}

/* ---- What it is ------------------------------------------------------------------------------- */

/* Two sources of one figure must agree. */
static bool agree_on_size(struct download *d, uint64_t size, const char *source, uint64_t *known)
{
    char text[200];
    if (size == FETCH_UNKNOWN || *known == FETCH_UNKNOWN || size == *known) {
        *known = *known == FETCH_UNKNOWN ? size : *known;
        return true;
    }
    snprintf(text, sizeof(text), "%" PRIu64 " bytes says %s, %" PRIu64 " the server", *known,
             source, size);
    fail(d, ERROR_BADDATA, text);
    return false;
}

static bool learn_size(struct download *d, const struct answer *a)
{
    uint64_t size = d->item->size;
    if (!agree_on_size(d, a->remote.size, "the list", &size) ||
        !agree_on_size(d, answer_size(a), d->item->size != FETCH_UNKNOWN ? "the list" : "the hub",
                       &size))
        return false;
    if (size == FETCH_UNKNOWN) {
        fail(d, ERROR_UNSUPPORTED,
             "the server does not say how large it is, so nothing would tell a cut file; give size "
             "and SHA-256 in a list (see 'nocturne help pull')");
        return false;
    }
    d->remote = a->remote;
    d->remote.size = size;
    return true;
}

/* The list's hash is the strongest, then the hub's; an ETag may be a hash of another kind. */
static bool learn_hash(struct download *d)
{
    char server[65], text[400];
    remote_sha256(&d->remote, server);
    const bool linked = d->remote.linked_sha256[0] != '\0';
    if (d->item->sha256[0] && linked && strcmp(d->item->sha256, server) != 0) {
        snprintf(text, sizeof(text), "its SHA-256 is %s says the list, %s the server",
                 d->item->sha256, server);
        fail(d, ERROR_BADDATA, text);
        return false;
    }
    memcpy(d->sha256, d->item->sha256[0] ? d->item->sha256 : server, sizeof(d->sha256));
    d->guessed = !d->item->sha256[0] && !linked && server[0];
    return true;
}

static bool is_gguf(const struct download *d)
{
    const size_t n = strlen(d->item->name);
    return n > 5 && strcasecmp(d->item->name + n - 5, ".gguf") == 0;
}

/* A file of that name is there and nobody has vouched for it. */
static void check_existing(struct download *d)
{
    struct stat st;
    char text[400];
    const char *path = d->part.final_path;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
        snprintf(text, sizeof(text),
                 "%.200s is no regular file and no link to one; remove or rename it", path);
        fail(d, ERROR_INVALID, text);
    } else if ((uint64_t)st.st_size != d->remote.size) {
        snprintf(text, sizeof(text),
                 "%.200s is there with %lld bytes, the server's has %" PRIu64
                 "; remove or rename it to fetch that one",
                 path, (long long)st.st_size, d->remote.size);
        fail(d, ERROR_BADDATA, text);
    } else if (!download_hashed(d)) {
        snprintf(text, sizeof(text),
                 "%.200s is there, and no SHA-256 is known to check it by; remove or rename it to "
                 "fetch it",
                 path);
        fail(d, ERROR_INVALID, text);
    } else {
        d->state = DOWNLOAD_CHECK;
    }
}

void download_asked(struct download *d, const struct answer *a, const struct transfer_outcome *o)
{
    const bool empty = a->range_unsatisfied && a->total == 0;
    if (o->kind == TRANSFER_AGAIN) {
        fail_later(d, o);
        return;
    }
    if (o->kind == TRANSFER_FAILED || o->kind == TRANSFER_BROKEN) {
        download_fail(d, &o->why);
        return;
    }
    if (o->kind != TRANSFER_DONE && a->status != 200 && !empty) {
        /* A range that was not asked for: what it says of the size is worth nothing either. */
        if (d->plain)
            download_fail(d, &o->why);
        d->plain = true;
        return;
    }
    if (a->html && is_gguf(d)) {
        fail(d, ERROR_BADDATA,
             "the server sends a web page instead; is this the address of a page about the file "
             "(write /resolve/ for /blob/), or is it gated (--token-file)?");
        return;
    }
    d->plain = d->plain || a->status == 200;
    d->failing_since_us = 0;
    if (!learn_size(d, a) || !learn_hash(d))
        return;
    if (d->there)
        check_existing(d);
    else
        d->state = DOWNLOAD_FETCH;
}

/* ---- Its bytes -------------------------------------------------------------------------------- */

int download_open(struct download *d, struct error *e)
{
    const bool ranged = download_ranged(d);
    const uint64_t cut = d->options->cut_bytes ? d->options->cut_bytes : part_cut(d->remote.size);
    const bool many = ranged && download_hashed(d) && !d->careful;
    int rc = part_open(&d->part, &d->remote, many ? cut : 0, ranged, e);
    d->opened = rc == 0;
    if (rc == 0)
        d->best_bytes = part_done_bytes(&d->part);
    return rc;
}

uint32_t download_next_segment(const struct download *d, uint32_t i)
{
    while (i < d->part.n && d->part.done[i] == part_segment_length(&d->part, i))
        i++;
    return i;
}

void download_fetched(struct download *d, const struct transfer_outcome *o, bool *ret_restart)
{
    *ret_restart = false;
    switch (o->kind) {
    case TRANSFER_DONE:
        d->failing_since_us = 0;
        break;
    case TRANSFER_AGAIN:
        fail_later(d, o);
        *ret_restart = d->state == DOWNLOAD_FAILED;
        break;
    case TRANSFER_LIES:
        d->plain = true;
        start_over(d, &o->why);
        *ret_restart = true;
        break;
    case TRANSFER_CHANGED:
        start_over(d, &o->why);
        *ret_restart = true;
        break;
    case TRANSFER_FAILED:
    case TRANSFER_BROKEN:
        download_fail(d, &o->why);
        *ret_restart = true;
        break;
    }
}

/* ---- Its check -------------------------------------------------------------------------------- */

static void wrong_hash(struct download *d, const struct digest *now)
{
    struct error why = {0};
    (void)error_set(&why, ERROR_BADDATA, "its SHA-256 is %s, and should be %s%s", now->sha256,
                    d->sha256,
                    d->guessed ? " by the server's ETag (if that is a hash of another kind, give "
                                 "the SHA-256 in a list)"
                               : "");
    if (d->there) {
        (void)error_wrap(&why, "%s is another file; remove or rename it to fetch the right one",
                         d->part.final_path);
        download_fail(d, &why);
    } else if (++d->n_wrong == WRONG_MAX) {
        (void)error_wrap(&why, "what came is not the file, %d times; nothing of it is kept",
                         WRONG_MAX);
        part_discard(&d->part);
        download_fail(d, &why);
    } else {
        d->careful = true;
        start_over(d, &why);
    }
}

/* Without a hash at least what it is called must be what it is. */
static bool looks_right(struct download *d, struct error *e)
{
    struct file f = {0};
    char magic[4] = "";
    if (download_hashed(d) || !is_gguf(d))
        return true;
    int rc = file_open(&f, d->part.path, e);
    if (rc == 0 && f.size >= sizeof(magic))
        rc = file_read_at(&f, magic, sizeof(magic), 0, e);
    file_close(&f);
    if (rc == 0 && memcmp(magic, "GGUF", sizeof(magic)) != 0)
        rc = error_set(e, ERROR_BADDATA, "it does not begin as a GGUF file does; not kept");
    return rc == 0;
}

static int remember(const struct download *d, const struct digest *now, struct manifest *m,
                    struct error *e)
{
    char url[ADDRESS_MAX];
    address_plain(d->item->url, url);
    const struct manifest_entry entry = {.name = d->item->name,
                                         .url = url,
                                         .size = now->size,
                                         .written_ns = now->written_ns,
                                         .published = download_hashed(d)};
    struct manifest_entry full = entry;
    memcpy(full.sha256, now->sha256, sizeof(full.sha256));
    int rc = manifest_put(m, &full, e);
    return rc < 0 ? rc : manifest_write(m, e);
}

int download_checked(struct download *d, const struct digest *now, struct manifest *m,
                     struct error *e)
{
    struct error why = {0};
    if (download_hashed(d) && strcmp(now->sha256, d->sha256) != 0) {
        wrong_hash(d, now);
        return 0;
    }
    if (!looks_right(d, &why)) {
        part_discard(&d->part);
        download_fail(d, &why);
        return 0;
    }
    /* The manifest first: a name without its line would be a file that nobody vouches for. */
    int rc = remember(d, now, m, e);
    if (rc == 0 && !d->there)
        rc = part_finish(&d->part, e);
    if (rc == 0)
        d->state = DOWNLOAD_DONE;
    return rc;
}
