/* Sweeps: the file of runs, budgets, order, and that runs which differ are found. */
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "batch/sweep/plan.h"
#include "batch/sweep/row.h"
#include "batch/sweep/summary.h"
#include "tests/test.h"

#define GIB (UINT64_C(1) << 30)

static struct sweep_row row(uint64_t gib, uint64_t repetition, enum sweep_state state)
{
    struct sweep_row r = {.budget_bytes = gib * GIB,
                          .repetition = repetition,
                          .state = state,
                          .decode_per_s = 0.37 * (double)gib,
                          .hit_rate = NAN,
                          .tokens = 64,
                          .digest = "aa",
                          .key = "0123456789abcdef",
                          .at = "2026-11-30T22:00:00Z"};
    if (state != SWEEP_DONE)
        snprintf(r.message, sizeof(r.message), "needs \"61\" GiB, has\n60");
    return r;
}

static void open_rows(struct sweep_rows *r)
{
    struct error e = {0};
    CHECK_OK(sweep_rows_open(r, "s.csv", "0123456789abcdef", &e), &e);
}

static void write_rows(void)
{
    struct error e = {0};
    struct sweep_rows r;
    const struct sweep_row rows[] = {row(60, 1, SWEEP_DONE), row(8, 2, SWEEP_REFUSED),
                                     row(92, 1, SWEEP_FAILED)};
    open_rows(&r);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_OK(sweep_rows_add(&r, &rows[i], &e), &e);
    sweep_rows_close(&r);
}

