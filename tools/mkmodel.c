/*
 * mkmodel: writes a GGUF model of any size with random weights, for tests and benchmarks.
 *
 * Deterministic: the same options give the same bytes. Streams: memory does not grow with the size.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "engine/gguf/gguf.h"
#include "tools/model/spec.h"

static const char usage[] =
    "usage: mkmodel --arch llama|qwen2|qwen3 [OPTION...] -o OUT.gguf\n"
    "  --type NAME         format of the matrices (F32); rows that do not fit a block fall back\n"
    "  --layers --embd --heads --kv-heads --head-dim --ff --ctx N\n"
    "  --size BYTES        choose the dimensions that were not given for about that size (1G)\n"
    "  --tied --untied     whether the output matrix is the embedding\n"
    "  --vocab N           a byte-level BPE vocabulary of N tokens made here (1024)\n"
    "  --vocab-from FILE   the vocabulary of another GGUF file\n"
    "  --chat-template-from FILE\n"
    "  --shards N          a split model, PREFIX-00001-of-0000N.gguf, at most N files\n"
    "  --seed N            (1)\n";

enum option_id {
    OPT_ARCH = 256,
    OPT_TYPE,
    OPT_LAYERS,
    OPT_EMBD,
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_HEAD_DIM,
    OPT_FF,
    OPT_CTX,
    OPT_SIZE,
    OPT_TIED,
    OPT_UNTIED,
    OPT_VOCAB,
    OPT_VOCAB_FROM,
    OPT_TEMPLATE_FROM,
    OPT_SHARDS,
    OPT_SEED,
};

static const struct option long_options[] = {
    {"arch", required_argument, NULL, OPT_ARCH},
    {"type", required_argument, NULL, OPT_TYPE},
    {"layers", required_argument, NULL, OPT_LAYERS},
    {"embd", required_argument, NULL, OPT_EMBD},
    {"heads", required_argument, NULL, OPT_HEADS},
    {"kv-heads", required_argument, NULL, OPT_KV_HEADS},
    {"head-dim", required_argument, NULL, OPT_HEAD_DIM},
    {"ff", required_argument, NULL, OPT_FF},
    {"ctx", required_argument, NULL, OPT_CTX},
    {"size", required_argument, NULL, OPT_SIZE},
    {"tied", no_argument, NULL, OPT_TIED},
    {"untied", no_argument, NULL, OPT_UNTIED},
    {"vocab", required_argument, NULL, OPT_VOCAB},
    {"vocab-from", required_argument, NULL, OPT_VOCAB_FROM},
    {"chat-template-from", required_argument, NULL, OPT_TEMPLATE_FROM},
    {"shards", required_argument, NULL, OPT_SHARDS},
    {"seed", required_argument, NULL, OPT_SEED},
    {NULL, 0, NULL, 0},
};

struct request {
    const struct model_arch *arch;
    const struct quant *type;
    struct spec spec; /* 0: not given */
    int tied;         /* -1: the architecture's default */
    uint64_t size_bytes;
    const char *vocab_from;
    const char *template_from;
    const char *out;
    uint32_t shards;
    uint64_t seed;
};

static int parse_u32(const char *text, uint32_t max, uint32_t *ret, struct error *e)
{
    int64_t n = 0;
    int rc = str_parse_int(text, 1, max, &n, e);
    if (rc == 0)
        *ret = (uint32_t)n;
    return rc;
}

static int parse_names(struct request *r, int option, const char *value, struct error *e)
{
    if (option == OPT_ARCH) {
        r->arch = model_arch_find(value);
        return r->arch ? 0 : error_set(e, ERROR_USAGE, "unknown architecture '%s'", value);
    }
    r->type = quant_by_name(value);
    return r->type ? 0 : error_set(e, ERROR_USAGE, "unknown type '%s'", value);
}

static int parse_seed(struct request *r, const char *value, struct error *e)
{
    int64_t n = 0;
    int rc = str_parse_int(value, 0, INT64_MAX, &n, e);
    r->seed = (uint64_t)n;
    return rc;
}

