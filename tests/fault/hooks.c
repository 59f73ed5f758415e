/* Hooks of the real program: what a night tells, and hooks that do the worst they can. */
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"

extern char **environ;

#define WORD(text) ((char *)(uintptr_t)(text))
#define JOBS 6
#define DB "hook.db"
/* One line an event, as it came. */
#define TELLS "--hook 'cat >>told.txt' "

static void prepare(int max_tokens)
{
    drill_model(1024);
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = JOBS, .max_tokens = max_tokens, .name = "hook"});
    drill_submit(DB, "jobs.jsonl");
}

/* The line of that event, or of the one before the end; the text is the caller's. */
static char *line_with(const char *text)
{
    char *all = drill_read("told.txt"), *save = NULL, *found = NULL;
    for (char *line = strtok_r(all, "\n", &save); line && !found;
         line = strtok_r(NULL, "\n", &save))
        found = strstr(line, text) ? mem_strdup(line) : NULL;
    mem_free(all);
    if (!found)
        test_fail(__FILE__, __LINE__, "no event with %s in: %s", text, drill_read("told.txt"));
    return found;
}

static void check_line(const char *with, const char *also)
{
    char *line = line_with(with);
    if (!strstr(line, also))
        test_fail(__FILE__, __LINE__, "no %s in: %s", also, line);
    mem_free(line);
}

TEST(hooks_tell_what_a_night_did)
{
    prepare(10);
    drill_add_job("long.jsonl", "longer-than-the-context", 2000, 10);
    CHECK_INT(drill(DB, "submit -q --batch 'too long' long.jsonl >out.txt"), 0);
    CHECK_INT(drill(DB, DRILL_RUN "--drain " TELLS "2>err.txt"), 1);
    CHECK_INT(drill_count("told.txt", "\n"), 4);
    CHECK_INT(drill_count("told.txt", "\"event\":\"finished\""), 2);
    check_line("\"event\":\"failed\"", "\"custom_id\":\"longer-than-the-context\"");
    check_line("\"event\":\"failed\"", "\"code\":\"context\"");
    check_line("\"event\":\"failed\"", "2048");
    check_line("\"name\":\"too long\"", "\"failed\":1");
    check_line("\"event\":\"drained\"", "\"done\":6,\"failed\":1");
    /* The last one. */
    char *all = drill_read("told.txt");
    CHECK(strstr(strstr(all, "\"event\":\"drained\""), "\"event\":\"f") == NULL);
    mem_free(all);
    CHECK(!drill_file_says("err.txt", "hook"));
    /* Nothing was done, nothing is told. */
    CHECK_INT(drill(DB, DRILL_RUN "--drain " TELLS "2>err.txt"), 0);
    CHECK_INT(drill_count("told.txt", "\n"), 4);
}

