/* Opening a model: its first file, the others of a split, and one table of all their tensors. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/gguf/internal.h"

/* "-00001-of-00017.gguf" */
#define SPLIT_SUFFIX_FORMAT "-%05" PRIu32 "-of-%05" PRIu32 ".gguf"
enum { SPLIT_SUFFIX_BYTES = 20 };

static void shard_release(struct gguf_shard *s)
{
    file_close(&s->file);
    mem_free(s->header);
    mem_free(s->keys);
    mem_free(s->tensors);
    names_release(&s->key_index);
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_shards; i++)
        shard_release(&g->shards[i]);
    mem_free(g->shards);
    mem_free(g->tensors);
    names_release(&g->tensor_index);
    mem_free(g);
}

static int open_shard(struct gguf *g, uint32_t number, const char *path, struct error *e)
{
    struct gguf_shard *s = &g->shards[number];
    int rc = file_open(&s->file, path, e);
    if (rc == 0)
        g->n_shards = (size_t)number + 1;
    return rc < 0 ? rc : gguf_header_read(s, number, e);
}

/* What a shard says about the split; a file without the keys is number 0 of 1. */
static int read_split(const struct gguf_shard *s, bool required, uint32_t *ret_number,
                      uint32_t *ret_count, struct error *e)
{
    *ret_number = 0;
    *ret_count = 1;
    int rc = gguf_shard_u32(s, "split.no", required, ret_number, e);
    return rc < 0 ? rc : gguf_shard_u32(s, "split.count", required, ret_count, e);
}

static int check_shard(const struct gguf_shard *s, uint32_t number, uint32_t count, struct error *e)
{
    uint32_t said_number;
    uint32_t said_count;
    int rc = read_split(s, true, &said_number, &said_count, e);
    if (rc < 0)
        return rc;
    if (said_number != number)
        return error_set(e, ERROR_FORMAT, "%s: key 'split.no' is %" PRIu32 ", want %" PRIu32,
                         s->file.path, said_number, number);
    if (said_count != count)
        return error_set(e, ERROR_FORMAT,
                         "%s: key 'split.count' is %" PRIu32 ", the first file says %" PRIu32,
                         s->file.path, said_count, count);
    return 0;
}

/* The path of shard `number`, made from the first one's; mem_free it. */
static int shard_path(const char *first, uint32_t number, uint32_t count, char **ret,
                      struct error *e)
{
    char suffix[32];
    size_t len = strlen(first);
    snprintf(suffix, sizeof(suffix), SPLIT_SUFFIX_FORMAT, (uint32_t)1, count);
    if (len <= SPLIT_SUFFIX_BYTES || strcmp(first + len - SPLIT_SUFFIX_BYTES, suffix) != 0)
        return error_set(e, ERROR_FORMAT,
                         "%s: the first of %" PRIu32 " files has to be named PREFIX%s", first,
                         count, suffix);
    char *path = mem_strdup(first);
    if (!path)
        return error_set(e, ERROR_NOMEM, "%s: no memory for the path", first);
    snprintf(suffix, sizeof(suffix), SPLIT_SUFFIX_FORMAT, number + 1, count);
    memcpy(path + len - SPLIT_SUFFIX_BYTES, suffix, SPLIT_SUFFIX_BYTES);
    *ret = path;
    return 0;
}

static int open_other_shards(struct gguf *g, uint32_t count, struct error *e)
{
    if (count > 99999) /* five digits in the name */
        return error_set(e, ERROR_FORMAT, "%s: key 'split.count' is %" PRIu32 ", limit 99999",
                         g->shards[0].file.path, count);
    struct gguf_shard *shards = mem_regrow(g->shards, count, sizeof(*shards));
    if (!shards)
        return error_set(e, ERROR_NOMEM, "%s: no memory for %" PRIu32 " shards",
                         g->shards[0].file.path, count);
    g->shards = shards;
    memset(shards + 1, 0, (count - 1) * sizeof(*shards));
    int rc = 0;
    for (uint32_t i = 1; rc == 0 && i < count; i++) {
        char *path = NULL;
        rc = shard_path(shards[0].file.path, i, count, &path, e);
        if (rc == 0)
            rc = open_shard(g, i, path, e);
        if (rc == 0)
            rc = check_shard(&shards[i], i, count, e);
        mem_free(path);
    }
    return rc;
}

