/* Workers that are asked to stop, that stand still, that meet another one, that nobody listens to. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"

#define JOBS 8

/* Eight jobs that take a second or so together, and what they answer when nothing happens. */
static char *prepare(const char *db)
{
    const struct drill_jobs jobs = {.n = JOBS, .max_tokens = 200, .name = "stop"};
    return drill_prepare(db, 4096, &jobs);
}

static void check_answers(const char *db, char *calm)
{
    drill_check_answers(db, "stop", JOBS, calm);
}

/* A worker at work is sent the signal; the exit status that follows. */
static int stop_one(struct queue *q, int number)
{
    pid_t pid = drill_start("stop.db", DRILL_RUN "--slots 4 2>>err.txt");
    drill_until_progress(q, 1);
    kill(pid, number);
    int status = drill_wait(pid);
    /* Everything is given back, nobody is the worker. */
    CHECK_INT(drill_counts(q).state[QUEUE_RUNNING], 0);
    struct error e = {0};
    struct queue_status s = {0};
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    CHECK(!s.worker.present);
    queue_status_release(&s);
    return status;
}

TEST(stop_signals_finish_the_token_and_the_next_run_goes_on_from_there)
{
    char *calm = prepare("stop.db");
    struct queue *q = drill_open("stop.db");
    CHECK_INT(stop_one(q, SIGTERM), 0);
    CHECK_INT(stop_one(q, SIGINT), 130);
    CHECK(drill_counts(q).state[QUEUE_DONE] < JOBS);
    queue_close(q);
    CHECK_INT(drill_count("err.txt", "the next run goes on from here"), 2);
    CHECK_INT(drill("stop.db", DRILL_RUN "--slots 4 --drain"), 0);
    CHECK(drill_resumed("stop.db") > 0);
    check_answers("stop.db", calm);
}

/* A stop keeps what was computed; the next run takes it up, and the file goes with the job. */
TEST(stop_keeps_the_state_of_requests_and_the_next_run_takes_it_up)
{
    char *calm = prepare("kept.db");
    struct queue *q = drill_open("kept.db");
    pid_t pid = drill_start("kept.db", DRILL_RUN "--slots 4 --snapshot-after 0 2>>err.txt");
    drill_until_progress(q, 1);
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    queue_close(q);
    CHECK(drill_count("err.txt", "is kept") > 0);
    CHECK_INT(access("kept.db-snapshots", F_OK), 0);
    /* What a killed writer left, and the state of a job that will not run again, go at the next start. */
    CHECK_INT(system("touch kept.db-snapshots/1.0123456789abcdef.tmp kept.db-snapshots/999"), 0);
    CHECK_INT(drill("kept.db", DRILL_RUN "--slots 4 --drain 2>>err.txt"), 0);
    CHECK(drill_count("err.txt", "goes on after") > 0);
    CHECK_INT(drill_count("err.txt", "is not used"), 0);
    CHECK_INT(rmdir("kept.db-snapshots"), 0); /* empty */
    check_answers("kept.db", calm);
}

/* ---- In the middle of a step ------------------------------------------------------------------ */

#define DEEP_RUN                                                                                   \
    DRILL_RUN "--exact --chunk 2048 --snapshot-after 0 --report-every 20ms --json --drain "

/* Rows of layers that a run computed, by what it printed. */
static uint64_t row_layers(const char *path)
{
    static const char key[] = "\"row_layers\":";
    char *text = drill_read(path);
    const char *at = strstr(text, key);
    CHECK(at != NULL);
    const uint64_t n = strtoull(at + sizeof(key) - 1, NULL, 10);
    mem_free(text);
    return n;
}

/*
 * A stop does not wait for a long step: it ends within a layer, keeps what the rows have behind them, and
 * the next run goes on at that layer. No row goes through any layer twice, and the answer is the same.
 */
TEST(stop_in_the_middle_of_a_long_step_computes_nothing_twice)
{
    drill_deep("deep.jsonl");
    drill_submit("calm.db", "deep.jsonl");
    CHECK_INT(drill("calm.db", DEEP_RUN ">calm.json 2>calm.txt"), 0);
    char *calm = drill_answers("calm.db", "deep", 1);

    drill_submit("deep.db", "deep.jsonl");
    pid_t pid = drill_start("deep.db", DEEP_RUN ">first.json 2>first.txt");
    drill_until_file_says("first.txt", " tokens at layer ");
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    CHECK_INT(drill_count("first.txt", "is kept"), 1);
    CHECK_INT(drill("deep.db", DEEP_RUN ">second.json 2>second.txt"), 0);
    CHECK_INT(drill_count("second.txt", "goes on after"), 1);
    CHECK(row_layers("first.json") > 0 && row_layers("second.json") > 0);
    CHECK_INT(row_layers("first.json") + row_layers("second.json"), row_layers("calm.json"));
    CHECK_INT(rmdir("deep.db-snapshots"), 0); /* empty */
    drill_check_answers("deep.db", "deep", 1, calm);
}

