#include "queue/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "queue/checkpoint.h"
#include "queue/holder.h"

#define US_PER_MS 1000
/* So much of the database's files may stand in the page cache on this connection's account. */
#define CACHE_PAGES ((16 << 20) / CHECKPOINT_PAGE_BYTES)
/* And what is not counted, SQLite's read-ahead of large values, no longer than this. */
#define CACHE_US 10000000

/*
 * Waits of 0.2 to 6 ms, at random: SQLite's own handler sleeps up to 100 ms, and a worker would
 * starve behind submitters that take the lock again at once.
 */
static int wait_for_lock(void *ctx, int n_before)
{
    struct db *db = ctx;
    int64_t now_us = clock_mono_us();
    if (n_before == 0)
        db->busy_since_us = now_us;
    if (now_us - db->busy_since_us >= (int64_t)db->busy_timeout_ms * US_PER_MS)
        return 0;
    int64_t most_us = n_before < 4 ? 1000 : 6000;
    clock_sleep_us(200 +
                   (int64_t)(rng_unit((uint64_t)now_us, (uint64_t)n_before) * (double)most_us));
    return 1;
}

void db_patience(struct db *db, sqlite3 *handle)
{
    sqlite3_busy_handler(handle, wait_for_lock, db);
}

static int after_commit(void *ctx, sqlite3 *handle, const char *schema, int n_pages)
{
    struct db *db = ctx;
    (void)handle;
    (void)schema;
    db->wal_bytes = (int64_t)n_pages * CHECKPOINT_PAGE_BYTES;
    return SQLITE_OK;
}

