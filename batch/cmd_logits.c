/* Token ids in, rows of logits out: the seam for checking against a reference. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "batch/command.h"
#include "batch/model_options.h"
#include "batch/token_ids.h"

struct sink {
    struct file_replace file;
    struct output *out; /* instead of the file: -o - */
};

/* Little-endian float32, as the machine has them (there is no big-endian build). */
static int write_row(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                     struct error *e)
{
    struct sink *sink = context;
    const size_t n = n_vocab * sizeof(*logits);
    (void)position;
    if (!sink->out)
        return file_write_fd(sink->file.fd, logits, n, sink->file.path, e);
    output_bytes(sink->out, str_slice((const char *)logits, n));
    return 0;
}

static int score(struct command_context *c, struct engine *en, const struct buf *ids,
                 struct error *e)
{
    const char *path = option_text(c->options, OPTION_OUT);
    const bool to_stdout = strcmp(path, "-") == 0;
    struct sink sink = {.out = to_stdout ? c->out : NULL};
    int rc = to_stdout ? 0 : file_replace_begin(&sink.file, path, e);
    if (rc < 0)
        return rc;
    rc = engine_score(en, (const int32_t *)(const void *)ids->ptr, ids->len / sizeof(int32_t),
                      (size_t)option_int(c->options, OPTION_LAST), write_row, &sink, e);
    if (to_stdout)
        return rc;
    if (rc == 0)
        rc = file_replace_commit(&sink.file, e);
    else
        file_replace_abort(&sink.file);
    return rc;
}

static int run(struct command_context *c, struct error *e)
{
    struct engine_options o;
    struct engine *en = NULL;
    struct buf ids;
    buf_init(&ids, TOKEN_IDS_MAX_BYTES);
    int rc = model_options_read(&o, c->options, NULL, e);
    if (rc == 0 &&
        (!option_text(c->options, OPTION_TOKENS) || !option_text(c->options, OPTION_OUT)))
        rc = error_set(e, ERROR_USAGE, "give the token ids with --tokens and a file with -o");
    if (rc == 0)
        rc = token_ids_parse(option_text(c->options, OPTION_TOKENS), &ids, e);
    if (rc == 0)
        rc = model_ledger_new(&o.ledger, c->options, e);
    if (rc < 0)
        goto out;
    o.no_tokenizer = true;
    /* One sequence is all there is, and no longer than the ids unless somebody says otherwise. */
    o.slots = 1;
    rc = engine_open(&en, &o, e);
    if (rc == 0)
        rc = score(c, en, &ids, e);
    engine_close(en);
    ledger_free(o.ledger);
out:
    buf_release(&ids);
    return rc;
}

static const enum option_id options[] = {
    OPTION_MODEL,  OPTION_TOKENS, OPTION_LAST,          OPTION_OUT,       OPTION_EXACT,
    OPTION_ISA,    OPTION_IO,     OPTION_EXPERT_POLICY, OPTION_LOOKAHEAD, OPTION_THREADS,
    OPTION_MEMORY, OPTION_CHUNK,  OPTION_CTX,           OPTION_NONE};

const struct command command_logits = {
    .name = "logits",
    .arguments = "",
    .option = options,
    .computes = true,
    .details =
        "Runs the ids through the model and writes what it expects after each of them: one "
        "row of\nraw little-endian float32 for each position, as wide as the vocabulary.\n\n"
        "The rows do not depend on --chunk or --threads. With --exact they are the engine's\n"
        "yardstick: weights decoded to float32, activations and caches in float32.",
    .examples = "nocturne logits -m model.gguf --tokens 1,15043,3186 --last 1 --exact -o row.f32",
    .run = run,
};
