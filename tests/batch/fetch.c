/* Downloads from a server that misbehaves in every way: the right file, or none under its name. */
#include "batch/fetch/fetch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "batch/fetch/manifest.h"
#include "tests/batch/program.h"
#include "tests/batch/web.h"
#include "tests/test.h"

#define SIZE 200000
#define DIR "models"
#define FILE_PATH DIR "/model.gguf"

struct attempt {
    const char *file;   /* NULL: model.gguf */
    const char *sha256; /* of the list; NULL none */
    const char *token;
    unsigned connections;
    int64_t give_up_us, stall_us;
    int64_t stop_after; /* bytes that the server has sent; 0: never */
    struct web *web;
};

static bool stopped(void *context)
{
    const struct attempt *a = context;
    return a->stop_after > 0 && atomic_load(&a->web->sent_bytes) >= a->stop_after;
}

static int pull(struct attempt *a, struct fetch_result *ret, struct error *e)
{
    char url[100];
    struct report report;
    struct fetch_list list;
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/some/%s", a->web->port,
             a->file ? a->file : "model.gguf");
    int rc = fetch_list_read(&list, url, e);
    if (rc == 0 && a->sha256)
        memcpy(list.item[0].sha256, a->sha256, 65);
    log_set_level(LOG_ERROR);
    report_init(&report, INT64_C(1) << 40);
    report.terminal = false;
    const struct fetch_options o = {.list = &list,
                                    .dir = DIR,
                                    .token = a->token,
                                    .connections = a->connections ? a->connections : 4,
                                    .give_up_us = a->give_up_us ? a->give_up_us : 20000000,
                                    .stall_us = a->stall_us ? a->stall_us : 5000000,
                                    .pause_us = 1000,
                                    .cut_bytes = 48000,
                                    .report = &report,
                                    .stopped = stopped,
                                    .context = a};
    if (rc == 0)
        rc = fetch(&o, ret, e);
    fetch_list_release(&list);
    return rc;
}

