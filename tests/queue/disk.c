/* The checkpoint rule, the reserve, and a disk that really is full. */
#include <sched.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/queue/help.h"

#define FULL_DB "small/queue.db"

static uint64_t wal_bytes(struct queue *q)
{
    struct error e = {0};
    struct queue_space s;
    CHECK_OK(queue_space(q, &s, &e), &e);
    return s.wal_bytes;
}

TEST(queue_checkpoint_keeps_the_wal_small_while_others_write)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue *other = help_open(DB);
    for (int i = 0; i < 6; i++) {
        help_submit(q, 300, 20000);
        help_submit(other, 10, 10);
    }
    CHECK(wal_bytes(q) < (24u << 20)); /* 36 MiB went through it */
    CHECK_OK(queue_checkpoint(q, &e), &e);
    CHECK_OK(queue_integrity(q, &e), &e);
    CHECK_OK(queue_integrity(other, &e), &e);
    queue_close(other);
    queue_close(q);
}

TEST(queue_checkpoint_never_happens_by_itself_on_versions_with_the_bug)
{
    struct stat st;
    if (sqlite3_libversion_number() >= 3051003)
        SKIP("SQLite %s does not have the bug", sqlite3_libversion());
    struct queue *q = help_open(DB);
    help_submit(q, 2000, 100);
    uint64_t before = wal_bytes(q);
    CHECK(before > 1000000); /* SQLite's own threshold is 1,000 pages */
    queue_close(q);
    CHECK(stat(DB "-wal", &st) == 0);
    CHECK_INT(st.st_size, before);
}

TEST(queue_reserve_is_kept_dropped_and_put_back)
{
    struct error e = {0};
    struct queue_space s;
    struct queue *q = help_open(DB);
    CHECK_OK(queue_reserve_keep(q, &e), &e);
    CHECK_OK(queue_space(q, &s, &e), &e);
    CHECK_INT(s.reserve_bytes, 1 << 20);
    CHECK_OK(queue_reserve_keep(q, &e), &e);
    queue_reserve_drop(q);
    queue_reserve_drop(q);
    CHECK_OK(queue_space(q, &s, &e), &e);
    CHECK_INT(s.reserve_bytes, 0);
    CHECK(s.free_bytes > 0);
    CHECK_OK(queue_reserve_keep(q, &e), &e);
    queue_close(q);
}

/* ---- a tmpfs of 6 MiB ---- */

static void mount_small(void)
{
    CHECK(mkdir("small", 0700) == 0);
    /* In a namespace of its own the mount goes when the test does, however that ends. */
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "small", "tmpfs", 0, "size=6m") != 0)
        SKIP("a full disk needs a tmpfs, which needs root");
}

/* Leaves `left` bytes or a little less. */
static void fill(uint64_t left)
{
    static char block[4096];
    struct error e = {0};
    FILE *f = fopen("small/fill", "w");
    CHECK(f);
    struct queue_space s = {.free_bytes = left + 1};
    struct queue *q = help_open(FULL_DB);
    while (s.free_bytes > left) {
        CHECK(fwrite(block, sizeof(block), 1, f) == 1 && fflush(f) == 0);
        CHECK_OK(queue_space(q, &s, &e), &e);
    }
    queue_close(q);
    fclose(f);
}

TEST(queue_full_disk_refuses_a_submit_whole)
{
    struct error e = {0};
    mount_small();
    struct queue *q = help_open(FULL_DB);
    help_submit(q, 5, 10);
    fill(1u << 20);
    const struct queue_batch_options opt = {.name = str_of("too much")};
    struct queue_submit *s = NULL;
    struct queue_id id;
    bool found;
    char name[32];
    char body[4000] = {0};
    CHECK_OK(queue_submit_begin(q, &opt, &s, &e), &e);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        const struct queue_new_request r = {.custom_id = str_of(name),
                                            .body = str_slice(body, sizeof(body))};
        rc = queue_submit_add(s, &r, &e);
    }
    if (rc == 0)
        rc = queue_submit_publish(s, NULL, false, &id, &found, &e);
    CHECK_INT(rc, -ERROR_FULL);
    CHECK(strstr(e.text, "the disk is full"));
    queue_submit_abort(s);
    CHECK_INT(help_counts(q).total, 5);
    CHECK_OK(queue_integrity(q, &e), &e);
    CHECK(unlink("small/fill") == 0);
    help_submit(q, 100, 4000);
    CHECK_INT(help_counts(q).total, 105);
    queue_close(q);
}

TEST(queue_full_disk_keeps_running_jobs_and_the_reserve_saves_their_progress)
{
    struct error e = {0};
    mount_small();
    struct queue *q = help_open(FULL_DB);
    struct queue_worker *w = help_worker(q);
    help_submit(q, 3, 10);
    CHECK_OK(queue_reserve_keep(q, &e), &e);
    struct queue_claim c = help_claim_one(w);
    struct queue_claim d = help_claim_one(w);
    CHECK(!help_progress(q, &c, "saved"));
    fill(0);

    static char big[100000];
    const uint8_t print[32] = {1, 2, 3};
    memset(big, 'x', sizeof(big));
    struct queue_progress p = {.job = c.job,
                               .attempt = c.attempt,
                               .fingerprint = print,
                               .bytes = str_slice(big, sizeof(big))};
    CHECK_ERROR(queue_progress_append(q, &p, 1, &e), &e, ERROR_FULL, "full");
    memset(big, ' ', sizeof(big));
    big[0] = '1';
    struct queue_end end = {
        .job = d.job, .attempt = d.attempt, .json = str_slice(big, sizeof(big)), .http = 200};
    CHECK_ERROR(queue_end(q, &end, 1, &e), &e, ERROR_FULL, "full");
    CHECK_INT(help_counts(q).state[QUEUE_RUNNING], 2);

    queue_reserve_drop(q); /* room for what must be saved */
    CHECK_OK(queue_progress_append(q, &p, 1, &e), &e);
    CHECK(!p.refused);
    CHECK_OK(queue_end(q, &end, 1, &e), &e);
    CHECK(!end.refused);
    CHECK_OK(queue_integrity(q, &e), &e);
    CHECK_ERROR(queue_reserve_keep(q, &e), &e, ERROR_FULL, "twice");
    CHECK(unlink("small/fill") == 0);
    CHECK_OK(queue_reserve_keep(q, &e), &e);
    CHECK(!help_end(q, c.job, c.attempt, QUEUE_END_DONE));
    help_free_claim(&c);
    help_free_claim(&d);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}
