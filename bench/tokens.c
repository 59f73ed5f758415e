/*
 * tokens MODEL [--threads N] [--prefill N] [--decode N] [--isa NAME] [--chunk N] [--exact]
 *
 * Times the forward pass alone, without queue or sampling: one sequence of random tokens, the prompt
 * in chunks, then one row at a time. Prints one line of CSV, the header first with --header.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "engine/model/step.h"

struct bench {
    const char *path, *isa;
    int threads;
    uint32_t prefill, decode, chunk;
    uint32_t depth; /* the position that decoding starts at; UINT32_MAX: after the prefill */
    bool exact;
    struct model model;
    struct gguf *gguf;
    struct ledger *ledger;
    struct kv_pool *kv;
    struct forward *forward;
    struct expert_store *experts;
    const struct kernels *kernels;
    double load_s, prefill_s, decode_s;
};

static int open_model(struct bench *b, struct error *e)
{
    int rc = gguf_open(&b->gguf, b->path, e);
    if (rc != 0 || (rc = model_bind(&b->model, b->gguf, e)) != 0)
        return rc;
    uint32_t positions = b->prefill + b->decode + 1;
    struct kv_shape shape = model_kv_shape(&b->model, b->exact);
    struct model_load_options load = {.ledger = b->ledger};
    struct forward_options fo = {.model = &b->model,
                                 .ledger = b->ledger,
                                 .exact = b->exact,
                                 .max_rows = b->chunk,
                                 .max_logits = 1};
    const struct model_experts_options experts = {.ledger = b->ledger, .n_slots = UINT64_MAX};
    if ((rc = kernels_pick(b->isa, &b->kernels, e)) != 0 ||
        (rc = model_load(&b->model, &load, e)) != 0 ||
        (rc = kv_pool_new(&b->kv, b->ledger, &shape, kv_sequence_bytes(&shape, positions), 1,
                          positions, e)) != 0)
        return rc;
    if ((rc = model_experts_open(&b->model, &experts, &b->experts, e)) != 0)
        return rc;
    fo.kv = b->kv;
    fo.experts = b->experts;
    fo.kernels = b->kernels;
    return forward_new(&b->forward, &fo, e);
}

static int run_rows(struct bench *b, uint32_t from, uint32_t n, int slot, struct error *e)
{
    struct step_row rows[4096];
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct step_row){.token = (int32_t)(rng_u64(7, from + i) % b->model.hp.n_vocab),
                                    .position = from + i,
                                    .slot = slot,
                                    .want_logits = i + 1 == n};
    return forward_step(b->forward, rows, n, e);
}

static int run(struct bench *b, struct error *e)
{
    int slot = kv_reserve(b->kv, b->prefill + b->decode);
    uint32_t depth = b->depth < b->prefill ? b->depth : b->prefill;
    int rc = run_rows(b, 0, 1, slot, e); /* warm */
    int64_t t0 = clock_mono_us();
    for (uint32_t at = 0; rc == 0 && at < b->prefill; at += b->chunk)
        rc = run_rows(b, at, b->prefill - at < b->chunk ? b->prefill - at : b->chunk, slot, e);
    int64_t t1 = clock_mono_us();
    for (uint32_t i = 0; rc == 0 && i < b->decode; i++)
        rc = run_rows(b, depth + i, 1, slot, e);
    int64_t t2 = clock_mono_us();
    b->prefill_s = (double)(t1 - t0) / 1e6;
    b->decode_s = (double)(t2 - t1) / 1e6;
    kv_release(b->kv, slot);
    return rc;
}

static uint32_t number(const char *text, uint32_t max)
{
    unsigned long v = text ? strtoul(text, NULL, 10) : 0;
    return v < 1 ? 1 : v > max ? max : (uint32_t)v;
}

int main(int argc, char **argv)
{
    struct bench b = {.threads = parallel_cores(),
                      .prefill = 512,
                      .decode = 128,
                      .chunk = 256,
                      .depth = UINT32_MAX};
    struct error e = {0};
    for (int i = 1; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--header") == 0)
            puts("isa,threads,prefill_tokens,decode_tokens,load_s,prefill_tok_s,decode_tok_s");
        else if (strcmp(argv[i], "--exact") == 0)
            b.exact = true;
        else if (strcmp(argv[i], "--threads") == 0)
            b.threads = (int)number(next, PARALLEL_MAX), i++;
        else if (strcmp(argv[i], "--prefill") == 0)
            b.prefill = number(next, 1u << 20), i++;
        else if (strcmp(argv[i], "--decode") == 0)
            b.decode = number(next, 1u << 20), i++;
        else if (strcmp(argv[i], "--depth") == 0)
            b.depth = next ? (uint32_t)strtoul(next, NULL, 10) : 0, i++;
        else if (strcmp(argv[i], "--chunk") == 0)
            b.chunk = number(next, 4096), i++;
        else if (strcmp(argv[i], "--isa") == 0)
            b.isa = next, i++;
        else
            b.path = argv[i];
    }
    if (!b.path) {
        fputs("usage: tokens MODEL [--threads N] [--prefill N] [--decode N] [--depth N]"
              " [--chunk N] [--isa NAME] [--exact] [--header]\n",
              stderr);
        return 2;
    }
    parallel_set_threads(b.threads);
    int64_t t0 = clock_mono_us();
    int rc = ledger_new(&b.ledger, UINT64_MAX / 2, &e);
    if (rc == 0)
        rc = open_model(&b, &e);
    b.load_s = (double)(clock_mono_us() - t0) / 1e6;
    if (rc == 0)
        rc = run(&b, &e);
    if (rc == 0)
        printf("%s,%d,%u,%u,%.3f,%.2f,%.2f\n", b.exact ? "exact" : b.kernels->name, b.threads,
               b.prefill, b.decode, b.load_s, b.prefill / b.prefill_s, b.decode / b.decode_s);
    else
        fprintf(stderr, "tokens: %s\n", e.text);
    forward_free(b.forward);
    experts_close(b.experts);
    kv_pool_free(b.kv);
    model_release(&b.model);
    gguf_close(b.gguf);
    ledger_free(b.ledger);
    return rc == 0 ? 0 : 1;
}