static bool is_file(const struct web *w, bool changed)
{
    struct buf have;
    struct error e = {0};
    unsigned char *want = malloc(w->size + 1);
    CHECK(want != NULL);
    web_bytes(w, changed, want);
    buf_init(&have, 1u << 22);
    CHECK_OK(file_read_all(FILE_PATH, 1u << 22, &have, &e), &e);
    const bool same = have.len == w->size && memcmp(have.ptr ? have.ptr : "", want, w->size) == 0;
    free(want);
    buf_release(&have);
    return same;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static void remove_all(void)
{
    unlink(FILE_PATH);
    unlink(FILE_PATH ".part");
    unlink(FILE_PATH ".part.state");
    unlink(DIR "/" MANIFEST_NAME);
}

/* The right file and nothing beside it, and the manifest says so. */
static void check_whole(const struct web *w, bool changed)
{
    struct error e = {0};
    struct manifest m;
    CHECK(is_file(w, changed));
    CHECK(!exists(FILE_PATH ".part") && !exists(FILE_PATH ".part.state"));
    CHECK_OK(manifest_read(&m, DIR, &e), &e);
    const struct manifest_entry *entry = manifest_find(&m, "model.gguf");
    CHECK(entry != NULL);
    CHECK_STR(entry->sha256, changed ? w->changed_sha256 : w->sha256);
    CHECK(entry->size == w->size && strstr(entry->url, "/some/model.gguf"));
    manifest_release(&m);
}

/* ---- The property ----------------------------------------------------------------------------- */

/* Flipped bits and a file that changes under its tag: without a hash nobody can see them. */
static bool invisible(enum web_fault fault, bool hashed)
{
    return !hashed &&
           (fault == WEB_CORRUPT || fault == WEB_CORRUPT_ONCE || fault == WEB_CHANGES_SILENTLY);
}

static void check_property(struct web *w, struct attempt *a, const char *how)
{
    struct error e = {0};
    struct fetch_result r;
    atomic_store(&w->answers, 0);
    atomic_store(&w->requests, 0);
    atomic_store(&w->corrupted, false);
    remove_all();
    const int rc = pull(a, &r, &e);
    if (rc == 0 && !is_file(w, false) && !is_file(w, true))
        test_fail(__FILE__, __LINE__, "fault %d, %s: a bad file under its name", w->fault, how);
    if (rc != 0 && exists(FILE_PATH))
        test_fail(__FILE__, __LINE__, "fault %d, %s: a file after %d: %s", w->fault, how, rc,
                  e.text);
    if (rc != 0 && !e.text[0])
        test_fail(__FILE__, __LINE__, "fault %d, %s: no word of why", w->fault, how);
}

TEST(fetch_gives_the_right_file_or_none_whatever_the_server_does)
{
    struct web w = {.etag = true};
    web_start(&w, SIZE);
    struct attempt a = {.web = &w, .give_up_us = 60000, .stall_us = 50000};
    for (int fault = 0; fault < WEB_FAULTS; fault++) {
        w.fault = (enum web_fault)fault;
        for (int kind = 0; kind < 4; kind++) {
            char how[64];
            w.linked = kind == 0;
            a.sha256 = kind == 1 ? w.sha256 : NULL;
            w.etag = kind != 3;
            a.connections = fault % 2 ? 1 : 3;
            snprintf(how, sizeof(how), "kind %d, %u connections", kind, a.connections);
            if (!invisible(w.fault, kind < 2))
                check_property(&w, &a, how);
        }
    }
    web_stop(&w);
}

/* ---- What must come to a good end ------------------------------------------------------------- */

static void check_mended(enum web_fault fault, bool linked, bool changed)
{
    struct web w = {.etag = true, .linked = linked, .fault = fault};
    struct attempt a = {.web = &w, .stall_us = fault == WEB_STALL ? 200000 : 0};
    struct fetch_result r;
    struct error e = {0};
    remove_all();
    web_start(&w, SIZE);
    CHECK_OK(pull(&a, &r, &e), &e);
    check_whole(&w, changed);
    CHECK_INT(r.n_fetched, 1);
    CHECK_INT(r.n_unhashed, !linked);
    web_stop(&w);
}

TEST(fetch_mends_what_can_be_mended)
{
    static const enum web_fault faults[] = {
        WEB_HONEST,  WEB_CUT,    WEB_CUT_OFTEN, WEB_STALL,         WEB_NO_RANGES,
        WEB_SHIFTED, WEB_UNSAID, WEB_BUSY,      WEB_LIES_AND_CUTS, WEB_RANGES_ONCE,
    };
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        check_mended(faults[i], true, false);
        check_mended(faults[i], false, false);
    }
    check_mended(WEB_LIES, true, false);
    check_mended(WEB_CORRUPT_ONCE, true, false);
    check_mended(WEB_NO_LENGTH, true, false);
    check_mended(WEB_CHANGES, true, true);
    check_mended(WEB_KEEPS_CHANGING, true, false);
}

static void check_fails(enum web_fault fault, bool linked, enum error_code code, const char *part)
{
    struct web w = {.etag = true, .linked = linked, .fault = fault};
    struct attempt a = {.web = &w, .give_up_us = 100000};
    struct fetch_result r;
    struct error e = {0};
    remove_all();
    web_start(&w, SIZE);
    CHECK_ERROR(pull(&a, &r, &e), &e, code, part);
    CHECK(fault == WEB_HUGE || strstr(e.text, "model.gguf") != NULL);
    CHECK(!exists(FILE_PATH));
    web_stop(&w);
}

TEST(fetch_says_why_there_is_no_file)
{
    check_fails(WEB_CORRUPT, true, ERROR_BADDATA, "what came is not the file, 2 times");
    check_fails(WEB_WRONG_TOTAL, true, ERROR_BADDATA,
                "200000 bytes says the hub, 200007 the server");
    check_fails(WEB_DOWN, true, ERROR_UNFINISHED, "status 503");
    check_fails(WEB_DOWN_LONG, true, ERROR_UNFINISHED, "as the server asks to wait for 1h 00m 00s");
    check_fails(WEB_NO_LENGTH, false, ERROR_UNSUPPORTED, "does not say how large");
    check_fails(WEB_PAGE, false, ERROR_BADDATA, "web page");
    check_fails(WEB_ENCODED, true, ERROR_INVALID, "encoded");
    check_fails(WEB_DENIED, true, ERROR_INVALID, "status 403; a gated file needs --token-file");
    check_fails(WEB_GONE, true, ERROR_NOTFOUND, "status 404");
    check_fails(WEB_HUGE, false, ERROR_FULL, "more are needed there");
}

