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
#include "tools/model/topics.h"

static const char usage[] =
    "usage: mkmodel --arch ARCHITECTURE | --like MODEL [OPTION...] -o OUT.gguf\n"
    "  --arch NAME         llama qwen2 qwen3 qwen3moe deepseek2 kimi-linear kimi-k3\n"
    "  --like NAME         the dimensions of Kimi-K3, Kimi-Linear-48B-A3B, Kimi-K2, Mixtral-8x7B\n"
    "  --type NAME         format of the matrices (F32); rows that do not fit a block fall back\n"
    "  --expert-type NAME  format of the experts (as --type)\n"
    "  --layers --embd --heads --kv-heads --head-dim --ff --ctx N\n"
    "  --experts --used --shared --expert-ff --dense-layers --latent --groups --groups-used N\n"
    "  --q-lora --kv-lora --nope --rope --v-dim --kda-dim --conv --res-block --yarn-ctx N\n"
    "  --mla-every N       layers with MLA where there is KDA too: each N-th and the last\n"
    "  --mla-layers I,J... or just these, counted from 0\n"
    "  --softmax           softmax routing without selection bias or renormalising\n"
    "  --yarn --no-yarn    whether positions are stretched\n"
    "  --legacy            attn_kv_b, not absorbed\n"
    "  --merged            ffn_gate_up_exps: the experts' gates and ups in one tensor\n"
    "  --size BYTES        choose the dimensions that were not given for about that size (1G)\n"
    "  --topics N          tokens of a topic are kin, so that routing has persistence; F16\n"
    "  --text FILE         and a text of such tokens, numbers with commas between them\n"
    "  --text-tokens N     (4608)\n"
    "  --tied --untied     whether the output matrix is the embedding\n"
    "  --vocab N           a byte-level BPE vocabulary of N tokens made here (1024)\n"
    "  --pre NAME          its pre-tokenizer (the architecture's)\n"
    "  --vocab-from FILE   the vocabulary of another GGUF file\n"
    "  --chat-template-from FILE\n"
    "  --shards N          a split model, PREFIX-00001-of-0000N.gguf, at most N files\n"
    "  --sparse            no weights but holes: a file of any size in seconds\n"
    "  --seed N            (1)\n"
    "  --omit --misshape --poison TENSOR, --extra NAME, --omit-key KEY, --set-key KEY=N\n"
    "                      a file that is wrong in this way\n";

/* Options that are not dimensions; those are numbered 0 to SPEC_DIMENSIONS - 1. */
enum option_id {
    OPT_ARCH = SPEC_DIMENSIONS,
    OPT_LIKE,
    OPT_TYPE,
    OPT_EXPERT_TYPE,
    OPT_MLA_LAYERS,
    OPT_SOFTMAX,
    OPT_YARN,
    OPT_NO_YARN,
    OPT_LEGACY,
    OPT_MERGED,
    OPT_SIZE,
    OPT_TIED,
    OPT_UNTIED,
    OPT_PRE,
    OPT_VOCAB_FROM,
    OPT_TEMPLATE_FROM,
    OPT_SHARDS,
    OPT_SPARSE,
    OPT_SEED,
    OPT_TEXT,
    OPT_TEXT_TOKENS,
    OPT_OMIT,
    OPT_EXTRA,
    OPT_MISSHAPE,
    OPT_POISON,
    OPT_OMIT_KEY,
    OPT_SET_KEY,
    OPTIONS
};

