#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "jobs/document/document.h"
#include "jobs/text.h"

#define PATH_BYTES_MAX 65536u
#define STDIN_CHUNK_BYTES (64u << 10)

/* What a name in a folder is, links followed. */
enum entry_kind { ENTRY_FILE, ENTRY_FOLDER, ENTRY_OTHER, ENTRY_BROKEN };

struct entry {
    char *name;
    enum entry_kind kind;
    int sys; /* ENTRY_BROKEN: errno of stat */
    dev_t dev;
    ino_t ino;
};

/* One folder being walked; `parent` leads back to the argument. */
struct level {
    struct level *parent;
    struct entry *entry; /* [n], sorted */
    size_t n;
    size_t max;
    size_t next;
    size_t path_len; /* of the folder, with its slash */
    dev_t dev;
    ino_t ino;
};

enum source { SOURCE_STDIN, SOURCE_FILE, SOURCE_FOLDER };

struct document_walk {
    enum source source;
    bool done;       /* the one document of a file or stdin was given */
    struct buf path; /* of what is being looked at */
    size_t root_len; /* path[root_len..] is relative to the argument */
    struct level *level;
    size_t n_given;
    struct buf bytes; /* of the document given last */
};

static int no_memory(const struct document_walk *w, struct error *e)
{
    return error_set(e, ERROR_NOMEM, "%s: no memory to list it",
                     w->path.len > 0 ? w->path.ptr : "-");
}

static const char *path_of(const struct document_walk *w)
{
    return w->path.ptr;
}

/* Cuts the path to `len` and puts `name` (and a slash) behind. */
static int set_path(struct document_walk *w, size_t len, const char *name, bool folder,
                    struct error *e)
{
    w->path.len = len;
    buf_append_c(&w->path, name);
    if (folder)
        buf_append_c(&w->path, "/");
    return buf_check(&w->path, "path", e);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static void free_level(struct level *l)
{
    for (size_t i = 0; i < l->n; i++)
        mem_free(l->entry[i].name);
    mem_free(l->entry);
    mem_free(l);
}

/* A folder's name counts with its slash, so that whole relative paths come out in byte order. */
static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    size_t n_a = strlen(a->name);
    size_t n_b = strlen(b->name);
    size_t common = MIN_OF(n_a, n_b);
    int order = memcmp(a->name, b->name, common);
    if (order != 0)
        return order;
    unsigned char end_a = a->kind == ENTRY_FOLDER ? '/' : 0;
    unsigned char end_b = b->kind == ENTRY_FOLDER ? '/' : 0;
    unsigned char next_a = n_a > common ? (unsigned char)a->name[common] : end_a;
    unsigned char next_b = n_b > common ? (unsigned char)b->name[common] : end_b;
    return (next_a > next_b) - (next_a < next_b);
}

static void look_at(int folder_fd, struct entry *entry)
{
    struct stat st;
    if (fstatat(folder_fd, entry->name, &st, 0) < 0) {
        entry->kind = ENTRY_BROKEN;
        entry->sys = errno;
        return;
    }
    entry->kind = S_ISREG(st.st_mode)   ? ENTRY_FILE
                  : S_ISDIR(st.st_mode) ? ENTRY_FOLDER
                                        : ENTRY_OTHER;
    entry->dev = st.st_dev;
    entry->ino = st.st_ino;
}

static int add_entry(struct level *l, int folder_fd, const char *name)
{
    if (l->n == l->max) {
        size_t more = l->max > 0 ? 2 * l->max : 16;
        struct entry *grown = mem_regrow(l->entry, more, sizeof(*grown));
        if (!grown)
            return -ERROR_NOMEM;
        l->entry = grown;
        l->max = more;
    }
    char *copy = mem_strdup(name);
    if (!copy)
        return -ERROR_NOMEM;
    l->entry[l->n] = (struct entry){.name = copy};
    look_at(folder_fd, &l->entry[l->n++]);
    return 0;
}

static int list_folder(const struct document_walk *w, struct level *l, DIR *folder, struct error *e)
{
    for (;;) {
        errno = 0;
        const struct dirent *d = readdir(folder);
        if (!d && errno != 0)
            return error_sys(e, ERROR_IO, errno, "%s: cannot list it", path_of(w));
        if (!d)
            break;
        if (d->d_name[0] == '.')
            continue;
        if (add_entry(l, dirfd(folder), d->d_name) < 0)
            return no_memory(w, e);
    }
    if (l->n > 0)
        qsort(l->entry, l->n, sizeof(*l->entry), compare_entries);
    return 0;
}

/* Lists the folder that the path names (with its slash) and makes it the current level. */
static int enter_folder(struct document_walk *w, dev_t dev, ino_t ino, struct error *e)
{
    struct level *l = mem_zalloc(sizeof(*l));
    if (!l)
        return no_memory(w, e);
    *l = (struct level){.parent = w->level, .path_len = w->path.len, .dev = dev, .ino = ino};
    DIR *folder = opendir(path_of(w));
    int rc = folder ? list_folder(w, l, folder, e)
                    : error_sys(e, ERROR_IO, errno, "%s: cannot open the folder", path_of(w));
    if (folder)
        closedir(folder);
    if (rc < 0) {
        free_level(l);
        return rc;
    }
    w->level = l;
    return 0;
}

/* A link may lead back to a folder that is open above: walking it would never end. */
static bool is_open(const struct document_walk *w, const struct entry *entry)
{
    for (const struct level *l = w->level; l; l = l->parent) {
        if (l->dev == entry->dev && l->ino == entry->ino)
            return true;
    }
    return false;
}

