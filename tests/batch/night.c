/*
 * The report of a night. Histories are made by the queue's own functions under a clock that is shifted, in
 * children that end or are killed; what the report adds up must be what SQL says.
 */
#include "batch/night/night.h"

#include <signal.h>
#include <sqlite3.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "tests/batch/well_formed.h"
#include "tests/queue/help.h"

#define HOUR_US INT64_C(3600000000)

static void run_sql(const char *script)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    sqlite3_exec(db, script, NULL, NULL, &why);
    CHECK_STR(why ? why : "", "");
    sqlite3_close(db);
}

static void begin_run(struct queue_worker *w, const char *configuration)
{
    struct error e = {0};
    const struct queue_run_about about = {
        .machine_json = str_of("{\"host\":\"here\",\"cores\":2,\"memory_bytes\":1073741824}"),
        .model_json = str_of("{\"name\":\"small\",\"bytes\":4096}"),
        .configuration_json = str_of(configuration)};
    CHECK_OK(queue_run_begin(w, &about, &e), &e);
}

/* ---- Random histories ------------------------------------------------------------------------- */

struct segment {
    uint64_t seed;
    int64_t shift_us;
    bool dies;
};

static int64_t pick(const struct segment *s, uint64_t i, int64_t n)
{
    return (int64_t)(rng_u64(s->seed, i) % (uint64_t)n);
}

/* Ends a claim at random: done, failed, put off or given back. */
static void end_randomly(struct queue *q, const struct segment *s, const struct queue_claim *c,
                         uint64_t i)
{
    static const char *const errors[] = {"{\"error\":{\"message\":\"too long\",\"code\":\"long\"}}",
                                         "{\"error\":{\"message\":\"no\",\"code\":null}}",
                                         "\"not even an object\""};
    struct error e = {0};
    const enum queue_end_kind kind = (enum queue_end_kind)pick(s, i, 4);
    struct queue_end end = {.job = c->job,
                            .attempt = c->attempt,
                            .kind = kind,
                            .json = str_of(kind == QUEUE_END_DONE      ? "{}"
                                           : kind == QUEUE_END_RELEASE ? ""
                                                                       : errors[pick(s, i + 1, 3)]),
                            .finish = str_of("stop"),
                            .http = 200,
                            .empty = str_of(pick(s, i + 2, 5) == 0 ? "thought" : NULL),
                            .timing = {.prefill_tokens = pick(s, i + 3, 1000),
                                       .prefill_ms = pick(s, i + 4, 1000),
                                       .decode_tokens = pick(s, i + 5, 1000),
                                       .decode_ms = pick(s, i + 6, 1000),
                                       .read_bytes = pick(s, i + 7, 1000000),
                                       .expert_hits = pick(s, i + 8, 100),
                                       .expert_misses = pick(s, i + 9, 100),
                                       .refaults = -1}};
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
}

static int live(void *arg, int tell)
{
    const struct segment *s = arg;
    struct error e = {0};
    bool more = true;
    clock_test_shift(s->shift_us, 0);
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    begin_run(w, "{}");
    while (more)
        CHECK_OK(queue_scan(q, &more, &e), &e);
    struct queue_sample sample = {0};
    for (uint64_t round = 0; round < 4; round++) {
        struct queue_claims c;
        help_claim(w, 3, &c);
        for (size_t i = 0; i < c.n; i++) {
            /* What was alone or last stays running when the worker dies. */
            if (!s->dies || round < 3)
                end_randomly(q, s, &c.item[i], 100 * round + 20 * i);
        }
        queue_claims_release(&c);
        sample.decode_tokens += pick(s, 1000 + round, 500);
        sample.running = 1;
        CHECK_OK(queue_run_sample(w, &sample, &e), &e);
        CHECK_OK(queue_run_note(w, str_of("disk_room"), str_of(""), &e), &e);
    }
    if (s->dies) {
        help_tell(tell);
        pause();
    }
    CHECK_OK(queue_run_end(w, str_of("stopped"), 0, str_of(""), str_of(""), &e), &e);
    queue_worker_close(w, str_of("stopped"));
    queue_close(q);
    help_tell(tell);
    return 0;
}

