/*
 * out-of-core MODEL IDS [--memory SIZE] [--prefill] [--tokens N] [--passes N] ...
 *
 * One run of bench/out-of-core.py: loads the model under a budget and feeds it the first ids of a file
 * (numbers with commas between them), as one prompt or token by token, whatever it would say itself. The
 * load is apart. Prints a line of CSV a pass; in the second everything that fits is resident.
 *
 * Bytes are those of the pass: by the engine's count, by /proc/self/io, and by the control group's block
 * statistics where --blkio gives the file (blkio.throttle.io_service_bytes or io.stat). `logits` is a hash
 * of all bits of all logits that the pass gave, `last` of the last token's: equal ones are the same answer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/program.h"
#include "base/sha256.h"
#include "base/str.h"
#include "bench/ids.h"
#include "engine/engine.h"
#include "engine/gguf/gguf.h"
#include "engine/model/model.h"

struct arguments {
    const char *model, *ids, *isa, *io, *policy, *blkio;
    uint64_t memory_bytes;
    uint32_t n_tokens, n_passes;
    int threads;
    bool prefill, header;
};

/* What is counted, now or over a pass. */
struct counts {
    struct engine_counters engine;
    uint64_t process_bytes, group_bytes; /* read from disk */
    uint64_t major_faults;
    int64_t at_us;
};

struct run {
    struct arguments a;
    int32_t *ids; /* [n_tokens] */
    struct engine *engine;
    struct ledger *ledger;
    struct sha256 all, last;
    uint64_t least_read_bytes, most_read_bytes; /* of one expert */
    double open_s; /* loading, and whatever else comes before the first token */
};

/* ------------------------------------------------------------------ counting */

/* The number after `key` in every line that has it, added up; 0 where there is no such file. */
static uint64_t sum_of(const char *path, const char *key)
{
    char line[512];
    uint64_t sum = 0;
    FILE *f = path ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, key);
        sum += at ? strtoull(at + strlen(key), NULL, 10) : 0;
    }
    if (f)
        fclose(f);
    return sum;
}

static void count(const struct run *r, struct counts *ret)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    engine_counters(r->engine, &ret->engine);
    ret->process_bytes = sum_of("/proc/self/io", "read_bytes: ");
    ret->group_bytes = sum_of(r->a.blkio, " Read ") + sum_of(r->a.blkio, " rbytes=");
    ret->major_faults = (uint64_t)usage.ru_majflt;
    ret->at_us = clock_mono_us();
}

/* ------------------------------------------------------------------ a pass */

static int take_row(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                    struct error *e)
{
    struct run *r = context;
    (void)position;
    (void)e;
    sha256_add(&r->all, logits, n_vocab * sizeof(*logits));
    sha256_init(&r->last);
    sha256_add(&r->last, logits, n_vocab * sizeof(*logits));
    return 0;
}

static const char *hash(struct sha256 *h, char hex[65])
{
    uint8_t digest[32];
    sha256_end(h, digest);
    sha256_hex(digest, hex);
    hex[16] = '\0';
    return hex;
}

static void print_pass(struct run *r, uint32_t pass, const struct counts *from,
                       const struct counts *to)
{
    char all[65], last[65];
    struct engine_plan plan;
    struct engine_info info;
    const struct engine_counters *a = &from->engine, *b = &to->engine;
    engine_plan(r->engine, &plan);
    engine_describe(r->engine, &info);
    printf("%s,%s,%s,%" PRIu64 ",%u,%u,%" PRIu64 ",%" PRIu64, r->a.prefill ? "prefill" : "decode",
           info.isa, info.io, r->a.memory_bytes, r->a.n_tokens, pass, plan.expert_slots,
           plan.expert_count);
    printf(",%.3f,%" PRIu64 ",%.4f", r->open_s, b->load_bytes,
           (double)(to->at_us - from->at_us) / 1e6);
    printf(",%" PRIu64 ",%" PRIu64, b->expert_hits - a->expert_hits,
           b->expert_misses - a->expert_misses);
    printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64, r->least_read_bytes, r->most_read_bytes,
           plan.ring_bytes);
    printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64, b->bytes_read - a->bytes_read,
           to->process_bytes - from->process_bytes, to->group_bytes - from->group_bytes);
    printf(",%.4f,%.4f,%" PRIu64, (b->expert_busy_ms - a->expert_busy_ms) / 1e3,
           (b->expert_wait_ms - a->expert_wait_ms) / 1e3, to->major_faults - from->major_faults);
    printf(",%s,%s\n", hash(&r->all, all), hash(&r->last, last));
    fflush(stdout);
}

static int run_pass(struct run *r, uint32_t pass, struct error *e)
{
    struct counts from, to;
    sha256_init(&r->all);
    count(r, &from);
    int rc = engine_score(r->engine, r->ids, r->a.n_tokens, r->a.prefill ? 1 : 0, take_row, r, e);
    if (rc != 0)
        return rc;
    count(r, &to);
    print_pass(r, pass, &from, &to);
    return 0;
}

/* ------------------------------------------------------------------ opening */

static uint64_t layer_read_bytes(const struct expert_layer *l)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < l->n_slices; i++)
        sum += file_direct_span(l->slice[i].offset, l->slice[i].bytes);
    return sum;
}