/* 1: the path names a file to read; 0: go on; or a negative code. */
static int visit(struct document_walk *w, const struct entry *entry, struct error *e)
{
    bool folder = entry->kind == ENTRY_FOLDER;
    int rc = set_path(w, w->level->path_len, entry->name, folder, e);
    if (rc < 0)
        return rc;
    switch (entry->kind) {
    case ENTRY_FILE:
        return 1;
    case ENTRY_FOLDER:
        return is_open(w, entry) ? 0 : enter_folder(w, entry->dev, entry->ino, e);
    case ENTRY_OTHER:
        return error_set(e, ERROR_BADDATA, "%s: neither a file nor a folder", path_of(w));
    case ENTRY_BROKEN:
        return error_sys(e, ERROR_BADDATA, entry->sys, "%s: cannot be read", path_of(w));
    }
    return 0;
}

/* Moves the path to the next file: 1, 0 at the end, or a negative code. */
static int next_file(struct document_walk *w, struct error *e)
{
    while (w->level) {
        struct level *l = w->level;
        if (l->next == l->n) {
            w->level = l->parent;
            free_level(l);
            continue;
        }
        int rc = visit(w, &l->entry[l->next++], e);
        if (rc != 0)
            return rc;
    }
    if (w->n_given > 0)
        return 0;
    w->path.len = w->root_len;
    w->path.ptr[w->root_len] = '\0';
    return error_set(e, ERROR_BADDATA, "%s: no documents in this folder", path_of(w));
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_folder(struct document_walk *w, const struct stat *st, struct error *e)
{
    w->source = SOURCE_FOLDER;
    size_t len = w->path.len;
    while (len > 1 && w->path.ptr[len - 1] == '/')
        len--;
    int rc = set_path(w, len, "", w->path.ptr[len - 1] != '/', e);
    if (rc < 0)
        return rc;
    w->root_len = w->path.len;
    return enter_folder(w, st->st_dev, st->st_ino, e);
}

static int open_argument(struct document_walk *w, const char *argument, struct error *e)
{
    int rc = set_path(w, 0, argument, false, e);
    if (rc < 0)
        return rc;
    if (strcmp(argument, "-") == 0) {
        w->source = SOURCE_STDIN;
        return 0;
    }
    struct stat st;
    if (stat(argument, &st) < 0)
        return error_sys(e, errno == ENOENT || errno == ENOTDIR ? ERROR_NOTFOUND : ERROR_IO, errno,
                         "%s", argument);
    if (S_ISDIR(st.st_mode))
        return open_folder(w, &st, e);
    if (!S_ISREG(st.st_mode))
        return error_set(e, ERROR_BADDATA,
                         "%s: neither a file nor a folder (use - for standard input)", argument);
    w->source = SOURCE_FILE;
    const char *slash = strrchr(argument, '/');
    w->root_len = slash ? (size_t)(slash - argument) + 1 : 0;
    return 0;
}

int document_walk_open(struct document_walk **ret, const char *argument, struct error *e)
{
    struct document_walk *w = mem_zalloc(sizeof(*w));
    if (!w)
        return error_set(e, ERROR_NOMEM, "%s: no memory to list it", argument);
    buf_init(&w->path, PATH_BYTES_MAX);
    buf_init(&w->bytes, DOCUMENT_MAX_BYTES);
    int rc = open_argument(w, argument, e);
    if (rc < 0) {
        document_walk_close(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void document_walk_close(struct document_walk *w)
{
    if (!w)
        return;
    while (w->level) {
        struct level *l = w->level;
        w->level = l->parent;
        free_level(l);
    }
    buf_release(&w->path);
    buf_release(&w->bytes);
    mem_free(w);
}

/* ---- Documents ------------------------------------------------------------------------------- */

static int read_stdin(struct document_walk *w, struct error *e)
{
    char chunk[STDIN_CHUNK_BYTES];
    for (;;) {
        ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_sys(e, ERROR_IO, errno, "standard input");
        if (n == 0)
            return 0;
        buf_append(&w->bytes, chunk, (size_t)n);
        int rc = buf_check(&w->bytes, "standard input", e);
        if (rc < 0)
            return rc;
    }
}

static int check_id(const char *path, struct str id, struct error *e)
{
    size_t at;
    if (!str_utf8_valid(id, &at))
        return error_set(e, ERROR_BADDATA, "%s: the name is not valid UTF-8 (byte %zu)", path,
                         at + 1);
    if (id.len > JOB_CUSTOM_ID_MAX_BYTES)
        return error_set(e, ERROR_BADDATA, "%s: the relative path has %zu bytes, limit %u", path,
                         id.len, JOB_CUSTOM_ID_MAX_BYTES);
    return 0;
}

/* The document that the path names. */
static int give(struct document_walk *w, struct document *ret, struct error *e)
{
    bool from_stdin = w->source == SOURCE_STDIN;
    const char *path = from_stdin ? "stdin" : path_of(w);
    struct document d = {.custom_id = str_of(path + (from_stdin ? 0 : w->root_len))};
    const char *slash = strrchr(path, '/');
    d.filename = str_of(slash ? slash + 1 : path);
    int rc = check_id(path, d.custom_id, e);
    if (rc < 0)
        return rc;
    buf_clear(&w->bytes);
    rc = from_stdin ? read_stdin(w, e) : file_read_all(path, DOCUMENT_MAX_BYTES, &w->bytes, e);
    if (rc == 0)
        rc = document_text(path, &w->bytes, &d.text, e);
    if (rc < 0)
        return rc;
    w->n_given++;
    *ret = d;
    return 1;
}

int document_walk_next(struct document_walk *w, struct document *ret, struct error *e)
{
    if (w->source == SOURCE_FOLDER) {
        int rc = next_file(w, e);
        return rc > 0 ? give(w, ret, e) : rc;
    }
    if (w->done)
        return 0;
    w->done = true;
    return give(w, ret, e);
}
