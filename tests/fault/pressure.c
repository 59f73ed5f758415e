/*
 * Memory gets short while a worker works, on a machine made of files: the worker runs in a child of the
 * test, a minute of its watch is a second here, and the test makes the weather.
 */
#include <cjson/cJSON.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "batch/stop.h"
#include "batch/worker/worker.h"
#include "tests/fault/kit.h"

#define HASTE 60
#ifdef __SANITIZE_THREAD__
#define N_JOBS 6 /* computing is some thirty times slower there */
#define MAX_TOKENS 100
#define WIDTH "64"
#else
#define N_JOBS 10
#define MAX_TOKENS 600
#define WIDTH "128"
#endif
#define WEATHER_EVERY_US 20000

/* ---- Weather ---------------------------------------------------------------------------------- */

/* Counters of the machine; what a second of the worker's watch adds to them. */
struct sky {
    int64_t stalled_us, faults;
    int64_t since_us;
    double full_percent;
    int64_t faults_per_s;
};

ATTR_PRINTF(2, 3) static void put(const char *path, const char *fmt, ...)
{
    char full[256], text[1024];
    struct error e = {0};
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    snprintf(full, sizeof(full), "root/%s", path);
    CHECK_OK(file_make_parent(full, &e), &e);
    FILE *f = fopen("root/next", "w");
    CHECK(f != NULL && fwrite(text, 1, (size_t)n, f) == (size_t)n);
    CHECK_INT(fclose(f), 0);
    CHECK_INT(rename("root/next", full), 0);
}

/* As it is now; nobody sees half a file. */
static void blow(struct sky *s)
{
    const int64_t now_us = clock_mono_us();
    const double seconds = s->since_us ? (double)((now_us - s->since_us) * HASTE) / 1e6 : 0;
    s->since_us = now_us;
    s->stalled_us += (int64_t)(s->full_percent * 1e4 * seconds);
    s->faults += (int64_t)((double)s->faults_per_s * seconds);
    put("proc/pressure/memory",
        "some avg10=%.2f avg60=0.00 avg300=0.00 total=%lld\n"
        "full avg10=%.2f avg60=0.00 avg300=0.00 total=%lld\n",
        s->full_percent, (long long)s->stalled_us, s->full_percent, (long long)s->stalled_us);
    put("proc/self/stat", "7 (nocturne) R 1 7 7 0 -1 0 100 0 %lld 0 0 0 0 0 20 0 1 0\n",
        (long long)s->faults);
}

static void make_machine(struct sky *s)
{
    put("proc/meminfo", "MemTotal: 104857600 kB\nMemFree: 1024 kB\nMemAvailable: 52428800 kB\n");
    put("proc/self/status",
        "Name:\tnocturne\nVmHWM:\t 2048 kB\nVmRSS:\t 1024 kB\nRssAnon:\t 512 kB\n");
    put("proc/self/cgroup", "0::/\n");
    put("proc/self/mountinfo", "1 1 0:1 / /proc rw - proc proc rw\n");
    *s = (struct sky){0};
    blow(s);
}

/* ---- The worker ------------------------------------------------------------------------------- */

static int work(const char *db)
{
    struct error e = {0};
    struct queue *q = NULL;
    struct stop stop = {0};
    const struct queue_options how = {.busy_timeout_ms = 10000};
    const struct worker_options o = {.root = "root",
                                     .model_path = "model.gguf",
                                     .memory_bytes = UINT64_C(1) << 30,
                                     .threads = 1,
                                     .slots = 4,
                                     .raw = true,
                                     .drain = true,
                                     .gpu_busy = GUARD_GPU_IGNORE,
                                     .relieve = true,
                                     .haste = HASTE,
                                     .lease_us = 12000000,
                                     .report_us = 1000000,
                                     .space_check_us = 1000000,
                                     .snapshot_after_us = 10000000};
    CHECK(freopen("err.txt", "w", stderr) != NULL);
    CHECK_OK(queue_open(db, &how, &q, &e), &e);
    const int rc = worker_run(&o, q, &stop, &e);
    if (rc < 0)
        fprintf(stderr, "worker: %s\n", e.text);
    queue_close(q);
    return rc;
}

static pid_t start_worker(const char *db)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(work(db) == 0 ? 0 : 1);
    return pid;
}

/* ---- What it has noted ------------------------------------------------------------------------ */

struct notes {
    size_t n;
    char level[16][16]; /* of "pressure", in order */
    double given_bytes; /* of all */
    cJSON *detail[16];
};

