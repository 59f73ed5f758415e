/* The memory that the program really takes stays below --memory, whatever requests bring. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/fault/kit.h"

/* Many large prompts, one larger than the budget can read, and small ones between them. */
static void write_large(const char *path, int n, size_t bytes)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    for (int i = 0; i < n; i++) {
        fprintf(f,
                "{\"custom_id\":\"large-%d\",\"method\":\"POST\",\"url\":\"/v1/completions\","
                "\"body\":{\"model\":\"m\",\"max_tokens\":2,\"prompt\":\"",
                i);
        for (size_t at = 0; at < bytes; at += 6)
            fprintf(f, "wo%d rd ", i % 10);
        fprintf(f, "\"}}\n");
    }
    CHECK_INT(fclose(f), 0);
}

static long peak_bytes(pid_t pid, int *ret_status)
{
    struct rusage use;
    int status = 0;
    CHECK_INT(wait4(pid, &status, 0, &use), pid);
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return use.ru_maxrss * 1024;
}

TEST_FOR(budget_holds_while_large_requests_are_read, 120)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("a sanitizer's own memory is not in the plan");
#endif
    const long budget = 96L << 20;
    int status = 0;
    drill_model(2000);
    write_large("large.jsonl", 4, 2u << 20);
    write_large("huge.jsonl", 1, 24u << 20);
    drill_write_jobs("jobs.jsonl", &(struct drill_jobs){.n = 4, .max_tokens = 4, .name = "small"});
    drill_submit("q.db", "large.jsonl");
    drill_submit("q.db", "huge.jsonl");
    drill_submit("q.db", "jobs.jsonl");
    long peak = peak_bytes(drill_start("q.db", "run -m model.gguf --raw --memory 96M --threads 1"
                                               " --slots 4 --drain > out.txt 2>&1"),
                           &status);
    test_note("peak %ld bytes, budget %ld", peak, budget);
    CHECK_INT(status, 1);
    CHECK(peak <= budget);
    struct queue *q = drill_open("q.db");
    struct queue_counts c = drill_counts(q);
    CHECK_INT(c.state[QUEUE_DONE], 4);
    CHECK_INT(c.state[QUEUE_FAILED], 5);
    queue_close(q);
    CHECK_INT(drill("q.db", "export -o e.jsonl"), 1);
    CHECK_INT(drill_count("e.jsonl", "context_length_exceeded"), 4);
    CHECK_INT(drill_count("e.jsonl", "the memory budget has"), 1);
}
