#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/countdown.h"
#include "base/rng.h"

static atomic_long fault_countdown;
static atomic_int fault_kind;
static atomic_long fault_left; /* how many more fail; below 0: all */

void file_fail_after(long k, enum file_fault kind)
{
    atomic_store(&fault_kind, (int)kind);
    atomic_store(&fault_left, -1);
    atomic_store(&fault_countdown, k);
}

void file_fail_once(long k, enum file_fault kind)
{
    file_fail_after(k, kind);
    atomic_store(&fault_left, 1);
}

/* Whether one more may fail; of several threads that ask for the last one, one gets it. */
static bool take_fault(void)
{
    long left = atomic_load(&fault_left);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&fault_left, &left, left - 1))
            return true;
    }
    return left < 0;
}

static enum file_fault next_fault(void)
{
    if (!countdown_fires(&fault_countdown))
        return FILE_FAULT_NONE;
    if (!take_fault())
        return FILE_FAULT_NONE;
    return (enum file_fault)atomic_load(&fault_kind);
}

/* pread(2), or read(2) where offset is negative. An injected short read looks like a cut file. */
static ssize_t read_once(int fd, void *out, size_t n, int64_t offset)
{
    enum file_fault fault = next_fault();
    if (fault == FILE_FAULT_EIO) {
        errno = EIO;
        return -1;
    }
    ssize_t got;
    do {
        got = offset < 0 ? read(fd, out, n) : pread(fd, out, n, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    return fault == FILE_FAULT_SHORT ? got / 2 : got;
}

/* Whether a step of writing (write, fsync, rename) is to fail; errno tells how. */
static bool write_faulted(enum file_fault fault)
{
    if (fault == FILE_FAULT_EIO)
        errno = EIO;
    if (fault == FILE_FAULT_ENOSPC)
        errno = ENOSPC;
    return fault == FILE_FAULT_EIO || fault == FILE_FAULT_ENOSPC;
}

static ssize_t write_once(int fd, const void *bytes, size_t n)
{
    enum file_fault fault = next_fault();
    if (write_faulted(fault))
        return -1;
    if (fault == FILE_FAULT_SHORT && n > 1)
        n /= 2;
    ssize_t put;
    do {
        put = write(fd, bytes, n);
    } while (put < 0 && errno == EINTR);
    return put;
}

static int sync_once(int fd)
{
    return write_faulted(next_fault()) ? -1 : fsync(fd);
}

static int rename_once(const char *from, const char *to)
{
    return write_faulted(next_fault()) ? -1 : rename(from, to);
}

static int open_failed(const char *path, int sys, struct error *e)
{
    enum error_code code = sys == ENOENT || sys == ENOTDIR ? ERROR_NOTFOUND : ERROR_IO;
    return error_sys(e, code, sys, "%s", path);
}

/* Takes over fd: closed when this fails. */
static int64_t written_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int adopt(struct file *f, int fd, bool direct, const char *path, struct error *e)
{
    struct stat st;
    int rc = 0;
    char *name = NULL;
    if (fstat(fd, &st) < 0)
        rc = open_failed(path, errno, e);
    else if (!S_ISREG(st.st_mode))
        rc = error_set(e, ERROR_IO, "%s: not a regular file", path);
    if (rc == 0) {
        name = mem_strdup(path);
        if (!name)
            rc = error_set(e, ERROR_NOMEM, "%s: no memory for the path", path);
    }
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *f = (struct file){.fd = fd,
                       .direct = direct,
                       .size = (uint64_t)st.st_size,
                       .device = (uint64_t)st.st_dev,
                       .inode = (uint64_t)st.st_ino,
                       .written_ns = written_ns(&st),
                       .path = name};
    return 0;
}

int file_open(struct file *f, const char *path, struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe does not hold us up */
    if (fd < 0)
        return open_failed(path, errno, e);
    return adopt(f, fd, false, path, e);
}

/* Some file systems accept O_DIRECT at open and refuse the reads, so one is tried. */
static bool direct_works(int fd)
{
    _Alignas(FILE_DIRECT_ALIGN) char probe[FILE_DIRECT_ALIGN];
    return pread(fd, probe, sizeof(probe), 0) >= 0;
}

int file_open_direct(struct file *f, const char *path, struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0)
        return errno == EINVAL ? file_open(f, path, e) : open_failed(path, errno, e);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !direct_works(fd)) {
        close(fd);
        return file_open(f, path, e);
    }
    return adopt(f, fd, true, path, e);
}

void file_close(struct file *f)
{
    if (!f->path) /* zeroed: descriptor 0 is not ours */
        return;
    close(f->fd);
    mem_free(f->path);
    *f = (struct file){0};
}