#define CHECK_SUM(member, expression)                                                              \
    do {                                                                                           \
        char sql_[400];                                                                            \
        snprintf(sql_, sizeof(sql_), "SELECT coalesce(" expression ", 0) FROM attempt WHERE %s",   \
                 where);                                                                           \
        CHECK_INT(sums->member, help_number(DB, sql_));                                            \
    } while (0)

static void check_sums(const struct queue_run_sums *sums, const char *where)
{
    CHECK_SUM(attempts, "count(*)");
    CHECK_SUM(done, "sum(end = 'done')");
    CHECK_SUM(failed, "sum(end = 'failed')");
    CHECK_SUM(retried, "sum(end = 'retry')");
    CHECK_SUM(released, "sum(end = 'released')");
    CHECK_SUM(died, "sum(end = 'died')");
    CHECK_SUM(running, "sum(ended_us IS NULL)");
    CHECK_SUM(prefill_tokens, "sum(prefill_tokens)");
    CHECK_SUM(decode_tokens, "sum(decode_tokens)");
    CHECK_SUM(decode_ms, "sum(decode_ms)");
    CHECK_SUM(read_bytes, "sum(read_bytes)");
    CHECK_SUM(expert_hits, "sum(expert_hits)");
    CHECK_SUM(expert_misses, "sum(expert_misses)");
    CHECK_SUM(empty, "sum(end = 'done' AND EXISTS (SELECT 1 FROM job WHERE id = job_id"
                     " AND job.attempt = attempt.attempt AND empty IS NOT NULL))");
}

static void check_causes(const struct night *n, const char *where)
{
    char sql[400];
    int64_t all = 0, final = 0;
    for (size_t i = 0; i < n->n_causes; i++) {
        all += n->cause[i].n_final + n->cause[i].n_returned;
        final += n->cause[i].n_final;
        CHECK(n->cause[i].custom_id && *n->cause[i].code);
    }
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM attempt WHERE error IS NOT NULL AND end <> 'released' AND %s",
             where);
    CHECK_INT(all, help_number(DB, sql));
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM attempt JOIN job ON job.id = job_id WHERE state = 'failed'"
             " AND job.attempt = attempt.attempt AND %s",
             where);
    CHECK_INT(final, help_number(DB, sql));
}

static void add_sums(struct queue_run_sums *to, const struct queue_run_sums *from)
{
    int64_t *const sum = (int64_t *)to;
    const int64_t *const one = (const int64_t *)from;
    for (size_t i = 0; i < sizeof(*to) / sizeof(*sum); i++)
        sum[i] += one[i];
}

/* Every night that there is, each against SQL over its runs; together they are all there is. */
static void check_nights(struct queue *q, int64_t from_us, int n_days)
{
    struct queue_run_sums all = {0};
    size_t n_runs = 0;
    for (int day = -2; day < n_days + 2; day++) {
        struct error e = {0};
        struct night *n = NULL;
        char date[32], where[200];
        const time_t at = (time_t)((from_us + day * 24 * HOUR_US) / 1000000);
        struct tm tm;
        CHECK(localtime_r(&at, &tm) && strftime(date, sizeof(date), "%Y-%m-%d", &tm));
        const int rc = night_open(q, &(struct night_choice){.date = date}, &n, &e);
        CHECK(rc == 0 || rc == -ERROR_NOTFOUND);
        if (rc)
            continue;
        snprintf(where, sizeof(where),
                 "attempt.worker_id IN (SELECT worker_id FROM run WHERE id BETWEEN %lld AND %lld)",
                 (long long)n->run[0].run.key, (long long)n->run[n->n_runs - 1].run.key);
        check_sums(&n->sums, where);
        check_causes(n, where);
        add_sums(&all, &n->sums);
        n_runs += n->n_runs;
        night_free(n);
    }
    check_sums(&all, "1");
    CHECK_INT((int64_t)n_runs, help_number(DB, "SELECT count(*) FROM run"));
}

