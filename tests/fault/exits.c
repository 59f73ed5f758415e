/* What a script sees: the exit status of everything that can be wrong from the start. */
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/kit.h"

#define JOBS 4

struct exit_case {
    const char *line;
    int status;
    const char *says; /* on standard error; NULL: nothing that matters */
};

static void check_cases(const char *db, const struct exit_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int status = drill(db, "%s >out.txt 2>err.txt", c[i].line);
        bool said = !c[i].says || drill_file_says("err.txt", c[i].says);
        if (status != c[i].status || !said)
            test_fail(__FILE__, __LINE__, "'%s': %d, want %d; it says: %s", c[i].line, status,
                      c[i].status, drill_read("err.txt"));
    }
}

static void write_jobs(const char *path, int max_tokens)
{
    drill_write_jobs(path,
                     &(struct drill_jobs){.n = JOBS, .max_tokens = max_tokens, .name = "exit"});
}

TEST(exit_status_of_wrong_usage_and_missing_things)
{
    static const struct exit_case cases[] = {
        {"", 2, "no command"},
        {"rum", 2, "run"},
        {"run --no-such-option", 2, "unknown option"},
        {"run", 2, "which model"},
        {"run -m model.gguf --slots zero", 2, "--slots"},
        {"run -m model.gguf --raw --chat-format chatml", 2, "exclude"},
        {"run -m model.gguf extra", 2, "one argument too many"},
        {"submit", 2, "nothing to submit"},
        {"export -o same --errors same", 2, "same file"},
        {"export", 3, "there is none"},
        {"status", 3, "there is none"},
        {"wait", 3, "there is none"},
        {"resume", 3, "there is none"},
        {"submit nowhere.txt", 3, "nowhere.txt"},
    };
    check_cases("usage.db", cases, ARRAY_LEN(cases));
}

TEST(exit_status_of_models_that_cannot_be_used)
{
    static const struct exit_case cases[] = {
        {"run -m gone.gguf --raw --drain", 3, "gone.gguf"},
        {"run -m text.gguf --raw --drain", 65, "text.gguf"},
        {"run -m short.gguf --raw --drain", 65, "short.gguf"},
        {"run -m empty.gguf --raw --drain", 65, "empty.gguf"},
        {"run -m . --raw --drain", 74, "not a regular file"},
        {"run -m model.gguf --raw --drain --memory 1M", 4, "the budget is"},
        {"run -m model.gguf --raw --drain --ctx 1000000", 4, "2048 positions"},
        {"run -m model.gguf --drain", 4, "chat"},
    };
    drill_model(1024);
    write_jobs("jobs.jsonl", 10);
    drill_submit("models.db", "jobs.jsonl");
    CHECK_INT(system("head -c 100000 model.gguf >short.gguf; : >empty.gguf;"
                     "echo 'this is no model at all, only a text' >text.gguf"),
              0);
    check_cases("models.db", cases, ARRAY_LEN(cases));
    /* None of them cost a job anything. */
    CHECK_INT(drill("models.db", DRILL_RUN "--drain"), 0);
    drill_check_all_done("models.db", JOBS);
}

static void change_database(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

TEST(exit_status_of_databases_that_are_not_ours_or_newer)
{
    static const struct exit_case foreign[] = {
        {"status", 65, "application id"},
        {"submit -p hello", 65, "application id"},
        {"run -m model.gguf --raw --drain", 65, "application id"},
    };
    static const struct exit_case newer[] = {
        {"status", 4, "schema version 99"},
        {"submit -p hello", 4, "schema version 99"},
        {"export", 4, "schema version 99"},
        {"run -m model.gguf --raw --drain", 4, "schema version 99"},
    };
    static const struct exit_case text[] = {
        {"status", 65, "text.db"},
        {"submit -p hello", 65, "text.db"},
    };
    drill_model(1024);
    change_database("foreign.db", "CREATE TABLE theirs (x); CREATE TABLE more (y)");
    check_cases("foreign.db", foreign, ARRAY_LEN(foreign));
    CHECK_INT(drill("newer.db", "submit -p hello >out.txt"), 0);
    change_database("newer.db", "PRAGMA user_version = 99");
    check_cases("newer.db", newer, ARRAY_LEN(newer));
    CHECK_INT(system("yes 'no database' | head -c 20000 >text.db"), 0);
    check_cases("text.db", text, ARRAY_LEN(text));
    CHECK_INT(system("test $(wc -c <text.db) = 20000"), 0);
}

TEST(exit_status_of_a_database_that_may_not_be_written)
{
    static const struct exit_case cases[] = {
        {"submit -p hello", 78, "cannot be written"},
        {"run -m model.gguf --raw --drain", 78, "cannot be written"},
    };
    CHECK(mkdir("locked", 0700) == 0);
    drill_model(1024);
    CHECK_INT(drill("locked/queue.db", "submit -p first >out.txt"), 0);
    /* Modes do not stop root, a read-only mount does. */
    if (geteuid() == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("locked", "locked", NULL, MS_BIND, NULL) != 0 ||
            mount("none", "locked", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
            SKIP("no mounts here");
    } else {
        CHECK(chmod("locked/queue.db", 0400) == 0 && chmod("locked", 0500) == 0);
    }
    check_cases("locked/queue.db", cases, ARRAY_LEN(cases));
    if (geteuid() != 0)
        CHECK(chmod("locked", 0700) == 0);
}

TEST(exit_status_of_work_that_is_left_or_has_failed)
{
    static const struct exit_case waiting[] = {
        {"export", 75, "4 of 4 requests are not finished"},
        {"wait --timeout 100ms", 124, "4 requests are still unfinished"},
        {"pause lunch", 0, "paused"},
        {DRILL_RUN "--drain", 75, "paused"},
        {"resume", 0, "nocturne run"},
        {"show no-such-request", 3, "no-such-request"},
    };
    static const struct exit_case failed[] = {
        {DRILL_RUN "--drain", 1, "1 failed"},
        {"wait", 1, "did not succeed"},
        {"export", 1, "4 of 5 succeeded"},
        {DRILL_RUN "--drain", 0, "0 done"},
        {"status", 0, NULL},
    };
    static const struct exit_case configured[] = {
        {"status", 78, "NOCTURNE_SLOTS"},
        {"run -m model.gguf", 78, "NOCTURNE_SLOTS"},
    };
    drill_model(1024);
    write_jobs("jobs.jsonl", 10);
    drill_submit("left.db", "jobs.jsonl");
    check_cases("left.db", waiting, ARRAY_LEN(waiting));
    drill_add_job("long.jsonl", "longer-than-the-context", 2000, 10);
    drill_submit("left.db", "long.jsonl");
    check_cases("left.db", failed, ARRAY_LEN(failed));
    CHECK_INT(setenv("NOCTURNE_SLOTS", "many", 1), 0);
    check_cases("left.db", configured, ARRAY_LEN(configured));
}
