/*
 * io_uring: one thread that owns the ring, submits, waits for completions and hands them out.
 *
 * Whoever wakes it writes to an eventfd that the ring itself reads, so one wait serves both. Files are
 * registered; extents one by one, as far as the kernel lets us (RLIMIT_MEMLOCK): reads into the others
 * are ordinary ones. What has come back is replaced in the ring before it is handed out, since `done`
 * looks at all its bytes.
 *
 * The thread works a few microseconds a read, and while it waits for a core the disk waits for it: it
 * comes before those that compute, where it may (root, LimitNICE= of a service).
 *
 * The kernel writes where no sanitizer sees it; that the bytes are there before a visit looks at them
 * is the completion's and then the taker's lock's doing.
 */
#include <errno.h>
#include <inttypes.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/experts/io.h"

#define DEPTH 16
#define DEPTH_MAX 64u
#define BATCH 8u /* handed out between two looks at the ring */

#define RETRY_US 1000
#define NICER 10

struct flight {
    struct io_read read;
    struct file_span span;
    uint32_t next_free;
};

/* What has come back and is to be handed out. */
struct landed {
    struct flight *flight;
    int rc;
    struct error e;
};

struct uring {
    struct io io;
    struct io_uring ring;
    bool ring_open, registered_files;
    int event;
    uint64_t event_count; /* the ring reads it */
    pthread_t thread;
    bool thread_runs, event_armed;
    atomic_bool ending;
    uint32_t n_in_flight, first_free;
    bool *registered; /* [n_extents] */
    struct flight flight[DEPTH_MAX + BATCH];
    struct landed landed[BATCH];
};

/* ------------------------------------------------------------------ submitting */

/* The ring has an entry for every flight and the event. */
static struct io_uring_sqe *entry(struct uring *u)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    while (!sqe) {
        (void)io_uring_submit(&u->ring);
        sqe = io_uring_get_sqe(&u->ring);
    }
    return sqe;
}

static void arm_event(struct uring *u)
{
    struct io_uring_sqe *sqe = entry(u);
    io_uring_prep_read(sqe, u->event, &u->event_count, sizeof(u->event_count), 0);
    io_uring_sqe_set_data(sqe, NULL);
    u->event_armed = true;
}

static void send_read(struct uring *u, struct flight *f)
{
    const struct io_options *o = &u->io.o;
    const struct file *file = &o->files[f->read.file];
    const struct file_piece p = file_span_next(file, &f->span);
    const int fd = u->registered_files ? (int)f->read.file : file->fd;
    struct io_uring_sqe *sqe = entry(u);
    if (u->registered && u->registered[f->read.extent])
        io_uring_prep_read_fixed(sqe, fd, p.out, (unsigned)p.n, p.offset, (int)f->read.extent);
    else
        io_uring_prep_read(sqe, fd, p.out, (unsigned)p.n, p.offset);
    if (u->registered_files)
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    io_uring_sqe_set_data(sqe, f);
}

static void free_flight(struct uring *u, struct flight *f)
{
    f->next_free = u->first_free;
    u->first_free = (uint32_t)(f - u->flight);
}

/* As many as there is room for; one that lies beyond its file's end fails without a read. */
static void take_reads(struct uring *u)
{
    const struct io_options *o = &u->io.o;
    struct io_read r;
    while (u->n_in_flight < u->io.depth && !atomic_load(&u->ending) && o->take(o->context, &r)) {
        struct error e = {0};
        struct flight *f = &u->flight[u->first_free];
        f->read = r;
        int rc = file_span_begin(&f->span, &o->files[r.file], r.out, r.bytes, r.offset, &e);
        if (rc != 0) {
            o->done(o->context, &r, rc, &e);
            continue;
        }
        u->first_free = f->next_free;
        u->n_in_flight++;
        send_read(u, f);
    }
}

/* ------------------------------------------------------------------ completions */

/* True when there is something to hand out. */
static bool land(struct uring *u, struct io_uring_cqe *cqe, struct landed *ret)
{
    struct flight *f = io_uring_cqe_get_data(cqe);
    if (!f) {
        arm_event(u);
        return false;
    }
    *ret = (struct landed){.flight = f};
    ret->rc = file_span_took(&u->io.o.files[f->read.file], &f->span, cqe->res, &ret->e);
    if (ret->rc > 0) {
        send_read(u, f);
        return false;
    }
    u->n_in_flight--;
    return true;
}

static void hand_out(struct uring *u)
{
    const struct io_options *o = &u->io.o;
    struct io_uring_cqe *cqe[BATCH];
    uint32_t n_landed = 0;
    const uint32_t n = io_uring_peek_batch_cqe(&u->ring, cqe, BATCH);
    for (uint32_t i = 0; i < n; i++)
        n_landed += land(u, cqe[i], &u->landed[n_landed]);
    io_uring_cq_advance(&u->ring, n);
    take_reads(u);
    if (io_uring_sq_ready(&u->ring) > 0)
        (void)io_uring_submit(&u->ring); /* what is left goes with the wait */
    for (uint32_t i = 0; i < n_landed; i++) {
        struct landed *l = &u->landed[i];
        o->done(o->context, &l->flight->read, l->rc, &l->e);
        free_flight(u, l->flight);
    }
}

/* The only way that a ring which was made refuses to be entered: the kernel is short of memory. */
static void wait_for_any(struct uring *u)
{
    const int rc = io_uring_submit_and_wait(&u->ring, 1);
    if (rc < 0 && rc != -EINTR)
        clock_sleep_us(RETRY_US);
}

