/* The same request gives the same answer, bit for bit, however the work is cut and interrupted. */
#include <signal.h>

#include "base/alloc.h"
#include "tests/fault/kit.h"

#define JOBS 10
#define COMMAND "run -m model.gguf --raw --memory 1G --drain "

static void prepare(void)
{
    const struct drill_jobs jobs = {.n = JOBS, .max_tokens = 40, .name = "same"};
    drill_model(2048);
    drill_write_jobs("jobs.jsonl", &jobs);
    /* Prompts that cross pages and chunks. */
    drill_add_job("jobs.jsonl", "same-10", 60, 20);
    drill_add_job("jobs.jsonl", "same-11", 90, 20);
}

TEST(the_same_request_has_the_same_answer_in_any_company)
{
    static const char *const ways[] = {
        "--slots 1 --chunk 256 --threads 1", "--slots 8 --chunk 1 --threads 2",
        "--slots 8 --chunk 7 --threads 1",   "--slots 3 --chunk 256 --threads 2",
        "--slots 1 --chunk 7 --threads 2",
    };
    prepare();
    char *calm = drill_calm_answers("jobs.jsonl", "same", JOBS + 2);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        char db[32];
        snprintf(db, sizeof(db), "way%zu.db", i);
        drill_submit(db, "jobs.jsonl");
        CHECK_INT(drill(db, COMMAND "%s", ways[i]), 0);
        char *answers = drill_answers(db, "same", JOBS + 2);
        CHECK_STR(answers, calm);
        mem_free(answers);
    }
    mem_free(calm);
}

TEST(the_same_request_has_the_same_answer_after_a_kill_and_with_other_settings)
{
    prepare();
    char *calm = drill_calm_answers("jobs.jsonl", "same", JOBS + 2);
    drill_submit("killed.db", "jobs.jsonl");
    struct queue *q = drill_open("killed.db");
    static const char *const lives[] = {"--slots 8 --chunk 7 --threads 2",
                                        "--slots 4 --chunk 1 --threads 1",
                                        "--slots 2 --chunk 256 --threads 2"};
    for (size_t i = 0; i < ARRAY_LEN(lives); i++) {
        pid_t pid = drill_start("killed.db", COMMAND "%s", lives[i]);
        drill_until(q, QUEUE_DONE, 1 + 2 * i);
        drill_until_progress(q, 1);
        kill(pid, SIGKILL);
        CHECK_INT(drill_wait(pid), 128 + SIGKILL);
    }
    queue_close(q);
    CHECK_INT(drill("killed.db", COMMAND "--slots 1"), 0);
    char *answers = drill_answers("killed.db", "same", JOBS + 2);
    CHECK_STR(answers, calm);
    CHECK(drill_resumed("killed.db") > 0);
    mem_free(answers);
    mem_free(calm);
}