static void read_notes(const char *db, struct notes *ret)
{
    sqlite3 *file = NULL;
    sqlite3_stmt *row = NULL;
    *ret = (struct notes){0};
    CHECK_INT(sqlite3_open_v2(db, &file, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_busy_timeout(file, 10000), SQLITE_OK);
    CHECK_INT(sqlite3_db_config(file, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(file,
                                 "SELECT kind = 'pressure', detail FROM run_note"
                                 " WHERE kind LIKE 'pressure%' ORDER BY run_id, seq",
                                 -1, &row, NULL),
              SQLITE_OK);
    while (sqlite3_step(row) == SQLITE_ROW) {
        cJSON *o = cJSON_Parse((const char *)sqlite3_column_text(row, 1));
        ret->given_bytes += cJSON_GetObjectItem(o, "given_back_bytes")->valuedouble;
        if (!sqlite3_column_int(row, 0) || ret->n == ARRAY_LEN(ret->level)) {
            cJSON_Delete(o);
            continue;
        }
        snprintf(ret->level[ret->n], sizeof(ret->level[0]), "%s",
                 cJSON_GetObjectItem(o, "level")->valuestring);
        ret->detail[ret->n++] = o;
    }
    CHECK_INT(sqlite3_finalize(row), SQLITE_OK);
    CHECK_INT(sqlite3_close(file), SQLITE_OK);
}

static void release_notes(struct notes *n)
{
    for (size_t i = 0; i < n->n; i++)
        cJSON_Delete(n->detail[i]);
}

static double figure(const struct notes *n, size_t i, const char *name)
{
    const cJSON *o = cJSON_GetObjectItem(n->detail[i], name);
    CHECK(cJSON_IsNumber(o));
    return o->valuedouble;
}

/* Makes weather until the last note is of that level; false: the worker has ended instead. */
static bool until_level(struct sky *s, const char *db, pid_t worker, const char *level)
{
    bool there = false;
    while (!there && drill_alive(worker)) {
        struct notes n;
        blow(s);
        clock_sleep_us(WEATHER_EVERY_US);
        read_notes(db, &n);
        there = n.n > 0 && strcmp(n.level[n.n - 1], level) == 0;
        release_notes(&n);
    }
    return there;
}

/* ---- Drills ----------------------------------------------------------------------------------- */

static void write_model(void)
{
    char line[9000];
    const int folder = (int)(strrchr(test_program(), '/') - test_program());
    SKIP_EMULATED("a drill against the clock");
    snprintf(line, sizeof(line),
             "'%.*s/tools/mkmodel' --arch kimi-linear --experts 24 --used 4 --type Q8_0"
             " --layers 14 --embd " WIDTH " --vocab 3000"
             " --ctx 2048 -o model.gguf >/dev/null",
             folder, test_program());
    CHECK_INT(system(line), 0);
}

/* The first job is long enough to run when it comes to the pause. */
TEST_FOR(pressure_ends_in_a_pause_and_goes_on_by_itself, 240)
{
    static const char *const want[] = {"shrink", "no more", "pause", "calm"};
    struct sky sky;
    struct notes n;
    write_model();
    for (int i = 0; i < N_JOBS; i++) {
        char custom_id[32];
        snprintf(custom_id, sizeof(custom_id), "short-%02d", i);
        drill_add_job("jobs.jsonl", custom_id, 3 + i, i == 0 ? 3 * MAX_TOKENS : MAX_TOKENS / 2);
    }
    char *calm = drill_calm_answers("jobs.jsonl", "short", N_JOBS);
    drill_submit("short.db", "jobs.jsonl");
    make_machine(&sky);
    struct queue *q = drill_open("short.db");
    const pid_t pid = start_worker("short.db");
    drill_until_progress(q, 1);
    /* Time that is lost and pages that come back: two signs, both of them severe. */
    sky.full_percent = 45;
    sky.faults_per_s = 5000;
    CHECK(until_level(&sky, "short.db", pid, "pause"));
    drill_until(q, QUEUE_QUEUED, 1);
    while (drill_counts(q).state[QUEUE_RUNNING] > 0)
        clock_sleep_us(WEATHER_EVERY_US);
    const uint64_t queued = drill_counts(q).state[QUEUE_QUEUED];
    for (int i = 0; i < 25; i++) { /* half a minute of its watch */
        blow(&sky);
        clock_sleep_us(WEATHER_EVERY_US);
    }
    CHECK_INT(drill_counts(q).state[QUEUE_QUEUED], queued);
    CHECK(drill_alive(pid));
    sky.full_percent = 0;
    sky.faults_per_s = 0;
    CHECK(until_level(&sky, "short.db", pid, "calm"));
    CHECK_INT(drill_wait(pid), 0);
    queue_close(q);
    read_notes("short.db", &n);
    CHECK_INT(n.n, ARRAY_LEN(want));
    for (size_t i = 0; i < n.n; i++)
        CHECK_STR(n.level[i], want[i]);
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(figure(&n, i, "system_full_avg10"), 45);
        CHECK(figure(&n, i, "major_faults_per_s") > 1000);
        CHECK_INT(figure(&n, i, "signs"), 2);
        CHECK_INT(figure(&n, i, "available_bytes"), INT64_C(52428800) * 1024);
    }
    CHECK(n.given_bytes > 0);
    CHECK(figure(&n, 1, "ledger_bytes") < figure(&n, 0, "ledger_bytes"));
    release_notes(&n);
    CHECK(drill_file_says("err.txt", "memory is short: 45.0 % of the time"));
    CHECK(drill_file_says("err.txt", "goes on when it has not been for some minutes"));
    drill_check_all_done("short.db", N_JOBS);
    char *got = drill_answers("short.db", "short", N_JOBS);
    CHECK_STR(got, calm);
    CHECK(drill_resumed("short.db") > 0);
    mem_free(got);
    mem_free(calm);
}

/* A single sign for a long time: experts go, and no work waits for anything. */
TEST_FOR(pressure_by_one_sign_only_shrinks, 240)
{
    struct sky sky;
    struct notes n;
    write_model();
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = N_JOBS, .max_tokens = MAX_TOKENS, .name = "one"});
    char *calm = drill_calm_answers("jobs.jsonl", "one", N_JOBS);
    drill_submit("one.db", "jobs.jsonl");
    make_machine(&sky);
    sky.full_percent = 45;
    const pid_t pid = start_worker("one.db");
    CHECK(!until_level(&sky, "one.db", pid, "calm"));
    CHECK_INT(drill_wait(pid), 0);
    read_notes("one.db", &n);
    CHECK_INT(n.n, 1);
    CHECK_STR(n.level[0], "shrink");
    CHECK(n.given_bytes > 0);
    release_notes(&n);
    drill_check_all_done("one.db", N_JOBS);
    char *got = drill_answers("one.db", "one", N_JOBS);
    CHECK_STR(got, calm);
    CHECK_INT(drill_resumed("one.db"), 0);
    mem_free(got);
    mem_free(calm);
}
