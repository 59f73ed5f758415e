/* A disk that is full: while submitting, while generating, while exporting. */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "batch/night/night.h"
#include "tests/fault/kit.h"

#define DB "small/queue.db"
#define FILL "small/fill"
#define JOBS 8

static void write_jobs(int max_tokens)
{
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = JOBS, .max_tokens = max_tokens, .name = "full"});
}

TEST(full_disk_while_submitting_leaves_nothing_half_submitted)
{
    drill_small_disk();
    write_jobs(10);
    drill_submit(DB, "jobs.jsonl");
    for (int i = 0; i < 3000; i++) {
        char custom_id[32];
        snprintf(custom_id, sizeof(custom_id), "more-%d", i);
        drill_add_job("large.jsonl", custom_id, 200, 10);
    }
    drill_fill(FILL);
    CHECK_INT(truncate(FILL, 76 << 20), 0);
    CHECK_INT(drill(DB, "submit large.jsonl >out.txt 2>err.txt"), 75);
    CHECK(drill_file_says("err.txt", "disk"));
    CHECK(drill_file_says("err.txt", "full"));
    CHECK_INT(drill_count("out.txt", "\n"), 0);
    CHECK_INT(unlink(FILL), 0);
    struct queue *q = drill_open(DB);
    CHECK_INT(drill_counts(q).total, JOBS);
    drill_submit(DB, "large.jsonl");
    CHECK_INT(drill_counts(q).total, JOBS + 3000);
    queue_close(q);
}

/* What could be written of it: the first note may have found no room, the second one did. */
static void check_told(struct queue *q)
{
    struct error e = {0};
    struct night *n = NULL;
    bool told = false;
    CHECK_OK(night_open(q, &(struct night_choice){.run = 1}, &n, &e), &e);
    for (size_t i = 0; i < n->n_events; i++)
        told |= strcmp(n->event[i].kind, "disk_room") == 0;
    CHECK(told && n->sums.done == JOBS);
    CHECK_STR(n->run[0].run.why, "drained");
    night_free(n);
}

static char *prepare(int max_tokens)
{
    drill_small_disk();
    return drill_prepare(DB, 4096,
                         &(struct drill_jobs){.n = JOBS, .max_tokens = max_tokens, .name = "full"});
}

TEST(full_disk_while_generating_is_waited_out)
{
    char *calm = prepare(200);
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, DRILL_RUN "--slots 4 --drain --lease 2s --space-check 50ms"
                                          " --hook 'cat >>told.txt' 2>err.txt");
    drill_until_progress(q, 1);
    drill_fill(FILL);
    drill_until_file_says("err.txt", "paused: disk");
    while (access(DB ".reserve", F_OK) == 0)
        clock_sleep_us(1000);
    drill_fill(FILL); /* what the reserve has given up, too */
    clock_sleep_us(600000);
    CHECK(drill_alive(pid));
    CHECK(!drill_file_says("err.txt", "has room again"));
    CHECK_INT(drill_count("told.txt", "\"by\":\"disk\""), 1);
    CHECK_INT(drill_count("told.txt", "\"event\":\"paused\""), 1);
    CHECK_INT(drill_count("err.txt", "paused: disk"), 1);

    CHECK_INT(unlink(FILL), 0);
    CHECK_INT(drill_wait(pid), 0);
    CHECK_INT(drill_count("err.txt", "has room again"), 1);
    CHECK(access(DB ".reserve", F_OK) == 0);
    CHECK_INT(drill_count("told.txt", "\"event\":\"resumed\""), 1);
    check_told(q);
    queue_close(q);
    drill_check_answers(DB, "full", JOBS, calm);
}

/* There is room for the order, but it will be a while until the worker looks for some. */
TEST(full_disk_does_not_keep_a_pause_waiting)
{
    struct error e = {0};
    char *calm = prepare(200);
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, DRILL_RUN "--slots 4 --space-check 1h 2>err.txt");
    drill_until_progress(q, 1);
    drill_fill(FILL);
    drill_until_file_says("err.txt", "paused: disk");
    CHECK_INT(unlink(FILL), 0);
    CHECK_OK(queue_pause(q, str_of("tea"), &e), &e);
    drill_until_file_says("err.txt", "paused; 'nocturne resume'");
    CHECK_INT(drill_counts(q).state[QUEUE_RUNNING], 0);
    CHECK_OK(queue_resume(q, &e), &e);
    drill_until_file_says("err.txt", "resumed");
    CHECK(!drill_file_says("err.txt", "has room again"));
    CHECK_INT(kill(pid, SIGTERM), 0);
    CHECK_INT(drill_wait(pid), 0);
    queue_close(q);
    CHECK_INT(drill(DB, DRILL_RUN "--drain"), 0);
    drill_check_answers(DB, "full", JOBS, calm);
}

