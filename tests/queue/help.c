#include "tests/queue/help.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"

struct queue *help_open(const char *path)
{
    struct queue *q = NULL;
    struct error e = {0};
    const struct queue_options opt = {.create = true, .reserve_bytes = 1u << 20};
    CHECK_OK(queue_open(path, &opt, &q, &e), &e);
    return q;
}

static void add(struct queue_submit *s, const char *custom_id, size_t bytes, int priority)
{
    struct error e = {0};
    char *body = mem_zalloc(bytes + 1);
    CHECK(body);
    memset(body, 'b', bytes);
    const struct queue_new_request r = {
        .custom_id = str_of(custom_id), .body = str_slice(body, bytes), .priority = priority};
    CHECK_OK(queue_submit_add(s, &r, &e), &e);
    mem_free(body);
}

static struct queue_submit *begin(struct queue *q)
{
    struct error e = {0};
    struct queue_submit *s = NULL;
    const struct queue_batch_options opt = {.name = str_of("night"),
                                            .endpoint = str_of("/v1/chat/completions")};
    CHECK_OK(queue_submit_begin(q, &opt, &s, &e), &e);
    return s;
}

static struct queue_id publish(struct queue_submit *s)
{
    struct error e = {0};
    struct queue_id id;
    bool found = true;
    CHECK_OK(queue_submit_publish(s, NULL, false, &id, &found, &e), &e);
    CHECK(!found);
    return id;
}

struct queue_id help_submit(struct queue *q, int n, size_t bytes)
{
    struct queue_submit *s = begin(q);
    for (int i = 0; i < n; i++) {
        char custom_id[32];
        snprintf(custom_id, sizeof(custom_id), "r%d", i);
        add(s, custom_id, bytes, 0);
    }
    return publish(s);
}

struct queue_id help_submit_one(struct queue *q, const char *custom_id, int priority)
{
    struct queue_submit *s = begin(q);
    add(s, custom_id, 10, priority);
    return publish(s);
}

struct queue_worker *help_worker(struct queue *q)
{
    struct error e = {0};
    struct queue_worker *w = NULL;
    const struct queue_worker_options opt = {.beat_ms = 20, .lease_ms = 200, .planned_bytes = 1000};
    CHECK_OK(queue_worker_open(q, &opt, NULL, NULL, &w, &e), &e);
    return w;
}

size_t help_claim(struct queue_worker *w, size_t max, struct queue_claims *ret)
{
    struct error e = {0};
    CHECK_OK(queue_claim(w, max, ret, &e), &e);
    return ret->n;
}

struct queue_claim help_claim_one(struct queue_worker *w)
{
    struct queue_claims c;
    CHECK_INT(help_claim(w, 1, &c), 1);
    struct queue_claim one = c.item[0];
    mem_free(c.item);
    return one;
}

void help_free_claim(struct queue_claim *c)
{
    struct queue_claim *item = mem_array(1, sizeof(*item));
    CHECK(item);
    *item = *c;
    struct queue_claims all = {.item = item, .n = 1};
    queue_claims_release(&all);
}

bool help_end(struct queue *q, int64_t job, int64_t attempt, enum queue_end_kind kind)
{
    struct error e = {0};
    struct queue_end end = {.job = job,
                            .attempt = attempt,
                            .kind = kind,
                            .json = str_of("{\"answer\":1}"),
                            .finish = str_of("stop"),
                            .http = 200,
                            .timing = {.decode_tokens = 7, .decode_ms = 70}};
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
    return end.refused;
}

bool help_progress(struct queue *q, const struct queue_claim *c, const char *bytes)
{
    static const uint8_t fingerprint[QUEUE_FINGERPRINT_BYTES] = {1, 2, 3};
    struct error e = {0};
    struct queue_progress p = {
        .job = c->job, .attempt = c->attempt, .fingerprint = fingerprint, .bytes = str_of(bytes)};
    CHECK_OK(queue_progress_append(q, &p, 1, &e), &e);
    return p.refused;
}

struct queue_counts help_counts(struct queue *q)
{
    struct error e = {0};
    struct queue_status s;
    CHECK_OK(queue_status(q, NULL, &s, &e), &e);
    struct queue_counts counts = s.counts;
    queue_status_release(&s);
    return counts;
}

pid_t help_fork(int (*fn)(void *arg), void *arg)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(fn(arg));
    return child;
}

int help_wait(pid_t child)
{
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t help_fork_until(int (*fn)(void *arg, int tell), void *arg)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(ends[0]);
        _exit(fn(arg, ends[1]));
    }
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1);
    close(ends[0]);
    return child;
}

void help_tell(int tell)
{
    CHECK(write(tell, "x", 1) == 1);
}

void help_kill(pid_t child)
{
    kill(child, SIGKILL);
    help_wait(child);
}

int64_t help_number(const char *path, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;
    CHECK_INT(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_step(stmt), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(stmt, 0);
    CHECK_INT(sqlite3_finalize(stmt), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
    return n;
}
