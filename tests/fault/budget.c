/*
 * The memory that the program really takes stays below --memory, whatever requests bring: resident pages
 * and the page cache that it causes, load included, as the kernel counts them for a control group.
 */
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/fault/group.h"
#include "tests/fault/kit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKIP_SANITIZED() SKIP("a sanitizer's own memory is not in the plan")
#else
#define SKIP_SANITIZED() (void)0
#endif

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
    SKIP_SANITIZED();
    const long budget = 160L << 20, files = 64L << 20; /* page cache, which is not resident */
    int status = 0;
    drill_model(2000);
    write_large("large.jsonl", 4, 2u << 20);
    write_large("huge.jsonl", 1, 24u << 20);
    drill_write_jobs("jobs.jsonl", &(struct drill_jobs){.n = 4, .max_tokens = 4, .name = "small"});
    drill_submit("q.db", "large.jsonl");
    drill_submit("q.db", "huge.jsonl");
    drill_submit("q.db", "jobs.jsonl");
    long peak = peak_bytes(drill_start("q.db", "run -m model.gguf --raw --memory 160M --threads 1"
                                               " --slots 4 --drain > out.txt 2>&1"),
                           &status);
    test_note("peak %ld bytes, budget %ld", peak, budget);
    CHECK_INT(status, 1);
    CHECK(peak <= budget - files);
    struct queue *q = drill_open("q.db");
    struct queue_counts c = drill_counts(q);
    CHECK_INT(c.state[QUEUE_DONE], 4);
    CHECK_INT(c.state[QUEUE_FAILED], 5);
    queue_close(q);
    CHECK_INT(drill("q.db", "export -o e.jsonl"), 1);
    CHECK_INT(drill_count("e.jsonl", "context_length_exceeded"), 4);
    CHECK_INT(drill_count("e.jsonl", "the memory budget has"), 1);
}

/* ---- In a control group ------------------------------------------------------------------------ */

/* A request of so many words, with that many bytes that no model sees. */
static void add_request(const char *path, const char *id, int n_words, int max_tokens,
                        size_t ballast)
{
    FILE *f = fopen(path, "a");
    CHECK(f != NULL);
    fprintf(f,
            "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":"
            "{\"model\":\"m\",\"temperature\":0,\"max_tokens\":%d,\"user\":\"",
            id, max_tokens);
    for (size_t i = 0; i < ballast; i += 16)
        fputs("0123456789abcdef", f);
    fprintf(f, "\",\"prompt\":\"");
    for (int i = 0; i < n_words; i++)
        fprintf(f, "%c%c ", 'a' + i % 26, 'a' + i * 7 % 26);
    fprintf(f, "\"}}\n");
    CHECK_INT(fclose(f), 0);
}

struct run {
    uint64_t budget_bytes, limit_bytes; /* of the program, of the group */
    const char *options;
};

/* A copy of the program that nobody has in memory, so that its pages are on the group's account. */
static void copy_program(void)
{
    char line[9000];
    snprintf(line, sizeof(line), "cp '%s' program && sync program && %s", test_program(),
             "dd if=program iflag=nocache count=0 2>dd.err"); /* lets its page cache go */
    CHECK_INT(system(line), 0);
}

static void run_in(struct group *g, const struct run *r)
{
    char line[4096];
    copy_program();
    group_open(g, r->limit_bytes);
    snprintf(line, sizeof(line),
             "NOCTURNE_DB=q.db exec sh -c 'echo $$ > %s/cgroup.procs; exec ./program run -m "
             "model.gguf --raw "
             "--threads 2 --drain --memory %llu %s > out.txt 2>&1'",
             g->folder, (unsigned long long)r->budget_bytes, r->options);
    int status = system(line);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "status %d: %s", status, drill_read("out.txt"));
    test_note("peak %.1f MiB of %.1f, %llu times at the limit",
              (double)group_peak_bytes(g) / (1 << 20), (double)r->budget_bytes / (1 << 20),
              (unsigned long long)group_n_refusals(g));
}

static void make_model(const char *arguments)
{
    char line[9000];
    const char *program = test_program();
    int folder = (int)(strrchr(program, '/') - program);
    snprintf(line, sizeof(line), "'%.*s/tools/mkmodel' %s -o model.gguf >mkmodel.out", folder,
             program, arguments);
    CHECK_INT(system(line), 0);
}

/* More experts than the budget holds; then the limit is the budget itself, and is never in the way. */
static void check_budget(int n_words, int n_tokens)
{
    struct group g;
    struct run r = {.budget_bytes = (uint64_t)176 << 20, .options = "--ctx 4608 --slots 1"};
    SKIP_EMULATED("the kernel counts the emulator too");
    SKIP_SANITIZED();
    make_model(
        "--arch kimi-linear --layers 8 --experts 96 --used 4 --expert-ff 384 --embd 256 --type "
        "Q4_K --ctx 8192 --vocab 2000");
    for (int i = 1; i <= 2; i++) {
        CHECK_INT(system("rm -f q.db* jobs.jsonl"), 0);
        add_request("jobs.jsonl", "long", n_words, n_tokens, 0);
        drill_submit("q.db", "jobs.jsonl");
        r.limit_bytes = i == 1 ? 2 * r.budget_bytes : r.budget_bytes;
        run_in(&g, &r);
        CHECK(group_peak_bytes(&g) <= r.budget_bytes);
        CHECK_INT(group_n_refusals(&g), 0);
        group_close(&g);
        CHECK_INT(drill("q.db", "show long --json > show.json"), 0);
        CHECK_INT(drill_count("show.json", "\"major_faults\":\t0,"), 1);
        CHECK(drill_count("show.json", "\"expert_misses\":\t0,") == 0);
    }
}

TEST_FOR(budget_holds_with_its_page_cache, 120)
{
    check_budget(300, 40);
}

LONG_TEST(budget_holds_with_its_page_cache_for_a_long_prompt)
{
    check_budget(4096 / 3 * 2, 200);
}

/* A database larger than the budget goes through the page cache, but does not stay there. */
LONG_TEST(budget_holds_while_a_large_database_is_read)
{
    struct group g;
    const uint64_t budget = (uint64_t)160 << 20;
    const struct run r = {
        .budget_bytes = budget, .limit_bytes = 2 * budget, .options = "--ctx 128 --slots 2"};
    char id[32];
    SKIP_EMULATED("the kernel counts the emulator too");
    SKIP_SANITIZED();
    drill_model(2000);
    for (int i = 0; i < 90; i++) {
        snprintf(id, sizeof(id), "ballast-%d", i);
        add_request("jobs.jsonl", id, 4, 2, 3u << 20);
    }
    drill_submit("q.db", "jobs.jsonl");
    CHECK_INT(system("dd if=q.db iflag=nocache count=0 2>dd.err"), 0);
    run_in(&g, &r);
    CHECK(group_peak_bytes(&g) <= budget);
    group_close(&g);
}
