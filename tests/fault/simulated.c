/*
 * A night of thousands of jobs in seconds: the program with a stand-in for the engine, whose steps take
 * two minutes of the clock each and fail as it is told (tests/fixtures/standin/engine.c).
 *
 * What must come out is known beforehand: each answer word by word, which requests fail, and why.
 */
#include <cjson/cJSON.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"
#include "tests/queue/help.h"

#define NIGHT_DB "night/queue.db"
/* What memory may grow by from the first thousand requests to the last. */
#define GROWTH_KIB 2048
/* Between two lives. */
#define RESTART_US 600000000LL

enum fate { ANSWERED, REFUSED, STRANGE, TRANSIENT, POISON };

struct night {
    int n;             /* jobs */
    int poison;        /* the number of the one that kills; -1: none */
    const char *chaos; /* the stand-in's NIGHT, after the seed */
    bool pauses;       /* people pause and resume */
};

static enum fate fate_of(const struct night *t, int i)
{
    if (i == t->poison)
        return POISON;
    if (i % 50 == 7)
        return REFUSED;
    /* What is tried again has the time for it before the night is over. */
    if (i < t->n / 5 * 4 && i % 100 == 3)
        return STRANGE;
    return i < t->n / 5 * 4 && i % 20 == 11 ? TRANSIENT : ANSWERED;
}

static int tokens_of(int i)
{
    return 2 + i % 3;
}

static void write_night(const struct night *t)
{
    static const char *const words[] = {"", " refused", " strange", " transient", " poison"};
    FILE *f = fopen("night.jsonl", "we");
    CHECK(f != NULL);
    for (int i = 0; i < t->n; i++)
        fprintf(f,
                "{\"custom_id\":\"night-%d\",\"method\":\"POST\",\"url\":\"/v1/completions\","
                "\"body\":{\"model\":\"m\",\"prompt\":\"%d%s\",\"max_tokens\":%d,\"temperature\":0,"
                "\"seed\":1}}\n",
                i, i, words[fate_of(t, i)], tokens_of(i));
    CHECK_INT(fclose(f), 0);
    CHECK_INT(system(": >model.gguf"), 0);
}

/* A disk on which writing costs nothing, where that can be had; whether it could. */
static bool make_disk(void)
{
    CHECK_INT(mkdir("night", 0700), 0);
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "night", "tmpfs", 0, "size=400m") == 0;
}

/* ---- The night -------------------------------------------------------------------------------- */

static pid_t start_life(const struct night *t, int life)
{
    char line[9000], seed[64];
    const int folder = (int)(strrchr(test_program(), '/') - test_program());
    snprintf(seed, sizeof(seed), "%d %s", life + 1, t->chaos);
    CHECK_INT(setenv("NIGHT", seed, 1), 0);
    CHECK_INT(setenv("NOCTURNE_DB", NIGHT_DB, 1), 0);
    snprintf(line, sizeof(line),
             "exec '%.*s/tests/nocturne-standin' run -m model.gguf --raw --memory 1G --confine off"
             " --slots 64 --drain --hook 'cat >>told.txt; echo >>told.txt' 2>>err.txt",
             folder, test_program());
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    return pid;
}

/* One life of the worker; people pause the queue now and then, and let it go on. */
static int live(const struct night *t, int life)
{
    struct error e = {0};
    struct queue *q = drill_open(NIGHT_DB);
    const pid_t pid = start_life(t, life);
    while (t->pauses && drill_alive(pid)) {
        clock_sleep_us(300000);
        CHECK_OK(queue_pause(q, str_of("people"), &e), &e);
        clock_sleep_us(20000);
        CHECK_OK(queue_resume(q, &e), &e);
    }
    const int status = drill_wait(pid);
    queue_close(q);
    return status;
}

/*
 * Ten minutes of the stand-in's clock, which stands still while nothing is computed: else
 * who waits for the next try would wait for as long in this test.
 */
static void let_time_pass(void)
{
    char *text = drill_read("standin.clock");
    FILE *f = fopen("standin.clock", "we");
    CHECK(f != NULL);
    fprintf(f, "%lld\n", strtoll(text, NULL, 10) + RESTART_US);
    CHECK_INT(fclose(f), 0);
    mem_free(text);
}

/* As a service manager does it: again after a while, until it has drained the queue. */
static int pass(const struct night *t)
{
    int lives = 0;
    for (;;) {
        const int status = live(t, lives++);
        if (status == 0 || status == 1)
            return lives; /* drained; 1: this life saw failures */
        if (status != 128 + SIGKILL && status != 75)
            test_fail(__FILE__, __LINE__, "life %d ended with %d: %s", lives, status,
                      drill_read("err.txt"));
        CHECK(lives < 200);
        let_time_pass();
    }
}

/* ---- What came of it -------------------------------------------------------------------------- */

static void check_answer(const struct night *t, const cJSON *row)
{
    char want[256] = "";
    const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(row, "custom_id"));
    const cJSON *body = cJSON_GetObjectItem(cJSON_GetObjectItem(row, "response"), "body");
    const cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItem(body, "choices"), 0);
    CHECK(id && strncmp(id, "night-", 6) == 0);
    const int i = (int)strtol(id + 6, NULL, 10);
    const enum fate fate = fate_of(t, i);
    for (int k = 0, used = 0; k < tokens_of(i); k++)
        used += snprintf(want + used, sizeof(want) - (size_t)used, "%s%d.%d", k ? " " : "", i, k);
    if (fate == ANSWERED || fate == TRANSIENT)
        CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(choice, "text")), want);
    else
        CHECK(!choice);
}