TEST(fetch_refuses_a_hash_that_two_sources_disagree_on)
{
    struct web w = {.etag = true, .linked = true, .wrong_hash = true};
    struct attempt a = {.web = &w};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, SIZE);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_BADDATA, "its SHA-256 is");
    a.sha256 = w.sha256;
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_BADDATA, "says the list");
    CHECK(!exists(FILE_PATH) && !exists(FILE_PATH ".part"));
    web_stop(&w);
}

TEST(fetch_takes_an_empty_file)
{
    struct web w = {.etag = true, .linked = true, .fault = WEB_NO_RANGES};
    struct attempt a = {.web = &w};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, 0);
    CHECK_OK(pull(&a, &r, &e), &e);
    check_whole(&w, false);
    web_stop(&w);
}

TEST(fetch_takes_no_empty_model_that_nobody_vouches_for)
{
    struct web w = {.etag = true, .fault = WEB_NO_RANGES};
    struct attempt a = {.web = &w};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, 0);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_BADDATA, "does not begin as a GGUF file does");
    CHECK(!exists(FILE_PATH) && !exists(FILE_PATH ".part"));
    web_stop(&w);
}

/* ---- Going on --------------------------------------------------------------------------------- */

static void check_resumes(bool linked, unsigned connections)
{
    struct web w = {.etag = true, .linked = linked, .fault = WEB_CUT_OFTEN};
    struct attempt a = {.web = &w, .connections = connections, .stop_after = 90000};
    struct fetch_result r;
    struct error e = {0};
    remove_all();
    web_start(&w, SIZE);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_INTERRUPTED, "the same command goes on");
    CHECK(!exists(FILE_PATH) && exists(FILE_PATH ".part") && exists(FILE_PATH ".part.state"));
    a.stop_after = 0;
    CHECK_OK(pull(&a, &r, &e), &e);
    check_whole(&w, false);
    /* Whole segments, and a few bytes that were compared, came twice at most. */
    CHECK(atomic_load(&w.sent_bytes) < SIZE + 110000);
    web_stop(&w);
}

TEST(fetch_goes_on_where_it_was_stopped)
{
    check_resumes(true, 1);
    check_resumes(true, 3);
    check_resumes(false, 1);
}

TEST(fetch_does_not_go_on_with_another_file)
{
    struct web w = {.etag = true, .fault = WEB_CUT_OFTEN};
    struct attempt a = {.web = &w, .stop_after = 90000};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, SIZE);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_INTERRUPTED, "");
    a.stop_after = 0;
    w.fault = WEB_CHANGES; /* from the third answer on, so from the first here */
    CHECK_OK(pull(&a, &r, &e), &e);
    check_whole(&w, true);
    web_stop(&w);
}

/* A part whose state is damaged, or that is damaged itself, is begun anew or found out. */
TEST(fetch_believes_no_damaged_part)
{
    struct web w = {.etag = true, .linked = true, .fault = WEB_CUT_OFTEN};
    struct attempt a = {.web = &w, .stop_after = 120000};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, SIZE);
    for (int damage = 0; damage < 3; damage++) {
        remove_all();
        atomic_store(&w.sent_bytes, 0);
        a.stop_after = 120000;
        CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_INTERRUPTED, "");
        if (damage == 0)
            CHECK(truncate(FILE_PATH ".part.state", 150) == 0);
        if (damage == 1)
            CHECK(truncate(FILE_PATH ".part", 1000) == 0);
        if (damage == 2) {
            const int fd = open(FILE_PATH ".part", O_WRONLY);
            CHECK(fd >= 0 && pwrite(fd, "xxxxxxxx", 8, 20) == 8 && close(fd) == 0);
        }
        a.stop_after = 0;
        CHECK_OK(pull(&a, &r, &e), &e);
        check_whole(&w, false);
    }
    web_stop(&w);
}

