#include "queue/holder.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue/queue.h"
#include "tests/test.h"

/* Another process inside a writing transaction, which it never ends. */
static pid_t hold_lock(const char *path, bool stop)
{
    int ready[2];
    char one;
    CHECK_INT(pipe(ready), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        sqlite3 *db = NULL;
        if (sqlite3_open(path, &db) != SQLITE_OK ||
            sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        if (stop)
            raise(SIGSTOP);
        for (;;)
            pause();
    }
    CHECK_INT(read(ready[0], &one, 1), 1);
    if (stop) {
        siginfo_t info;
        CHECK_INT(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
    }
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void make_database(void)
{
    struct error e = {0};
    struct queue *q;
    CHECK_OK(queue_open("q.db", &(struct queue_options){.create = true}, &q, &e), &e);
    queue_close(q);
}

static void check_refusal(bool stop, const char *says)
{
    const struct queue_options impatient = {.busy_timeout_ms = 100};
    struct error e = {0};
    struct queue *q;
    char pid_text[32];
    make_database();
    pid_t pid = hold_lock("q.db", stop);
    CHECK_OK(queue_open("q.db", &impatient, &q, &e), &e);
    CHECK_ERROR(queue_pause(q, str_of("x"), &e), &e, ERROR_BUSY, says);
    snprintf(pid_text, sizeof(pid_text), "process %d ", (int)pid);
    CHECK(strstr(e.text, pid_text) != NULL);
    CHECK_INT(kill(pid, SIGKILL), 0);
    CHECK_INT(waitpid(pid, NULL, 0), pid);
    CHECK_OK(queue_pause(q, str_of("x"), &e), &e); /* its end is enough */
    queue_close(q);
}

TEST(queue_busy_names_the_process_that_holds_the_lock)
{
    check_refusal(false, "holds the lock, waited 100 ms");
}

TEST(queue_busy_says_what_to_do_about_a_stopped_holder)
{
    check_refusal(true, "was stopped in the middle of a write");
}

TEST(queue_holder_is_nobody_when_nobody_writes)
{
    bool stopped = true;
    make_database();
    CHECK_INT(holder_of_write_lock("q.db", &stopped), 0);
    CHECK(!stopped);
    CHECK_INT(holder_of_write_lock("none.db", &stopped), 0);
}