int db_open(struct db *db, const char *path, int flags, int busy_timeout_ms, struct error *e)
{
    memset(db, 0, sizeof(*db));
    db->busy_timeout_ms = busy_timeout_ms;
    db->checkpoint_at_bytes = CHECKPOINT_WAL_BYTES;
    db->path = mem_strdup(path);
    if (!db->path)
        return error_set(e, ERROR_NOMEM, "database %s: no memory to open it", path);
    int rc = sqlite3_open_v2(path, &db->handle, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        return db_error(db, rc, "open", e);
    sqlite3_extended_result_codes(db->handle, 1);
    db_patience(db, db->handle);
    return 0;
}

/*
 * Two processes that switch a new file together would deadlock, so SQLite answers BUSY at once there
 * without asking the busy handler: wait here.
 */
static int set_wal(struct db *db, struct error *e)
{
    int rc = SQLITE_BUSY;
    for (int n = 0; (rc & 0xff) == SQLITE_BUSY && (n == 0 || wait_for_lock(db, n - 1)); n++)
        rc = sqlite3_exec(db->handle, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(db, rc, "switch to WAL", e);
}

/* trusted_schema stays on: where it is off, 3.40.1 refuses json_valid() in a CHECK as unsafe. */
int db_configure(struct db *db, struct error *e)
{
    int rc = set_wal(db, e);
    if (rc == 0)
        rc = db_exec(db,
                     "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
                     "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;"
                     "PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 33554432;",
                     e);
    if (rc == 0)
        rc = checkpoint_configure(db, e);
    if (rc == 0)
        sqlite3_wal_hook(db->handle, after_commit, db);
    return rc;
}

void db_close(struct db *db)
{
    for (size_t i = 0; i < db->n_cached; i++)
        sqlite3_finalize(db->cached[i].stmt);
    sqlite3_close(db->guard);
    sqlite3_close(db->handle);
    mem_free(db->path);
    memset(db, 0, sizeof(*db));
}

/* A write that failed on a full disk reaches us under several names. */
static bool is_full(const struct db *db, int rc)
{
    if ((rc & 0xff) == SQLITE_FULL)
        return true;
    if ((rc & 0xff) != SQLITE_IOERR && (rc & 0xff) != SQLITE_CANTOPEN)
        return false;
    int sys = db->handle ? sqlite3_system_errno(db->handle) : 0;
    uint64_t left_bytes;
    if (sys == ENOSPC || sys == EDQUOT)
        return true;
    /* The shared index of the WAL reports no errno: SQLITE_IOERR_SHMSIZE, so look. */
    return file_space(db->path, &left_bytes, NULL) == 0 && left_bytes < (64u << 10);
}

static enum error_code code_of(const struct db *db, int rc)
{
    if (is_full(db, rc))
        return ERROR_FULL;
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ERROR_BUSY;
    case SQLITE_NOMEM:
        return ERROR_NOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ERROR_FORMAT;
    case SQLITE_CONSTRAINT:
        return ERROR_CONFLICT;
    default:
        return ERROR_IO;
    }
}

/* Names who is in the way, and what to do about one that will not let go by itself. */
static int busy_error(struct db *db, struct error *e)
{
    bool stopped;
    int pid = holder_of_write_lock(db->path, &stopped);
    if (pid == 0)
        return error_set(e, ERROR_BUSY, "database %s: another process held the lock for %d ms",
                         db->path, db->busy_timeout_ms);
    if (stopped)
        return error_set(e, ERROR_BUSY,
                         "database %s: process %d was stopped in the middle of a write and holds "
                         "the lock; continue it (kill -CONT %d) or end it (kill -9 %d), nothing is "
                         "lost by either, then try again",
                         db->path, pid, pid, pid);
    return error_set(e, ERROR_BUSY, "database %s: process %d holds the lock, waited %d ms",
                     db->path, pid, db->busy_timeout_ms);
}

int db_error(struct db *db, int rc, const char *what, struct error *e)
{
    enum error_code code = code_of(db, rc);
    const char *text = db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    if (code == ERROR_BUSY)
        return busy_error(db, e);
    if (code == ERROR_FULL)
        return error_set(e, code, "database %s: %s: the disk is full", db->path, what);
    if (code == ERROR_FORMAT)
        return error_set(
            e, code, "database %s: %s: %s; keep the file with its -wal aside and restore a copy",
            db->path, what, text);
    return error_set(e, code, "database %s: %.80s: %s", db->path, what, text);
}

int db_exec(struct db *db, const char *script, struct error *e)
{
    int rc = sqlite3_exec(db->handle, script, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : db_error(db, rc, "set up", e);
}

int db_begin(struct db *db, struct error *e)
{
    return db_run(db, "BEGIN IMMEDIATE", SQL_NONE, e);
}

int db_commit(struct db *db, struct error *e)
{
    int rc = db_run(db, "COMMIT", SQL_NONE, e);
    if (rc != 0) {
        db_rollback(db);
        return rc;
    }
    if (db->wal_bytes > db->checkpoint_at_bytes)
        checkpoint_try(db);
    db_limit_cache(db);
    return 0;
}

/* Read into SQLite's own cache or written from it, by this connection. */
static int64_t pages_passed(const struct db *db)
{
    static const int kinds[] = {SQLITE_DBSTATUS_CACHE_MISS, SQLITE_DBSTATUS_CACHE_WRITE};
    int64_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        int now = 0, highest = 0;
        if (sqlite3_db_status(db->handle, kinds[i], &now, &highest, 0) == SQLITE_OK)
            n += now;
    }
    return n;
}

void db_limit_cache(struct db *db)
{
    char wal[4096];
    const int64_t now_us = clock_mono_us(), pages = pages_passed(db);
    if (pages - db->forgotten_pages < CACHE_PAGES && now_us - db->forgotten_us < CACHE_US)
        return;
    db->forgotten_pages = pages;
    db->forgotten_us = now_us;
    file_forget_opened(db->path);
    if (snprintf(wal, sizeof(wal), "%s-wal", db->path) < (int)sizeof(wal))
        file_forget_opened(wal);
}

void db_rollback(struct db *db)
{
    /* A full disk has rolled back by itself. */
    if (!sqlite3_get_autocommit(db->handle))
        db_run(db, "ROLLBACK", SQL_NONE, NULL);
}

int db_end(struct db *db, int rc, struct error *e)
{
    if (rc == 0)
        return db_commit(db, e);
    db_rollback(db);
    return rc;
}

struct sql_arg sql_int(int64_t n)
{
    return (struct sql_arg){.type = SQL_ARG_INT, .number = n};
}

struct sql_arg sql_text(struct str s)
{
    return (struct sql_arg){.type = s.ptr ? SQL_ARG_TEXT : SQL_ARG_NULL, .bytes = s};
}

struct sql_arg sql_c(const char *s)
{
    return sql_text(s ? str_of(s) : (struct str){NULL, 0});
}

struct sql_arg sql_blob(const void *p, size_t n)
{
    return (struct sql_arg){.type = p ? SQL_ARG_BLOB : SQL_ARG_NULL, .bytes = str_slice(p, n)};
}

static int prepare(struct db *db, const char *sql, sqlite3_stmt **ret, struct error *e)
{
    for (size_t i = 0; i < db->n_cached; i++) {
        if (db->cached[i].sql == sql) {
            *ret = db->cached[i].stmt;
            return 0;
        }
    }
    if (db->n_cached == DB_STATEMENTS_MAX)
        return error_set(e, ERROR_IO, "database %s: more than %d statements", db->path,
                         DB_STATEMENTS_MAX);
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
    if (rc != SQLITE_OK)
        return db_error(db, rc, sql, e);
    db->cached[db->n_cached].sql = sql;
    db->cached[db->n_cached++].stmt = stmt;
    *ret = stmt;
    return 0;
}

static int bind(sqlite3_stmt *stmt, int i, const struct sql_arg *arg)
{
    switch (arg->type) {
    case SQL_ARG_NULL:
        return sqlite3_bind_null(stmt, i);
    case SQL_ARG_INT:
        return sqlite3_bind_int64(stmt, i, arg->number);
    case SQL_ARG_TEXT:
        return sqlite3_bind_text64(stmt, i, arg->bytes.ptr, arg->bytes.len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case SQL_ARG_BLOB:
        return sqlite3_bind_blob64(stmt, i, arg->bytes.ptr, arg->bytes.len, SQLITE_STATIC);
    }
    return SQLITE_MISUSE;
}

int db_query(struct db *db, const char *sql, struct sql_args args, sqlite3_stmt **ret,
             struct error *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = prepare(db, sql, &stmt, e);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < args.n; i++) {
        rc = bind(stmt, (int)i + 1, &args.arg[i]);
        if (rc != SQLITE_OK) {
            db_done(stmt);
            return db_error(db, rc, sql, e);
        }
    }
    *ret = stmt;
    return 0;
}

int db_step(struct db *db, sqlite3_stmt *stmt, struct error *e)
{
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        return 1;
    int ours = rc == SQLITE_DONE ? 0 : db_error(db, rc, sqlite3_sql(stmt), e);
    db_done(stmt);
    return ours;
}

void db_done(sqlite3_stmt *stmt)
{
    if (!stmt)
        return;
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt); /* they point into the caller's memory */
}