static void check_answers(const struct night *t)
{
    CHECK_INT(drill(NIGHT_DB, "export -o all.jsonl"), 1);
    char *all = drill_read("all.jsonl"), *save = NULL;
    int n = 0;
    for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
        cJSON *row = cJSON_Parse(line);
        CHECK(row != NULL);
        check_answer(t, row);
        cJSON_Delete(row);
    }
    CHECK_INT(n, t->n);
    mem_free(all);
}

static uint64_t check_counts(const struct night *t)
{
    struct error e = {0};
    uint64_t failed = 0;
    for (int i = 0; i < t->n; i++) {
        const enum fate fate = fate_of(t, i);
        failed += fate == REFUSED || fate == STRANGE || fate == POISON;
    }
    struct queue *q = drill_open(NIGHT_DB);
    CHECK_OK(queue_integrity(q, &e), &e);
    const struct queue_counts counts = drill_counts(q);
    queue_close(q);
    CHECK_INT(counts.total, t->n);
    CHECK_INT(counts.state[QUEUE_FAILED], failed);
    CHECK_INT(counts.state[QUEUE_DONE], (uint64_t)t->n - failed);
    return failed;
}

/* The sum of a number over the lines of hooks that have it. */
static uint64_t told_sum(const char *event, const char *number)
{
    char *all = drill_read("told.txt"), *save = NULL;
    double sum = 0;
    for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        cJSON *o = cJSON_Parse(line);
        CHECK(o != NULL);
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(o, "event")), event) == 0)
            sum += cJSON_GetNumberValue(cJSON_GetObjectItem(o, number));
        cJSON_Delete(o);
    }
    mem_free(all);
    return (uint64_t)sum;
}

/* The report adds up what the database has, and both what was to come out. */
static void check_report(const struct night *t, uint64_t failed)
{
    static const struct {
        const char *name, *sql;
    } sums[] = {
        {"attempts", "SELECT count(*) FROM attempt"},
        {"done", "SELECT count(*) FROM attempt WHERE end = 'done'"},
        {"failed", "SELECT count(*) FROM attempt WHERE end = 'failed'"},
        {"retried", "SELECT count(*) FROM attempt WHERE end = 'retry'"},
        {"released", "SELECT count(*) FROM attempt WHERE end = 'released'"},
        {"died", "SELECT count(*) FROM attempt WHERE end = 'died'"},
        {"running", "SELECT count(*) FROM attempt WHERE end IS NULL"},
        {"prefill_tokens", "SELECT sum(prefill_tokens) FROM attempt"},
        {"decode_tokens", "SELECT sum(decode_tokens) FROM attempt"},
        {"resumed_tokens", "SELECT sum(resumed_tokens) FROM attempt"},
    };
    CHECK_INT(drill(NIGHT_DB, "report --since 2d --json >report.json"), 0);
    char *text = drill_read("report.json");
    cJSON *report = cJSON_Parse(text);
    const cJSON *all = cJSON_GetObjectItem(report, "sums");
    const cJSON *left = cJSON_GetObjectItem(cJSON_GetObjectItem(report, "left"), "requests");
    for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
        const cJSON *sum = cJSON_GetObjectItem(all, sums[i].name);
        const int64_t want = help_number(NIGHT_DB, sums[i].sql);
        if (!cJSON_IsNumber(sum) || (int64_t)sum->valuedouble != want)
            test_fail(__FILE__, __LINE__, "%s: the database has %lld, the report: %s", sums[i].name,
                      (long long)want, text);
    }
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(all, "done")), (uint64_t)t->n - failed);
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(left, "failed")), failed);
    cJSON_Delete(report);
    mem_free(text);
}

/* What the stand-in said of the process's memory after so many requests. */
static long resident_kib(int n_requests)
{
    char key[64];
    char *all = drill_read("err.txt");
    snprintf(key, sizeof(key), "standin: request %d resident ", n_requests);
    const char *at = strstr(all, key);
    CHECK(at != NULL);
    const long kib = strtol(at + strlen(key), NULL, 10);
    mem_free(all);
    return kib;
}

TEST_FOR(simulated_night_ends_with_every_count_right_and_memory_flat, 120)
{
    SKIP_EMULATED("thousands of jobs");
    struct night t = {.n = 1000, .poison = -1, .chaos = "60 0"};
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    if (make_disk())
        t.n = 5000;
#else
    (void)make_disk();
    t.n = 300;
#endif
    write_night(&t);
    drill_submit(NIGHT_DB, "night.jsonl");
    CHECK_INT(pass(&t), 1);
    const uint64_t failed = check_counts(&t);
    check_answers(&t);
    check_report(&t, failed);
    /* Nothing was dropped: hooks were told of every failure, in few events. */
    CHECK_INT(told_sum("failed", "count"), failed);
    CHECK_INT(told_sum("drained", "failed"), failed);
    CHECK(drill_count("told.txt", "\n") < 20);
    CHECK_INT(drill_count("err.txt", "standin: closed with 0 bytes in the ledger"), 1);
    if (t.n == 5000) {
        CHECK(resident_kib(5000) - resident_kib(1000) < GROWTH_KIB);
        test_note("resident %ld KiB after 1000 requests, %ld KiB after 5000; %d steps failed",
                  resident_kib(1000), resident_kib(5000), drill_count("err.txt", "a step failed"));
    }
}

TEST_FOR(simulated_night_of_deaths_and_pauses_loses_nothing, 120)
{
    SKIP_EMULATED("hundreds of jobs and many processes");
    const struct night t = {.n = 800, .poison = 401, .chaos = "60 30", .pauses = true};
    (void)make_disk();
    write_night(&t);
    drill_submit(NIGHT_DB, "night.jsonl");
    const int lives = pass(&t);
    const uint64_t failed = check_counts(&t);
    check_answers(&t);
    check_report(&t, failed);
    CHECK(lives > 3);
    test_note("%d lives", lives);
}
