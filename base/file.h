/*
 * Files: whole reads and writes, direct reads, replacing a file without ever showing half of it.
 *
 * Stays true: a read that returns 0 read every byte asked for; a short read is ERROR_IO with path,
 * offset and both counts. EINTR is hidden. Descriptors are O_CLOEXEC. Thread safe.
 * Tests inject failures with file_fail_after.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* An open file for reading, buffered or direct. */
struct file {
    int fd;
    bool direct; /* O_DIRECT holds: offsets, sizes and memory are aligned by file_read_direct */
    uint64_t size;
    uint64_t device, inode;
    int64_t written_ns; /* when its bytes last changed, as the file system says */
    char *path;
};

/*
 * The block of file systems and of disks. Many would take direct reads at 512; those that are no whole
 * blocks have been measured to be slower by a tenth (bench/io.c).
 */
#define FILE_DIRECT_ALIGN 4096u

int file_open(struct file *f, const char *path, struct error *e);
/* Asks for O_DIRECT; where the file system refuses (tmpfs) f->direct is false and reads are buffered,
 * each followed by FADV_DONTNEED. */
int file_open_direct(struct file *f, const char *path, struct error *e);
void file_close(struct file *f); /* a zeroed struct is fine */
/* Whether both are one file and nothing wrote to it between the two opens: else ERROR_IO. */
int file_same(const struct file *a, const struct file *b, struct error *e);
/* Whether nothing has written to it since it was opened: else ERROR_IO. */
int file_unchanged(const struct file *f, struct error *e);

/* Exactly n bytes at offset, or an error. Buffered files only. */
int file_read_at(const struct file *f, void *out, size_t n, uint64_t offset, struct error *e);
/*
 * Reads [offset, offset + n), rounded outwards to FILE_DIRECT_ALIGN, into `out` (aligned to FILE_DIRECT_ALIGN;
 * at least file_direct_span(offset, n) bytes). The first wanted byte stands at out + offset %
 * FILE_DIRECT_ALIGN. Works on buffered files too, and lets their page cache go.
 */
int file_read_direct(const struct file *f, void *out, size_t n, uint64_t offset, struct error *e);
size_t file_direct_span(uint64_t offset, size_t n);

/*
 * The same in pieces, for who reads by other means than pread(2): file_span_next says what to read,
 * file_span_took takes what came of it (bytes, or -errno) and answers 1 when there is more to read, 0
 * when all is there, or a negative code. A read may stop anywhere: it goes on from the last aligned
 * position.
 */
struct file_span {
    char *out;
    size_t n, enough; /* bytes up to the last one that is wanted; the file may end beyond it */
    size_t skip, done;
    uint64_t start;
    bool forget;
};
struct file_piece {
    void *out;
    size_t n;
    uint64_t offset;
};
int file_span_begin(struct file_span *s, const struct file *f, void *out, size_t n, uint64_t offset,
                    struct error *e);
struct file_piece file_span_next(const struct file *f, const struct file_span *s);
int file_span_took(const struct file *f, struct file_span *s, int64_t got, struct error *e);

/* The whole file, at most max bytes (ERROR_INVALID with both figures beyond). */
int file_read_all(const char *path, size_t max, struct buf *out, struct error *e);
/* The same of a text, which has no NUL inside and one behind it: else ERROR_BADDATA. */
int file_read_text(const char *path, size_t max, struct buf *out, struct error *e);
/* write(2) until everything is out. */
int file_write_fd(int fd, const void *bytes, size_t n, const char *path, struct error *e);
/* Waits until the disk has what was written, and lets the page cache go: for large files. */
int file_flush(int fd, const char *path, struct error *e);
/* What was read from there leaves the page cache. */
void file_forget(const struct file *f, size_t n, uint64_t offset);
/*
 * What is clean of a file that this process has open somewhere leaves the page cache. It is not opened
 * for that: closing any descriptor of a file drops all record locks (fcntl) of the process on it, those
 * of SQLite too.
 */
void file_forget_opened(const char *path);

/* A new file beside `path`: written, fsynced and renamed over it by file_replace_commit. */
struct file_replace {
    int fd;
    char *path;
    char *temp;
};
int file_replace_begin(struct file_replace *r, const char *path, struct error *e);
/* fsync, rename, fsync of the folder. Nothing of it stays in the page cache. */
int file_replace_commit(struct file_replace *r, struct error *e);
void file_replace_abort(struct file_replace *r); /* after commit: a no-op */
/* All of it at once: afterwards the file has these bytes, or what it had. */
int file_write_all(const char *path, const void *bytes, size_t n, struct error *e);

/* mkdir -p for the folder that holds path; mode 0700. */
int file_make_parent(const char *path, struct error *e);
/* Bytes that an ordinary user may still write on path's file system. */
int file_space(const char *path, uint64_t *ret_bytes, struct error *e);

enum file_fault { FILE_FAULT_NONE, FILE_FAULT_EIO, FILE_FAULT_SHORT, FILE_FAULT_ENOSPC };
/* The k-th read or write from now fails that way, and all after it; k = 0: off. For tests. */
void file_fail_after(long k, enum file_fault kind);
/* The k-th only. */
void file_fail_once(long k, enum file_fault kind);

#endif