static const struct option other_options[] = {
    {"arch", required_argument, NULL, OPT_ARCH},
    {"like", required_argument, NULL, OPT_LIKE},
    {"type", required_argument, NULL, OPT_TYPE},
    {"expert-type", required_argument, NULL, OPT_EXPERT_TYPE},
    {"mla-layers", required_argument, NULL, OPT_MLA_LAYERS},
    {"softmax", no_argument, NULL, OPT_SOFTMAX},
    {"yarn", no_argument, NULL, OPT_YARN},
    {"no-yarn", no_argument, NULL, OPT_NO_YARN},
    {"legacy", no_argument, NULL, OPT_LEGACY},
    {"merged", no_argument, NULL, OPT_MERGED},
    {"size", required_argument, NULL, OPT_SIZE},
    {"tied", no_argument, NULL, OPT_TIED},
    {"untied", no_argument, NULL, OPT_UNTIED},
    {"pre", required_argument, NULL, OPT_PRE},
    {"vocab-from", required_argument, NULL, OPT_VOCAB_FROM},
    {"chat-template-from", required_argument, NULL, OPT_TEMPLATE_FROM},
    {"shards", required_argument, NULL, OPT_SHARDS},
    {"sparse", no_argument, NULL, OPT_SPARSE},
    {"seed", required_argument, NULL, OPT_SEED},
    {"text", required_argument, NULL, OPT_TEXT},
    {"text-tokens", required_argument, NULL, OPT_TEXT_TOKENS},
    {"omit", required_argument, NULL, OPT_OMIT},
    {"extra", required_argument, NULL, OPT_EXTRA},
    {"misshape", required_argument, NULL, OPT_MISSHAPE},
    {"poison", required_argument, NULL, OPT_POISON},
    {"omit-key", required_argument, NULL, OPT_OMIT_KEY},
    {"set-key", required_argument, NULL, OPT_SET_KEY},
    {NULL, 0, NULL, 0},
};

struct request {
    const struct model_arch *arch;
    const struct spec *defaults; /* the architecture's, or those of the model it is to be like */
    struct spec spec;
    struct formats formats;
    int tied, yarn; /* -1: the default */
    bool softmax;
    uint64_t size_bytes;
    const char *mla_layers;
    const char *pre;
    const char *vocab_from;
    const char *template_from;
    const char *text;
    uint32_t text_tokens;
    const char *out;
    uint32_t shards;
    bool sparse;
    uint64_t seed;
};

static int parse_u32(const char *text, uint32_t min, uint32_t max, uint32_t *ret, struct error *e)
{
    int64_t n = 0;
    int rc = str_parse_int(text, min, max, &n, e);
    if (rc == 0)
        *ret = (uint32_t)n;
    return rc;
}

static int parse_dimension(struct request *r, const struct spec_dimension *d, const char *value,
                           struct error *e)
{
    uint32_t n = 0;
    int rc = parse_u32(value, d->min, d->max, &n, e);
    if (rc == 0)
        spec_set_u32(&r->spec, d->field, n);
    return rc;
}

static int parse_arch(struct request *r, const char *value, struct error *e)
{
    r->arch = model_arch_find(value);
    if (!r->arch)
        return error_set(e, ERROR_USAGE, "unknown architecture '%s'", value);
    r->defaults = &r->arch->defaults;
    return 0;
}

static int parse_like(struct request *r, const char *value, struct error *e)
{
    const struct model_like *like = model_like_find(value);
    if (!like)
        return error_set(e, ERROR_USAGE, "unknown model '%s'", value);
    r->arch = model_arch_find(like->arch);
    r->defaults = &like->spec;
    return 0;
}

static int parse_type(const struct quant **ret, const char *value, struct error *e)
{
    *ret = quant_by_name(value);
    return *ret ? 0 : error_set(e, ERROR_USAGE, "unknown type '%s'", value);
}

static int parse_seed(struct request *r, const char *value, struct error *e)
{
    int64_t n = 0;
    int rc = str_parse_int(value, 0, INT64_MAX, &n, e);
    r->seed = (uint64_t)n;
    return rc;
}

static int parse_value(struct request *r, int option, const char *value, struct error *e)
{
    switch (option) {
    case OPT_ARCH:
        return parse_arch(r, value, e);
    case OPT_LIKE:
        return parse_like(r, value, e);
    case OPT_TYPE:
        return parse_type(&r->formats.trunk, value, e);
    case OPT_EXPERT_TYPE:
        return parse_type(&r->formats.experts, value, e);
    case OPT_SHARDS:
        return parse_u32(value, 1, UINT16_MAX, &r->shards, e);
    case OPT_TEXT_TOKENS:
        return parse_u32(value, 1, 1u << 20, &r->text_tokens, e);
    case OPT_SIZE:
        return str_parse_size(value, &r->size_bytes, e);
    case OPT_SEED:
        return parse_seed(r, value, e);
    default:
        return error_set(e, ERROR_USAGE, "unknown option");
    }
}

