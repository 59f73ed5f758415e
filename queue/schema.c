#include "queue/schema.h"

#include <inttypes.h>

#include "queue/internal.h"
#include "queue/schema_gen.h"

int schema_version(void)
{
    return schema_script_count;
}

int schema_check(struct db *db, bool *ret_current, struct error *e)
{
    int64_t n_pages = 0;
    int64_t application = 0;
    int64_t version = 0;
    int rc = db_number(db, "PRAGMA page_count", SQL_NONE, &n_pages, e);
    if (rc >= 0)
        rc = db_number(db, "PRAGMA application_id", SQL_NONE, &application, e);
    if (rc >= 0)
        rc = db_number(db, "PRAGMA user_version", SQL_NONE, &version, e);
    if (rc < 0)
        return rc;
    if (n_pages > 0 && application != QUEUE_APPLICATION_ID &&
        !(application == 0 && version == 0 && n_pages == 1))
        return error_set(e, ERROR_FORMAT,
                         "database %s: application id 0x%08" PRIx64 ", a nocturne queue has 0x%08x",
                         db->path, (uint64_t)application, (unsigned)QUEUE_APPLICATION_ID);
    if (version > schema_version())
        return error_set(e, ERROR_UNSUPPORTED,
                         "database %s: schema version %" PRId64 ", this program knows up to %d",
                         db->path, version, schema_version());
    *ret_current = n_pages > 0 && version == schema_version();
    return 0;
}

static int set_version(struct db *db, int version, struct error *e)
{
    char text[96];
    sqlite3_snprintf(sizeof(text), text, "PRAGMA application_id = %d; PRAGMA user_version = %d",
                     QUEUE_APPLICATION_ID, version);
    return db_exec(db, text, e);
}

int schema_migrate(struct db *db, struct error *e)
{
    int64_t version = 0;
    int rc = db_begin(db, e);
    if (rc != 0)
        return rc;
    /* Somebody else may have migrated while this one waited for the lock. */
    rc = db_number(db, "PRAGMA user_version", SQL_NONE, &version, e);
    rc = rc < 0 ? rc : 0;
    for (int i = 0; rc == 0 && i < schema_script_count; i++) {
        if (schema_scripts[i].version <= version)
            continue;
        rc = db_exec(db, schema_scripts[i].text, e);
        if (rc == 0)
            rc = set_version(db, schema_scripts[i].version, e);
    }
    return db_end(db, rc, e);
}