int file_same(const struct file *a, const struct file *b, struct error *e)
{
    if (a->device == b->device && a->inode == b->inode && a->size == b->size &&
        a->written_ns == b->written_ns)
        return 0;
    return error_set(e, ERROR_IO,
                     "%s was replaced or written to while it was being opened: %" PRIu64
                     " bytes before, %" PRIu64 " now; start again",
                     a->path, a->size, b->size);
}

int file_unchanged(const struct file *f, struct error *e)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return error_sys(e, ERROR_IO, errno, "%s: looking at its state", f->path);
    if ((uint64_t)st.st_size == f->size && written_ns(&st) == f->written_ns)
        return 0;
    return error_set(e, ERROR_IO,
                     "%s was written to while it was in use: %" PRIu64 " bytes when it was opened, "
                     "%lld now; start again",
                     f->path, f->size, (long long)st.st_size);
}

static int short_read(const char *path, uint64_t offset, uint64_t got, uint64_t want,
                      struct error *e)
{
    return error_set(e, ERROR_IO,
                     "%s: read %" PRIu64 " of %" PRIu64 " bytes at offset %" PRIu64
                     ": the file ends there",
                     path, got, want, offset);
}

/*
 * Reads until `enough` bytes of `n` are there; the end of the file may cut what lies beyond them.
 * A direct read can stop anywhere; it goes on from the last aligned position.
 */
static int read_span(const struct file *f, char *out, size_t n, size_t enough, uint64_t offset,
                     struct error *e)
{
    size_t done = 0;
    while (done < enough) {
        size_t from = f->direct ? done / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN : done;
        ssize_t got = read_once(f->fd, out + from, n - from, (int64_t)(offset + from));
        if (got < 0)
            return error_sys(e, ERROR_IO, errno, "%s: reading %zu bytes at offset %" PRIu64,
                             f->path, n - from, offset + from);
        if (from + (size_t)got <= done)
            return short_read(f->path, offset, done, enough, e);
        done = from + (size_t)got;
    }
    return 0;
}

/* Refuses what lies beyond the end before anything is read, so that sums cannot overflow. */
static int check_inside(const struct file *f, size_t n, uint64_t offset, struct error *e)
{
    uint64_t left = offset < f->size ? f->size - offset : 0;
    return n > left ? short_read(f->path, offset, left, n, e) : 0;
}

int file_read_at(const struct file *f, void *out, size_t n, uint64_t offset, struct error *e)
{
    assert(!f->direct);
    int rc = check_inside(f, n, offset, e);
    return rc < 0 ? rc : read_span(f, out, n, n, offset, e);
}

size_t file_direct_span(uint64_t offset, size_t n)
{
    uint64_t start = offset / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN;
    return (size_t)(ALIGN_UP(offset + n, FILE_DIRECT_ALIGN) - start);
}

int file_read_direct(const struct file *f, void *out, size_t n, uint64_t offset, void **ret_first,
                     struct error *e)
{
    assert((uintptr_t)out % FILE_DIRECT_ALIGN == 0);
    int rc = check_inside(f, n, offset, e);
    if (rc < 0)
        return rc;
    uint64_t start = offset / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN;
    size_t span = file_direct_span(offset, n);
    size_t skip = (size_t)(offset - start);
    rc = read_span(f, out, span, skip + n, start, e);
    if (rc < 0)
        return rc;
    if (!f->direct)
        posix_fadvise(f->fd, (off_t)start, (off_t)span, POSIX_FADV_DONTNEED);
    *ret_first = (char *)out + skip;
    return 0;
}

/* Appends until the end of fd; `known` is the size that fstat told, 0 for pipes and /proc. */
static int read_to_end(int fd, const char *path, uint64_t known, size_t max, struct buf *out,
                       struct error *e)
{
    char chunk[16384];
    size_t total = 0;
    for (;;) {
        ssize_t got = read_once(fd, chunk, sizeof(chunk), -1);
        if (got < 0)
            return error_sys(e, ERROR_IO, errno, "%s: reading at offset %zu", path, total);
        if (got == 0)
            break;
        if ((size_t)got > max - total)
            return error_set(e, ERROR_INVALID, "%s: at least %zu bytes, limit %zu", path,
                             total + (size_t)got, max);
        total += (size_t)got;
        if (buf_append(out, chunk, (size_t)got) < 0)
            return buf_check(out, path, e);
    }
    return total < known ? short_read(path, 0, total, known, e) : 0;
}

int file_read_all(const char *path, size_t max, struct buf *out, struct error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(path, errno, e);
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = open_failed(path, errno, e);
    else if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
        rc = error_set(e, ERROR_INVALID, "%s: %" PRIu64 " bytes, limit %zu", path,
                       (uint64_t)st.st_size, max);
    if (rc == 0)
        rc = read_to_end(fd, path, S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0, max, out, e);
    close(fd);
    return rc;
}