/* All experts of a layer alike: their matrices are whole multiples of the alignment. */
static int measure_experts(struct run *r, struct error *e)
{
    struct gguf *gguf = NULL;
    struct model model = {0};
    int rc = gguf_open(&gguf, r->a.model, e);
    if (rc == 0)
        rc = model_bind(&model, gguf, e);
    for (uint32_t il = 0; rc == 0 && model.experts && il < model.hp.n_layers; il++) {
        const uint64_t bytes = layer_read_bytes(&model.experts[il]);
        if (bytes == 0)
            continue;
        r->most_read_bytes = MAX_OF(r->most_read_bytes, bytes);
        r->least_read_bytes = r->least_read_bytes ? MIN_OF(r->least_read_bytes, bytes) : bytes;
    }
    model_release(&model);
    gguf_close(gguf);
    return rc;
}

/* As `nocturne logits` opens it; when decoding, a step is one row, since each row's logits are wanted. */
static int run_open(struct run *r, struct error *e)
{
    const struct engine_options o = {.model_path = r->a.model,
                                     .threads = r->a.threads,
                                     .ctx = r->a.n_tokens,
                                     .slots = 1,
                                     .logits = 1,
                                     .isa = r->a.isa,
                                     .io = r->a.io,
                                     .expert_policy = r->a.policy,
                                     .no_tokenizer = true};
    struct engine_options planned = o;
    int rc = ids_read(r->a.ids, r->a.n_tokens, &r->ids, e);
    if (rc == 0)
        rc = measure_experts(r, e);
    if (rc == 0)
        rc = ledger_new(&r->ledger, r->a.memory_bytes, e);
    planned.ledger = r->ledger;
    const int64_t from_us = clock_mono_us();
    if (rc == 0)
        rc = engine_open(&r->engine, &planned, e);
    r->open_s = (double)(clock_mono_us() - from_us) / 1e6;
    program_fetch(); /* as the worker does */
    return rc;
}

static void run_close(struct run *r)
{
    engine_close(r->engine);
    ledger_free(r->ledger);
    mem_free(r->ids);
}

/* ------------------------------------------------------------------ the command line */

static const char usage[] = "usage: out-of-core MODEL IDS [--memory SIZE] [--prefill] [--tokens N] "
                            "[--passes N] [--threads N]\n"
                            "                   [--isa NAME] [--io NAME] [--expert-policy NAME] "
                            "[--blkio FILE] [--header]\n";

static int parse_number(const char *text, uint32_t *ret, struct error *e)
{
    int64_t n = 0;
    int rc = str_parse_int(text, 1, 1 << 20, &n, e);
    *ret = (uint32_t)n;
    return rc;
}

static int parse_value(struct arguments *a, const char *option, const char *value, struct error *e)
{
    const struct {
        const char *option;
        const char **text;
        uint32_t *number;
    } places[] = {
        {"--isa", &a->isa, NULL},         {"--io", &a->io, NULL},
        {"--blkio", &a->blkio, NULL},     {"--expert-policy", &a->policy, NULL},
        {"--tokens", NULL, &a->n_tokens}, {"--passes", NULL, &a->n_passes},
    };
    uint32_t threads = 0;
    if (strcmp(option, "--memory") == 0)
        return str_parse_size(value, &a->memory_bytes, e);
    if (strcmp(option, "--threads") == 0) {
        int rc = parse_number(value, &threads, e);
        a->threads = (int)threads;
        return rc;
    }
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (strcmp(option, places[i].option) != 0)
            continue;
        if (places[i].number)
            return parse_number(value, places[i].number, e);
        *places[i].text = value;
        return 0;
    }
    return error_set(e, ERROR_USAGE, "unknown option %s", option);
}

static int parse(struct arguments *a, int argc, char **argv, struct error *e)
{
    int rc = 0;
    for (int i = 1; rc == 0 && i < argc; i++) {
        if (strcmp(argv[i], "--prefill") == 0)
            a->prefill = true;
        else if (strcmp(argv[i], "--header") == 0)
            a->header = true;
        else if (argv[i][0] == '-' && i + 1 < argc)
            rc = parse_value(a, argv[i], argv[i + 1], e), i++;
        else
            *(a->model ? &a->ids : &a->model) = argv[i];
    }
    if (rc == 0 && (!a->model || !a->ids))
        rc = error_set(e, ERROR_USAGE, "a model and a file of ids are needed");
    return rc;
}

int main(int argc, char **argv)
{
    struct run r = {.a = {.n_tokens = 64, .n_passes = 1, .memory_bytes = LEDGER_NO_LIMIT}};
    struct error e = {0};
    int rc = parse(&r.a, argc, argv, &e);
    if (rc == 0) {
        r.a.threads = r.a.threads ? r.a.threads : parallel_cores();
        rc = run_open(&r, &e);
    }
    if (rc == 0 && r.a.header)
        puts("phase,isa,io,memory_bytes,tokens,pass,slots,experts,load_s,load_bytes,wall_s,hits,"
             "misses,least_read,most_read,ring_bytes,engine_bytes,process_bytes,group_bytes,"
             "reading_s,waiting_s,major_faults,logits,last");
    for (uint32_t pass = 1; rc == 0 && pass <= r.a.n_passes; pass++)
        rc = run_pass(&r, pass, &e);
    run_close(&r);
    if (rc == 0)
        return 0;
    fprintf(stderr, "out-of-core: %s\n", e.text);
    if (rc == -ERROR_USAGE)
        fputs(usage, stderr);
    return error_describe(rc)->exit_status;
}
