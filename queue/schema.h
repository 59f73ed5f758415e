/*
 * The schema's versions: queue/schema/NNN.sql in order, user_version says how far a file is.
 *
 * Stays true: a file of another program is recognised before anything is written to it; a newer
 * schema is refused; migrating happens in one transaction, and of two processes that open an old
 * file together one migrates and the other finds it done. Scripts are never changed once released:
 * tests/queue/data/vN.db opens for ever.
 */
#ifndef QUEUE_SCHEMA_H
#define QUEUE_SCHEMA_H

#include <stdbool.h>

#include "base/error.h"

struct db;

/* Whether the file is ours and not newer than this program. *ret_current: nothing to migrate. */
int schema_check(struct db *db, bool *ret_current, struct error *e);
int schema_migrate(struct db *db, struct error *e);
int schema_version(void);

#endif
