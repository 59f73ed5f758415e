#include "batch/fetch/part.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define STATE_HEADER "nocturne part 1"
#define STATE_MAX_BYTES (1u << 20)
#define MIB (UINT64_C(1) << 20)
#define CUT_LEAST (16 * MIB)
#define CUT_MOST (1024 * MIB)
/* Segments of a file: enough that the last of them does not leave the other connections idle long. */
#define CUT_INTO 16
#define SEGMENTS_MAX 4096

/* ---- Names and sizes -------------------------------------------------------------------------- */

static char *join(const char *dir, const char *name, const char *suffix)
{
    struct buf b;
    buf_init(&b, 8192);
    buf_printf(&b, "%s/%s%s", dir, name, suffix);
    return buf_take(&b);
}

int part_init(struct part *p, const char *dir, const char *name, struct error *e)
{
    *p = (struct part){.path = join(dir, name, PART_SUFFIX),
                       .state_path = join(dir, name, PART_STATE_SUFFIX),
                       .final_path = join(dir, name, "")};
    return p->path && p->state_path && p->final_path
               ? 0
               : error_set(e, ERROR_NOMEM, "%s/%s: no memory for its name", dir, name);
}

void part_release(struct part *p)
{
    mem_free(p->path);
    mem_free(p->state_path);
    mem_free(p->final_path);
    mem_free(p->done);
    *p = (struct part){0};
}

uint64_t part_held_bytes(const struct part *p)
{
    struct stat st;
    return stat(p->path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

uint64_t part_cut(uint64_t size)
{
    uint64_t cut = ALIGN_UP(size / CUT_INTO + 1, MIB);
    cut = MIN_OF(MAX_OF(cut, CUT_LEAST), CUT_MOST);
    return MAX_OF(cut, ALIGN_UP(size / SEGMENTS_MAX + 1, MIB));
}

uint64_t part_segment_start(const struct part *p, uint32_t i)
{
    return i * p->segment_bytes;
}

uint64_t part_segment_length(const struct part *p, uint32_t i)
{
    return MIN_OF(p->segment_bytes, p->size - part_segment_start(p, i));
}

uint64_t part_done_bytes(const struct part *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n; i++)
        sum += p->done[i];
    return sum;
}

/* Sets size and segments; nothing is done. */
static int cut(struct part *p, const struct remote *remote, uint64_t cut_bytes, struct error *e)
{
    const uint64_t segment = cut_bytes ? cut_bytes : MAX_OF(remote->size, UINT64_C(1));
    const uint64_t n = remote->size / segment + (remote->size % segment ? 1 : 0);
    if (n > SEGMENTS_MAX)
        return error_set(e, ERROR_BADDATA, "%s: %" PRIu64 " segments, limit %d", p->state_path, n,
                         SEGMENTS_MAX);
    uint64_t *done = mem_array(MAX_OF((size_t)n, (size_t)1), sizeof(*done));
    if (!done)
        return error_set(e, ERROR_NOMEM, "%s: no memory for its segments", p->path);
    mem_free(p->done);
    p->done = done;
    p->n = (uint32_t)n;
    p->segment_bytes = segment;
    p->size = remote->size;
    p->remote = *remote;
    p->unsaved_bytes = 0;
    return 0;
}

/* ---- The state -------------------------------------------------------------------------------- */

static int write_state(const struct part *p, struct error *e)
{
    struct buf text;
    buf_init(&text, STATE_MAX_BYTES);
    buf_printf(&text,
               "%s\nsize %" PRIu64 "\netag %s\nmodified %s\nlinked %s\nsegment %" PRIu64 "\n",
               STATE_HEADER, p->size, p->remote.etag, p->remote.modified, p->remote.linked_sha256,
               p->segment_bytes);
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->done[i] > 0)
            buf_printf(&text, "done %" PRIu32 " %" PRIu64 "\n", i, p->done[i]);
    }
    buf_append_c(&text, "end\n");
    int rc = buf_check(&text, p->state_path, e);
    if (rc == 0)
        rc = file_write_all(p->state_path, text.ptr, text.len, e);
    buf_release(&text);
    return rc;
}

/* What a state file says. */
struct state {
    struct remote remote;
    uint64_t segment_bytes;
    bool ended;
    const char *done; /* its lines of that kind */
};

static bool read_number(const char *text, uint64_t *ret)
{
    int64_t n = 0;
    if (str_parse_int(text, 0, INT64_MAX, &n, NULL) < 0)
        return false;
    *ret = (uint64_t)n;
    return true;
}

static bool read_value(struct state *s, const char *key, const char *value)
{
    if (strcmp(key, "size") == 0)
        return read_number(value, &s->remote.size);
    if (strcmp(key, "segment") == 0)
        return read_number(value, &s->segment_bytes) && s->segment_bytes > 0;
    if (strcmp(key, "etag") == 0)
        snprintf(s->remote.etag, sizeof(s->remote.etag), "%s", value);
    else if (strcmp(key, "modified") == 0)
        snprintf(s->remote.modified, sizeof(s->remote.modified), "%s", value);
    else if (strcmp(key, "linked") == 0)
        (void)fetch_is_sha256(value, strlen(value), s->remote.linked_sha256);
    else
        return strcmp(key, STATE_HEADER) == 0;
    return true;
}

