/*
 * Databases that cannot be written for a while, or for good: locked by somebody who takes his time or
 * who was stopped in the middle, on a disk that turned read only.
 */
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/fault/kit.h"

#define DB "locked.db"
#define JOBS 8
#define HOLD_US 3000000 /* far longer than anybody waits */
#define WAIT "--busy-timeout 100ms "

static char *prepare(const char *db)
{
    return drill_prepare(db, 2048,
                         &(struct drill_jobs){.n = JOBS, .max_tokens = 150, .name = "lock"});
}

static void check_answers(const char *db, char *calm)
{
    drill_check_answers(db, "lock", JOBS, calm);
}

static sqlite3 *lock(void)
{
    sqlite3 *db = NULL;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "PRAGMA wal_autocheckpoint = 0", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL), SQLITE_OK);
    while (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        clock_sleep_us(1000);
    return db;
}

static void unlock(sqlite3 *db)
{
    CHECK_INT(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(sqlite3_close(db), SQLITE_OK);
}

static void wait_out(const char *patience, int64_t hold_us)
{
    char *calm = prepare(DB);
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, DRILL_RUN "%s--slots 4 --drain 2>err.txt", patience);
    drill_until_progress(q, 1);
    sqlite3 *db = lock();
    clock_sleep_us(hold_us);
    CHECK(drill_alive(pid));
    /* Who only reads does not wait. */
    CHECK_INT(drill(DB, "status " WAIT ">status.txt"), 0);
    unlock(db);
    CHECK_INT(drill_wait(pid), 0);
    CHECK(drill_file_says("err.txt", "busy, trying again"));
    queue_close(q);
    check_answers(DB, calm);
}

TEST(locked_database_is_waited_out_by_a_worker_at_work)
{
    wait_out(WAIT, HOLD_US);
}

/* As long as an administrator's backup may take, with the patience that everybody has. */
LONG_TEST(locked_database_for_a_minute_is_waited_out)
{
    wait_out("", 60000000);
}

/* Between two beats of a lease nobody takes over from a worker that cannot beat because of a third. */
TEST(locked_database_for_longer_than_the_lease_costs_no_worker_its_place)
{
    char *calm = prepare(DB);
    struct queue *q = drill_open(DB);
    pid_t pid = drill_start(DB, DRILL_RUN WAIT "--slots 4 --lease 1s 2>err.txt");
    drill_until_progress(q, 1);
    sqlite3 *db = lock();
    clock_sleep_us(HOLD_US);
    unlock(db);
    drill_until(q, QUEUE_DONE, JOBS);
    kill(pid, SIGTERM);
    CHECK_INT(drill_wait(pid), 0);
    queue_close(q);
    check_answers(DB, calm);
}

/* The stranger: takes the lock, says so by a file, and is stopped there. */
static pid_t start_stopped_holder(void)
{
    siginfo_t info;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        lock();
        raise(SIGSTOP);
        _exit(0);
    }
    CHECK_INT(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
    return pid;
}

TEST(locked_database_whose_holder_was_stopped_is_refused_with_its_name_and_the_way_on)
{
    char want[64];
    char *calm = prepare(DB);
    const pid_t holder = start_stopped_holder();
    CHECK_INT(drill(DB, DRILL_RUN WAIT "--drain 2>err.txt"), 75);
    snprintf(want, sizeof(want), "process %d was stopped", (int)holder);
    CHECK(drill_file_says("err.txt", want));
    snprintf(want, sizeof(want), "kill -CONT %d", (int)holder);
    CHECK(drill_file_says("err.txt", want));
    CHECK_INT(drill(DB, "submit -p more " WAIT "2>err.txt >out.txt"), 75);
    CHECK(drill_file_says("err.txt", want));
    kill(holder, SIGCONT);
    CHECK_INT(drill_wait(holder), 0);
    CHECK_INT(drill(DB, DRILL_RUN WAIT "--drain 2>err.txt"), 0);
    check_answers(DB, calm);
}

/* One that is only slow is named as well. */
TEST(locked_database_names_who_holds_it)
{
    char want[64];
    drill_model(1024);
    drill_write_jobs("jobs.jsonl",
                     &(struct drill_jobs){.n = JOBS, .max_tokens = 5, .name = "lock"});
    drill_submit(DB, "jobs.jsonl");
    sqlite3 *db = lock();
    CHECK_INT(drill(DB, DRILL_RUN WAIT "--drain 2>err.txt"), 75);
    snprintf(want, sizeof(want), "process %d holds the lock", (int)getpid());
    CHECK(drill_file_says("err.txt", want));
    unlock(db);
    CHECK_INT(drill(DB, DRILL_RUN WAIT "--drain"), 0);
    drill_check_all_done(DB, JOBS);
}

/* ---- Read only -------------------------------------------------------------------------------- */

/* A disk of its own; "abort" makes it what an ext4 becomes that has met errors. */
static void mount_disk(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        SKIP("a disk that turns read only needs root");
    if (system("truncate -s 96M disk.img && mkfs.ext4 -q disk.img && mkdir disk &&"
               " mount -o loop disk.img disk") != 0)
        SKIP("a disk that turns read only needs mkfs.ext4 and a loop device");
}

static void mount_again(void)
{
    CHECK_INT(system("umount disk && (e2fsck -fy disk.img >fsck.txt 2>&1; test $? -lt 4) &&"
                     " mount -o loop disk.img disk"),
              0);
}

TEST(read_only_disk_ends_the_run_and_costs_no_job)
{
    mount_disk();
    char *calm = prepare("disk/queue.db");
    struct queue *q = drill_open("disk/queue.db");
    pid_t pid = drill_start("disk/queue.db", DRILL_RUN "--slots 4 --drain 2>err.txt");
    drill_until_progress(q, 1);
    queue_close(q);
    CHECK_INT(system("mount -o remount,abort disk"), 0);
    CHECK_INT(drill_wait(pid), 74);
    CHECK(drill_file_says("err.txt", "disk/queue.db"));
    /* Started again it says which database it is, and ends. */
    CHECK_INT(drill("disk/queue.db", DRILL_RUN "--drain 2>again.txt"), 74);
    CHECK(drill_file_says("again.txt", "Read-only file system"));
    mount_again();
    CHECK_INT(drill("disk/queue.db", DRILL_RUN "--drain 2>again.txt"), 0);
    check_answers("disk/queue.db", calm);
    CHECK_INT(system("umount disk"), 0);
}