/* Whether anybody has committed since the last call. */
static bool changed(struct queue_watch *watch)
{
    struct error e = {0};
    bool yes = false;
    CHECK_OK(queue_watch_poll(watch, &yes, &e), &e);
    return yes;
}

/*
 * Stops it outside of a transaction: in one it would hold the write lock of the file, and whoever
 * wants to write then is told so and ends with 75.
 */
static void stand_still(pid_t pid, const char *db)
{
    struct error e = {0};
    struct queue *q = NULL;
    siginfo_t info;
    CHECK_OK(queue_open(db, &(struct queue_options){.busy_timeout_ms = 20}, &q, &e), &e);
    for (int rc = -ERROR_BUSY; rc != 0;) {
        kill(pid, SIGSTOP);
        CHECK_INT(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
        rc = queue_resume(q, &e); /* takes the lock and changes nothing */
        CHECK(rc == 0 || rc == -ERROR_BUSY);
        if (rc) {
            kill(pid, SIGCONT);
            clock_sleep_us(3000);
        }
    }
    queue_close(q);
}

TEST(stop_a_worker_that_stood_still_is_superseded_and_writes_nothing_any_more)
{
    struct error e = {0};
    struct queue_watch *watch = NULL;
    char *calm = prepare("still.db");
    struct queue *q = drill_open("still.db");
    pid_t still = drill_start("still.db", DRILL_RUN "--slots 4 --lease 1s 2>still.txt");
    drill_until_progress(q, 1);
    stand_still(still, "still.db");
    int64_t began_us = clock_mono_us();
    CHECK_INT(drill("still.db", DRILL_RUN "--slots 4 --lease 1s --drain"), 0);
    CHECK(clock_mono_us() - began_us >= 1000000); /* one lease was watched */
    CHECK_INT(drill_counts(q).state[QUEUE_DONE], JOBS);

    CHECK_OK(queue_watch_open("still.db", &watch, &e), &e);
    CHECK(changed(watch));
    kill(still, SIGCONT);
    CHECK_INT(drill_wait(still), 3);
    CHECK(!changed(watch));
    CHECK(drill_file_says("still.txt", "another worker took over"));
    queue_watch_close(watch);
    queue_close(q);
    check_answers("still.db", calm);
}

TEST(stop_a_second_worker_is_refused_and_told_who_works)
{
    char *calm = prepare("two.db");
    char want[64];
    struct queue *q = drill_open("two.db");
    pid_t first = drill_start("two.db", DRILL_RUN "--slots 4 --lease 2s");
    drill_until_progress(q, 1);
    CHECK_INT(drill("two.db", DRILL_RUN "--drain --lease 5s 2>second.txt"), 3);
    snprintf(want, sizeof(want), "process %d", (int)first);
    CHECK(drill_file_says("second.txt", want));
    drill_until(q, QUEUE_DONE, JOBS);
    kill(first, SIGTERM);
    CHECK_INT(drill_wait(first), 0);
    queue_close(q);
    check_answers("two.db", calm);
}

TEST(stop_a_reader_that_goes_away_does_not_stop_the_work)
{
    int ends[2];
    char byte;
    char *calm = prepare("pipe.db");
    CHECK_INT(pipe(ends), 0);
    pid_t pid =
        drill_start("pipe.db", DRILL_RUN "--slots 4 --drain --report-every 50ms >&%d 2>&%d %d<&-",
                    ends[1], ends[1], ends[0]);
    close(ends[1]);
    CHECK_INT(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    CHECK_INT(drill_wait(pid), 0);
    check_answers("pipe.db", calm);
}

TEST(stop_messages_that_cannot_be_written_do_not_stop_the_work)
{
    char *calm = prepare("full.db");
    CHECK_INT(drill("full.db", DRILL_RUN "--drain --report-every 50ms 2>/dev/full"), 0);
    check_answers("full.db", calm);
}

/* To ps, to the kernel when it names whom it killed, and to pidof: it starts itself once more on the way. */
TEST(stop_a_worker_is_found_by_its_name)
{
    char path[64];
    drill_model(512);
    pid_t pid = drill_start("name.db", DRILL_RUN ">out.txt 2>err.txt");
    drill_until_file_says("err.txt", "loaded");
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    drill_check_file(path, "nocturne\n");
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
}
