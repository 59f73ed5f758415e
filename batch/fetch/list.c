#include "batch/fetch/list.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "batch/fetch/address.h"
#include "batch/fetch/manifest.h"
#include "batch/fetch/part.h"

#define LIST_MAX_BYTES (1u << 20)
#define SHA256_DIGITS 64

bool fetch_is_sha256(const char *text, size_t len, char out[65])
{
    if (len != SHA256_DIGITS)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!isxdigit((unsigned char)text[i]))
            return false;
    }
    for (size_t i = 0; i < len; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[len] = '\0';
    return true;
}

void fetch_list_release(struct fetch_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        mem_free(l->item[i].url);
        mem_free(l->item[i].name);
    }
    mem_free(l->item);
    *l = (struct fetch_list){0};
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int check_name(const struct fetch_list *l, const char *name, struct error *e)
{
    if (ends_with(name, PART_SUFFIX) || ends_with(name, PART_STATE_SUFFIX) ||
        strcmp(name, MANIFEST_NAME) == 0)
        return error_set(e, ERROR_USAGE, "a file called '%s' would be taken for one of our own",
                         name);
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->item[i].name, name) == 0)
            return error_set(e, ERROR_USAGE, "two files called '%s'", name);
    }
    return 0;
}

/* A new item, of which nothing but the URL is known. */
static int add(struct fetch_list *l, const char *url, struct error *e)
{
    char name[ADDRESS_NAME_MAX];
    int rc = address_check(url, e);
    if (rc == 0)
        rc = address_name(url, name, e);
    if (rc == 0)
        rc = check_name(l, name, e);
    if (rc == 0 && l->n == FETCH_FILES_MAX)
        rc = error_set(e, ERROR_USAGE, "more than %d files", FETCH_FILES_MAX);
    if (rc < 0)
        return rc;
    struct fetch_item *more = mem_regrow(l->item, l->n + 1, sizeof(*more));
    if (!more)
        return error_set(e, ERROR_NOMEM, "no memory for a list of %zu files", l->n + 1);
    l->item = more;
    struct fetch_item *item = &more[l->n++];
    *item = (struct fetch_item){
        .url = mem_strdup(url), .name = mem_strdup(name), .size = FETCH_UNKNOWN};
    return item->url && item->name ? 0 : error_set(e, ERROR_NOMEM, "%s: no memory", name);
}

/* One more word of a line. */
static int add_word(struct fetch_item *item, const char *word, struct error *e)
{
    int64_t size = 0;
    struct error why = {0};
    if (fetch_is_sha256(word, strlen(word), item->sha256))
        return 0;
    if (str_parse_int(word, 0, INT64_MAX, &size, &why) < 0)
        return error_set(
            e, ERROR_BADDATA,
            "'%.80s' is neither a size in bytes nor a SHA-256 of %d hexadecimal digits", word,
            SHA256_DIGITS);
    item->size = (uint64_t)size;
    return 0;
}

/* Cuts the next word off *at; NULL at the end of the line or at a comment. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \t\r");
    if (*word == '\0' || *word == '#')
        return NULL;
    char *end = word + strcspn(word, " \t\r");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

static int add_line(struct fetch_list *l, char *line, struct error *e)
{
    const char *word = next_word(&line);
    if (!word)
        return 0;
    int rc = add(l, word, e);
    while (rc == 0 && (word = next_word(&line)) != NULL)
        rc = add_word(&l->item[l->n - 1], word, e);
    return rc;
}

static int read_lines(struct fetch_list *l, const char *path, struct error *e)
{
    struct buf text;
    buf_init(&text, LIST_MAX_BYTES);
    int rc = file_read_text(path, LIST_MAX_BYTES, &text, e);
    unsigned number = 0;
    for (char *at = text.ptr; rc == 0 && at && *at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end++ = '\0';
        number++;
        rc = add_line(l, at, e);
        if (rc < 0)
            (void)error_wrap(e, "%s:%u", path, number);
        at = end;
    }
    buf_release(&text);
    if (rc == 0 && l->n == 0)
        rc = error_set(e, ERROR_BADDATA, "%s: no URL in it", path);
    return rc;
}

static int add_parts(struct fetch_list *l, const char *url, struct error *e)
{
    char part[ADDRESS_MAX];
    unsigned n = 0;
    int rc = address_check(url, e);
    if (rc < 0 || !address_is_split(url, &n))
        return rc ? rc : add(l, url, e);
    if (n > FETCH_FILES_MAX)
        return error_set(e, ERROR_USAGE, "a model of %u parts, limit %d", n, FETCH_FILES_MAX);
    for (unsigned i = 1; rc == 0 && i <= n; i++) {
        address_part(url, i, part);
        rc = add(l, part, e);
    }
    return rc;
}

int fetch_list_read(struct fetch_list *ret, const char *what, struct error *e)
{
    *ret = (struct fetch_list){0};
    return strstr(what, "://") ? add_parts(ret, what, e) : read_lines(ret, what, e);
}