static void random_history(uint64_t seed)
{
    CHECK_INT(system("rm -f " DB "*"), 0);
    const int64_t from_us = clock_wall_us();
    struct queue *q = help_open(DB);
    help_submit(q, 60, 10);
    int64_t shift_us = 0;
    int n_died = 0;
    for (uint64_t i = 0; i < 7; i++) {
        struct segment s = {rng_u64(seed, i), shift_us, rng_u64(seed, 50 + i) % 3 == 0 || i == 3};
        const pid_t child = help_fork_until(live, &s);
        if (s.dies)
            help_kill(child);
        else
            CHECK_INT(help_wait(child), 0);
        n_died += s.dies;
        shift_us += HOUR_US + (int64_t)(rng_u64(seed, 100 + i) % (uint64_t)(9 * HOUR_US));
    }
    CHECK_INT(help_number(DB, "SELECT count(*) FROM run WHERE ended_us IS NULL"), n_died);
    check_nights(q, from_us, (int)(shift_us / (24 * HOUR_US)) + 1);
    queue_close(q);
}

TEST(night_sums_are_the_databases_over_random_histories)
{
    for (uint64_t seed = 1; seed <= 6; seed++)
        random_history(seed);
}

TEST(night_of_a_killed_worker_ends_with_its_last_sample)
{
    struct error e = {0};
    struct night *n = NULL;
    char end[96];
    struct queue *q = help_open(DB);
    help_submit(q, 9, 10);
    struct segment s = {.seed = 7, .dies = true};
    const pid_t child = help_fork_until(live, &s);
    CHECK_OK(night_open(q, &(struct night_choice){0}, &n, &e), &e);
    CHECK(n->run[0].run.running && !n->run[0].run.why);
    CHECK(n->sums.running > 0 || n->sums.attempts == 9);
    night_free(n);
    help_kill(child);
    CHECK_OK(night_open(q, &(struct night_choice){0}, &n, &e), &e);
    const struct night_run *r = &n->run[0];
    CHECK(!r->run.running);
    CHECK_STR(r->run.why, "died");
    CHECK_INT(r->run.status, -1);
    CHECK_INT(r->run.known_us,
              help_number(DB, "SELECT max(at_us) FROM (SELECT at_us FROM run_sample"
                              " UNION ALL SELECT at_us FROM run_note)"));
    CHECK(strncmp(night_end_text(&r->run, end), "died, last heard of at ", 23) == 0);
    CHECK_STR(n->event[n->n_events - 1].kind, "end");
    /* What ran then runs no more, and took no longer than until then. */
    CHECK_INT(n->n_running, 0);
    CHECK_INT(n->n_interrupted, n->sums.running);
    clock_test_shift(9 * HOUR_US, 9 * HOUR_US);
    struct night *later = NULL;
    CHECK_OK(night_open(q, &(struct night_choice){.run = 1}, &later, &e), &e);
    for (size_t i = 0; i < later->n_longest; i++)
        CHECK(later->longest[i].held_us < HOUR_US);
    night_free(later);
    night_free(n);
    /* The next worker says the same of it. */
    struct queue_worker *w = help_worker(q);
    begin_run(w, "{}");
    CHECK_OK(night_open(q, &(struct night_choice){.run = 1}, &n, &e), &e);
    CHECK_STR(n->run[0].run.why, "died");
    night_free(n);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

/* ---- Long runs, and which night is meant ------------------------------------------------------ */

static void end_one(struct queue *q, struct queue_worker *w)
{
    struct queue_claim c = help_claim_one(w);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    help_free_claim(&c);
}

TEST(night_cuts_a_run_of_days_at_noons)
{
    static const int64_t at_hours[] = {1, 20, 30, 52, 70};
    struct error e = {0};
    const struct queue_sample sample = {.running = 1};
    struct queue *q = help_open(DB);
    const int64_t from_us = clock_wall_us();
    help_submit(q, 5, 10);
    struct queue_worker *w = help_worker(q);
    begin_run(w, "{}");
    for (size_t i = 0; i < 5; i++) {
        clock_test_shift(at_hours[i] * HOUR_US, at_hours[i] * HOUR_US);
        end_one(q, w);
        CHECK_OK(queue_run_sample(w, &sample, &e), &e);
    }
    CHECK_OK(queue_run_end(w, str_of("drained"), 0, str_of(""), str_of(""), &e), &e);
    queue_worker_close(w, str_of("drained"));
    int64_t done = 0;
    int n_nights = 0;
    for (int day = -1; day < 5; day++) {
        struct night *n = NULL;
        char date[32];
        const time_t at = (time_t)((from_us + day * 24 * HOUR_US) / 1000000);
        struct tm tm;
        CHECK(localtime_r(&at, &tm) && strftime(date, sizeof(date), "%Y-%m-%d", &tm));
        if (night_open(q, &(struct night_choice){.date = date}, &n, &e) != 0)
            continue;
        CHECK(n->until_us - n->from_us <= 25 * HOUR_US && n->sums.done <= 3);
        CHECK_INT((int64_t)n->run[0].n_samples, n->sums.done);
        done += n->sums.done;
        n_nights++;
        night_free(n);
    }
    CHECK_INT(done, 5);
    CHECK(n_nights == 3 || n_nights == 4);
    struct night *n = NULL;
    CHECK_OK(night_open(q, &(struct night_choice){.run = 1}, &n, &e), &e);
    CHECK_INT(n->sums.done, 5);
    night_free(n);
    CHECK_OK(night_open(q, &(struct night_choice){.since_us = from_us + 40 * HOUR_US}, &n, &e), &e);
    CHECK_INT(n->sums.done, 2);
    night_free(n);
    queue_close(q);
}

TEST(night_that_never_was_is_not_found)
{
    struct error e = {0};
    struct night *n = NULL;
    struct queue *q = help_open(DB);
    CHECK_INT(night_open(q, &(struct night_choice){0}, &n, &e), -ERROR_NOTFOUND);
    CHECK_INT(night_open(q, &(struct night_choice){.run = 3}, &n, &e), -ERROR_NOTFOUND);
    CHECK_INT(night_open(q, &(struct night_choice){.date = "2020-02-02"}, &n, &e), -ERROR_NOTFOUND);
    CHECK_INT(night_open(q, &(struct night_choice){.date = "yesterday"}, &n, &e), -ERROR_USAGE);
    CHECK_INT(night_open(q, &(struct night_choice){.since_us = 5}, &n, &e), -ERROR_NOTFOUND);
    queue_close(q);
}

/* ---- What is left ----------------------------------------------------------------------------- */

/* One job took a minute at work; nine are left. */
static struct queue *minute_of_work(const char *configuration, struct queue_worker **ret)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit(q, 10, 10);
    struct queue_worker *w = help_worker(q);
    begin_run(w, configuration);
    CHECK_OK(queue_run_sample(w, &(struct queue_sample){.running = 1}, &e), &e);
    end_one(q, w);
    CHECK_OK(queue_run_sample(w, &(struct queue_sample){.done = 1}, &e), &e);
    run_sql("UPDATE run_sample SET elapsed_us = 60000000 WHERE done = 1;"
            "UPDATE run_sample SET elapsed_us = 0 WHERE done = 0");
    *ret = w;
    return q;
}

