#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/worker.h"

int lock_take(const char *path, int *ret_fd, struct error *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_sys(e, ERROR_IO, errno, "lock file %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int sys = errno;
        close(fd);
        return error_sys(e, ERROR_IO, sys, "lock file %s", path);
    }
    *ret_fd = fd;
    return 0;
}

int lock_is_free(const char *path, struct error *e)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 1 : error_sys(e, ERROR_IO, errno, "lock file %s", path);
    int rc = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 1 : 0;
    int sys = errno;
    close(fd); /* which gives the lock back */
    if (rc == 0 && sys != EWOULDBLOCK)
        return error_sys(e, ERROR_IO, sys, "lock file %s", path);
    return rc;
}

bool lock_is_held(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool held = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
    return held;
}
