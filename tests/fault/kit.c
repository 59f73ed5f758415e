#include "tests/fault/kit.h"

#include <cjson/cJSON.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"

extern char **environ;

#define FILE_MAX_BYTES (64u << 20)
#define POLL_US 5000
#define PATIENCE_US INT64_C(300000000) /* the runner's own limit comes first */

/* ---- Processes -------------------------------------------------------------------------------- */

static pid_t start(const char *db, const char *fmt, va_list args) ATTR_PRINTF(2, 0);

static pid_t start(const char *db, const char *fmt, va_list args)
{
    char line[9000];
    int n = snprintf(line, sizeof(line), "exec '%s' ", test_program());
    CHECK(n > 0 && n < 4500);
    vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, args);
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", line, NULL};
    pid_t pid = -1;
    CHECK_INT(setenv("NOCTURNE_DB", db, 1), 0);
    CHECK_INT(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    return pid;
}

pid_t drill_start(const char *db, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pid_t pid = start(db, fmt, args);
    va_end(args);
    return pid;
}

int drill_wait(pid_t pid)
{
    int status = 0;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int drill(const char *db, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    pid_t pid = start(db, fmt, args);
    va_end(args);
    return drill_wait(pid);
}

bool drill_alive(pid_t pid)
{
    siginfo_t info = {0};
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == 0;
}

/* ---- Models and jobs -------------------------------------------------------------------------- */

void drill_model(unsigned n_vocab)
{
    SKIP_EMULATED("a drill of many processes against the clock");
    unsigned n_embd = 256;
#ifdef __SANITIZE_THREAD__
    n_vocab = MAX_OF(n_vocab / 8, 512u); /* computing is some thirty times slower there */
    n_embd = 64;
#endif
    char line[9000];
    int folder = (int)(strrchr(test_program(), '/') - test_program());
    snprintf(line, sizeof(line),
             "'%.*s/tools/mkmodel' --arch llama --type Q4_0 --layers 2 --embd %u --vocab %u"
             " --ctx 2048 -o model.gguf >/dev/null",
             folder, test_program(), n_embd, n_vocab);
    CHECK_INT(system(line), 0);
}

static void put_job(FILE *f, const char *custom_id, int i, int n_words, int max_tokens)
{
    fprintf(f,
            "{\"custom_id\":\"%s\",\"method\":\"POST\",\"url\":\"/v1/completions\","
            "\"body\":{\"model\":\"m\",\"prompt\":\"",
            custom_id);
    for (int w = 0; w < n_words; w++)
        fprintf(f, "word%d ", (i * 31 + w) % 97);
    fprintf(f, "\",\"max_tokens\":%d,\"temperature\":%s,\"seed\":%d}}\n", max_tokens,
            i % 2 ? "0.8" : "0", i + 1);
}

void drill_write_jobs(const char *path, const struct drill_jobs *jobs)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    int half = jobs->max_tokens / 2;
    for (int i = 0; i < jobs->n; i++) {
        char custom_id[64];
        snprintf(custom_id, sizeof(custom_id), "%s-%02d", jobs->name, i);
        put_job(f, custom_id, i, 3 + (i * 7) % 40, half + (i * 13) % (half + 1));
    }
    CHECK_INT(fclose(f), 0);
}

void drill_add_job(const char *path, const char *custom_id, int n_words, int max_tokens)
{
    FILE *f = fopen(path, "a");
    CHECK(f != NULL);
    put_job(f, custom_id, 0, n_words, max_tokens);
    CHECK_INT(fclose(f), 0);
}

#ifdef __SANITIZE_THREAD__
#define DEEP_WORDS 70 /* computing is some thirty times slower there */
#else
#define DEEP_WORDS 220
#endif

void drill_deep(const char *jobs)
{
    char line[9000];
    const int folder = (int)(strrchr(test_program(), '/') - test_program());
    SKIP_EMULATED("seconds of computing");
    snprintf(line, sizeof(line),
             "'%.*s/tools/mkmodel' --arch kimi-linear --type F32 --layers 24 --embd 128 --vocab 600"
             " --ctx 2048 -o model.gguf >/dev/null",
             folder, test_program());
    CHECK_INT(system(line), 0);
    drill_add_job(jobs, "deep-00", DEEP_WORDS, 4);
}

