/* Fetches a model's files into a folder, whole and verified. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "batch/command.h"
#include "batch/fetch/address.h"
#include "batch/fetch/fetch.h"
#include "batch/fetch/manifest.h"
#include "batch/stop.h"

#define TOKEN_MAX_BYTES 4096

/* A token is given to one host, and to nobody who listens on the way. */
static int check_token_use(const struct fetch_list *list, struct error *e)
{
    char first[ADDRESS_MAX], host[ADDRESS_MAX];
    address_host(list->item[0].url, first);
    for (size_t i = 0; i < list->n; i++) {
        address_host(list->item[i].url, host);
        if (!address_private(list->item[i].url))
            return error_set(e, ERROR_USAGE,
                             "--token-file: a token is sent over https only, not "
                             "to http://%.200s",
                             host);
        if (strcmp(first, host) != 0)
            return error_set(e, ERROR_USAGE,
                             "--token-file: the list names several hosts (%.200s, %.200s), a token "
                             "is for one",
                             first, host);
    }
    return 0;
}

/* The token's text into *text, without the line's end; no token: NULL. */
static int read_token(const struct options *o, const struct fetch_list *list, struct buf *text,
                      const char **ret, struct error *e)
{
    const char *path = option_text(o, OPTION_TOKEN_FILE);
    *ret = NULL;
    if (!path)
        return 0;
    int rc = check_token_use(list, e);
    if (rc == 0)
        rc = file_read_all(path, TOKEN_MAX_BYTES, text, e);
    if (rc < 0)
        return rc;
    size_t n = text->len;
    while (n > 0 && strchr(" \t\r\n", text->ptr[n - 1]))
        n--;
    for (size_t i = 0; i < n; i++) {
        if (text->ptr[i] <= ' ' || text->ptr[i] > '~')
            return error_set(e, ERROR_BADDATA, "%s: not one word, as a token is", path);
    }
    if (n == 0)
        return error_set(e, ERROR_BADDATA, "%s: no token in it", path);
    text->ptr[n] = '\0';
    *ret = text->ptr;
    return 0;
}

static bool stopped(void *context)
{
    return stop_asked(context);
}

static void summarise(struct report *report, const struct fetch_options *o,
                      const struct fetch_result *r)
{
    char size[24], rate[24], time[24];
    const double s = (double)(clock_mono_us() - report->started_us) / 1e6;
    if (r->n_fetched > 0)
        report_say(report, LOG_INFO, "%zu file%s fetched, %s in %s (%s/s)", r->n_fetched,
                   r->n_fetched == 1 ? "" : "s", str_format_size(r->fetched_bytes, size),
                   str_format_duration((int64_t)s, time),
                   str_format_size((uint64_t)((double)r->fetched_bytes / s), rate));
    if (r->n_there > 0)
        report_say(report, LOG_INFO,
                   "%zu file%s there already; 'nocturne verify %s' reads every byte again",
                   r->n_there, r->n_there == 1 ? " was" : "s were", o->dir);
    if (r->n_unhashed > 0)
        report_say(report, LOG_WARN,
                   "of %zu file%s nobody published a SHA-256: only the size could be checked; "
                   "%s/" MANIFEST_NAME " has the hash of what came",
                   r->n_unhashed, r->n_unhashed == 1 ? "" : "s", o->dir);
}

static int pull(struct command_context *c, struct fetch_options *o, struct error *e)
{
    struct fetch_result result;
    int rc = fetch(o, &result, e);
    report_end(o->report);
    if (rc == 0) {
        summarise(o->report, o, &result);
        for (size_t i = 0; i < o->list->n; i++)
            output_put(c->out, "%s/%s\n", o->dir, o->list->item[i].name);
    }
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct fetch_list list = {0};
    struct report report;
    struct stop stop = {0};
    struct buf token;
    buf_init(&token, TOKEN_MAX_BYTES + 1);
    report_init(&report, option_us(c->options, OPTION_REPORT_EVERY));
    struct fetch_options o = {
        .list = &list,
        .dir = c->arg[1],
        .connections = (unsigned)option_int(c->options, OPTION_CONNECTIONS),
        .give_up_us = option_us(c->options, OPTION_GIVE_UP),
        .report = &report,
        .stopped = stopped,
        .context = &stop,
    };
    int rc = fetch_list_read(&list, c->arg[0], e);
    if (rc == 0)
        rc = read_token(c->options, &list, &token, &o.token, e);
    if (rc == 0)
        rc = stop_open(&stop, e);
    if (rc == 0)
        rc = pull(c, &o, e);
    stop_close(&stop);
    fetch_list_release(&list);
    buf_release(&token);
    return rc;
}

static const enum option_id options[] = {OPTION_CONNECTIONS, OPTION_GIVE_UP, OPTION_TOKEN_FILE,
                                         OPTION_REPORT_EVERY, OPTION_NONE};

const struct command command_pull = {
    .name = "pull",
    .arguments = "URL|LIST DIR",
    .min_args = 2,
    .max_args = 2,
    .option = options,
    .details =
        "Fetches the file of URL into DIR; of a split model (NAME-00001-of-00034.gguf) all parts.\n"
        "LIST is a text file instead: on each line a URL and, if known, its size in bytes and its\n"
        "SHA-256. Cuts, stalls and overloaded servers are waited out. Whatever ends it, the same\n"
        "command goes on: what came stays beside the file as NAME.part.\n\n"
        "A file gets its name only when it is whole and verified: against the SHA-256 of the list "
        "or\n"
        "of the hub's headers (X-Linked-Etag, an ETag of 64 digits). Without a hash only its size\n"
        "can be checked, and it comes over one connection. DIR/SHA256SUMS has the hashes, for\n"
        "'nocturne verify' and 'sha256sum -c'. The paths are printed when all files are there.\n\n"
        "Exit status: 0 all there, 3 not found, 4 refused by the server, 65 not the bytes that "
        "were\n"
        "promised, 75 no new byte for --give-up, disk full or another pull there, 130 stopped by\n"
        "Ctrl-C.",
    .examples =
        "nocturne pull https://hub.example/org/model/resolve/main/model-Q4_K_M.gguf models\n"
        "nocturne pull https://hub.example/big/resolve/main/big-00001-of-00034.gguf models \\\n"
        "    --connections 8\n"
        "nocturne pull files.txt models --token-file ~/.config/hub-token",
    .run = run,
};
