/* Whether fetched files are what they should be: every byte by the manifest, or at least their shape. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "batch/command.h"
#include "batch/fetch/address.h"
#include "batch/fetch/digest.h"
#include "batch/fetch/manifest.h"
#include "batch/fetch/part.h"
#include "batch/report.h"
#include "batch/stop.h"
#include "engine/engine.h"

#define PATH_BYTES 8192
#define NAMES_MAX_BYTES 60000

struct verify {
    struct command_context *c;
    const char *dir;
    struct manifest manifest;
    struct report report;
    struct stop stop;
    cJSON *json; /* NULL: text */
    uint64_t done_bytes, total_bytes;
    size_t n_good, n_bad;
    struct error first; /* of the files */
};

/* ---- What is said of a file ------------------------------------------------------------------- */

static void say(struct verify *v, const char *name, const char *state, const struct error *why,
                const char *again)
{
    if (v->json) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "file", name);
        cJSON_AddStringToObject(o, "state", state);
        if (why)
            cJSON_AddStringToObject(o, "error", why->text);
        if (again)
            cJSON_AddStringToObject(o, "fetch_again", again);
        cJSON_AddItemToArray(v->json, o);
        return;
    }
    report_end(&v->report);
    output_put(v->c->out, "%-8s  %s%s%s\n", state, name, why ? ": " : "", why ? why->text : "");
    if (again)
        output_put(v->c->out, "          again: %s\n", again);
    (void)output_flush(v->c->out, NULL);
}

static void good(struct verify *v, const char *name, const char *state)
{
    v->n_good++;
    say(v, name, state, NULL, NULL);
}

/* `again`: the command that mends it, or NULL. */
static void bad(struct verify *v, const char *name, const char *state, const struct error *why,
                const char *again)
{
    v->n_bad++;
    if (!v->first.code) {
        v->first = *why;
        (void)error_wrap(&v->first, "%s", name);
    }
    say(v, name, state, why, again);
}

/* A word for a shell, in quotes where it needs some. */
static void put_word(struct buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./:@%+=,~";
    if (*word && strspn(word, plain) == strlen(word)) {
        buf_append_c(out, word);
        return;
    }
    buf_append_c(out, "'");
    for (; *word; word++) {
        if (*word == '\'')
            buf_append_c(out, "'\\''");
        else
            buf_append(out, word, 1);
    }
    buf_append_c(out, "'");
}

/* "rm DIR/NAME && nocturne pull URL DIR"; empty when nobody knows where it came from. */
static void put_again(struct verify *v, const struct manifest_entry *entry, bool there,
                      struct buf *out)
{
    char path[PATH_BYTES];
    /* Anybody may have written it: what is no URL could be an option. */
    if (address_check(entry->url, NULL) < 0)
        return;
    snprintf(path, sizeof(path), "%s/%s", v->dir, entry->name);
    if (there) {
        buf_append_c(out, "rm ");
        put_word(out, path);
        buf_append_c(out, " && ");
    }
    buf_append_c(out, "nocturne pull ");
    put_word(out, entry->url);
    buf_append_c(out, " ");
    put_word(out, v->dir);
}

/* ---- By the manifest -------------------------------------------------------------------------- */

static bool progress(void *context, uint64_t more_bytes)
{
    struct verify *v = context;
    char done[24], total[24];
    v->done_bytes += more_bytes;
    if (report_due(&v->report))
        report_line(&v->report, "read %s of %s", str_format_size(v->done_bytes, done),
                    str_format_size(v->total_bytes, total));
    return stop_asked(&v->stop);
}