void drill_submit(const char *db, const char *path)
{
    CHECK_INT(drill(db, "submit -q %s >/dev/null", path), 0);
}

/* ---- Answers ---------------------------------------------------------------------------------- */

/* What an answer is, without times and ids. */
static char *essence(const cJSON *row)
{
    const cJSON *body = cJSON_GetObjectItem(cJSON_GetObjectItem(row, "response"), "body");
    const cJSON *usage = cJSON_GetObjectItem(body, "usage");
    const cJSON *choices = cJSON_GetObjectItem(body, "choices");
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(row, "error")));
    CHECK_INT(cJSON_GetArraySize(choices), 1);
    cJSON *kept = cJSON_CreateObject();
    cJSON_AddItemToObject(kept, "choices", cJSON_Duplicate(choices, true));
    cJSON_AddItemToObject(kept, "prompt_tokens",
                          cJSON_Duplicate(cJSON_GetObjectItem(usage, "prompt_tokens"), false));
    cJSON_AddItemToObject(kept, "completion_tokens",
                          cJSON_Duplicate(cJSON_GetObjectItem(usage, "completion_tokens"), false));
    char *text = cJSON_PrintUnformatted(kept);
    CHECK(text != NULL && strstr(text, "completion_tokens") != NULL);
    cJSON_Delete(kept);
    return text;
}

static char *export_text(const char *db)
{
    CHECK_INT(drill(db, "export -o export.jsonl"), 0);
    return drill_read("export.jsonl");
}

/* The next line of a text that is cut into pieces, parsed; NULL at the end. */
static cJSON *next_row(char *text, char **save)
{
    char *line = strtok_r(*save ? NULL : text, "\n", save);
    if (!line)
        return NULL;
    cJSON *row = cJSON_Parse(line);
    CHECK(row != NULL);
    return row;
}

char *drill_answers(const char *db, const char *name, int n)
{
    char *text = export_text(db), *save = NULL;
    char *line_of[100] = {0};
    struct buf out;
    int n_rows = 0;
    CHECK(n <= (int)ARRAY_LEN(line_of));
    for (cJSON *row; (row = next_row(text, &save)) != NULL; n_rows++) {
        const char *id = cJSON_GetStringValue(cJSON_GetObjectItem(row, "custom_id"));
        CHECK(id && strncmp(id, name, strlen(name)) == 0 && id[strlen(name)] == '-');
        long at = strtol(id + strlen(name) + 1, NULL, 10);
        CHECK(at >= 0 && at < n && !line_of[at]);
        line_of[at] = essence(row);
        cJSON_Delete(row);
    }
    CHECK_INT(n_rows, n);
    buf_init(&out, FILE_MAX_BYTES);
    for (int i = 0; i < n; i++) {
        buf_append_c(&out, line_of[i]);
        buf_append_c(&out, "\n");
        cJSON_free(line_of[i]);
    }
    mem_free(text);
    CHECK(!out.failed);
    return buf_take(&out);
}

int64_t drill_resumed(const char *db)
{
    char *text = export_text(db), *save = NULL;
    double sum = 0;
    for (cJSON *row; (row = next_row(text, &save)) != NULL;) {
        const cJSON *body = cJSON_GetObjectItem(cJSON_GetObjectItem(row, "response"), "body");
        const cJSON *timing = cJSON_GetObjectItem(body, "x_timing");
        sum += cJSON_GetNumberValue(cJSON_GetObjectItem(timing, "resumed_tokens"));
        cJSON_Delete(row);
    }
    mem_free(text);
    return (int64_t)sum;
}

char *drill_calm_answers(const char *jobs, const char *name, int n)
{
    drill_submit("calm.db", jobs);
    CHECK_INT(drill("calm.db", DRILL_RUN "--slots 8 --drain"), 0);
    return drill_answers("calm.db", name, n);
}

/* ---- The database ----------------------------------------------------------------------------- */

struct queue *drill_open(const char *db)
{
    struct error e = {0};
    struct queue *q = NULL;
    CHECK_OK(queue_open(db, &(struct queue_options){0}, &q, &e), &e);
    return q;
}

struct queue_counts drill_counts(struct queue *q)
{
    struct error e = {0};
    struct queue_status s = {0};
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    struct queue_counts counts = s.counts;
    queue_status_release(&s);
    return counts;
}

