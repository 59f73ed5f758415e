/*
 * Reads of experts, many in flight: one interface, a row in io.def and a file for each way to do it.
 *
 * Owns the threads that read, the ring, and the reads in flight; files and memory are the opener's and
 * outlive it. It pulls: whenever it has room for one more it asks `take` for the next read, so who is
 * served first is decided as late as possible, and hands each back through `done`, once, when all its
 * bytes are there or it has failed. io_wake tells that there may be something to take.
 *
 * Stays true: the bytes are those of the file whatever the way; a read that came back short is gone on
 * with, and one that the file's end cuts is an error with path, offset and both figures. Nothing spins:
 * threads that have nothing to read sleep. After io_close nothing writes to the memory any more.
 *
 * take and done are called by the reading threads, of which there may be several at once; they lock
 * what they touch. The calls here are one thread's, or under one lock.
 */
#ifndef ENGINE_EXPERTS_IO_H
#define ENGINE_EXPERTS_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

struct io_read {
    uint64_t tag; /* the taker's */
    uint32_t file;
    uint32_t extent; /* that `out` lies in */
    uint64_t offset;
    size_t bytes;
    void *out; /* aligned to FILE_DIRECT_ALIGN, room for file_direct_span(offset, bytes) */
};

/* Where the first byte of it stands once it is there. */
const void *io_first(const struct io_read *r);

/* Memory that reads may go to: made known to the kernel once, where it lets us, not at every read. */
struct io_extent {
    void *at;
    size_t bytes;
};

struct io_options {
    const char *way; /* NULL, "auto", or a name in io.def: then that one or an error */
    uint32_t depth;  /* reads in flight at most; 0: the way's own */
    const struct file *files;
    uint32_t n_files, n_extents;
    const struct io_extent *extents;
    /* The next read; false: none now. */
    bool (*take)(void *context, struct io_read *ret);
    void (*done)(void *context, const struct io_read *r, int rc, const struct error *e);
    void *context;
};

struct io;

int io_open(struct io **ret, const struct io_options *o, struct error *e);
/* So many reads more may be taken than before. */
void io_wake(struct io *io, uint32_t n);
/* There will be no read into that extent any more: the kernel forgets it, and it may be given back. */
void io_forget(struct io *io, uint32_t extent);
/* Waits for those in flight and takes none of the others; NULL is fine. */
void io_close(struct io *io);

const char *io_name(const struct io *io);
uint32_t io_depth(const struct io *io);
/* What does not work as it should and matters to speed only; "": nothing. */
const char *io_notice(const struct io *io);
/* Whether the way that io_open would take can have as many in flight as the disk wants, at no cost. */
bool io_deepens(const char *way);
/* The way that io_open would take, "auto" resolved; ret_why says why not a better one, "" if there is none. */
int io_pick(const char *way, const char **ret_name, struct error *ret_why, struct error *e);

/* ------------------------------------------------------------------ for io_*.c only */

#define IO_NOTICE_BYTES 200

struct io_way {
    const char *name;
    bool deepens;                   /* one more in flight takes no thread */
    int (*usable)(struct error *e); /* 0, or why not on this machine */
    int (*open)(struct io **ret, const struct io_options *o, struct error *e);
    void (*wake)(struct io *io, uint32_t n);
    void (*forget)(struct io *io, uint32_t extent); /* NULL: it knows of none */
    void (*close)(struct io *io);
};

/* What every way's own struct begins with. */
struct io {
    const struct io_way *way;
    struct io_options o;
    uint32_t depth;
    char notice[IO_NOTICE_BYTES];
};

#define IO_WAY(ident) extern const struct io_way io_way_##ident;
#include "engine/experts/io.def"
#undef IO_WAY

#endif
