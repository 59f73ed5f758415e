#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"

void file_forget_opened(const char *path)
{
    struct stat want, have;
    DIR *own = stat(path, &want) == 0 ? opendir("/proc/self/fd") : NULL;
    if (!own)
        return;
    for (const struct dirent *x; (x = readdir(own)) != NULL;) {
        /* By name: what other threads open and close meanwhile is none of our business. */
        if (fstatat(dirfd(own), x->d_name, &have, 0) != 0 || have.st_dev != want.st_dev ||
            have.st_ino != want.st_ino)
            continue;
        /* It may be another file by now, for which the advice is as harmless. */
        (void)posix_fadvise((int)strtol(x->d_name, NULL, 10), 0, 0, POSIX_FADV_DONTNEED);
    }
    closedir(own);
}