bool drill_is_worker(struct queue *q, pid_t pid)
{
    struct error e = {0};
    struct queue_status s = {0};
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    bool yes = s.worker.present && s.worker.pid == pid;
    queue_status_release(&s);
    return yes;
}

void drill_check_all_done(const char *db, int n)
{
    struct error e = {0};
    struct queue *q = drill_open(db);
    CHECK_OK(queue_integrity(q, &e), &e);
    struct queue_counts counts = drill_counts(q);
    CHECK_INT(counts.total, n);
    CHECK_INT(counts.state[QUEUE_DONE], n);
    queue_close(q);
}

char *drill_prepare(const char *db, unsigned n_vocab, const struct drill_jobs *jobs)
{
    drill_model(n_vocab);
    drill_write_jobs("jobs.jsonl", jobs);
    char *calm = drill_calm_answers("jobs.jsonl", jobs->name, jobs->n);
    drill_submit(db, "jobs.jsonl");
    return calm;
}

void drill_check_answers(const char *db, const char *name, int n, char *calm)
{
    char *answers = drill_answers(db, name, n);
    CHECK_STR(answers, calm);
    drill_check_all_done(db, n);
    mem_free(answers);
    mem_free(calm);
}

void drill_until(struct queue *q, enum queue_state state, uint64_t at_least)
{
    int64_t until_us = clock_mono_us() + PATIENCE_US;
    while (drill_counts(q).state[state] < at_least) {
        CHECK(clock_mono_us() < until_us);
        clock_sleep_us(POLL_US);
    }
}

/* How many running jobs have saved anything. */
static size_t count_progress(struct queue *q)
{
    struct error e = {0};
    struct queue_requests list = {0};
    const struct queue_filter running = {.states = 1u << QUEUE_RUNNING};
    size_t n = 0;
    CHECK_OK(queue_requests(q, &running, &list, &e), &e);
    for (size_t i = 0; i < list.n; i++) {
        struct queue_tail tail = {0};
        struct buf out;
        buf_init(&out, FILE_MAX_BYTES);
        CHECK_OK(queue_tail(q, list.item[i].id, &tail, &out, &e), &e);
        n += out.len > 0;
        buf_release(&out);
    }
    queue_requests_release(&list);
    return n;
}

void drill_until_progress(struct queue *q, size_t n_jobs)
{
    int64_t until_us = clock_mono_us() + PATIENCE_US;
    while (count_progress(q) < n_jobs) {
        CHECK(clock_mono_us() < until_us);
        clock_sleep_us(POLL_US);
    }
}

/* ---- Files ------------------------------------------------------------------------------------ */

void drill_small_disk(void)
{
    CHECK(mkdir("small", 0700) == 0);
    /* In a namespace of its own the mount goes when the test does, however that ends. */
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "small", "tmpfs", 0, "size=80m") != 0)
        SKIP("a full disk needs a tmpfs, which needs root");
}

void drill_fill(const char *path)
{
    static char block[65536];
    FILE *f = fopen(path, "a");
    CHECK(f != NULL);
    setvbuf(f, NULL, _IONBF, 0);
    for (size_t size = sizeof(block); size >= 4096; size /= 2) {
        while (fwrite(block, size, 1, f) == 1)
            ;
        clearerr(f);
    }
    fclose(f);
}

char *drill_read(const char *path)
{
    struct error e = {0};
    struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    CHECK_OK(file_read_all(path, FILE_MAX_BYTES, &text, &e), &e);
    buf_append(&text, "", 1);
    return buf_take(&text);
}

int drill_count(const char *path, const char *text)
{
    int n = 0;
    if (access(path, F_OK) != 0)
        return 0;
    char *all = drill_read(path);
    for (const char *at = all; (at = strstr(at, text)) != NULL; at += strlen(text))
        n++;
    mem_free(all);
    return n;
}

void drill_check_file(const char *path, const char *text)
{
    char *all = drill_read(path);
    CHECK_STR(all, text);
    mem_free(all);
}

bool drill_file_says(const char *path, const char *text)
{
    return drill_count(path, text) > 0;
}

void drill_until_file_says(const char *path, const char *text)
{
    int64_t until_us = clock_mono_us() + PATIENCE_US;
    while (!drill_file_says(path, text)) {
        CHECK(clock_mono_us() < until_us);
        clock_sleep_us(POLL_US);
    }
}
