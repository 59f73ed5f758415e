/*
 * The model's file is cut short while a worker reads it for every token: experts, and layers that do not
 * stay in memory. And a file that is put in its place, which is another one.
 */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"

#define JOBS 6
#define DB "shard.db"
#define SHARD_RUN "run -m model.gguf --raw --threads 1 --ctx 512 --slots 2 --drain "

#ifdef __SANITIZE_THREAD__
#define TOKENS 30 /* computing is some thirty times slower there */
#else
#define TOKENS 120
#endif

static void make_model(const char *path, const char *shape)
{
    char line[9000];
    const int folder = (int)(strrchr(test_program(), '/') - test_program());
    SKIP_EMULATED("a drill of many processes against the clock");
    snprintf(line, sizeof(line), "'%.*s/tools/mkmodel' --type F32 --ctx 2048 %s -o %s >/dev/null",
             folder, test_program(), shape, path);
    CHECK_INT(system(line), 0);
}

/* Leaves that part of the file, in hundredths; the worker has it open. */
static void cut_model(int percent)
{
    struct stat st;
    CHECK_INT(stat("model.gguf", &st), 0);
    CHECK_INT(truncate("model.gguf", st.st_size / 100 * percent), 0);
}

static char *undisturbed(const char *memory)
{
    drill_submit("calm.db", "jobs.jsonl");
    CHECK_INT(drill("calm.db", SHARD_RUN "--memory %s 2>calm.txt", memory), 0);
    return drill_answers("calm.db", "shard", JOBS);
}

/* All of them wait: none has failed, none is lost. Finished before the cut: done. */
static void check_all_back(struct queue *q)
{
    struct error e = {0};
    struct queue_counts counts = drill_counts(q);
    CHECK_OK(queue_integrity(q, &e), &e);
    CHECK_INT(counts.total, JOBS);
    CHECK_INT(counts.state[QUEUE_FAILED], 0);
    CHECK_INT(counts.state[QUEUE_RUNNING], 0);
    CHECK_INT(counts.state[QUEUE_QUEUED] + counts.state[QUEUE_HELD] + counts.state[QUEUE_DONE],
              JOBS);
    CHECK(counts.state[QUEUE_DONE] < JOBS);
}

/*
 * The worker ends with 74 and names file and offset; all jobs are back. With the file as it was, the next
 * run finishes them with the answers of an undisturbed one.
 */
static void cut_while_running(const char *shape, const char *memory, int max_tokens)
{
    make_model("whole.gguf", shape);
    CHECK_INT(system("cp -p whole.gguf model.gguf"), 0);
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = JOBS, .max_tokens = max_tokens, .name = "shard"});
    char *calm = undisturbed(memory);
    drill_submit(DB, "jobs.jsonl");
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, SHARD_RUN "--memory %s 2>err.txt", memory);
    drill_until_progress(q, 1);
    cut_model(50);
    CHECK_INT(drill_wait(pid), 74);
    CHECK(drill_file_says("err.txt", "a file of the model failed"));
    CHECK(drill_file_says("err.txt", "model.gguf: read "));
    CHECK(drill_file_says("err.txt", "bytes at offset "));
    check_all_back(q);
    queue_close(q);

    CHECK_INT(system("cp -p whole.gguf model.gguf"), 0);
    CHECK_INT(drill(DB, SHARD_RUN "--memory %s 2>again.txt", memory), 0);
    CHECK(drill_resumed(DB) > 0);
    drill_check_answers(DB, "shard", JOBS, calm);
}

TEST(shard_that_is_cut_while_experts_are_read_ends_the_run_and_no_job)
{
    cut_while_running("--arch qwen3moe --layers 4 --embd 128 --experts 128 --used 2"
                      " --expert-ff 128",
                      "128M", TOKENS);
}

TEST(shard_that_is_cut_while_layers_stream_ends_the_run_and_no_job)
{
    cut_while_running("--arch llama --layers 8 --embd 128 --ff 1024", "123M", TOKENS / 3);
}

/* The worker has the old one open; the next takes the new one, and forgets what the old one began. */
TEST(shard_that_is_replaced_while_running_changes_nothing_for_those_who_have_it)
{
    static const char shape[] = "--arch qwen3moe --layers 4 --embd 128 --experts 128 --used 2"
                                " --expert-ff 128";
    char other[200];
    make_model("model.gguf", shape);
    snprintf(other, sizeof(other), "%s --seed 2", shape);
    make_model("other.gguf", other);
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = JOBS, .max_tokens = TOKENS, .name = "shard"});
    char *calm = undisturbed("128M");
    drill_submit(DB, "jobs.jsonl");
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, SHARD_RUN "--memory 128M 2>err.txt");
    drill_until_progress(q, 1);
    CHECK_INT(rename("other.gguf", "model.gguf"), 0);
    drill_until(q, QUEUE_DONE, 1);
    drill_until_progress(q, 1);
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    const uint64_t n_done = drill_counts(q).state[QUEUE_DONE];
    CHECK(n_done > 0 && n_done < JOBS);
    queue_close(q);

    CHECK_INT(drill(DB, SHARD_RUN "--memory 128M 2>again.txt"), 0);
    CHECK(drill_file_says("again.txt", "begins again"));
    drill_check_all_done(DB, JOBS);
    CHECK_INT(drill_resumed(DB), 0);
    char *answers = drill_answers(DB, "shard", JOBS);
    uint64_t same = 0;
    for (char *a = answers, *c = calm, *line; (line = strsep(&a, "\n")) != NULL && *line;)
        same += strcmp(line, strsep(&c, "\n")) == 0;
    CHECK_INT(same, n_done);
    mem_free(answers);
    mem_free(calm);
}