int db_run(struct db *db, const char *sql, struct sql_args args, struct error *e)
{
    sqlite3_stmt *stmt = NULL;
    int rc = db_query(db, sql, args, &stmt, e);
    if (rc != 0)
        return rc;
    rc = db_step(db, stmt, e);
    if (rc > 0)
        db_done(stmt);
    return rc < 0 ? rc : 0;
}

int64_t db_changes(const struct db *db)
{
    return sqlite3_changes64(db->handle);
}

int64_t db_last_id(const struct db *db)
{
    return sqlite3_last_insert_rowid(db->handle);
}

int db_number(struct db *db, const char *sql, struct sql_args args, int64_t *ret, struct error *e)
{
    sqlite3_stmt *stmt;
    int rc = db_query(db, sql, args, &stmt, e);
    if (rc != 0)
        return rc;
    rc = db_step(db, stmt, e);
    if (rc <= 0)
        return rc;
    bool found = !col_null(stmt, 0);
    if (found)
        *ret = col_int(stmt, 0);
    db_done(stmt);
    return found;
}

int64_t col_int(sqlite3_stmt *stmt, int i)
{
    return sqlite3_column_int64(stmt, i);
}

bool col_null(sqlite3_stmt *stmt, int i)
{
    return sqlite3_column_type(stmt, i) == SQLITE_NULL;
}

struct str col_str(sqlite3_stmt *stmt, int i)
{
    const char *ptr = sqlite3_column_blob(stmt, i);
    return str_slice(ptr, (size_t)sqlite3_column_bytes(stmt, i));
}

int col_copy(sqlite3_stmt *stmt, int i, char **ret, struct error *e)
{
    if (col_null(stmt, i)) {
        *ret = NULL;
        return 0;
    }
    struct str s = col_str(stmt, i);
    char *copy = mem_strndup(s.ptr ? s.ptr : "", s.len);
    if (!copy)
        return error_set(e, ERROR_NOMEM, "no memory for a row of %zu bytes", s.len);
    *ret = copy;
    return 0;
}

void col_bytes(sqlite3_stmt *stmt, int i, void *out, size_t n)
{
    struct str s = col_str(stmt, i);
    if (s.ptr && s.len == n)
        memcpy(out, s.ptr, n);
    else
        memset(out, 0, n);
}
