#include "batch/fetch/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define MANIFEST_MAX_BYTES (4u << 20)
#define NOTE "#: "

static void entry_release(struct manifest_entry *entry)
{
    mem_free(entry->name);
    mem_free(entry->url);
}

void manifest_release(struct manifest *m)
{
    for (size_t i = 0; i < m->n; i++)
        entry_release(&m->entry[i]);
    mem_free(m->entry);
    mem_free(m->path);
    *m = (struct manifest){0};
}

struct manifest_entry *manifest_find(const struct manifest *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->entry[i].name, name) == 0)
            return &m->entry[i];
    }
    return NULL;
}

int manifest_put(struct manifest *m, const struct manifest_entry *entry, struct error *e)
{
    struct manifest_entry copy = *entry;
    copy.name = mem_strdup(entry->name);
    copy.url = mem_strdup(entry->url ? entry->url : "");
    struct manifest_entry *old = manifest_find(m, entry->name);
    if (!old && copy.name && copy.url) {
        struct manifest_entry *more = mem_regrow(m->entry, m->n + 1, sizeof(*more));
        if (more) {
            m->entry = more;
            old = &more[m->n++];
            *old = (struct manifest_entry){0};
        }
    }
    if (!old || !copy.name || !copy.url) {
        entry_release(&copy);
        return error_set(e, ERROR_NOMEM, "%s: no memory for %zu entries", m->path, m->n + 1);
    }
    entry_release(old);
    *old = copy;
    return 0;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

/* Names and addresses are shown: nothing in them may speak to a terminal. */
static bool has_control(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return true;
    }
    return false;
}

/* Our comment: for the entry of the line that follows. */
static void read_note(struct manifest_entry *entry, char *line)
{
    uint64_t size = 0;
    int64_t written_ns = 0;
    char kind[16];
    int used = 0;
    if (sscanf(line, NOTE "%" SCNu64 " %" SCNd64 " %15s %n", &size, &written_ns, kind, &used) !=
            3 ||
        used == 0 || has_control(line))
        return;
    entry->size = size;
    entry->written_ns = written_ns;
    entry->published = strcmp(kind, "published") == 0;
    entry->url = line + used;
}

static int read_sum(struct manifest *m, struct manifest_entry *entry, char *line, struct error *e)
{
    const size_t digits = strcspn(line, " ");
    /* "  name" is text, " *name" binary: the same here. */
    const bool good = fetch_is_sha256(line, digits, entry->sha256) && line[digits] == ' ' &&
                      (line[digits + 1] == ' ' || line[digits + 1] == '*') && line[digits + 2] &&
                      !has_control(line);
    if (!good)
        return error_set(e, ERROR_BADDATA, "'%.80s' is no line of a SHA-256 and a name", line);
    entry->name = line + digits + 2;
    return manifest_put(m, entry, e);
}

static int read_lines(struct manifest *m, char *text, struct error *e)
{
    struct manifest_entry entry = {.size = FETCH_UNKNOWN, .published = true};
    unsigned number = 0;
    int rc = 0;
    while (rc == 0 && text && *text) {
        char *end = strchr(text, '\n');
        if (end)
            *end++ = '\0';
        char *cr = strchr(text, '\r');
        if (cr && cr[1] == '\0')
            *cr = '\0';
        number++;
        if (*text == '#') {
            read_note(&entry, text);
        } else if (*text) {
            rc = read_sum(m, &entry, text, e);
            entry = (struct manifest_entry){.size = FETCH_UNKNOWN, .published = true};
        }
        text = end;
    }
    return rc < 0 ? error_wrap(e, "%s:%u", m->path, number) : 0;
}

int manifest_read(struct manifest *m, const char *dir, struct error *e)
{
    struct buf path, text;
    *m = (struct manifest){0};
    buf_init(&path, 8192);
    buf_init(&text, MANIFEST_MAX_BYTES);
    buf_printf(&path, "%s/%s", dir, MANIFEST_NAME);
    int rc = buf_check(&path, dir, e);
    m->path = buf_take(&path);
    struct error why = {0};
    if (rc == 0)
        rc = file_read_text(m->path, MANIFEST_MAX_BYTES, &text, &why);
    if (rc == -ERROR_NOTFOUND)
        rc = 0;
    else if (rc == 0)
        rc = read_lines(m, text.ptr, e);
    else if (why.code && e)
        *e = why;
    buf_release(&text);
    return rc;
}

/* ---- Writing ---------------------------------------------------------------------------------- */

int manifest_write(const struct manifest *m, struct error *e)
{
    struct buf text;
    buf_init(&text, MANIFEST_MAX_BYTES);
    for (size_t i = 0; i < m->n; i++) {
        const struct manifest_entry *entry = &m->entry[i];
        if (entry->size != FETCH_UNKNOWN)
            buf_printf(&text, NOTE "%" PRIu64 " %" PRId64 " %s %s\n", entry->size,
                       entry->written_ns, entry->published ? "published" : "computed", entry->url);
        buf_printf(&text, "%s  %s\n", entry->sha256, entry->name);
    }
    int rc = buf_check(&text, m->path, e);
    if (rc == 0)
        rc = file_write_all(m->path, text.ptr, text.len, e);
    buf_release(&text);
    return rc;
}
