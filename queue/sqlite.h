/*
 * One SQLite connection: how it is set up, its prepared statements, its transactions, its errors.
 *
 * Owns: the connection, every statement it ever prepared (found again by the address of the SQL
 * text, which therefore must be a literal), and a second connection, opened when it is first needed,
 * that holds the write lock during a checkpoint (queue/checkpoint.h).
 *
 * Stays true: the busy handler is installed before anything else; every writing transaction begins
 * IMMEDIATE, because a deferred one that reads first fails at once with BUSY_SNAPSHOT and no timeout
 * helps (measured on 3.40.1); a statement that gave its last row, or failed, is reset. Numbers are
 * bound, never printed into SQL. What goes through the files does not pile up in the page cache. One
 * thread at a time.
 */
#ifndef QUEUE_SQLITE_H
#define QUEUE_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define DB_STATEMENTS_MAX 128

struct db {
    sqlite3 *handle;
    sqlite3 *guard; /* holds the write lock while this one checkpoints; NULL until needed */
    char *path;
    struct {
        const char *sql;
        sqlite3_stmt *stmt;
    } cached[DB_STATEMENTS_MAX];
    size_t n_cached;
    int busy_timeout_ms;
    int64_t busy_since_us;       /* start of the wait that the busy handler is in */
    int64_t wal_bytes;           /* after this connection's last commit */
    int64_t checkpoint_at_bytes; /* a commit beyond this tries a checkpoint */
    int64_t forgotten_pages; /* that had gone through the files when their page cache was let go */
    int64_t forgotten_us;
};

/* Opens and configures; `flags` are SQLITE_OPEN_*. db_close(db) afterwards in any case. */
int db_open(struct db *db, const char *path, int flags, int busy_timeout_ms, struct error *e);
/* What must wait until the file is known to be ours: WAL, durability, foreign keys. */
int db_configure(struct db *db, struct error *e);
void db_close(struct db *db);

/*
 * Lets the page cache of the database and its WAL go when much has gone through them, or some time ago
 * (all of it that is on disk, whoever caused it). For after commits and long reads.
 */
void db_limit_cache(struct db *db);

/* SQLite's last failure on this connection as one of ours; "database PATH: WHAT: reason". */
int db_error(struct db *db, int rc, const char *what, struct error *e);
/* The busy handler of a connection that serves db. */
void db_patience(struct db *db, sqlite3 *handle);

int db_begin(struct db *db, struct error *e);
int db_commit(struct db *db, struct error *e); /* rolls back when it fails */
void db_rollback(struct db *db);               /* without a transaction: a no-op */
/* Ends a transaction: commits when rc is 0, else rolls back. Returns rc or the commit's failure. */
int db_end(struct db *db, int rc, struct error *e);
int db_exec(struct db *db, const char *script, struct error *e);

struct sql_arg {
    enum { SQL_ARG_NULL, SQL_ARG_INT, SQL_ARG_TEXT, SQL_ARG_BLOB } type;
    int64_t number;
    struct str bytes;
};
struct sql_arg sql_int(int64_t n);
struct sql_arg sql_text(struct str s);            /* a NULL pointer binds NULL */
struct sql_arg sql_c(const char *s);              /* NULL binds NULL */
struct sql_arg sql_blob(const void *p, size_t n); /* a NULL pointer binds NULL */

struct sql_args {
    const struct sql_arg *arg;
    size_t n;
};
/* The bound values of one call: SQL_ARGS(sql_int(1), sql_c("x")), or SQL_NONE. */
#define SQL_ARGS(...)                                                                              \
    ((struct sql_args){(const struct sql_arg[]){__VA_ARGS__},                                      \
                       sizeof((const struct sql_arg[]){__VA_ARGS__}) / sizeof(struct sql_arg)})
#define SQL_NONE ((struct sql_args){NULL, 0})

/* Binds and leaves the first step to db_step. The bytes bound must outlive the last step. */
int db_query(struct db *db, const char *sql, struct sql_args args, sqlite3_stmt **ret,
             struct error *e);
/* 1: a row to read; 0: no more, or a negative error, both with the statement reset. */
int db_step(struct db *db, sqlite3_stmt *stmt, struct error *e);
/* Resets a statement of which not all rows were read. NULL is fine. */
void db_done(sqlite3_stmt *stmt);
/* Runs a statement that gives no rows; db_changes tells how many rows it touched itself. */
int db_run(struct db *db, const char *sql, struct sql_args args, struct error *e);
int64_t db_changes(const struct db *db);
int64_t db_last_id(const struct db *db);
/* The first column of the first row: 1, or 0 when there is no row or it is NULL. */
int db_number(struct db *db, const char *sql, struct sql_args args, int64_t *ret, struct error *e);

/* Columns of the current row. Copies are NUL-terminated, the caller's; NULL stays NULL. */
int64_t col_int(sqlite3_stmt *stmt, int i);
bool col_null(sqlite3_stmt *stmt, int i);
struct str col_str(sqlite3_stmt *stmt, int i); /* until the next step */
int col_copy(sqlite3_stmt *stmt, int i, char **ret, struct error *e);
void col_bytes(sqlite3_stmt *stmt, int i, void *out, size_t n); /* zeroes when absent or shorter */

#endif