TEST(night_forecast_is_of_the_time_at_work)
{
    struct error e = {0};
    struct night *n = NULL;
    struct queue_worker *w;
    struct queue *q = minute_of_work("{}", &w);
    CHECK_OK(night_open(q, &(struct night_choice){0}, &n, &e), &e);
    CHECK_INT(n->course.busy_us, 60000000);
    CHECK_INT(n->work_us / 1000, 9 * 60000);
    CHECK(llabs(n->done_us - clock_wall_us() - n->work_us) < 5000000);
    night_free(n);
    CHECK_OK(queue_pause(q, str_of("tired"), &e), &e);
    CHECK_OK(night_open(q, &(struct night_choice){0}, &n, &e), &e);
    CHECK_INT(n->done_us, 0);
    night_free(n);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(night_forecast_waits_for_its_windows)
{
    struct error e = {0};
    struct night *n = NULL;
    struct queue_worker *w;
    struct tm tm;
    char settings[64];
    const time_t later = (time_t)(clock_wall_us() / 1000000) + 7200;
    CHECK(localtime_r(&later, &tm) != NULL);
    snprintf(settings, sizeof(settings), "{\"window\":[\"%02d:00-%02d:00\"]}", tm.tm_hour,
             (tm.tm_hour + 1) % 24);
    struct queue *q = minute_of_work(settings, &w);
    CHECK_OK(night_open(q, &(struct night_choice){0}, &n, &e), &e);
    CHECK(n->windowed);
    const time_t done = (time_t)(n->done_us / 1000000);
    CHECK(localtime_r(&done, &tm) != NULL);
    CHECK_INT(tm.tm_min, 9);
    CHECK(n->done_us > clock_wall_us() + n->work_us);
    night_free(n);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

/* ---- Showing it ------------------------------------------------------------------------------- */

static struct queue *hostile(void)
{
    static const char name[] = "</td><script>alert('\x01\xff&\")</script>";
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit_one(q, name, 0);
    struct queue_worker *w = help_worker(q);
    begin_run(w, "{\"model\":\"<b>\",\"window\":[\"<i>\"]}");
    struct queue_claim c = help_claim_one(w);
    struct queue_end end = {
        .job = c.job,
        .attempt = c.attempt,
        .kind = QUEUE_END_FAILED,
        .json = str_of("{\"error\":{\"message\":\"<script>&\\u0001\",\"code\":\"<a>\"}}"),
        .finish = str_of("x"),
        .http = 400};
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
    CHECK_OK(queue_run_note(w, str_of("<kind>"), str_of("{\"text\":\"<script>\\u0007\"}"), &e), &e);
    CHECK_OK(queue_run_note(w, str_of("not_known"),
                            str_of("{\"free_bytes\":1536,\"x\":0.25,\"y\":\"z\",\"list\":[1]}"),
                            &e),
             &e);
    const struct queue_sample more = {.running = 2, .decode_tokens = 7, .resident_bytes = 1 << 20};
    CHECK_OK(queue_run_sample(w, &(struct queue_sample){.running = 2}, &e), &e);
    CHECK_OK(queue_run_sample(w, &more, &e), &e);
    CHECK_OK(queue_run_end(w, str_of("failed"), 74, str_of("<script>it"), str_of(""), &e), &e);
    queue_worker_close(w, str_of("failed"));
    help_free_claim(&c);
    return q;
}

TEST(night_page_is_well_formed_and_escapes_what_others_wrote)
{
    struct error e = {0};
    struct night *n = NULL;
    struct buf page;
    struct queue *q = hostile();
    CHECK_OK(night_open(q, &(struct night_choice){0}, &n, &e), &e);
    buf_init(&page, 1u << 20);
    CHECK_OK(night_page(n, &page, &e), &e);
    const char *body = strstr(page.ptr, "<html");
    CHECK(body && well_formed(body));
    CHECK(!strstr(body, "<script") && !strstr(body, "<b>") && !strstr(body, "<i>"));
    CHECK(strstr(body, "&lt;script&gt;alert(") && strstr(body, "&lt;script&gt;it"));
    CHECK(strstr(body, "not known: free 1.5 KiB, x 0.25, y z, list [1]"));
    /* Nothing is fetched from anywhere. */
    CHECK(!strstr(body, "src=") && !strstr(body, "url(") && !strstr(body, "@import"));
    CHECK(strstr(body, "prefers-color-scheme") && strstr(body, "@media print"));
    buf_release(&page);
    buf_init(&page, 4000);
    CHECK(night_page(n, &page, &e) != 0);
    buf_release(&page);
    night_free(n);
    queue_close(q);
}

TEST(night_survives_every_failed_allocation)
{
    struct queue *q = hostile();
    int rc = -1;
    for (long k = 1; rc != 0; k++) {
        struct error e = {0};
        struct night *n = NULL;
        struct buf page;
        buf_init(&page, 1u << 20);
        mem_fail_after(k);
        rc = night_open(q, &(struct night_choice){0}, &n, &e);
        if (rc == 0)
            rc = night_page(n, &page, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        buf_release(&page);
        night_free(n);
        CHECK(k < 20000);
    }
    queue_close(q);
}

TEST(night_counts_are_grouped)
{
    char out[32];
    CHECK_STR(night_count(0, out), "0");
    CHECK_STR(night_count(999, out), "999");
    CHECK_STR(night_count(1000, out), "1,000");
    CHECK_STR(night_count(-1234567, out), "-1,234,567");
    CHECK_STR(night_count(INT64_MAX, out), "9,223,372,036,854,775,807");
    CHECK_STR(night_rate_text(5, 2000000, out), "2.5");
    CHECK_STR(night_rate_text(123456, 1000000, out), "123,456");
    CHECK_STR(night_rate_text(1, 0, out), "0");
    CHECK_STR(night_time_text(1500000, out), "1.5 s");
}