/* Whether the option is a switch. */
static bool set_switch(struct request *r, int option)
{
    switch (option) {
    case OPT_TIED:
    case OPT_UNTIED:
        r->tied = option == OPT_TIED;
        return true;
    case OPT_YARN:
    case OPT_NO_YARN:
        r->yarn = option == OPT_YARN;
        return true;
    case OPT_SOFTMAX:
        return r->softmax = true;
    case OPT_LEGACY:
        return r->spec.legacy = true;
    case OPT_MERGED:
        return r->spec.merged = true;
    case OPT_SPARSE:
        return r->sparse = true;
    default:
        return false;
    }
}

/* Where an option's text goes as it is; NULL: it is not of that kind. */
static const char **text_place(struct request *r, int option)
{
    struct defects *d = &r->spec.defects;
    const struct {
        int option;
        const char **place;
    } texts[] = {
        {OPT_MLA_LAYERS, &r->mla_layers},
        {OPT_PRE, &r->pre},
        {OPT_VOCAB_FROM, &r->vocab_from},
        {OPT_TEMPLATE_FROM, &r->template_from},
        {OPT_TEXT, &r->text},
        {OPT_OMIT, &d->omit},
        {OPT_EXTRA, &d->extra},
        {OPT_MISSHAPE, &d->misshape},
        {OPT_POISON, &d->poison},
        {OPT_OMIT_KEY, &d->omit_key},
        {OPT_SET_KEY, &d->set_key},
        {'o', &r->out},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].option == option)
            return texts[i].place;
    }
    return NULL;
}

static int parse_option(struct request *r, int option, const char *value, struct error *e)
{
    const char **text = text_place(r, option);
    if (text) {
        *text = value;
        return 0;
    }
    if (set_switch(r, option))
        return 0;
    if (option >= 0 && option < SPEC_DIMENSIONS)
        return parse_dimension(r, &spec_dimensions[option], value, e);
    return parse_value(r, option, value, e);
}

static void list_options(struct option out[SPEC_DIMENSIONS + ARRAY_LEN(other_options)])
{
    for (int i = 0; i < SPEC_DIMENSIONS; i++)
        out[i] = (struct option){spec_dimensions[i].option, required_argument, NULL, i};
    memcpy(out + SPEC_DIMENSIONS, other_options, sizeof(other_options));
}

