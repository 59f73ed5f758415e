#include "queue/state.h"

#include <sqlite3.h>

#include "tests/queue/help.h"

TEST(queue_state_moves_are_those_of_the_drawing)
{
    static const char *const want[QUEUE_STATE_COUNT] = {
        /* promote hold claim release defer finish fail cancel expire */
        [QUEUE_HELD] = "q------cx",    [QUEUE_QUEUED] = "-hr----cx",
        [QUEUE_RUNNING] = "---qhdfc-", [QUEUE_DONE] = "---------",
        [QUEUE_FAILED] = "---------",  [QUEUE_CANCELLED] = "---------",
        [QUEUE_EXPIRED] = "---------",
    };
    static const char letter[] = "hqrdfcx";
    for (int s = 0; s < QUEUE_STATE_COUNT; s++) {
        for (int m = 0; m < QUEUE_MOVE_COUNT; m++) {
            int next = queue_state_next((enum queue_state)s, (enum queue_move)m);
            CHECK_INT(next < 0 ? '-' : letter[next], want[s][m]);
        }
    }
}

TEST(queue_state_final_states_have_no_way_out)
{
    for (int s = 0; s < QUEUE_STATE_COUNT; s++) {
        bool leads_on = false;
        for (int m = 0; m < QUEUE_MOVE_COUNT; m++)
            leads_on |= queue_state_next((enum queue_state)s, (enum queue_move)m) >= 0;
        CHECK_INT(queue_state_final((enum queue_state)s), !leads_on);
    }
}

TEST(queue_state_words_come_back)
{
    for (int s = 0; s < QUEUE_STATE_COUNT; s++)
        CHECK_INT(queue_state_parse(queue_state_name((enum queue_state)s)), s);
    CHECK_INT(queue_state_parse("unknown"), -1);
    CHECK_INT(queue_state_parse(""), -1);
}

static bool leads_to(int from, int to)
{
    for (int m = 0; m < QUEUE_MOVE_COUNT; m++) {
        if (queue_state_next((enum queue_state)from, (enum queue_move)m) == to)
            return true;
    }
    return false;
}

/* Tries all 49 changes with plain SQL: the trigger allows what the function allows. */
TEST(queue_state_the_database_allows_the_same_moves)
{
    struct queue *q = help_open(DB);
    help_submit(q, 1, 1);
    queue_worker_close(help_worker(q), str_of("a row to point at"));
    queue_close(q);
    sqlite3 *db;
    CHECK_INT(sqlite3_open(DB, &db), SQLITE_OK);
    for (int from = 0; from < QUEUE_STATE_COUNT; from++) {
        for (int to = 0; to < QUEUE_STATE_COUNT; to++) {
            char sql[600];
            /* Force the job into the state, whatever the table says, and then ask for the change. */
            snprintf(sql, sizeof(sql),
                     "BEGIN; CREATE TEMP TABLE keep AS SELECT * FROM transition;"
                     "INSERT OR IGNORE INTO transition VALUES ('queued', '%s');"
                     "UPDATE job SET state = '%s', hold = '%s' = 'held', worker_id = 1;"
                     "DELETE FROM transition; INSERT INTO transition SELECT * FROM keep;",
                     queue_state_name((enum queue_state)from),
                     queue_state_name((enum queue_state)from),
                     queue_state_name((enum queue_state)from));
            CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
            snprintf(sql, sizeof(sql), "UPDATE job SET state = '%s', hold = '%s' = 'held'",
                     queue_state_name((enum queue_state)to),
                     queue_state_name((enum queue_state)to));
            bool allowed = sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
            CHECK_INT(allowed, from == to || leads_to(from, to));
            CHECK_INT(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        }
    }
    sqlite3_close(db);
}
