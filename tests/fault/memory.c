/*
 * The kernel kills a worker for lack of memory, for real, in the control group that it made itself: the
 * queue is paused with figures, nobody is blamed, nothing starts again by itself, and after a resume all
 * goes on.
 */
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/fault/kit.h"

#define N_JOBS 3
#define WORKER DRILL_RUN "--slots 4 --chunk 2 "
#define GROUP_WORDS "control group "

/* Where the worker says that it is. */
static void read_group(const char *path, char out[1024])
{
    char *text = drill_read(path);
    const char *at = strstr(text, GROUP_WORDS);
    if (!at)
        test_fail(__FILE__, __LINE__, "no group: %s", text);
    at += strlen(GROUP_WORDS);
    snprintf(out, 1024, "%.*s", (int)strcspn(at, "\n"), at);
    mem_free(text);
}

static long long read_number(const char *folder, const char *file)
{
    char path[1200];
    long long n = -1;
    snprintf(path, sizeof(path), "%s/%s", folder, file);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lld", &n) != 1)
        n = -1;
    if (f)
        fclose(f);
    return n;
}

/* Somebody else in the group takes more than is left; the worker has offered itself to go first. */
static void exhaust(const char *folder)
{
    char line[4096];
    const bool unified = read_number(folder, "memory.current") >= 0;
    const long long used =
        read_number(folder, unified ? "memory.current" : "memory.usage_in_bytes");
    CHECK(used > 0);
    snprintf(line, sizeof(line),
             "echo %lld > %s/%s; sh -c 'echo $$ > %s/cgroup.procs && exec dd if=/dev/zero "
             "of=/dev/null bs=256M count=1' 2> dd.err",
             used + (16 << 20), folder, unified ? "memory.max" : "memory.limit_in_bytes", folder);
    (void)!system(line); /* it may be killed, too */
}

static void check_nobody_is_blamed(struct queue *q)
{
    struct error e = {0};
    struct queue_requests list = {0};
    CHECK_OK(queue_requests(q, &(struct queue_filter){0}, &list, &e), &e);
    CHECK_INT(list.n, N_JOBS);
    for (size_t i = 0; i < list.n; i++) {
        struct queue_show show;
        CHECK_OK(queue_show(q, list.item[i].id, &show, &e), &e);
        CHECK_INT(show.request.state, QUEUE_QUEUED);
        CHECK(!show.job[0].suspect);
        CHECK_INT(show.job[0].lone_deaths, 0);
        CHECK_INT(show.job[0].n_attempts, 1);
        CHECK_STR(show.job[0].attempt[0].end, "died");
        queue_show_release(&show);
    }
    queue_requests_release(&list);
}

/* Whether a group can be made here at all, which a machine without rights to any denies. */
static void skip_without_groups(void)
{
    CHECK_INT(drill("none.db", "submit -q -p x > id.txt"), 0);
    int status = drill("none.db", DRILL_RUN "--drain --confine require > none.txt 2>&1");
    if (status == 4 || !drill_file_says("none.txt", GROUP_WORDS))
        SKIP("no control group of memory can be made here: %s", drill_read("none.txt"));
    CHECK_INT(status, 0);
}

TEST_FOR(memory_that_runs_out_pauses_the_queue_and_blames_nobody, 120)
{
    char folder[1024], name[32];
    drill_model(2048);
    skip_without_groups();
    for (int i = 0; i < N_JOBS; i++) {
        snprintf(name, sizeof(name), "long-%02d", i);
        drill_add_job("jobs.jsonl", name, 380, 40);
    }
    drill_submit("q.db", "jobs.jsonl");
    struct queue *q = drill_open("q.db");

    pid_t pid = drill_start("q.db", WORKER "--confine require > first.txt 2>&1");
    drill_until(q, QUEUE_RUNNING, N_JOBS);
    read_group("first.txt", folder);
    exhaust(folder);
    CHECK_INT(drill_wait(pid), 128 + 9);

    /* Nobody waits for an end that does not come: without --drain, too. */
    CHECK_INT(drill("q.db", WORKER "> second.txt 2>&1"), 75);
    CHECK(drill_file_says("second.txt", "out of memory: the kernel killed the worker, process "));
    CHECK(drill_file_says("second.txt", " killed; limit "));
    CHECK(access(folder, F_OK) != 0);
    check_nobody_is_blamed(q);
    CHECK_INT(drill("q.db", WORKER "--drain > third.txt 2>&1"), 75);
    CHECK(drill_file_says("third.txt", "out of memory"));

    CHECK_INT(drill("q.db", "resume 2> resume.txt"), 0);
    CHECK_INT(drill("q.db", WORKER "--drain --confine require > last.txt 2>&1"), 0);
    drill_check_all_done("q.db", N_JOBS);
    read_group("last.txt", folder);
    CHECK(access(folder, F_OK) != 0);
    queue_close(q);
}