static int parse_command_line(struct request *r, int argc, char **argv, struct error *e)
{
    struct option options[SPEC_DIMENSIONS + ARRAY_LEN(other_options)];
    int option;
    int rc = 0;
    list_options(options);
    while (rc == 0 && (option = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
        rc = parse_option(r, option, optarg, e);
        if (rc < 0 && option < OPTIONS)
            error_wrap(e, "--%s", options[option].name);
    }
    if (rc == 0 && (optind != argc || !r->arch || !r->out))
        rc = error_set(e, ERROR_USAGE, "--arch or --like and -o are needed, and nothing else");
    return rc;
}

/* What no dimension is: taken over from the defaults, then changed where somebody said so. */
static void choose_manners(struct request *r)
{
    struct spec *s = &r->spec;
    struct spec chosen = *r->defaults;
    for (size_t i = 0; i < SPEC_DIMENSIONS; i++)
        spec_set_u32(&chosen, spec_dimensions[i].field, spec_u32(s, spec_dimensions[i].field));
    chosen.legacy = s->legacy;
    chosen.merged = s->merged;
    chosen.defects = s->defects;
    *s = chosen;
    if (r->tied >= 0)
        s->tied = r->tied != 0;
    if (r->yarn >= 0)
        s->yarn = r->yarn != 0;
    if (r->softmax) {
        s->gating = 1;
        s->renormalise = false;
    }
}

static int choose_dimensions(struct request *r, struct error *e)
{
    choose_manners(r);
    int rc = r->vocab_from ? vocab_count(r->vocab_from, &r->spec.n_vocab, e) : 0;
    if (rc < 0)
        return rc;
    if (r->size_bytes)
        return model_scale(r->arch, &r->spec, &r->formats, r->size_bytes, e);
    return spec_complete(r->defaults, &r->spec, r->mla_layers, e);
}

static int put_vocabulary(struct gguf_writer *w, const struct request *r, struct error *e)
{
    int rc = r->vocab_from ? vocab_put_copied(w, r->vocab_from, !r->template_from, e)
                           : vocab_put_made(w, r->spec.n_vocab, r->pre ? r->pre : r->arch->pre, e);
    return rc == 0 && r->template_from ? vocab_put_template(w, r->template_from, e) : rc;
}

static int write_model(struct gguf_writer *w, const struct request *r, struct error *e)
{
    model_put_keys(w, r->arch, &r->spec);
    int rc = put_vocabulary(w, r, e);
    if (rc == 0)
        rc = model_put_tensors(w, r->arch, &r->spec, &r->formats, e);
    if (rc == 0)
        rc = gguf_writer_begin(w, e);
    if (rc == 0)
        rc = model_write_weights(w, r->arch, &r->spec, &r->formats, r->seed, r->sparse, e);
    return rc == 0 ? gguf_writer_end(w, e) : rc;
}

static void print_summary(const struct request *r, const struct model_size *size)
{
    printf("%s: %s %s, %" PRIu64 " parameters, %" PRIu64 " bytes, %" PRIu32 " tensors\n", r->out,
           r->arch->name, r->formats.trunk->name, size->n_params, size->bytes, size->n_tensors);
    for (size_t i = 0; i < SPEC_DIMENSIONS; i++) {
        const uint32_t n = spec_u32(&r->spec, spec_dimensions[i].field);
        if (n > 0)
            printf("%s%s %" PRIu32, i > 0 ? " " : "", spec_dimensions[i].option, n);
    }
    printf("\n");
}

static bool has_topics(const struct spec *s)
{
    return s->n_topics != SPEC_UNSET && s->n_topics > 0;
}

static int write_text(const struct request *r, struct error *e)
{
    struct topics t = {0};
    int rc = topics_open(&t, r->spec.n_topics, r->spec.n_vocab, r->seed, e);
    if (rc == 0)
        rc = topics_write_text(&t, r->text, r->text_tokens, e);
    topics_close(&t);
    return rc;
}

static int make(struct request *r, struct error *e)
{
    int rc = choose_dimensions(r, e);
    if (rc < 0)
        return rc;
    struct model_size size = model_size(r->arch, &r->spec, &r->formats);
    uint32_t per_shard = r->shards ? (size.n_tensors + r->shards - 1) / r->shards : 0;
    struct gguf_writer *w = NULL;
    rc = gguf_writer_new(&w, r->out, per_shard, e);
    if (rc == 0)
        rc = write_model(w, r, e);
    gguf_writer_free(w);
    if (rc == 0 && r->text)
        rc = write_text(r, e);
    if (rc == 0)
        print_summary(r, &size);
    return rc;
}

int main(int argc, char **argv)
{
    struct error e = {0};
    struct request r = {.tied = -1, .yarn = -1, .seed = 1, .text_tokens = 4608};
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(usage, stdout) < 0;
    r.formats.trunk = quant_by_name("F32");
    spec_init(&r.spec);
    int rc = parse_command_line(&r, argc, argv, &e);
    if (rc == 0) {
        r.formats.experts = r.formats.experts ? r.formats.experts : r.formats.trunk;
        r.formats.embedding = has_topics(&r.spec) ? quant_by_name("F16") : r.formats.trunk;
        rc = make(&r, &e);
    }
    if (rc == 0)
        return 0;
    fprintf(stderr, "mkmodel: %s\n", e.text);
    if (rc == -ERROR_USAGE)
        fputs(usage, stderr);
    return error_describe(rc)->exit_status;
}
