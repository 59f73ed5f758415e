/*
 * Copying the WAL back into the database: the only code that does it.
 *
 * SQLite 3.7.0 to 3.51.2 can corrupt a WAL database when a checkpoint races a commit that resets the
 * WAL. On those versions no connection checkpoints by itself, not even the last one at close, and
 * this code runs PASSIVE while a second connection holds the write lock: no commit can race it
 * (measured on 3.40.1: copies everything and returns 0, while FULL and TRUNCATE answer BUSY there).
 * From 3.51.3 on the same is done without the second connection, and close may checkpoint.
 *
 * Stays true: a reader may keep a checkpoint from being complete; then the next attempt waits until
 * the WAL has grown by CHECKPOINT_STEP_BYTES. Nothing here fails a commit that has succeeded.
 */
#ifndef QUEUE_CHECKPOINT_H
#define QUEUE_CHECKPOINT_H

#include <stdbool.h>

#include "base/error.h"

struct db;

#define CHECKPOINT_PAGE_BYTES 4096
#define CHECKPOINT_WAL_BYTES (16 << 20)
#define CHECKPOINT_STEP_BYTES (4 << 20)
/* First version without the WAL-reset bug. */
#define CHECKPOINT_FIXED_VERSION 3051003

/* Whether this version of SQLite has the bug. */
bool checkpoint_guarded(void);
int checkpoint_configure(struct db *db, struct error *e);
/* After a commit that left a large WAL: without waiting for anybody, without telling. */
void checkpoint_try(struct db *db);
/* Waits for the write lock. */
int checkpoint_run(struct db *db, struct error *e);

#endif
