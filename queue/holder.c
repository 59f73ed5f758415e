#include "queue/holder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

/* Byte of the -shm file that the writer locks (SQLite's file format, "WAL-index locks"). */
#define WRITE_LOCK_BYTE 120
#define LOCKS_MAX_BYTES (4u << 20)

/* "5: POSIX  ADVISORY  WRITE 4711 fe:00:1234 120 120": the PID when it is that inode's write lock. */
static int holder_in_line(const char *line, unsigned long inode)
{
    char type[16];
    char end[24];
    int pid = 0;
    unsigned long in = 0;
    unsigned long long first = 0;
    if (sscanf(line, "%*d: POSIX %*s %15s %d %*x:%*x:%lu %llu %23s", type, &pid, &in, &first,
               end) != 5)
        return 0;
    bool covers = first <= WRITE_LOCK_BYTE &&
                  (strcmp(end, "EOF") == 0 || strtoull(end, NULL, 10) >= WRITE_LOCK_BYTE);
    return in == inode && covers && strcmp(type, "WRITE") == 0 && pid > 0 ? pid : 0;
}

static bool is_stopped(int pid)
{
    char path[64];
    struct buf stat;
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    buf_init(&stat, 4096);
    const char *field = file_read_all(path, stat.max, &stat, NULL) == 0 && stat.len > 0
                            ? strrchr(stat.ptr, ')')
                            : NULL;
    bool stopped = field && strlen(field) > 2 && (field[2] == 'T' || field[2] == 't');
    buf_release(&stat);
    return stopped;
}

int holder_of_write_lock(const char *db_path, bool *ret_stopped)
{
    char shm[4096 + 8];
    struct stat st;
    struct buf locks;
    int pid = 0;
    *ret_stopped = false;
    snprintf(shm, sizeof(shm), "%s-shm", db_path);
    if (stat(shm, &st) != 0)
        return 0;
    buf_init(&locks, LOCKS_MAX_BYTES);
    if (file_read_all("/proc/locks", locks.max, &locks, NULL) == 0 && locks.len > 0) {
        char *rest = NULL;
        for (char *line = strtok_r(locks.ptr, "\n", &rest); line && pid == 0;
             line = strtok_r(NULL, "\n", &rest))
            pid = holder_in_line(line, (unsigned long)st.st_ino);
    }
    buf_release(&locks);
    if (pid == 0 || pid == getpid())
        return 0;
    *ret_stopped = is_stopped(pid);
    return pid;
}
