#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "queue/place.h"
#include "tests/queue/help.h"

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int64_t pragma(const char *path, const char *name)
{
    char sql[64];
    snprintf(sql, sizeof(sql), "PRAGMA %s", name);
    return help_number(path, sql);
}

TEST(queue_open_makes_folders_and_marks_the_file)
{
    struct queue *q = help_open("deep/er/queue.db");
    CHECK_STR(queue_path(q), "deep/er/queue.db");
    queue_close(q);
    CHECK_INT(pragma("deep/er/queue.db", "application_id"), 0x6e6f6374);
    CHECK_INT(pragma("deep/er/queue.db", "user_version"), queue_schema_version());
    queue_close(help_open("deep/er/queue.db"));
}

TEST(queue_open_without_create_refuses_a_missing_file)
{
    struct queue *q = NULL;
    struct error e = {0};
    CHECK_ERROR(queue_open(DB, NULL, &q, &e), &e, ERROR_NOTFOUND, DB);
    CHECK(access(DB, F_OK) != 0);
}

TEST(queue_open_refuses_a_foreign_database_and_leaves_it_alone)
{
    struct queue *q = NULL;
    struct error e = {0};
    run_sql("other.db", "CREATE TABLE t (x); INSERT INTO t VALUES (1)");
    CHECK_ERROR(queue_open("other.db", NULL, &q, &e), &e, ERROR_FORMAT, "0x00000000");
    run_sql("other.db", "PRAGMA application_id = 7");
    error_clear(&e);
    CHECK_ERROR(queue_open("other.db", NULL, &q, &e), &e, ERROR_FORMAT, "0x00000007");
    CHECK(access("other.db-wal", F_OK) != 0); /* its journal mode was not touched */
}

TEST(queue_open_refuses_what_is_no_database)
{
    struct queue *q = NULL;
    struct error e = {0};
    FILE *f = fopen("text.db", "w");
    CHECK(f);
    for (int i = 0; i < 100; i++)
        fputs("this is a text and not a database, for sure; ", f);
    fclose(f);
    CHECK_ERROR(queue_open("text.db", NULL, &q, &e), &e, ERROR_FORMAT, "text.db");
}

TEST(queue_open_refuses_a_newer_schema_naming_both_versions)
{
    struct queue *q = NULL;
    struct error e = {0};
    char want[64];
    queue_close(help_open(DB));
    run_sql(DB, "PRAGMA user_version = 7001");
    snprintf(want, sizeof(want), "version 7001, this program knows up to %d",
             queue_schema_version());
    CHECK_ERROR(queue_open(DB, NULL, &q, &e), &e, ERROR_UNSUPPORTED, want);
}

TEST(queue_open_refuses_network_file_systems)
{
    CHECK_STR(place_network_name(0x6969, NULL), "NFS");
    CHECK_STR(place_network_name((long)0xff534d42, NULL), "CIFS");
    CHECK_STR(place_network_name((long)(int)0xff534d42, NULL), "CIFS"); /* sign-extended */
    CHECK_STR(place_network_name(0x65735546, "fuse.sshfs"), "fuse.sshfs");
    CHECK(!place_network_name(0x65735546, "fuseblk"));
    CHECK(!place_network_name(0x65735546, NULL));
    CHECK(!place_network_name(0xef53, NULL));
    CHECK(!place_network_name(0x01021994, NULL));
}

/* As an ordinary user; root may write everything. */
static int open_as_nobody(void *arg)
{
    struct queue *q = NULL;
    struct error e = {0};
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    if (queue_open(DB, NULL, &q, &e) != -ERROR_CONFIG)
        return 2;
    return strstr(e.text, arg) ? 0 : 3;
}

TEST(queue_open_names_the_owner_of_what_it_may_not_write)
{
    char owner[] = "root";
    if (geteuid() != 0)
        SKIP("needs root to become somebody else");
    queue_close(help_open(DB));
    CHECK(chmod(".", 0755) == 0);
    int rc = help_wait(help_fork(open_as_nobody, owner));
    if (rc == 2)
        SKIP("the scratch folder cannot be reached by another user");
    CHECK_INT(rc, 0);
}

TEST(queue_open_as_root_leaves_a_users_file_alone)
{
    struct queue *q = NULL;
    struct error e = {0};
    if (geteuid() != 0)
        SKIP("needs root");
    queue_close(help_open(DB));
    CHECK(chown(DB, 65534, 65534) == 0);
    CHECK_ERROR(queue_open(DB, NULL, &q, &e), &e, ERROR_CONFIG, "run as its owner");
}

TEST(queue_open_survives_failing_allocations)
{
    queue_close(help_open(DB));
    for (long k = 1;; k++) {
        struct queue *q = NULL;
        struct error e = {0};
        mem_fail_after(k);
        int rc = queue_open(DB, NULL, &q, &e);
        mem_fail_after(0);
        if (rc == 0) {
            queue_close(q);
            CHECK(k > 2);
            break;
        }
        CHECK_INT(rc, -ERROR_NOMEM);
        CHECK(!q);
    }
}

TEST(queue_open_several_processes_migrate_a_new_file_together)
{
    struct error e = {0};
    for (int i = 0; i < 10; i++) {
        unlink(DB);
        unlink(DB "-wal");
        unlink(DB "-shm");
        pid_t child[4];
        for (int c = 0; c < 4; c++) {
            fflush(NULL);
            child[c] = fork();
            if (child[c] == 0) {
                queue_close(help_open(DB));
                _exit(0);
            }
        }
        for (int c = 0; c < 4; c++)
            CHECK_INT(help_wait(child[c]), 0);
        struct queue *q = help_open(DB);
        CHECK_OK(queue_integrity(q, &e), &e);
        queue_close(q);
    }
}

TEST(queue_watch_sees_what_others_commit_and_not_what_nobody_did)
{
    struct error e = {0};
    struct queue_watch *w = NULL;
    bool changed = false;
    struct queue *q = help_open(DB);
    CHECK_OK(queue_watch_open(DB, &w, &e), &e);
    CHECK_OK(queue_watch_poll(w, &changed, &e), &e);
    CHECK(changed);
    CHECK_OK(queue_watch_poll(w, &changed, &e), &e);
    CHECK(!changed);
    help_submit(q, 1, 1);
    CHECK_OK(queue_watch_poll(w, &changed, &e), &e);
    CHECK(changed);
    CHECK_OK(queue_watch_poll(w, &changed, &e), &e);
    CHECK(!changed);
    queue_watch_close(w);
    queue_close(q);
}
