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

/* What a read gave, or what is to be taken for it: bytes, or -errno. A short one looks like a cut file. */
static int64_t read_faulted(int64_t got)
{
    enum file_fault fault = next_fault();
    if (fault == FILE_FAULT_EIO)
        return -EIO;
    return fault == FILE_FAULT_SHORT && got > 0 ? got / 2 : got;
}

static ssize_t read_once(int fd, void *out, size_t n)
{
    ssize_t got;
    do {
        got = read(fd, out, n);
    } while (got < 0 && errno == EINTR);
    const int64_t taken = read_faulted(got < 0 ? -errno : got);
    if (taken >= 0)
        return (ssize_t)taken;
    errno = (int)-taken;
    return -1;
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

static int64_t written_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Takes over fd: closed when this fails. */
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

static size_t block_of(const struct file *f)
{
    return f->direct ? FILE_DIRECT_ALIGN : 1;
}

struct file_piece file_span_next(const struct file *f, const struct file_span *s)
{
    const size_t from = s->done / block_of(f) * block_of(f);
    return (struct file_piece){s->out + from, s->n - from, s->start + from};
}

int file_span_took(const struct file *f, struct file_span *s, int64_t got, struct error *e)
{
    const struct file_piece p = file_span_next(f, s);
    const size_t from = (size_t)(p.offset - s->start);
    got = got == -EINTR ? got : read_faulted(got);
    if (got == -EINTR)
        return 1;
    if (got < 0)
        return error_sys(e, ERROR_IO, (int)-got, "%s: reading %zu bytes at offset %" PRIu64,
                         f->path, p.n, p.offset);
    if (from + (size_t)got <= s->done)
        return short_read(f->path, s->start + s->skip, s->done - MIN_OF(s->done, s->skip),
                          s->enough - s->skip, e);
    s->done = from + (size_t)got;
    if (s->done < s->enough)
        return 1;
    if (s->forget)
        file_forget(f, s->n, s->start);
    return 0;
}

static int read_span(const struct file *f, struct file_span *s, struct error *e)
{
    int rc;
    do {
        const struct file_piece p = file_span_next(f, s);
        const ssize_t got = pread(f->fd, p.out, p.n, (off_t)p.offset);
        rc = file_span_took(f, s, got < 0 ? -errno : got, e);
    } while (rc > 0);
    return rc;
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
    struct file_span s = {.out = out, .n = n, .enough = n, .start = offset};
    int rc = check_inside(f, n, offset, e);
    return rc < 0 || n == 0 ? rc : read_span(f, &s, e);
}

size_t file_direct_span(uint64_t offset, size_t n)
{
    uint64_t start = offset / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN;
    return (size_t)(ALIGN_UP(offset + n, (uint64_t)FILE_DIRECT_ALIGN) - start);
}

int file_span_begin(struct file_span *s, const struct file *f, void *out, size_t n, uint64_t offset,
                    struct error *e)
{
    const uint64_t start = offset / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN;
    assert((uintptr_t)out % FILE_DIRECT_ALIGN == 0);
    *s = (struct file_span){.out = out,
                            .n = file_direct_span(offset, n),
                            .skip = (size_t)(offset - start),
                            .enough = (size_t)(offset - start) + n,
                            .start = start,
                            .forget = !f->direct};
    return check_inside(f, n, offset, e);
}

int file_read_direct(const struct file *f, void *out, size_t n, uint64_t offset, struct error *e)
{
    struct file_span s;
    int rc = file_span_begin(&s, f, out, n, offset, e);
    return rc < 0 || n == 0 ? rc : read_span(f, &s, e);
}

/* Appends until the end of fd; `known` is the size that fstat told, 0 for pipes and /proc. */
static int read_to_end(int fd, const char *path, uint64_t known, size_t max, struct buf *out,
                       struct error *e)
{
    char chunk[16384];
    size_t total = 0;
    for (;;) {
        ssize_t got = read_once(fd, chunk, sizeof(chunk));
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

int file_read_text(const char *path, size_t max, struct buf *out, struct error *e)
{
    const size_t before = out->len;
    int rc = file_read_all(path, max, out, e);
    if (rc < 0 || out->len == before)
        return rc;
    const char *nul = memchr(out->ptr + before, '\0', out->len - before);
    return nul ? error_set(e, ERROR_BADDATA, "%s: no text: byte %zu is a NUL", path,
                           (size_t)(nul - out->ptr) - before)
               : 0;
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
    (void)posix_fadvise(r->fd, 0, 0, POSIX_FADV_DONTNEED); /* advice only */
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

int file_write_all(const char *path, const void *bytes, size_t n, struct error *e)
{
    struct file_replace file;
    int rc = file_replace_begin(&file, path, e);
    if (rc == 0)
        rc = file_write_fd(file.fd, bytes, n, file.path, e);
    if (rc == 0)
        rc = file_replace_commit(&file, e);
    file_replace_abort(&file);
    return rc;
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