TEST(fetch_leaves_alone_what_is_there)
{
    struct web w = {.etag = true, .linked = true};
    struct attempt a = {.web = &w};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, SIZE);
    CHECK_OK(pull(&a, &r, &e), &e);
    const int requests = atomic_load(&w.requests);
    CHECK_OK(pull(&a, &r, &e), &e);
    CHECK_INT(atomic_load(&w.requests), requests);
    CHECK_INT(r.n_there, 1);
    /* Without the manifest it is read and hashed; with other bytes it is somebody else's. */
    unlink(DIR "/" MANIFEST_NAME);
    CHECK_OK(pull(&a, &r, &e), &e);
    check_whole(&w, false);
    const int fd = open(FILE_PATH, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, 100) == 1 && close(fd) == 0);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_BADDATA, "is another file; remove or rename it");
    CHECK(exists(FILE_PATH));
    CHECK(truncate(FILE_PATH, 10) == 0);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_BADDATA, "is there with 10 bytes");
    unlink(FILE_PATH);
    CHECK_INT(symlink("nowhere", FILE_PATH), 0);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_INVALID, "no regular file and no link to one");
    unlink(FILE_PATH);
    CHECK_INT(mkdir(FILE_PATH, 0700), 0);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_INVALID, "no regular file and no link to one");
    web_stop(&w);
}

/* Every part, or, when one cannot be had, none: that is known before the first byte. */
TEST(fetch_takes_all_parts_of_a_split_model)
{
    struct web w = {.etag = true, .linked = true, .fault = WEB_CUT};
    struct attempt a = {.web = &w, .file = "m-00002-of-00003.gguf"};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, SIZE);
    CHECK_OK(pull(&a, &r, &e), &e);
    CHECK_INT(r.n_fetched, 3);
    CHECK(exists(DIR "/m-00001-of-00003.gguf") && exists(DIR "/m-00003-of-00003.gguf"));
    unlink(DIR "/m-00001-of-00003.gguf");
    unlink(DIR "/m-00003-of-00003.gguf");
    w.gone = "m-00003-of-00003.gguf";
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_NOTFOUND,
                "2 of 3 files are not there: m-00003-of-00003.gguf");
    CHECK(!exists(DIR "/m-00001-of-00003.gguf") && !exists(DIR "/m-00001-of-00003.gguf.part"));
    web_stop(&w);
}

/* ---- Secrets, other pulls, the disk ----------------------------------------------------------- */

TEST(fetch_gives_a_token_to_the_first_host_only)
{
    struct web hub = {.etag = true, .linked = true};
    struct web store = {.etag = true};
    struct attempt a = {.web = &hub, .token = "secret"};
    struct fetch_result r;
    struct error e = {0};
    web_start(&hub, SIZE);
    web_start(&store, SIZE);
    hub.redirect_port = store.port;
    CHECK_OK(pull(&a, &r, &e), &e);
    check_whole(&hub, false);
    CHECK_INT(r.n_unhashed, 0); /* the hub's word of the hash came through */
    CHECK(atomic_load(&hub.tokens) > 0);
    CHECK(atomic_load(&store.requests) > 0);
    CHECK_INT(atomic_load(&store.tokens), 0);
    web_stop(&hub);
    web_stop(&store);
}

TEST(fetch_is_alone_in_its_folder)
{
    struct web w = {.etag = true, .linked = true};
    struct attempt a = {.web = &w};
    struct fetch_result r;
    struct error e = {0};
    web_start(&w, SIZE);
    CHECK_INT(mkdir(DIR, 0700), 0);
    const int fd = open(DIR, O_RDONLY | O_DIRECTORY);
    CHECK_INT(flock(fd, LOCK_EX), 0);
    CHECK_ERROR(pull(&a, &r, &e), &e, ERROR_BUSY, "another pull is at work there");
    close(fd);
    CHECK_OK(pull(&a, &r, &e), &e);
    web_stop(&w);
}