TEST(full_disk_while_a_worker_is_stopped_loses_nothing)
{
    char *calm = prepare(200);
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, DRILL_RUN "--slots 4 --space-check 50ms 2>err.txt");
    drill_until_progress(q, 1);
    drill_fill(FILL);
    drill_until_file_says("err.txt", "paused: disk");
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    CHECK_INT(unlink(FILL), 0);
    CHECK_INT(drill(DB, DRILL_RUN "--drain"), 0);
    queue_close(q);
    drill_check_answers(DB, "full", JOBS, calm);
}

/* What the worker finds missing beside a full disk, when it begins. */
static void begin_on_a_full_disk(const char *gone)
{
    char *calm = prepare(100);
    CHECK_INT(drill(DB, DRILL_RUN "--max-jobs 1 --slots 1"), 0);
    for (const char *c = gone; *c; c++) {
        if (*c == 'r')
            CHECK_INT(unlink(DB ".reserve"), 0);
        else
            CHECK_INT(drill(DB, "status >out.txt"), 0);
        if (*c == 's')
            CHECK_INT(unlink(DB "-shm"), 0);
    }
    drill_fill(FILL);
    pid_t pid = drill_start(DB, DRILL_RUN "--slots 4 --drain --space-check 50ms 2>err.txt");
    drill_until_file_says("err.txt", "paused: disk");
    clock_sleep_us(300000);
    CHECK(drill_alive(pid));
    kill(pid, SIGTERM); /* a stop does not wait for room */
    CHECK_INT(drill_wait(pid), 0);

    drill_fill(FILL);
    pid = drill_start(DB, DRILL_RUN "--slots 4 --drain --space-check 50ms 2>again.txt");
    drill_until_file_says("again.txt", "paused: disk");
    CHECK_INT(unlink(FILL), 0);
    CHECK_INT(drill_wait(pid), 0);
    CHECK_INT(drill_count("again.txt", "paused: disk"), 1);
    drill_check_answers(DB, "full", JOBS, calm);
}

TEST(full_disk_when_a_worker_begins_is_waited_out)
{
    begin_on_a_full_disk("");
}

TEST(full_disk_without_a_reserve_when_a_worker_begins_is_waited_out)
{
    begin_on_a_full_disk("r");
}

TEST(full_disk_without_the_index_when_a_worker_begins_is_waited_out)
{
    begin_on_a_full_disk("rs");
}

static int count_entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    CHECK(d != NULL);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;)
        n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    closedir(d);
    return n;
}

TEST(full_disk_while_exporting_leaves_no_half_file)
{
    drill_small_disk();
    drill_model(1024);
    write_jobs(20);
    drill_submit("queue.db", "jobs.jsonl");
    CHECK_INT(drill("queue.db", DRILL_RUN "--drain"), 0);
    drill_fill(FILL);
    CHECK_INT(drill("queue.db", "export -o small/out.jsonl 2>err.txt"), 75);
    CHECK(drill_file_says("err.txt", "small/out.jsonl"));
    CHECK_INT(count_entries("small"), 1);
    CHECK(drill("queue.db", "export >small/out.jsonl 2>err.txt") != 0);
    CHECK(drill_file_says("err.txt", "No space left"));
    CHECK_INT(unlink(FILL), 0);
    CHECK_INT(drill("queue.db", "export -o small/out.jsonl"), 0);
    CHECK_INT(drill_count("small/out.jsonl", "\n"), JOBS);
}

TEST(full_disk_does_not_keep_results_from_being_read)
{
    drill_small_disk();
    drill_model(1024);
    write_jobs(20);
    drill_submit(DB, "jobs.jsonl");
    CHECK_INT(drill(DB, DRILL_RUN "--drain"), 0);
    drill_fill(FILL);
    CHECK_INT(drill(DB, "export -o out.jsonl"), 0);
    CHECK_INT(drill_count("out.jsonl", "\n"), JOBS);
    CHECK_INT(drill(DB, "status >out.txt"), 0);
    CHECK_INT(drill(DB, "list >out.txt"), 0);
}
