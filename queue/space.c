#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "queue/internal.h"

static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int allocate(int fd, uint64_t bytes)
{
    int sys;
    do {
        sys = posix_fallocate(fd, 0, (off_t)bytes);
    } while (sys == EINTR);
    return sys;
}

int queue_reserve_keep(struct queue *q, struct error *e)
{
    char want[24];
    char have[24];
    uint64_t free_bytes = 0;
    if (size_of(q->reserve_path) >= q->reserve_bytes)
        return 0;
    int rc = file_space(q->db.path, &free_bytes, e);
    if (rc != 0)
        return rc;
    /* As much again must stay free, or the next write would need the reserve at once. */
    if (free_bytes < 2 * q->reserve_bytes)
        return error_set(e, ERROR_FULL, "database %s: %s free, the reserve needs %s twice",
                         q->db.path, str_format_size(free_bytes, have),
                         str_format_size(q->reserve_bytes, want));
    int fd = open(q->reserve_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_sys(e, ERROR_IO, errno, "reserve %s", q->reserve_path);
    int sys = allocate(fd, q->reserve_bytes);
    close(fd);
    if (sys == 0)
        return 0;
    queue_reserve_drop(q);
    return error_sys(e, ERROR_IO, sys, "reserve %s", q->reserve_path);
}

void queue_reserve_drop(struct queue *q)
{
    unlink(q->reserve_path);
}

int queue_space(struct queue *q, struct queue_space *ret, struct error *e)
{
    struct queue_space space = {0};
    struct buf wal;
    buf_init(&wal, 1u << 16);
    buf_append_c(&wal, q->db.path);
    buf_append_c(&wal, "-wal");
    int rc = buf_check(&wal, "name of the WAL", e);
    if (rc == 0)
        rc = file_space(q->db.path, &space.free_bytes, e);
    if (rc == 0) {
        space.reserve_bytes = size_of(q->reserve_path);
        space.wal_bytes = size_of(wal.ptr);
        *ret = space;
    }
    buf_release(&wal);
    return rc;
}

static int check_sqlite(struct queue *q, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(&q->db, "PRAGMA integrity_check(1)", SQL_NONE, &stmt, e);
    if (rc == 0)
        rc = db_step(&q->db, stmt, e);
    if (rc <= 0)
        return rc;
    struct str text = col_str(stmt, 0);
    rc = str_equal_c(text, "ok") ? 0
                                 : error_set(e, ERROR_FORMAT, "database %s is damaged: %.*s",
                                             q->db.path, (int)text.len, text.ptr);
    db_done(stmt);
    return rc;
}

/* Each query counts what must not be there. */
static const struct {
    const char *sql;
    const char *what;
} rules[] = {
    {"SELECT count(*) FROM pragma_foreign_key_check", "rows that point at nothing"},
    {"SELECT count(*) FROM (SELECT batch_id, state, hold, n FROM batch_count WHERE n > 0"
     " EXCEPT SELECT batch_id, state, hold, count(*) FROM request GROUP BY 1, 2, 3)",
     "kept counts that differ from the rows"},
    {"SELECT count(*) FROM (SELECT batch_id, state, hold, count(*) FROM request GROUP BY 1, 2, 3"
     " EXCEPT SELECT batch_id, state, hold, n FROM batch_count)",
     "rows that the kept counts lack"},
    {"SELECT count(*) FROM job WHERE state = 'done'"
     " AND NOT EXISTS (SELECT 1 FROM result WHERE job_id = job.id)",
     "done jobs without a result"},
    {"SELECT count(*) FROM job WHERE state = 'running'"
     " AND worker_id IN (SELECT id FROM worker WHERE ended_us IS NOT NULL)",
     "running jobs of workers that ended"},
};

int queue_integrity(struct queue *q, struct error *e)
{
    int rc = check_sqlite(q, e);
    for (size_t i = 0; rc == 0 && i < ARRAY_LEN(rules); i++) {
        int64_t n = 0;
        rc = db_number(&q->db, rules[i].sql, SQL_NONE, &n, e);
        rc = rc < 0 ? rc : 0;
        if (rc == 0 && n != 0)
            rc = error_set(e, ERROR_FORMAT, "database %s: %lld %s", q->db.path, (long long)n,
                           rules[i].what);
    }
    return rc;
}
