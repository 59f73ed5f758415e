/*
 * The queue with many rows: how long a claim (commit included) and a status take.
 *
 * Usage: bench/queue [ROWS [PATH]]. Makes ROWS requests (a million) of which nine in ten are held or
 * done, claims and ends 2,000 jobs one by one, asks for the status 50 times, and prints CSV. A PATH is
 * kept, and measured again when it is there.
 * The million is submitted through queue.h; a direct statement then ends seven tenths of it, because
 * running them through attempts would measure something else for minutes.
 */
#include "queue/queue.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define CLAIMS 2000
#define STATUSES 50

static void must(int rc, const struct error *e, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "bench/queue: %s: %s\n", what, e->text);
    exit(1);
}

static int compare_us(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *what, int64_t *us, int n)
{
    qsort(us, (size_t)n, sizeof(*us), compare_us);
    printf("%s_p50_us,%" PRId64 "\n%s_p99_us,%" PRId64 "\n%s_max_us,%" PRId64 "\n", what, us[n / 2],
           what, us[n * 99 / 100], what, us[n - 1]);
}

/* Two of ten requests wait for a later hour, seven are ended below, one is claimable. */
static void submit(struct queue *q, int64_t rows)
{
    struct error e = {0};
    struct queue_submit *s;
    struct queue_id id;
    bool found;
    char custom_id[32];
    char body[400];
    const struct queue_batch_options opt = {.endpoint = str_of("/v1/chat/completions")};
    memset(body, ' ', sizeof(body));
    must(queue_submit_begin(q, &opt, &s, &e), &e, "begin");
    for (int64_t i = 0; i < rows; i++) {
        snprintf(custom_id, sizeof(custom_id), "doc-%" PRId64, i);
        const struct queue_new_request r = {
            .custom_id = str_of(custom_id),
            .body = str_slice(body, sizeof(body)),
            .priority = (int)(i % 3),
            .not_before_us = i % 10 < 2 ? clock_wall_us() + INT64_C(86400000000) : 0,
        };
        must(queue_submit_add(s, &r, &e), &e, "add");
    }
    must(queue_submit_publish(s, NULL, true, &id, &found, &e), &e, "publish");
}

static void end_most(const char *path)
{
    static const char sql[] =
        "PRAGMA busy_timeout = 30000; PRAGMA wal_autocheckpoint = 0; BEGIN IMMEDIATE;"
        "INSERT INTO worker (id, uid, pid, start_ticks, boot_id, lock_path, planned_bytes, beat_us,"
        " started_us, ended_us, status) VALUES (1, zeroblob(16), 0, 0, '', '', 0, 0, 0, 0, '{}');"
        "UPDATE job SET state = 'running', attempt = 1, worker_id = 1, changed_us = queued_us"
        " WHERE state = 'queued' AND id % 10 <> 9;"
        "INSERT INTO attempt (job_id, attempt, worker_id, claimed_us, wait_us)"
        " SELECT id, 1, 1, queued_us, 0 FROM job WHERE state = 'running';"
        "INSERT INTO result SELECT id, '{}' FROM job WHERE state = 'running';"
        "UPDATE job SET state = 'done', changed_us = queued_us + 1 WHERE state = 'running';"
        "COMMIT";
    sqlite3 *db;
    char *text = NULL;
    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_exec(db, sql, NULL, NULL, &text) != 0) {
        fprintf(stderr, "bench/queue: %s\n", text ? text : "open");
        exit(1);
    }
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
    sqlite3_close(db);
}

static void make(struct queue *q, int64_t rows)
{
    struct error e = {0};
    int64_t start_us = clock_mono_us();
    submit(q, rows);
    printf("submit_s,%.1f\n", (double)(clock_mono_us() - start_us) / 1e6);
    end_most(queue_path(q));
    must(queue_checkpoint(q, &e), &e, "checkpoint");
}

static void measure_claims(struct queue *q)
{
    static int64_t claim_us[CLAIMS];
    static int64_t end_us[CLAIMS];
    struct error e = {0};
    struct queue_worker *w;
    const struct queue_worker_options opt = {.planned_bytes = 0};
    must(queue_worker_open(q, &opt, NULL, NULL, &w, &e), &e, "worker");
    for (int i = 0; i < CLAIMS; i++) {
        struct queue_claims c = {0};
        int64_t start_us = clock_mono_us();
        must(queue_claim(w, 1, &c, &e), &e, "claim");
        claim_us[i] = clock_mono_us() - start_us;
        if (c.n != 1) {
            fprintf(stderr, "bench/queue: nothing left to claim after %d\n", i);
            exit(1);
        }
        struct queue_end end = {
            .job = c.item[0].job, .attempt = c.item[0].attempt, .json = str_of("{}"), .http = 200};
        start_us = clock_mono_us();
        must(queue_end(q, &end, 1, &e), &e, "end");
        end_us[i] = clock_mono_us() - start_us;
        queue_claims_release(&c);
    }
    queue_worker_close(w, str_of("bench"));
    report("claim", claim_us, CLAIMS);
    report("end", end_us, CLAIMS);
}

static void measure_status(struct queue *q)
{
    static int64_t status_us[STATUSES];
    struct error e = {0};
    for (int i = 0; i < STATUSES; i++) {
        struct queue_status s;
        int64_t start_us = clock_mono_us();
        must(queue_status(q, NULL, &s, &e), &e, "status");
        status_us[i] = clock_mono_us() - start_us;
        if (i == 0)
            printf("rows,%" PRIu64 "\nrows_held,%" PRIu64 "\nrows_done,%" PRIu64 "\n",
                   s.counts.total, s.counts.state[QUEUE_HELD], s.counts.state[QUEUE_DONE]);
        queue_status_release(&s);
    }
    report("status", status_us, STATUSES);
}

static void print_machine(void)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    printf("key,value\nsqlite,%s\n", sqlite3_libversion());
    while (f && fgets(line, sizeof(line), f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && value) {
            printf("cpu,%s", value + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

static void remove_all(const char *path)
{
    static const char *const suffix[] = {"", "-wal", "-shm", ".reserve"};
    char name[4096];
    for (size_t i = 0; i < ARRAY_LEN(suffix); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffix[i]);
        unlink(name);
    }
}

int main(int argc, char **argv)
{
    struct error e = {0};
    struct queue *q;
    int64_t rows = 1000000;
    const char *path = argc > 2 ? argv[2] : "build/bench-queue.db";
    const struct queue_options opt = {.create = true};
    if (argc > 1)
        must(str_parse_int(argv[1], 30000, INT64_C(1000000000), &rows, &e), &e, "ROWS");
    bool keep = argc > 2;
    bool again = keep && access(path, F_OK) == 0;
    if (!keep)
        remove_all(path);
    must(queue_open(path, &opt, &q, &e), &e, "open");
    print_machine();
    if (!again)
        make(q, rows);
    measure_claims(q);
    measure_status(q);
    queue_close(q);
    if (!keep)
        remove_all(path);
    return 0;
}