/* Another process of the worker's group is killed for memory, and the worker lives to see it. */
static void exhaust_beside(const char *folder)
{
    char line[4096];
    snprintf(line, sizeof(line),
             "sh -c 'echo $$ > %s/cgroup.procs && echo 1000 > /proc/self/oom_score_adj && "
             "exec dd if=/dev/zero of=/dev/null bs=512M count=1' 2> dd.err",
             folder);
    (void)!system(line);
}

/* A hook that took too much, say: what ends the worker hours later is something else. */
TEST_FOR(memory_that_a_hook_ran_out_of_is_not_how_the_worker_ended, 120)
{
    char folder[1024];
    drill_model(2048);
    skip_without_groups();
    drill_add_job("jobs.jsonl", "long-00", 380, 40);
    drill_submit("q.db", "jobs.jsonl");
    struct queue *q = drill_open("q.db");
    pid_t pid = drill_start("q.db", WORKER "--memory 300M --confine require > first.txt 2>&1");
    drill_until(q, QUEUE_RUNNING, 1);
    CHECK_INT(drill("q.db", "pause 2> pause.txt"), 0); /* it lives as long as that takes */
    read_group("first.txt", folder);
    if (read_number(folder, "memory.current") >= 0)
        SKIP("groups of the second version end together: %s", folder);
    exhaust_beside(folder);
    CHECK_INT(kill(pid, 0), 0);
    sleep(4); /* it looks each second, twice */
    CHECK_INT(drill("q.db", "resume 2> resume.txt"), 0);
    CHECK_INT(kill(pid, 9), 0);
    CHECK_INT(drill_wait(pid), 128 + 9);
    CHECK_INT(drill("q.db", WORKER "--drain > second.txt 2>&1"), 0);
    drill_check_all_done("q.db", 1);
    queue_close(q);
}

/* What a service's manager calls afterwards, where it knows what the groups do not say any more. */
TEST_FOR(memory_that_ran_out_in_a_service_is_known_by_its_result, 120)
{
    drill_model(2048);
    drill_add_job("jobs.jsonl", "long-00", 380, 40);
    drill_submit("q.db", "jobs.jsonl");
    struct queue *q = drill_open("q.db");
    pid_t pid = drill_start("q.db", WORKER "> first.txt 2>&1");
    drill_until(q, QUEUE_RUNNING, 1);
    CHECK_INT(setenv("SERVICE_RESULT", "oom-kill", 1), 0);
    CHECK_INT(drill("q.db", "pause --after-service 2> alive.txt"), 0);
    drill_check_file("alive.txt", ""); /* it lives: that was another one's end */
    CHECK_INT(kill(pid, 9), 0);
    CHECK_INT(drill_wait(pid), 128 + 9);
    CHECK_INT(setenv("SERVICE_RESULT", "signal", 1), 0);
    CHECK_INT(drill("q.db", "pause --after-service 2> signal.txt"), 0);
    drill_check_file("signal.txt", "");
    CHECK_INT(setenv("SERVICE_RESULT", "oom-kill", 1), 0);
    CHECK_INT(drill("q.db", "pause --after-service 2> killed.txt"), 0);
    CHECK(drill_file_says("killed.txt", "paused: the kernel killed the worker"));
    CHECK_INT(drill("q.db", WORKER "> second.txt 2>&1"), 75);
    CHECK_INT(drill("q.db", "resume 2> resume.txt"), 0);
    CHECK_INT(drill("q.db", WORKER "--drain > last.txt 2>&1"), 0);
    drill_check_all_done("q.db", 1);
    CHECK_INT(unsetenv("SERVICE_RESULT"), 0);
    CHECK_INT(drill("q.db", "pause --after-service 2> usage.txt"), 2);
    queue_close(q);
}