/* What is wrong with the file of an entry; 0: nothing. */
static int check_bytes(struct verify *v, const struct manifest_entry *entry, const char *path,
                       struct error *e)
{
    struct digest now;
    struct stat st;
    if (stat(path, &st) < 0) {
        const int sys = errno;
        return sys == ENOENT ? error_set(e, ERROR_NOTFOUND, "it is not there")
                             : error_sys(e, ERROR_IO, sys, "%s", path);
    }
    if (entry->size != FETCH_UNKNOWN && (uint64_t)st.st_size != entry->size)
        return error_set(e, ERROR_BADDATA, "%lld bytes, should be %" PRIu64, (long long)st.st_size,
                         entry->size);
    int rc = digest_file(path, progress, v, &now, e);
    if (rc == 0 && strcmp(now.sha256, entry->sha256) != 0)
        rc = error_set(e, ERROR_BADDATA, "SHA-256 %s, should be %s", now.sha256, entry->sha256);
    return rc;
}

static int check_entry(struct verify *v, const struct manifest_entry *entry, struct error *e)
{
    char path[PATH_BYTES];
    struct error why = {0};
    struct buf again;
    buf_init(&again, 2 * PATH_BYTES);
    snprintf(path, sizeof(path), "%s/%s", v->dir, entry->name);
    const int rc = check_bytes(v, entry, path, &why);
    if (rc == -ERROR_INTERRUPTED) {
        *e = why;
        buf_release(&again);
        return rc;
    }
    if (rc == 0) {
        good(v, entry->name, entry->published ? "ok" : "as came");
    } else {
        const bool missing = rc == -ERROR_NOTFOUND;
        put_again(v, entry, !missing, &again);
        bad(v, entry->name,
            missing                ? "missing"
            : rc == -ERROR_BADDATA ? "damaged"
                                   : "failed",
            &why, again.len > 0 ? again.ptr : NULL);
    }
    buf_release(&again);
    return 0;
}

static int check_manifest(struct verify *v, struct error *e)
{
    struct stat st;
    char path[PATH_BYTES];
    for (size_t i = 0; i < v->manifest.n; i++) {
        snprintf(path, sizeof(path), "%s/%s", v->dir, v->manifest.entry[i].name);
        v->total_bytes += stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < v->manifest.n; i++)
        rc = check_entry(v, &v->manifest.entry[i], e);
    return rc;
}

/* ---- By what is there ------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcasecmp(text + n - m, end) == 0;
}

/* Of a split model the first part that is there stands for all: the reader opens the others. */
static bool is_later_part(const struct verify *v, const char *name)
{
    char path[PATH_BYTES], first[ADDRESS_MAX];
    unsigned n = 0;
    if (!address_is_split(name, &n) || strlen(name) >= ADDRESS_NAME_MAX)
        return false;
    address_part(name, 1, first);
    snprintf(path, sizeof(path), "%s/%s", v->dir, first);
    return strcmp(first, name) != 0 && access(path, F_OK) == 0;
}

/* The file's name stands before it already. */
static void drop_prefix(struct error *why, const char *path)
{
    const size_t n = strlen(path);
    if (strncmp(why->text, path, n) == 0 && strncmp(why->text + n, ": ", 2) == 0)
        memmove(why->text, why->text + n + 2, strlen(why->text + n + 2) + 1);
}

static void check_shape(struct verify *v, const char *name)
{
    char path[PATH_BYTES];
    struct engine *en = NULL;
    struct error why = {0};
    snprintf(path, sizeof(path), "%s/%s", v->dir, name);
    const struct engine_options o = {
        .model_path = path, .headers_only = true, .no_tokenizer = true};
    if (engine_open(&en, &o, &why) == 0) {
        good(v, name, "shape ok");
    } else {
        drop_prefix(&why, path);
        bad(v, name, why.code == ERROR_NOTFOUND ? "missing" : "damaged", &why, NULL);
    }
    engine_close(en);
}

/* A pull that was not finished. */
static void found_part(struct verify *v, const char *name)
{
    struct error why = {0};
    (void)error_set(&why, ERROR_UNFINISHED,
                    "not all there yet; the 'nocturne pull' that began it goes on");
    bad(v, name, "part", &why, NULL);
}

static void check_name(struct verify *v, const char *name)
{
    if (ends_with(name, PART_SUFFIX))
        found_part(v, name);
    else if (ends_with(name, ".gguf") && !manifest_find(&v->manifest, name) &&
             !is_later_part(v, name))
        check_shape(v, name);
}