static void check_disk_faults(enum file_fault kind)
{
    struct web w = {.etag = true, .linked = true};
    struct attempt a = {.web = &w, .connections = 1};
    struct fetch_result r;
    int rc = -1;
    web_start(&w, 60000);
    for (long k = 1; rc != 0; k += k < 12 ? 1 : 5) {
        struct error e = {0};
        CHECK(k < 2000);
        remove_all();
        file_fail_once(k, kind);
        rc = pull(&a, &r, &e);
        file_fail_after(0, FILE_FAULT_NONE);
        if (rc != 0 && exists(FILE_PATH) && !is_file(&w, false))
            test_fail(__FILE__, __LINE__, "fault %ld: a bad file after %s", k, e.text);
        if (rc != 0)
            CHECK_OK(pull(&a, &r, &e), &e);
        check_whole(&w, false);
    }
    web_stop(&w);
}

TEST(fetch_survives_every_failure_of_the_disk)
{
    check_disk_faults(FILE_FAULT_EIO);
    check_disk_faults(FILE_FAULT_ENOSPC);
}

TEST(fetch_survives_every_failed_allocation)
{
    struct web w = {.etag = true, .linked = true};
    struct attempt a = {.web = &w, .connections = 2};
    struct fetch_result r;
    int rc = -1;
    web_start(&w, 60000);
    for (long k = 1; rc != 0; k++) {
        struct error e = {0};
        CHECK(k < 1000);
        remove_all();
        mem_fail_after(k);
        rc = pull(&a, &r, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || (e.text[0] && (!exists(FILE_PATH) || is_file(&w, false))));
    }
    check_whole(&w, false);
    web_stop(&w);
}

/* ---- verify ----------------------------------------------------------------------------------- */

TEST(verify_names_the_file_to_fetch_again)
{
    struct web w = {.etag = true, .linked = true};
    struct attempt a = {.web = &w};
    struct fetch_result r;
    struct error e = {0};
    char out[8000], again[300];
    web_start(&w, SIZE);
    CHECK_OK(pull(&a, &r, &e), &e);
    CHECK_INT(program_run("verify " DIR, out, sizeof(out)), 0);
    CHECK(strstr(out, "ok        model.gguf\n") != NULL);
    snprintf(again, sizeof(again), "cd " DIR " && sha256sum --strict --quiet -c " MANIFEST_NAME);
    CHECK_INT(system(again), 0);

    const int fd = open(FILE_PATH, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, SIZE / 2) == 1 && close(fd) == 0);
    CHECK_INT(program_run("verify " DIR, out, sizeof(out)), 65);
    snprintf(again, sizeof(again),
             "again: rm " FILE_PATH " && nocturne pull http://127.0.0.1:%d/some/model.gguf " DIR
             "\n",
             w.port);
    CHECK(strstr(out, "damaged   model.gguf: SHA-256") && strstr(out, again));

    CHECK(truncate(FILE_PATH, SIZE - 1) == 0);
    CHECK_INT(program_run("verify " DIR, out, sizeof(out)), 65);
    CHECK(strstr(out, "199999 bytes, should be 200000") != NULL);
    unlink(FILE_PATH);
    CHECK_INT(program_run("verify --json " DIR, out, sizeof(out)), 3);
    CHECK(strstr(out, "\"missing\"") && strstr(out, "\"nocturne pull http://127.0.0.1"));
    CHECK_OK(pull(&a, &r, &e), &e);
    CHECK_INT(program_run("verify " DIR, out, sizeof(out)), 0);
    /* A manifest of others: what it calls an address is no word of a command unless it is one. */
    snprintf(again, sizeof(again), "#: 5 5 published --token-file\n%s  model.gguf\n", w.sha256);
    CHECK_OK(file_write_all(DIR "/" MANIFEST_NAME, again, strlen(again), &e), &e);
    CHECK_INT(program_run("verify " DIR, out, sizeof(out)), 65);
    CHECK(strstr(out, "should be 5") && !strstr(out, "again:") && !strstr(out, "--token-file"));
    web_stop(&w);
}
