/* Which way to read, and what all have in common. */
#include "engine/experts/io.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

static const struct io_way *const ways[] = {
#define IO_WAY(ident) &io_way_##ident,
#include "engine/experts/io.def"
#undef IO_WAY
};

const void *io_first(const struct io_read *r)
{
    return (const char *)r->out + r->offset % FILE_DIRECT_ALIGN;
}

static const struct io_way *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        if (strcmp(ways[i]->name, name) == 0)
            return ways[i];
    }
    return NULL;
}

/* The first that works; why is of the first that does not. */
static const struct io_way *find_usable(struct error *why)
{
    size_t i = 0;
    *why = (struct error){0};
    while (i + 1 < ARRAY_LEN(ways) && ways[i]->usable(i == 0 ? why : NULL) != 0)
        i++;
    return ways[i];
}

static int pick(const char *name, const struct io_way **ret, struct error *why, struct error *e)
{
    *why = (struct error){0};
    if (!name || strcmp(name, "auto") == 0) {
        *ret = find_usable(why);
        return 0;
    }
    *ret = find(name);
    if (!*ret)
        return error_set(e, ERROR_INVALID, "io '%s' is not known: auto, uring or pread", name);
    int rc = (*ret)->usable(e);
    return rc == 0 ? 0 : error_wrap(e, "--io %s cannot be used here; --io pread can", name);
}

int io_pick(const char *way, const char **ret_name, struct error *ret_why, struct error *e)
{
    const struct io_way *found;
    int rc = pick(way, &found, ret_why, e);
    if (rc == 0)
        *ret_name = found->name;
    return rc;
}

bool io_deepens(const char *way)
{
    const struct io_way *found;
    struct error why;
    return pick(way, &found, &why, NULL) == 0 && found->deepens;
}

int io_open(struct io **ret, const struct io_options *o, struct error *e)
{
    const struct io_way *way;
    struct error why;
    int rc = pick(o->way, &way, &why, e);
    if (rc == 0)
        rc = way->open(ret, o, e);
    if (rc == 0 && why.code != ERROR_NONE)
        snprintf((*ret)->notice, sizeof((*ret)->notice), "%.*s; reading with pread",
                 IO_NOTICE_BYTES - 24, why.text);
    return rc;
}

void io_wake(struct io *io, uint32_t n)
{
    if (n > 0)
        io->way->wake(io, n);
}

void io_forget(struct io *io, uint32_t extent)
{
    if (io->way->forget)
        io->way->forget(io, extent);
}

void io_close(struct io *io)
{
    if (io)
        io->way->close(io);
}

const char *io_name(const struct io *io)
{
    return io->way->name;
}

uint32_t io_depth(const struct io *io)
{
    return io->depth;
}

const char *io_notice(const struct io *io)
{
    return io->notice;
}