/* Names of the folder that concern us, each with its NUL, in no order. */
static int read_names(const char *dir, struct buf *names, struct error *e)
{
    DIR *folder = opendir(dir);
    if (!folder) {
        const int sys = errno;
        return error_sys(e, sys == ENOENT ? ERROR_NOTFOUND : ERROR_IO, sys, "%s", dir);
    }
    for (const struct dirent *d = readdir(folder); d; d = readdir(folder)) {
        if (ends_with(d->d_name, PART_SUFFIX) || ends_with(d->d_name, ".gguf"))
            buf_append(names, d->d_name, strlen(d->d_name) + 1);
    }
    closedir(folder);
    return buf_check(names, dir, e);
}

/* The first name after `last` in the order of the alphabet, or NULL. */
static const char *next_name(const struct buf *names, const char *last)
{
    const char *next = NULL;
    for (size_t at = 0; at < names->len; at += strlen(names->ptr + at) + 1) {
        const char *name = names->ptr + at;
        if (strcmp(name, last) > 0 && (!next || strcmp(name, next) < 0))
            next = name;
    }
    return next;
}

static int check_folder(struct verify *v, struct error *e)
{
    struct buf names;
    buf_init(&names, NAMES_MAX_BYTES);
    int rc = read_names(v->dir, &names, e);
    for (const char *name = ""; rc == 0 && (name = next_name(&names, name)) != NULL;)
        check_name(v, name);
    buf_release(&names);
    return rc;
}

/* ---- The command ------------------------------------------------------------------------------ */

static int conclude(struct verify *v, struct error *e)
{
    if (v->n_bad == 0 && v->n_good == 0)
        return error_set(e, ERROR_NOTFOUND, "%s: neither " MANIFEST_NAME " nor a GGUF file there",
                         v->dir);
    if (v->manifest.n == 0)
        report_say(&v->report, LOG_WARN,
                   "%s has no " MANIFEST_NAME ": no hashes are known, so only headers and sizes "
                   "were checked, not every byte",
                   v->dir);
    if (v->n_bad == 0)
        return 0;
    *e = v->first;
    if (v->n_bad > 1)
        return error_wrap(e, "%zu files are not as they should be", v->n_bad);
    return -e->code;
}

static int run(struct command_context *c, struct error *e)
{
    struct verify v = {.c = c, .dir = c->arg[0]};
    report_init(&v.report, option_us(c->options, OPTION_REPORT_EVERY));
    v.json = option_on(c->options, OPTION_JSON) ? cJSON_CreateArray() : NULL;
    int rc = manifest_read(&v.manifest, v.dir, e);
    if (rc == 0)
        rc = stop_open(&v.stop, e);
    if (rc == 0)
        rc = check_manifest(&v, e);
    if (rc == 0)
        rc = check_folder(&v, e);
    report_end(&v.report);
    stop_close(&v.stop);
    struct error output = {0};
    if (v.json && output_json(c->out, v.json, true, &output) < 0 && rc == 0) {
        *e = output;
        rc = -output.code;
    }
    if (rc == 0)
        rc = conclude(&v, e);
    manifest_release(&v.manifest);
    return rc;
}

static const enum option_id options[] = {OPTION_JSON, OPTION_REPORT_EVERY, OPTION_NONE};

const struct command command_verify = {
    .name = "verify",
    .arguments = "DIR",
    .min_args = 1,
    .max_args = 1,
    .option = options,
    .details =
        "Reads every file that DIR/SHA256SUMS names from the disk, without filling the page "
        "cache,\n"
        "and says of each: ok, damaged or missing, with the command that fetches it again; 'as "
        "came'\n"
        "is a file of which nobody had published a hash: it is what arrived then. GGUF files that\n"
        "the manifest does not know, and folders without one, are checked by their headers and "
        "sizes\n"
        "only ('shape ok'), all parts of a split model together.\n\n"
        "Exit status: 0 all well, 3 something is missing, 65 damaged, 75 a pull is not finished.",
    .examples = "nocturne verify models\n"
                "nocturne verify models --json",
    .run = run,
};