static int parse_option(struct request *r, int option, const char *value, struct error *e)
{
    struct spec *s = &r->spec;
    switch (option) {
    case OPT_ARCH:
    case OPT_TYPE:
        return parse_names(r, option, value, e);
    case OPT_LAYERS:
        return parse_u32(value, 1000, &s->n_layers, e);
    case OPT_EMBD:
        return parse_u32(value, 1 << 16, &s->n_embd, e);
    case OPT_HEADS:
        return parse_u32(value, 1024, &s->n_heads, e);
    case OPT_KV_HEADS:
        return parse_u32(value, 1024, &s->n_kv_heads, e);
    case OPT_HEAD_DIM:
        return parse_u32(value, 1024, &s->head_dim, e);
    case OPT_FF:
        return parse_u32(value, 1 << 18, &s->n_ff, e);
    case OPT_CTX:
        return parse_u32(value, 1 << 24, &s->n_ctx, e);
    case OPT_VOCAB:
        return parse_u32(value, VOCAB_TOKENS_MAX, &s->n_vocab, e);
    case OPT_SHARDS:
        return parse_u32(value, UINT16_MAX, &r->shards, e);
    case OPT_SIZE:
        return str_parse_size(value, &r->size_bytes, e);
    case OPT_SEED:
        return parse_seed(r, value, e);
    case OPT_TIED:
    case OPT_UNTIED:
        r->tied = option == OPT_TIED;
        return 0;
    case OPT_VOCAB_FROM:
        r->vocab_from = value;
        return 0;
    case OPT_TEMPLATE_FROM:
        r->template_from = value;
        return 0;
    case 'o':
        r->out = value;
        return 0;
    default:
        return error_set(e, ERROR_USAGE, "unknown option");
    }
}

static int parse_command_line(struct request *r, int argc, char **argv, struct error *e)
{
    int option;
    int rc = 0;
    while (rc == 0 && (option = getopt_long(argc, argv, "o:", long_options, NULL)) != -1) {
        rc = parse_option(r, option, optarg, e);
        if (rc < 0 && option >= OPT_ARCH)
            error_wrap(e, "--%s", long_options[option - OPT_ARCH].name);
    }
    if (rc == 0 && (optind != argc || !r->arch || !r->out))
        rc = error_set(e, ERROR_USAGE, "--arch and -o are needed, and nothing else");
    return rc;
}

static int choose_dimensions(struct request *r, struct error *e)
{
    struct spec *s = &r->spec;
    int rc = r->vocab_from ? vocab_count(r->vocab_from, &s->n_vocab, e) : 0;
    s->tied = r->tied < 0 ? r->arch->defaults.tied : r->tied != 0;
    if (rc < 0)
        return rc;
    if (r->size_bytes)
        return model_scale(r->arch, s, r->type, r->size_bytes, e);
    return model_complete(r->arch, s, e);
}

static int put_vocabulary(struct gguf_writer *w, const struct request *r, struct error *e)
{
    int rc = r->vocab_from ? vocab_put_copied(w, r->vocab_from, !r->template_from, e)
                           : vocab_put_made(w, r->spec.n_vocab, r->arch->pre, e);
    return rc == 0 && r->template_from ? vocab_put_template(w, r->template_from, e) : rc;
}

static int write_model(struct gguf_writer *w, const struct request *r, struct error *e)
{
    model_put_keys(w, r->arch, &r->spec);
    int rc = put_vocabulary(w, r, e);
    if (rc == 0)
        rc = model_put_tensors(w, r->arch, &r->spec, r->type, e);
    if (rc == 0)
        rc = gguf_writer_begin(w, e);
    if (rc == 0)
        rc = model_write_weights(w, r->arch, &r->spec, r->type, r->seed, e);
    return rc == 0 ? gguf_writer_end(w, e) : rc;
}

static int make(struct request *r, struct error *e)
{
    int rc = choose_dimensions(r, e);
    if (rc < 0)
        return rc;
    struct model_size size = model_size(r->arch, &r->spec, r->type);
    uint32_t per_shard = r->shards ? (size.n_tensors + r->shards - 1) / r->shards : 0;
    struct gguf_writer *w = NULL;
    rc = gguf_writer_new(&w, r->out, per_shard, e);
    if (rc == 0)
        rc = write_model(w, r, e);
    gguf_writer_free(w);
    if (rc < 0)
        return rc;
    const struct spec *s = &r->spec;
    printf("%s: %s %s, %" PRIu64 " parameters, %" PRIu64 " bytes, %" PRIu32 " tensors\n"
           "layers %" PRIu32 " embd %" PRIu32 " heads %" PRIu32 " kv-heads %" PRIu32
           " head-dim %" PRIu32 " ff %" PRIu32 " ctx %" PRIu32 " vocab %" PRIu32 "\n",
           r->out, r->arch->name, r->type->name, size.n_params, size.bytes, size.n_tensors,
           s->n_layers, s->n_embd, s->n_heads, s->n_kv_heads, s->head_dim, s->n_ff, s->n_ctx,
           s->n_vocab);
    return 0;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    struct request r = {.type = quant_by_name("F32"), .tied = -1, .seed = 1};
    int rc = parse_command_line(&r, argc, argv, &e);
    if (rc == 0)
        rc = make(&r, &e);
    if (rc == 0)
        return 0;
    fprintf(stderr, "mkmodel: %s\n", e.text);
    if (rc == -ERROR_USAGE)
        fputs(usage, stderr);
    return error_describe(rc)->exit_status;
}