/* Some daemons ignore the ends of their children, and what they start inherits that. */
TEST(hooks_of_a_worker_that_was_started_to_ignore_its_children)
{
    char program[4096], hook[] = "cat >>told.txt";
    char *argv[] = {program,       WORD("run"),      WORD("-m"),     WORD("model.gguf"),
                    WORD("--raw"), WORD("--memory"), WORD("1G"),     WORD("--threads"),
                    WORD("1"),     WORD("--drain"),  WORD("--hook"), hook,
                    NULL};
    pid_t pid = -1;
    prepare(10);
    snprintf(program, sizeof(program), "%s", test_program());
    CHECK_INT(setenv("NOCTURNE_DB", DB, 1), 0);
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    const int64_t since_us = clock_mono_us();
    CHECK_INT(posix_spawn(&pid, program, NULL, NULL, argv, environ), 0);
    CHECK(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
    CHECK_INT(drill_wait(pid), 0);
    CHECK(clock_mono_us() - since_us < 30000000); /* no hook ran into its limit */
    CHECK_INT(drill_count("told.txt", "\"event\":\"finished\""), 1);
    CHECK_INT(drill_count("told.txt", "\"event\":\"drained\""), 1);
}

/* The program in a hook works on the same database. */
TEST(hooks_may_run_the_program)
{
    prepare(10);
    CHECK_INT(setenv("PROGRAM", test_program(), 1), 0);
    FILE *f = fopen("export.sh", "we");
    CHECK(f != NULL);
    fprintf(f, "test $NOCTURNE_EVENT = finished || exit 0\n"
               "unset NOCTURNE_HOOK\n"
               "\"$PROGRAM\" export -o of-hook.jsonl && \"$PROGRAM\" status >status.txt\n");
    CHECK_INT(fclose(f), 0);
    CHECK_INT(setenv("NOCTURNE_HOOK", "sh export.sh", 1), 0);
    CHECK_INT(drill(DB, DRILL_RUN "--drain 2>err.txt"), 0);
    CHECK(!drill_file_says("err.txt", "hook"));
    CHECK_INT(drill_count("of-hook.jsonl", "\n"), JOBS);
}

TEST(hooks_tell_of_a_pause_and_of_its_end)
{
    prepare(10);
    CHECK_INT(drill(DB, "pause 'the fan is loud' >out.txt"), 0);
    pid_t pid = drill_start(DB, DRILL_RUN TELLS "2>err.txt");
    drill_until_file_says("told.txt", "\"event\":\"paused\"");
    check_line("\"event\":\"paused\"", "\"by\":\"queue\"");
    check_line("\"event\":\"paused\"", "the fan is loud");
    CHECK_INT(drill(DB, "resume >out.txt"), 0);
    drill_until_file_says("told.txt", "\"event\":\"resumed\"");
    drill_until_file_says("told.txt", "\"event\":\"drained\"");
    /* It goes on waiting, and what comes later is told when that is done. */
    CHECK_INT(drill(DB, "submit -p more --max-tokens 3 --batch later -q >out.txt"), 0);
    drill_until_file_says("told.txt", "\"name\":\"later\"");
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    CHECK_INT(drill_count("told.txt", "\"event\":\"paused\""), 1);
    CHECK_INT(drill_count("told.txt", "\"event\":\"resumed\""), 1);
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0;
}

TEST(hooks_that_hang_do_not_hold_the_night_up)
{
    prepare(10);
    CHECK_INT(drill(DB, DRILL_RUN "--drain --hook-timeout 1s --hook 'trap \"\" TERM;"
                                  "echo $$ >>pid.txt; sleep 3000; sleep 3000' 2>err.txt"),
              0);
    drill_check_all_done(DB, JOBS);
    CHECK(drill_file_says("err.txt", "was ended after"));
    CHECK_INT(drill_count("pid.txt", "\n"), 2); /* the last one had its chance */
    char *pids = drill_read("pid.txt"), *save = NULL;
    for (char *line = strtok_r(pids, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        CHECK(is_gone((pid_t)strtol(line, NULL, 10)));
    mem_free(pids);
}

/* As long as the run goes on a hanging hook is ended in time; the work never waits for it. */
TEST(hooks_that_hang_are_ended_while_the_work_goes_on)
{
    prepare(10);
    CHECK_INT(drill(DB, "pause >out.txt"), 0);
    pid_t pid = drill_start(DB, DRILL_RUN "--hook-timeout 1s --hook 'cat >>told.txt; sleep 3000'"
                                          " 2>err.txt");
    drill_until_file_says("told.txt", "\"event\":\"paused\"");
    CHECK_INT(drill(DB, "resume >out.txt"), 0);
    struct queue *q = drill_open(DB);
    drill_until(q, QUEUE_DONE, JOBS);
    queue_close(q);
    drill_until_file_says("err.txt", "was ended after 1.");
    drill_until_file_says("told.txt", "\"event\":\"resumed\"");
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
}

TEST(hooks_that_fail_flood_or_are_missing_change_nothing)
{
    static const char *const hooks[] = {
        "no-such-program",   "exit 7", "kill -9 $$", "head -c 300000 /dev/urandom; exit 1",
        "exec <&- >&- 2>&-", ")",
    };
    drill_model(1024);
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = JOBS, .max_tokens = 10, .name = "hook"});
    char *calm = drill_calm_answers("jobs.jsonl", "hook", JOBS);
    for (size_t i = 0; i < ARRAY_LEN(hooks); i++) {
        char db[32];
        snprintf(db, sizeof(db), "bad%zu.db", i);
        drill_submit(db, "jobs.jsonl");
        CHECK_INT(drill(db, DRILL_RUN "--drain --hook '%s' 2>err.txt", hooks[i]), 0);
        char *answers = drill_answers(db, "hook", JOBS);
        CHECK_STR(answers, calm);
        mem_free(answers);
    }
    mem_free(calm);
}
