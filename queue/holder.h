/*
 * Who holds the write lock of a database, for the sentence of an ERROR_BUSY.
 *
 * Reads /proc/locks, because asking the lock itself would mean to open and close the -shm file here,
 * and closing it drops the locks that SQLite holds on it for this process. Any thread.
 */
#ifndef QUEUE_HOLDER_H
#define QUEUE_HOLDER_H

#include <stdbool.h>

/*
 * The process that holds the write lock in WAL mode, or 0: nobody, this process, or not to be told
 * (another PID namespace). *ret_stopped: it was stopped (SIGSTOP), so it will not let go by itself.
 */
int holder_of_write_lock(const char *db_path, bool *ret_stopped);

#endif