/* Where that is not allowed, it is one thread among the others. */
static void come_first(void)
{
    const id_t self = (id_t)gettid();
    (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) - NICER);
}

static void *serve(void *context)
{
    struct uring *u = context;
    come_first();
    arm_event(u);
    take_reads(u);
    while (!atomic_load(&u->ending) || u->n_in_flight > 0) {
        wait_for_any(u);
        hand_out(u);
    }
    return NULL;
}

static void wake(struct io *io, uint32_t n)
{
    struct uring *u = (struct uring *)io;
    const uint64_t count = n;
    while (write(u->event, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}

/* ------------------------------------------------------------------ opening */

static int refused(int rc, struct error *e)
{
    const char *hint = rc == -ENOSYS  ? "; the kernel has none"
                       : rc == -EPERM ? "; a sandbox or kernel.io_uring_disabled forbids it"
                                      : "";
    return error_sys(e, ERROR_UNSUPPORTED, -rc, "io_uring cannot be set up%s", hint);
}

static int usable(struct error *e)
{
    struct io_uring ring;
    int rc = io_uring_queue_init(2, &ring, 0);
    if (rc < 0)
        return refused(rc, e);
    io_uring_queue_exit(&ring);
    return 0;
}

static void say_unregistered(struct uring *u, uint32_t n_done, int rc)
{
    const uint32_t n = u->io.o.n_extents;
    snprintf(u->io.notice, sizeof(u->io.notice),
             "%u of %u blocks of experts could not be registered with io_uring (%s)%s; reads into "
             "them cost a little more",
             n - n_done, n, strerror(-rc),
             rc == -ENOMEM ? ": the limit of locked memory, ulimit -l, is in the way" : "");
}

/* Each extent by itself, so that one can be given back without the others. */
static void register_extents(struct uring *u)
{
    const struct io_options *o = &u->io.o;
    if (o->n_extents == 0)
        return;
    u->registered = mem_array(o->n_extents, sizeof(*u->registered));
    if (!u->registered)
        return;
    int rc = io_uring_register_buffers_sparse(&u->ring, o->n_extents);
    uint32_t i = 0;
    for (; rc >= 0 && i < o->n_extents; i++) {
        const struct iovec v = {o->extents[i].at, o->extents[i].bytes};
        rc = io_uring_register_buffers_update_tag(&u->ring, i, &v, NULL, 1);
        u->registered[i] = rc >= 0;
        if (rc < 0)
            break;
    }
    if (rc < 0)
        say_unregistered(u, i, rc);
}

/* Without it every read looks its file up. */
static void register_files(struct uring *u)
{
    const struct io_options *o = &u->io.o;
    int *fds = mem_array(o->n_files, sizeof(*fds));
    if (!fds)
        return;
    for (uint32_t i = 0; i < o->n_files; i++)
        fds[i] = o->files[i].fd;
    u->registered_files = io_uring_register_files(&u->ring, fds, o->n_files) == 0;
    mem_free(fds);
}

/* Else its pages stay in memory for as long as the ring. */
static void forget(struct io *io, uint32_t extent)
{
    struct uring *u = (struct uring *)io;
    const struct iovec none = {0};
    if (u->registered && u->registered[extent])
        (void)io_uring_register_buffers_update_tag(&u->ring, extent, &none, NULL, 1);
}

static void close_uring(struct io *io)
{
    struct uring *u = (struct uring *)io;
    if (u->thread_runs) {
        atomic_store(&u->ending, true);
        wake(io, 1);
        pthread_join(u->thread, NULL);
    }
    if (u->registered)
        (void)io_uring_unregister_buffers(&u->ring); /* at once; the exit does it some time later */
    if (u->ring_open)
        io_uring_queue_exit(&u->ring);
    if (u->event >= 0)
        close(u->event);
    mem_free(u->registered);
    mem_free(u);
}

static int open_ring(struct uring *u, struct error *e)
{
    int rc = io_uring_queue_init(DEPTH_MAX * 2, &u->ring, 0);
    if (rc < 0)
        return refused(rc, e);
    u->ring_open = true;
    u->event = eventfd(0, EFD_CLOEXEC);
    if (u->event < 0)
        return error_sys(e, ERROR_NOMEM, errno, "io_uring: an eventfd");
    register_files(u);
    register_extents(u);
    return 0;
}

static int open_uring(struct io **ret, const struct io_options *o, struct error *e)
{
    struct uring *u = mem_zalloc(sizeof(*u));
    if (!u)
        return error_set(e, ERROR_NOMEM, "no memory for reads with io_uring");
    u->io = (struct io){.way = &io_way_uring, .o = *o};
    u->io.depth = MIN_OF(o->depth > 0 ? o->depth : DEPTH, DEPTH_MAX);
    u->event = -1;
    for (uint32_t i = 0; i < ARRAY_LEN(u->flight); i++)
        u->flight[i].next_free = i + 1;
    int rc = open_ring(u, e);
    if (rc == 0 && (rc = pthread_create(&u->thread, NULL, serve, u)) != 0)
        rc = error_sys(e, ERROR_NOMEM, rc, "starting the thread that reads experts");
    if (rc != 0) {
        close_uring(&u->io);
        return rc;
    }
    u->thread_runs = true;
    *ret = &u->io;
    return 0;
}

const struct io_way io_way_uring = {.name = "uring",
                                    .deepens = true,
                                    .usable = usable,
                                    .open = open_uring,
                                    .wake = wake,
                                    .forget = forget,
                                    .close = close_uring};
