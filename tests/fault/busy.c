/* Somebody else keeps taking the write lock, and nobody waits long for it. */
#include <signal.h>
#include <sqlite3.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "tests/fault/kit.h"

#define DB "busy.db"
#define JOBS 12
#define HOLD_MAX_US 20000

static sqlite3 *open_raw(void)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "PRAGMA wal_autocheckpoint = 0", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL), SQLITE_OK);
    return db;
}

/* Takes the lock as soon as it is free, between two commits of the worker too, and holds it. */
static void hold(sqlite3 *db, uint64_t number)
{
    while (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        clock_sleep_us(50);
    clock_sleep_us((int64_t)(rng_u64(1, number) % HOLD_MAX_US));
    CHECK_INT(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    clock_sleep_us((int64_t)(rng_u64(2, number) % HOLD_MAX_US));
}

static char *take_line(char **text)
{
    char *line = strsep(text, "\n");
    CHECK(line != NULL);
    return line;
}

/* Each answer is wholly of the one model or wholly of the other; at least half are of the second. */
static void check_answers(char *got, char *first, char *second)
{
    int n_second = 0;
    char *g = got, *f = first, *s = second;
    for (int i = 0; i < JOBS; i++) {
        char *line = take_line(&g), *of_first = take_line(&f), *of_second = take_line(&s);
        if (strcmp(line, of_first) != 0)
            CHECK_STR(line, of_second);
        n_second += strcmp(line, of_second) == 0;
    }
    CHECK(n_second >= JOBS / 2);
    mem_free(got);
    mem_free(first);
    mem_free(second);
}

TEST(busy_database_delays_the_worker_and_loses_nothing)
{
    const struct drill_jobs jobs = {.n = JOBS, .max_tokens = 120, .name = "busy"};
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_submit(DB, "jobs.jsonl");
    drill_submit("first.db", "jobs.jsonl");
    /* Some jobs begin with progress of another model, which is to be forgotten. */
    drill_model(8192);
    CHECK_INT(drill("first.db", DRILL_RUN "--slots 12 --drain"), 0);
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, DRILL_RUN "--slots 12");
    drill_until_progress(q, 6);
    kill(pid, SIGKILL);
    CHECK_INT(drill_wait(pid), 128 + SIGKILL);

    drill_model(2048);
    pid = drill_start(DB, DRILL_RUN "--slots 12 --drain --busy-timeout 2ms 2>err.txt");
    while (!drill_is_worker(q, pid))
        clock_sleep_us(1000);
    sqlite3 *raw = open_raw();
    for (uint64_t i = 0; drill_alive(pid); i++)
        hold(raw, i);
    CHECK_INT(sqlite3_close(raw), SQLITE_OK);
    CHECK_INT(drill_wait(pid), 0);
    queue_close(q);
    CHECK(drill_file_says("err.txt", "begins again"));
    drill_check_all_done(DB, JOBS);
    check_answers(drill_answers(DB, "busy", JOBS), drill_answers("first.db", "busy", JOBS),
                  drill_calm_answers("jobs.jsonl", "busy", JOBS));
    test_note("busy %d times, %d jobs began again", drill_count("err.txt", "trying again"),
              drill_count("err.txt", "begins again"));
}

TEST(busy_database_while_people_pause_and_resume)
{
    const struct drill_jobs jobs = {.n = JOBS, .max_tokens = 400, .name = "busy"};
    struct error e = {0};
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_model(2048);
    char *calm = drill_calm_answers("jobs.jsonl", "busy", JOBS);
    drill_submit(DB, "jobs.jsonl");
    struct queue *q = drill_open(DB);
    sqlite3 *raw = open_raw();
    pid_t pid = drill_start(DB, DRILL_RUN "--slots 4 --busy-timeout 2ms 2>err.txt");
    while (!drill_is_worker(q, pid))
        clock_sleep_us(1000);
    bool paused = false;
    for (uint64_t i = 0; drill_counts(q).state[QUEUE_DONE] < JOBS; i++) {
        if (i == 2)
            CHECK_OK(queue_pause(q, str_of("tea"), &e), &e);
        if (i >= 14 && !paused && drill_file_says("err.txt", "paused;")) {
            CHECK_OK(queue_resume(q, &e), &e);
            paused = true;
        }
        hold(raw, i);
        CHECK(drill_alive(pid));
    }
    CHECK(paused);
    CHECK_INT(sqlite3_close(raw), SQLITE_OK);
    queue_close(q);
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    drill_check_answers(DB, "busy", JOBS, calm);
}