static void append(const char *text)
{
    int fd = open("s.csv", O_WRONLY | O_APPEND);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

TEST(sweep_rows_come_back_as_they_were)
{
    struct sweep_rows r;
    write_rows();
    open_rows(&r);
    CHECK_INT(r.n, 3);
    const struct sweep_row *done = sweep_rows_find(&r, 60 * GIB, 1);
    CHECK(done && done->state == SWEEP_DONE && fabs(done->decode_per_s - 22.2) < 1e-7);
    CHECK(isnan(done->hit_rate) && done->tokens == 64 && strcmp(done->digest, "aa") == 0);
    CHECK_STR(r.row[1]->message, "needs \"61\" GiB, has 60");
    /* A refusal stands for every repetition, a failure for none. */
    CHECK(sweep_rows_find(&r, 8 * GIB, 1) == r.row[1]);
    CHECK(!sweep_rows_find(&r, 92 * GIB, 1) && !sweep_rows_find(&r, 60 * GIB, 2));
    sweep_rows_close(&r);
}

TEST(sweep_rows_lose_only_the_line_that_was_cut)
{
    struct sweep_rows r;
    struct error e = {0};
    write_rows();
    append("64424509440,2,done,1.5,\"a");
    open_rows(&r);
    CHECK_INT(r.n, 3);
    const struct sweep_row next = row(60, 2, SWEEP_DONE);
    CHECK_OK(sweep_rows_add(&r, &next, &e), &e);
    sweep_rows_close(&r);
    open_rows(&r);
    CHECK(r.n == 4 && sweep_rows_find(&r, 60 * GIB, 2));
    sweep_rows_close(&r);
    /* Even in the first line of all. */
    CHECK_INT(truncate("s.csv", 20), 0);
    open_rows(&r);
    CHECK_INT(r.n, 0);
    CHECK_OK(sweep_rows_add(&r, &next, &e), &e);
    sweep_rows_close(&r);
    open_rows(&r);
    CHECK_INT(r.n, 1);
    sweep_rows_close(&r);
}

static void check_refused(int code, const char *word)
{
    struct sweep_rows r;
    struct error e = {0};
    struct buf before, after;
    buf_init(&before, 1 << 20);
    buf_init(&after, 1 << 20);
    CHECK_OK(file_read_all("s.csv", 1 << 20, &before, &e), &e);
    CHECK_INT(sweep_rows_open(&r, "s.csv", "0123456789abcdef", &e), -code);
    CHECK(strstr(e.text, word));
    sweep_rows_close(&r);
    CHECK_OK(file_read_all("s.csv", 1 << 20, &after, &e), &e);
    CHECK(before.len == after.len && memcmp(before.ptr, after.ptr, before.len) == 0);
    buf_release(&before);
    buf_release(&after);
}

TEST(sweep_rows_refuse_what_is_not_theirs_and_leave_it_as_it_is)
{
    struct error e = {0};
    struct sweep_rows r;
    static const char letter[] = "Dear reader,\nno newline at the end", word[] = "hello";
    CHECK_OK(file_write_all("s.csv", letter, strlen(letter), &e), &e);
    check_refused(ERROR_INVALID, "not a file of a sweep");
    CHECK_OK(file_write_all("s.csv", word, strlen(word), &e), &e);
    check_refused(ERROR_INVALID, "not a file of a sweep");
    CHECK_INT(unlink("s.csv"), 0);
    write_rows();
    append("1,2,sometimes\n");
    check_refused(ERROR_BADDATA, "line 5");
    CHECK_INT(unlink("s.csv"), 0);
    write_rows();
    CHECK_INT(sweep_rows_open(&r, "s.csv", "fedcba9876543210", &e), -ERROR_INVALID);
    CHECK(strstr(e.text, "another sweep"));
    sweep_rows_close(&r);
}

TEST(sweep_rows_are_so_many_at_most)
{
    struct error e = {0};
    struct sweep_rows r;
    const struct sweep_row row = {.budget_bytes = GIB, .repetition = 1, .state = SWEEP_FAILED};
    CHECK_OK(sweep_rows_open(&r, NULL, "", &e), &e);
    for (int i = 0; i < SWEEP_ROWS_MAX; i++)
        CHECK_OK(sweep_rows_add(&r, &row, &e), &e);
    CHECK_ERROR(sweep_rows_add(&r, &row, &e), &e, ERROR_INVALID, "8000 runs");
    sweep_rows_close(&r);
}

TEST(sweep_rows_that_cannot_be_written_are_an_error)
{
    struct error e = {0};
    struct sweep_rows r;
    const struct sweep_row one = row(60, 1, SWEEP_DONE);
    open_rows(&r);
    file_fail_once(1, FILE_FAULT_ENOSPC);
    CHECK(sweep_rows_add(&r, &one, &e) < 0);
    file_fail_once(0, FILE_FAULT_NONE);
    mem_fail_after(1);
    CHECK_INT(sweep_rows_add(&r, &one, &e), -ERROR_NOMEM);
    mem_fail_after(0);
    sweep_rows_close(&r);
}

TEST(sweep_finds_runs_that_wrote_other_tokens)
{
    struct error e = {0};
    struct sweep_rows r;
    struct sweep_row rows[] = {row(60, 1, SWEEP_DONE), row(60, 2, SWEEP_FAILED),
                               row(92, 2, SWEEP_DONE)};
    CHECK_OK(sweep_rows_open(&r, NULL, "0123456789abcdef", &e), &e);
    rows[1].digest[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_OK(sweep_rows_add(&r, &rows[i], &e), &e);
    CHECK_OK(sweep_rows_agree(&r, &e), &e);
    rows[2].digest[0] = 'b';
    rows[2].repetition = 3;
    CHECK_OK(sweep_rows_add(&r, &rows[2], &e), &e);
    CHECK_INT(sweep_rows_agree(&r, &e), -ERROR_BADDATA);
    CHECK_INT(error_describe(e.code)->exit_status, 65);
    CHECK(strstr(e.text, "repetition 1 with 60.0 GiB and repetition 3 with 92.0 GiB"));
    sweep_rows_close(&r);
}

static void check_budgets(const char *list, uint64_t most, size_t n, const uint64_t *gib)
{
    struct error e = {0};
    struct sweep_plan p = {.smallest_bytes = 20 * GIB, .whole_bytes = 100 * GIB};
    CHECK_OK(sweep_budgets(&p, list, most * GIB, &e), &e);
    CHECK_INT(p.n_budgets, n);
    for (size_t i = 0; i < n; i++)
        CHECK_INT(p.budget[i], gib[i] * GIB);
}

TEST(sweep_budgets_are_sizes_parts_and_steps)
{
    check_budgets("92G,60G,68G,60G", 0, 3, (const uint64_t[]){60, 68, 92});
    check_budgets("25%,100%,50G", 0, 3, (const uint64_t[]){25, 50, 100});
    check_budgets("auto", 0, 5, (const uint64_t[]){20, 40, 60, 80, 100});
    check_budgets("auto", 60, 5, (const uint64_t[]){20, 30, 40, 50, 60});
    check_budgets("auto", 10, 1, (const uint64_t[]){20});
    static const char *const wrong[] = {"", "60G,", "60x", "0", "0%", "auto,60G", "-5G"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct error e = {0};
        struct sweep_plan p = {.smallest_bytes = GIB, .whole_bytes = 2 * GIB};
        CHECK_INT(sweep_budgets(&p, wrong[i], 0, &e), -ERROR_USAGE);
        CHECK(e.code == ERROR_USAGE && strstr(e.text, "--budgets"));
    }
}

TEST(sweep_order_has_every_run_once_and_follows_the_seed)
{
    struct sweep_plan p = {.n_budgets = 7, .repeat = 3, .seed = 1};
    size_t n, same = 0;
    bool seen[21] = {false};
    uint32_t *one = sweep_order(&p, &n), *again = sweep_order(&p, &n);
    p.seed = 2;
    uint32_t *other = sweep_order(&p, &n);
    CHECK(one && again && other && n == 21);
    for (size_t i = 0; i < n; i++) {
        CHECK(one[i] < n && !seen[one[i]] && one[i] == again[i]);
        seen[one[i]] = true;
        same += one[i] == other[i];
    }
    CHECK(same < 10);
    mem_free(one);
    mem_free(again);
    mem_free(other);
}

/* 22.2 twice and once 23.2: mean 22.5333, t(2) 4.302653 x s 0.57735 / sqrt 3. */
TEST(sweep_summary_means_what_is_done)
{
    struct error e = {0};
    struct sweep_rows r;
    struct sweep_summary s;
    struct sweep_plan p = {.repeat = 3};
    CHECK_OK(sweep_budgets(&p, "8G,60G,92G", 0, &e), &e);
    CHECK_OK(sweep_rows_open(&r, NULL, "", &e), &e);
    struct sweep_row rows[] = {row(60, 1, SWEEP_DONE), row(60, 2, SWEEP_DONE),
                               row(60, 3, SWEEP_DONE), row(60, 4, SWEEP_DONE),
                               row(8, 1, SWEEP_REFUSED)};
    rows[2].decode_per_s += 1;
    rows[3].decode_per_s = 1000; /* a repetition that was not asked for */
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_OK(sweep_rows_add(&r, &rows[i], &e), &e);
    sweep_summary_make(&s, &p, &r);
    CHECK_INT(s.n, 3);
    CHECK(s.point[0].refused && s.point[0].message && s.point[0].n_runs == 0);
    CHECK_INT(s.point[1].n_runs, 3);
    CHECK(fabs(s.point[1].of[SWEEP_DECODE].mean - 22.533333) < 1e-5);
    CHECK(fabs(s.point[1].of[SWEEP_DECODE].ci95 - 1.434218) < 1e-5);
    CHECK(s.point[1].of[SWEEP_HITS].n == 0 && !s.point[2].message && s.point[2].n_runs == 0);
    struct buf page;
    buf_init(&page, 1 << 20);
    snprintf(p.model, sizeof(p.model), "<model>");
    CHECK_OK(sweep_summary_html(&page, &s, &e), &e);
    CHECK(strstr(page.ptr, "&lt;model&gt;") && strstr(page.ptr, "22.53 \xc2\xb1 1.43"));
    CHECK(strstr(page.ptr, "needs &quot;61&quot; GiB") && !strstr(page.ptr, "<script"));
    buf_release(&page);
    sweep_rows_close(&r);
}
