#include "tests/engine/step_kit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "tests/test.h"

const char *step_kit_model(const char *name, const char *arguments, char path[4096])
{
    char command[8192];
    const char *program = test_program();
    int folder = (int)(strrchr(program, '/') - program);
    snprintf(path, 4096, "%.3000s/%.60s.gguf", test_dir(), name);
    if (access(path, R_OK) == 0)
        return path;
    snprintf(command, sizeof(command), "%.*s/tools/mkmodel %s -o %s >mkmodel.out", folder, program,
             arguments, path);
    int status = system(command);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "%s: exit status %d", command, WEXITSTATUS(status));
    return path;
}

/* Experts stay on disk; the oracles want to see their weights. What the engine reads is the file. */
static void read_experts(struct step_kit *k)
{
    struct error e = {0};
    for (uint32_t il = 0; il < k->model.hp.n_layers; il++) {
        struct layer *l = &k->model.layers[il];
        struct tensor *const all[] = {&l->gate_exps, &l->up_exps, &l->gate_up_exps, &l->down_exps};
        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
            struct file f = {0};
            if (!all[i]->file)
                continue;
            void *bytes = mem_alloc(all[i]->file->bytes);
            CHECK_OK(file_open(&f, gguf_shard_path(k->gguf, all[i]->file->shard), &e), &e);
            CHECK_OK(file_read_at(&f, bytes, all[i]->file->bytes, all[i]->file->offset, &e), &e);
            file_close(&f);
            all[i]->data = bytes;
        }
    }
}

static void free_experts(struct step_kit *k)
{
    for (uint32_t il = 0; il < k->model.hp.n_layers; il++) {
        struct layer *l = &k->model.layers[il];
        struct tensor *const all[] = {&l->gate_exps, &l->up_exps, &l->gate_up_exps, &l->down_exps};
        for (size_t i = 0; i < ARRAY_LEN(all); i++)
            mem_free(all[i]->file ? (void *)(uintptr_t)all[i]->data : NULL);
    }
}

void step_kit_open(struct step_kit *k, const char *path, const struct step_kit_options *o)
{
    struct error e = {0};
    const struct kernels *kernels = NULL;
    *k = (struct step_kit){0};
    CHECK_OK(ledger_new(&k->ledger, (uint64_t)4 << 30, &e), &e);
    CHECK_OK(gguf_open(&k->gguf, path, &e), &e);
    CHECK_OK(model_bind(&k->model, k->gguf, &e), &e);
    const struct model_load_options load = {.ledger = k->ledger, .n_streamed = o->n_streamed};
    const struct model_experts_options experts = {.ledger = k->ledger,
                                                  .io = o->io,
                                                  .lookahead = o->lookahead,
                                                  .policy = o->policy,
                                                  .n_slots = o->expert_slots ? o->expert_slots
                                                                             : UINT64_MAX};
    CHECK_OK(model_load(&k->model, &load, &e), &e);
    CHECK_OK(model_experts_open(&k->model, &experts, &k->experts, &e), &e);
    read_experts(k);
    if (o->change)
        o->change(&k->model);
    CHECK_OK(trunk_open(&k->trunk, &k->model, k->ledger, NULL, &e), &e);
    CHECK_OK(kernels_pick(o->isa, &kernels, &e), &e);
    const struct kv_shape shape = model_kv_shape(&k->model, !o->isa);
    CHECK_OK(kv_pool_new(&k->kv, k->ledger, &shape, 2 * kv_sequence_bytes(&shape, o->positions), 2,
                         o->positions, &e),
             &e);
    const struct forward_options fo = {.model = &k->model,
                                       .kv = k->kv,
                                       .kernels = kernels,
                                       .ledger = k->ledger,
                                       .experts = k->experts,
                                       .trunk = k->trunk,
                                       .exact = !o->isa,
                                       .lookahead = o->lookahead && k->experts,
                                       .max_rows = o->max_rows,
                                       .max_logits = o->max_logits,
                                       .interrupted = o->interrupted,
                                       .interrupted_context = o->interrupted_context,
                                       .trace = o->trace,
                                       .trace_context = o->trace_context};
    CHECK_OK(forward_new(&k->forward, &fo, &e), &e);
}

void step_kit_close(struct step_kit *k)
{
    forward_free(k->forward);
    kv_pool_free(k->kv);
    trunk_close(k->trunk);
    experts_close(k->experts);
    free_experts(k);
    model_release(&k->model);
    gguf_close(k->gguf);
    CHECK_INT(ledger_total(k->ledger), 0);
    ledger_free(k->ledger);
}

void step_kit_run(struct step_kit *k, int slot, const int32_t *ids, uint32_t first, uint32_t n,
                  uint32_t want)
{
    struct step_row rows[1024];
    struct error e = {0};
    CHECK(n <= ARRAY_LEN(rows));
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (struct step_row){.token = ids[first + i],
                                    .position = first + i,
                                    .slot = slot,
                                    .want_logits = i + want >= n};
    CHECK_OK(forward_step(k->forward, rows, n, &e), &e);
}

void step_kit_ids(int32_t *ids, uint32_t n, uint32_t n_vocab, uint32_t salt)
{
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)(rng_u64(salt, i) % n_vocab);
}

float *step_kit_logits(struct step_kit *k, const int32_t *ids, uint32_t n, uint32_t chunk)
{
    const size_t n_vocab = k->model.hp.n_vocab;
    float *kept = mem_array(n_vocab, sizeof(*kept));
    const int slot = kv_reserve(k->kv, n);
    for (uint32_t at = 0; at < n; at += chunk)
        step_kit_run(k, slot, ids, at, MIN_OF(chunk, n - at), 1);
    memcpy(kept, forward_logits(k->forward, 0), n_vocab * sizeof(*kept));
    kv_release(k->kv, slot);
    return kept;
}

void step_rows_add(struct step_rows *r, const float *x, size_t n_cols, uint32_t n)
{
    r->x = mem_regrow(r->x, (r->n + n) * n_cols, sizeof(float));
    memcpy(r->x + r->n * n_cols, x, n * n_cols * sizeof(float));
    r->n_cols = n_cols;
    r->n += n;
}