/* The lines before "done"; those stay for read_done. */
static bool read_head(struct state *s, char *text)
{
    *s = (struct state){.remote = {.size = FETCH_UNKNOWN}};
    while (text && *text) {
        if (strncmp(text, "done ", 5) == 0 || strcmp(text, "end\n") == 0) {
            s->done = text;
            return s->remote.size != FETCH_UNKNOWN && s->segment_bytes > 0;
        }
        char *end = strchr(text, '\n');
        if (!end)
            return false;
        *end = '\0';
        char *value =
            strncmp(text, STATE_HEADER, sizeof(STATE_HEADER) - 1) == 0 ? NULL : strchr(text, ' ');
        if (value)
            *value++ = '\0';
        if (!read_value(s, text, value ? value : ""))
            return false;
        text = end + 1;
    }
    return false;
}

static bool read_done(struct part *p, const char *text)
{
    uint32_t i = 0;
    uint64_t bytes = 0;
    int used = 0;
    while (sscanf(text, "done %" SCNu32 " %" SCNu64 "%n", &i, &bytes, &used) == 2) {
        if (i >= p->n || bytes > part_segment_length(p, i) || text[used] != '\n')
            return false;
        p->done[i] = bytes;
        text += used + 1;
    }
    return strcmp(text, "end\n") == 0;
}

/* Whether the state that is there was taken: it is of this file and whole. */
static bool take_state(struct part *p, const struct remote *remote, bool whole)
{
    struct buf text;
    struct state s;
    struct stat st;
    buf_init(&text, STATE_MAX_BYTES);
    bool good = stat(p->path, &st) == 0 &&
                file_read_text(p->state_path, STATE_MAX_BYTES, &text, NULL) == 0 &&
                read_head(&s, text.ptr) && (uint64_t)st.st_size == s.remote.size &&
                s.remote.size == remote->size && (!whole || s.segment_bytes >= s.remote.size);
    /* A file that is not cut has no hash to tell in the end: then both must be known to be one. */
    good = good && remote_same(&s.remote, remote) >= (whole ? 1 : -1) &&
           remote_same(&s.remote, remote) != 0;
    if (good)
        good = cut(p, remote, s.segment_bytes, NULL) == 0 && read_done(p, s.done);
    buf_release(&text);
    return good;
}

/* ---- Opening and ending ----------------------------------------------------------------------- */

/* An empty file of the full size, its space reserved where the file system can do that. */
static int make_file(const struct part *p, struct error *e)
{
    const int fd = open(p->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return error_sys(e, ERROR_IO, errno, "%s", p->path);
    int rc = 0;
    if (ftruncate(fd, (off_t)p->size) < 0)
        rc =
            error_sys(e, ERROR_IO, errno, "%s: making it %" PRIu64 " bytes long", p->path, p->size);
    else if (p->size > 0 && fallocate(fd, 0, 0, (off_t)p->size) < 0 && errno != EOPNOTSUPP)
        rc = error_sys(e, ERROR_IO, errno, "%s: reserving %" PRIu64 " bytes", p->path, p->size);
    close(fd);
    return rc;
}

int part_restart(struct part *p, const struct remote *remote, uint64_t cut_bytes, struct error *e)
{
    /* Without its state the file counts for nothing, whatever fails now. */
    unlink(p->state_path);
    int rc = cut(p, remote, cut_bytes, e);
    if (rc == 0)
        rc = make_file(p, e);
    return rc;
}

int part_open(struct part *p, const struct remote *remote, uint64_t cut_bytes, bool resume,
              struct error *e)
{
    if (resume && take_state(p, remote, cut_bytes == 0))
        return 0;
    return part_restart(p, remote, cut_bytes, e);
}

int part_save(struct part *p, struct error *e)
{
    const int fd = open(p->path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(e, ERROR_IO, errno, "%s", p->path);
    int rc = file_flush(fd, p->path, e);
    close(fd);
    if (rc == 0)
        rc = write_state(p, e);
    if (rc == 0)
        p->unsaved_bytes = 0;
    return rc;
}

int part_finish(struct part *p, struct error *e)
{
    /* The bytes were flushed by part_save; file_replace_commit flushes the name with its folder. */
    struct file_replace file = {.fd = open(p->path, O_WRONLY | O_CLOEXEC)};
    if (file.fd < 0)
        return error_sys(e, ERROR_IO, errno, "%s", p->path);
    file.path = mem_strdup(p->final_path);
    file.temp = mem_strdup(p->path);
    int rc = file.path && file.temp ? file_replace_commit(&file, e)
                                    : error_set(e, ERROR_NOMEM, "%s: no memory", p->path);
    if (rc < 0 && file.fd >= 0)
        close(file.fd);
    mem_free(file.path);
    mem_free(file.temp);
    if (rc == 0)
        unlink(p->state_path);
    return rc;
}

void part_discard(struct part *p)
{
    unlink(p->state_path);
    unlink(p->path);
}