/* Moves the shards' rows into one array. */
static int gather_tensors(struct gguf *g, struct error *e)
{
    size_t total = 0;
    for (size_t i = 0; i < g->n_shards; i++)
        total += g->shards[i].n_tensors;
    g->tensors = mem_array(MAX_OF(total, (size_t)1), sizeof(*g->tensors));
    if (!g->tensors)
        return error_set(e, ERROR_NOMEM, "%s: no memory for %zu tensor rows",
                         g->shards[0].file.path, total);
    for (size_t i = 0; i < g->n_shards; i++) {
        struct gguf_shard *s = &g->shards[i];
        if (s->n_tensors > 0)
            memcpy(g->tensors + g->n_tensors, s->tensors, s->n_tensors * sizeof(*s->tensors));
        g->n_tensors += s->n_tensors;
        mem_free(s->tensors);
        s->tensors = NULL;
        s->n_tensors = s->tensors_cap = 0;
    }
    return 0;
}

static int index_tensors(struct gguf *g, struct error *e)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        const char *path = gguf_shard_path(g, t->shard);
        char shown[GGUF_SHOWN_BYTES];
        bool added = false;
        if (names_add(&g->tensor_index, t->name, i, &added) < 0)
            return error_set(e, ERROR_NOMEM, "%s: tensor '%s': out of memory", path,
                             gguf_show(t->name, shown));
        if (!added)
            return error_set(
                e, ERROR_FORMAT,
                "%s: tensor '%s' stands in the model twice, again as number %zu of %zu", path,
                gguf_show(t->name, shown), i, g->n_tensors);
    }
    return 0;
}

static int check_tensor_total(const struct gguf *g, struct error *e)
{
    uint32_t want = 0;
    int rc = gguf_u32(g, "split.tensors.count", true, &want, e);
    if (rc < 0)
        return rc;
    if (want != g->n_tensors)
        return error_set(e, ERROR_FORMAT,
                         "%s: key 'split.tensors.count' is %" PRIu32 ", the %zu files have %zu",
                         g->shards[0].file.path, want, g->n_shards, g->n_tensors);
    return 0;
}

static int open_all(struct gguf *g, const char *path, struct error *e)
{
    uint32_t number = 0;
    uint32_t count = 1;
    int rc = open_shard(g, 0, path, e);
    if (rc == 0)
        rc = read_split(&g->shards[0], false, &number, &count, e);
    if (rc < 0)
        return rc;
    if (number != 0)
        return error_set(e, ERROR_FORMAT,
                         "%s: key 'split.no' is %" PRIu32 ", want 0: open the first file", path,
                         number);
    bool split = count > 1;
    if (split)
        rc = open_other_shards(g, count, e);
    if (rc == 0)
        rc = gather_tensors(g, e);
    if (rc == 0)
        rc = index_tensors(g, e);
    if (rc == 0 && split)
        rc = check_tensor_total(g, e);
    return rc < 0 ? rc : gguf_vocabulary_check(g, e);
}

int gguf_open(struct gguf **ret, const char *path, struct error *e)
{
    struct gguf *g = mem_zalloc(sizeof(*g));
    if (g)
        g->shards = mem_array(1, sizeof(*g->shards));
    if (!g || !g->shards) {
        gguf_close(g);
        return error_set(e, ERROR_NOMEM, "%s: no memory for the directory", path);
    }
    int rc = open_all(g, path, e);
    if (rc < 0) {
        gguf_close(g);
        return rc;
    }
    *ret = g;
    return 0;
}

size_t gguf_n_tensors(const struct gguf *g)
{
    return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    return &g->tensors[i];
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    size_t i;
    return names_find(&g->tensor_index, str_of(name), &i) ? &g->tensors[i] : NULL;
}

size_t gguf_n_shards(const struct gguf *g)
{
    return g->n_shards;
}

const char *gguf_shard_path(const struct gguf *g, size_t shard)
{
    return g->shards[shard].file.path;
}

uint64_t gguf_total_bytes(const struct gguf *g)
{
    uint64_t total = 0;
    for (size_t i = 0; i < g->n_shards; i++)
        total += g->shards[i].file.size;
    return total;
}

static size_t names_bytes(const struct names *t)
{
    return t->n_slots * sizeof(*t->slots);
}

size_t gguf_memory_bytes(const struct gguf *g)
{
    size_t total = sizeof(*g) + g->n_tensors * sizeof(*g->tensors) + names_bytes(&g->tensor_index);
    for (size_t i = 0; i < g->n_shards; i++) {
        const struct gguf_shard *s = &g->shards[i];
        total += sizeof(*s) + s->header_bytes + s->keys_cap * sizeof(*s->keys) +
                 names_bytes(&s->key_index);
    }
    return total;
}

int gguf_shard_same(const struct gguf *g, size_t shard, const struct file *opened, struct error *e)
{
    return file_same(&g->shards[shard].file, opened, e);
}

int gguf_unchanged(const struct gguf *g, struct error *e)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->n_shards; i++)
        rc = file_unchanged(&g->shards[i].file, e);
    return rc;
}

int64_t gguf_shard_written_ns(const struct gguf *g, size_t shard)
{
    return g->shards[shard].file.written_ns;
}
