/* Text in, token ids out. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "batch/command.h"
#include "batch/model_options.h"

#define MAX_TEXT_BYTES (1u << 30)

static int print_ids(struct command_context *c, const struct engine *en, struct str text,
                     struct error *e)
{
    struct buf ids;
    buf_init(&ids, SIZE_MAX);
    int rc = engine_tokenize(en, text, option_on(c->options, OPTION_SPECIAL),
                             option_on(c->options, OPTION_BOS), &ids, e);
    for (size_t at = 0; rc == 0 && at < ids.len; at += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, ids.ptr + at, sizeof(id));
        output_put(c->out, at == 0 ? "%" PRId32 : " %" PRId32, id);
    }
    if (rc == 0)
        output_put(c->out, "\n");
    buf_release(&ids);
    return rc;
}

static int read_stdin(struct buf *all, struct error *e)
{
    static const size_t piece = 65536;
    char *bytes = mem_alloc(piece);
    int rc = bytes ? 0 : error_set(e, ERROR_NOMEM, "standard input: no memory");
    while (rc == 0) {
        ssize_t got = read(STDIN_FILENO, bytes, piece);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            rc = error_sys(e, ERROR_IO, errno, "standard input");
        if (got > 0 && buf_append(all, bytes, (size_t)got) < 0)
            rc = buf_check(all, "standard input", e);
    }
    mem_free(bytes);
    return rc;
}

/* Each text ends with a NUL; the last one may do without. */
static int print_each(struct command_context *c, const struct engine *en, struct error *e)
{
    struct buf all;
    buf_init(&all, MAX_TEXT_BYTES);
    int rc = read_stdin(&all, e);
    for (size_t at = 0; rc == 0 && at < all.len;) {
        const size_t n = strnlen(all.ptr + at, all.len - at);
        rc = print_ids(c, en, str_slice(all.ptr + at, n), e);
        at += n + 1;
    }
    buf_release(&all);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    const bool many = option_on(c->options, OPTION_STDIN0);
    if (many == (c->n_args == 1))
        return error_set(e, ERROR_USAGE, "give one TEXT, or --stdin0");
    struct engine_options o;
    struct engine *en = NULL;
    int rc = model_options_read(&o, c->options, NULL, e);
    if (rc < 0)
        return rc;
    o.headers_only = true;
    rc = engine_open(&en, &o, e);
    if (rc == 0)
        rc = many ? print_each(c, en, e) : print_ids(c, en, str_of(c->arg[0]), e);
    engine_close(en);
    return rc;
}

static const enum option_id options[] = {OPTION_MODEL, OPTION_SPECIAL, OPTION_BOS, OPTION_STDIN0,
                                         OPTION_NONE};

const struct command command_tokenize = {
    .name = "tokenize",
    .arguments = "[TEXT]",
    .max_args = 1,
    .option = options,
    .details =
        "Prints the ids of the text on one line, separated by spaces. The text of special tokens\n"
        "is ordinary text unless --special is given, and no BOS is put before it "
        "unless\n--bos is. Files with a vocabulary and no tensors work too.",
    .examples = "nocturne tokenize -m model.gguf 'Once upon a time'\n"
                "printf 'one\\0two\\0' | nocturne tokenize -m model.gguf --stdin0",
    .run = run,
};