int file_write_fd(int fd, const void *bytes, size_t n, const char *path, struct error *e)
{
    const char *next = bytes;
    while (n > 0) {
        ssize_t put = write_once(fd, next, n);
        if (put < 0 && errno == EAGAIN) { /* a terminal or pipe that somebody made non-blocking */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (put < 0)
            return error_sys(e, ERROR_IO, errno, "%s: writing %zu bytes", path, n);
        next += put;
        n -= (size_t)put;
    }
    return 0;
}

int file_flush(int fd, const char *path, struct error *e)
{
    if (fdatasync(fd) != 0)
        return error_sys(e, ERROR_IO, errno, "%s: flushing", path);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* advice only */
    return 0;
}

void file_forget(const struct file *f, size_t n, uint64_t offset)
{
    (void)posix_fadvise(f->fd, (off_t)offset, (off_t)n, POSIX_FADV_DONTNEED); /* advice only */
}

/* Opens r->temp; an existing file's permissions are kept. */
static int open_temp(struct file_replace *r, struct error *e)
{
    struct stat st;
    bool exists = stat(r->path, &st) == 0;
    if (exists && !S_ISREG(st.st_mode))
        return error_set(e, ERROR_IO, "%s: not a regular file", r->path);
    r->fd = open(r->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return open_failed(r->temp, errno, e);
    if (exists && fchmod(r->fd, st.st_mode & 07777) < 0)
        return error_sys(e, ERROR_IO, errno, "%s: copying the permissions", r->temp);
    return 0;
}

int file_replace_begin(struct file_replace *r, const char *path, struct error *e)
{
    *r = (struct file_replace){.fd = -1};
    /* Through a symbolic link the file it names is replaced, not the link. */
    char target[PATH_MAX];
    if (realpath(path, target))
        path = target;
    struct buf name;
    buf_init(&name, PATH_MAX);
    buf_printf(&name, "%s.%016" PRIx64 ".tmp", path, rng_entropy());
    int rc = buf_check(&name, path, e);
    r->temp = buf_take(&name);
    r->path = mem_strdup(path);
    if (rc == 0)
        rc = r->path ? open_temp(r, e)
                     : error_set(e, ERROR_NOMEM, "%s: no memory for the path", path);
    if (rc < 0)
        file_replace_abort(r);
    return rc;
}

/* A rename is durable once the folder that holds it is. */
static int sync_folder_of(const char *path, struct error *e)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? MAX_OF((size_t)(slash - path), (size_t)1) : 1;
    if (len >= sizeof(folder))
        return error_sys(e, ERROR_IO, ENAMETOOLONG, "%s", path);
    memcpy(folder, slash ? path : ".", len);
    folder[len] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return open_failed(folder, errno, e);
    int rc = 0;
    if (sync_once(fd) < 0 && errno != EINVAL) /* EINVAL: a file system that has nothing to sync */
        rc = error_sys(e, ERROR_IO, errno, "%s: fsync", folder);
    close(fd);
    return rc;
}

int file_replace_commit(struct file_replace *r, struct error *e)
{
    if (sync_once(r->fd) < 0)
        return error_sys(e, ERROR_IO, errno, "%s: fsync", r->temp);
    int fd = r->fd;
    r->fd = -1;
    if (close(fd) < 0 && errno != EINTR)
        return error_sys(e, ERROR_IO, errno, "%s: close", r->temp);
    if (rename_once(r->temp, r->path) < 0)
        return error_sys(e, ERROR_IO, errno, "%s: renaming to %s", r->temp, r->path);
    mem_free(r->temp);
    r->temp = NULL;
    int rc = sync_folder_of(r->path, e);
    file_replace_abort(r);
    return rc;
}

void file_replace_abort(struct file_replace *r)
{
    if (r->fd >= 0 && r->temp) {
        close(r->fd);
        unlink(r->temp);
    } else if (r->temp && r->path) {
        unlink(r->temp);
    }
    mem_free(r->path);
    mem_free(r->temp);
    *r = (struct file_replace){.fd = -1};
}

int file_make_parent(const char *path, struct error *e)
{
    char folder[PATH_MAX];
    if (strlen(path) >= sizeof(folder))
        return error_sys(e, ERROR_IO, ENAMETOOLONG, "%s", path);
    memcpy(folder, path, strlen(path) + 1);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) < 0 && errno != EEXIST)
            return error_sys(e, ERROR_IO, errno, "%s: making the folder", folder);
        *slash = '/';
    }
    return 0;
}

int file_space(const char *path, uint64_t *ret_bytes, struct error *e)
{
    struct statvfs fs;
    if (statvfs(path, &fs) < 0)
        return open_failed(path, errno, e);
    *ret_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}
