#include "queue/checkpoint.h"

#include <stdint.h>

#include "queue/sqlite.h"

bool checkpoint_guarded(void)
{
    return sqlite3_libversion_number() < CHECKPOINT_FIXED_VERSION;
}

static int never_by_itself(sqlite3 *handle)
{
    int rc = sqlite3_wal_autocheckpoint(handle, 0);
    if (rc == SQLITE_OK && checkpoint_guarded())
        rc = sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, (int *)0);
    return rc;
}

int checkpoint_configure(struct db *db, struct error *e)
{
    int rc = never_by_itself(db->handle);
    return rc == SQLITE_OK ? 0 : db_error(db, rc, "keep it from checkpointing by itself", e);
}

static int guard_open(struct db *db)
{
    if (db->guard)
        return SQLITE_OK;
    int rc =
        sqlite3_open_v2(db->path, &db->guard, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc == SQLITE_OK)
        rc = never_by_itself(db->guard);
    if (rc != SQLITE_OK) {
        sqlite3_close(db->guard);
        db->guard = NULL;
    }
    return rc;
}

static int run(struct db *db, bool patient)
{
    int rc = SQLITE_OK;
    if (checkpoint_guarded()) {
        rc = guard_open(db);
        if (rc != SQLITE_OK)
            return rc;
        if (patient)
            db_patience(db, db->guard);
        else
            sqlite3_busy_timeout(db->guard, 0);
        rc = sqlite3_exec(db->guard, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (rc != SQLITE_OK)
            return rc;
    }
    int in_wal = 0;
    int copied = 0;
    rc = sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_wal, &copied);
    if (checkpoint_guarded())
        sqlite3_exec(db->guard, "ROLLBACK", NULL, NULL, NULL);
    bool whole = rc == SQLITE_OK && in_wal == copied;
    db->checkpoint_at_bytes = whole ? CHECKPOINT_WAL_BYTES : db->wal_bytes + CHECKPOINT_STEP_BYTES;
    db->forgotten_us = 0; /* all of it is on disk now */
    return rc;
}

void checkpoint_try(struct db *db)
{
    run(db, false);
}

int checkpoint_run(struct db *db, struct error *e)
{
    int rc = run(db, true);
    return rc == SQLITE_OK ? 0 : db_error(db, rc, "checkpoint", e);
}
