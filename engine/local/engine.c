/* Opening, describing and closing: what engine.h promises around the steps. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "engine/local/local.h"

#define US_PER_MS 1000.0

/* A text key as a string of our own; missing: "". */
static int copy_key(const struct engine *en, const char *key, bool required, char **ret,
                    struct error *e)
{
    struct str value = str_of("");
    int rc = gguf_str(en->gguf, key, required, &value, e);
    if (rc < 0)
        return rc;
    *ret = mem_strndup(value.ptr, value.len);
    return *ret ? 0 : error_set(e, ERROR_NOMEM, "no memory for the value of '%s'", key);
}

static int open_directory(struct engine *en, struct error *e)
{
    int rc = gguf_open(&en->gguf, en->path, e);
    if (rc == 0)
        rc = copy_key(en, "general.architecture", true, &en->arch, e);
    if (rc == 0)
        rc = copy_key(en, "general.name", false, &en->name, e);
    return rc;
}

/* Without weights to run, a vocabulary that is not supported is only something to tell. */
static int open_vocabulary(struct engine *en, struct error *e)
{
    if (en->o.no_tokenizer)
        return 0;
    struct error *why = en->o.headers_only ? &en->vocabulary_refusal : e;
    int rc = tokenizer_new(&en->tokenizer, en->gguf, why);
    return en->o.headers_only ? 0 : rc;
}

/* A format asked for by name must exist; the model's own may be unknown until somebody chats. */
static int open_chat(struct engine *en, struct error *e)
{
    if (!en->tokenizer)
        return 0;
    int rc = chat_format_find(&en->chat, en->gguf, en->o.chat_format, &en->chat_refusal);
    if (rc < 0 && en->o.chat_format) {
        if (e)
            *e = en->chat_refusal;
        return rc;
    }
    return en->chat ? reasoner_new(&en->reasoner, en->chat, en->tokenizer, e) : 0;
}

static struct plan_input plan_input_of(const struct engine *en)
{
    const bool limited = en->ledger && ledger_limit(en->ledger) != LEDGER_NO_LIMIT;
    const size_t vocabulary = en->tokenizer ? tokenizer_memory_bytes(en->tokenizer) : 0;
    return (struct plan_input){.model = &en->model,
                               .path = en->path,
                               .exact = en->o.exact,
                               .ctx = en->o.ctx,
                               .slots = en->o.slots,
                               .chunk = en->o.chunk,
                               .logits = en->o.logits,
                               .cache_bytes = en->o.cache_bytes,
                               .limit_bytes = limited ? ledger_limit(en->ledger) : 0,
                               .process_bytes = PLAN_PROCESS_BASE_BYTES +
                                                gguf_memory_bytes(en->gguf) + vocabulary +
                                                (en->ledger ? ledger_total(en->ledger) : 0)};
}

static int open_plan(struct engine *en, struct error *e)
{
    struct error *why = en->o.headers_only ? &en->model_refusal : e;
    int rc = model_bind(&en->model, en->gguf, why);
    en->bound = rc == 0;
    if (!en->bound)
        return en->o.headers_only ? 0 : rc;
    const struct plan_input in = plan_input_of(en);
    rc = plan_make(&en->plan, &in, e);
    if (rc == 0 && !en->o.headers_only)
        rc = plan_check(&en->plan, &in, e);
    return rc;
}

static int load(struct engine *en, struct error *e)
{
    const struct model_load_options o = {.ledger = en->ledger,
                                         .n_streamed = en->plan.streamed_layers,
                                         .interrupted = en->o.interrupted,
                                         .interrupted_context = en->o.interrupted_context,
                                         .loading = en->o.loading,
                                         .loading_context = en->o.loading_context};
    const int64_t start_us = clock_mono_us();
    int rc = ledger_reserve(en->ledger, LEDGER_IO, MODEL_LOAD_BUFFER_BYTES, "reading the model", e);
    if (rc < 0)
        return rc;
    rc = model_load(&en->model, &o, e);
    ledger_return(en->ledger, LEDGER_IO, MODEL_LOAD_BUFFER_BYTES);
    en->counters.load_bytes = en->model.trunk_bytes; /* what stays */
    en->counters.load_ms = (double)(clock_mono_us() - start_us) / US_PER_MS;
    return rc;
}

static int open_weights(struct engine *en, struct error *e)
{
    const uint64_t others = ledger_total(en->ledger);
    const uint64_t ours = en->plan.process_bytes - others;
    int rc = ledger_reserve(en->ledger, LEDGER_PROCESS, ours, "process", e);
    if (rc < 0)
        return rc;
    en->process_reserved = ours;
    rc = ledger_reserve(en->ledger, LEDGER_IO, en->o.cache_bytes, "page cache of files", e);
    if (rc < 0)
        return rc;
    en->cache_reserved = en->o.cache_bytes;
    rc = load(en, e);
    if (rc == 0)
        rc = scheduler_open(en, e);
    return rc;
}

const char *engine_isa(void)
{
    const struct kernels *best = NULL;
    return kernels_pick(NULL, &best, NULL) == 0 ? best->name : "none";
}

static int open_all(struct engine *en, struct error *e)
{
    const int threads = en->o.threads > 0 ? en->o.threads : parallel_cores();
    if (parallel_set_threads(MIN_OF(threads, PARALLEL_MAX)) < 0)
        return error_set(e, ERROR_INVALID, "threads is %d, must be from 1 to %d", threads,
                         PARALLEL_MAX);
    int rc = kernels_pick(en->o.exact ? "generic" : en->o.isa, &en->kernels, e);
    if (rc == 0)
        rc = io_pick(en->o.io, &en->io, &en->io_why, e);
    if (rc == 0)
        rc = expert_policy_find(en->o.expert_policy, &en->expert_policy, e);
    if (rc == 0)
        rc = open_directory(en, e);
    if (rc == 0)
        rc = open_vocabulary(en, e);
    if (rc == 0)
        rc = open_chat(en, e);
    if (rc == 0)
        rc = open_plan(en, e);
    if (rc == 0 && (en->bound || !en->o.headers_only))
        rc = engine_fingerprint(en, e);
    if (rc == 0 && !en->o.headers_only)
        rc = open_weights(en, e);
    return rc;
}

int engine_open(struct engine **ret, const struct engine_options *o, struct error *e)
{
    struct engine *en = mem_zalloc(sizeof(*en));
    if (!en)
        return error_set(e, ERROR_NOMEM, "engine: no memory for its directory");
    en->o = *o;
    en->ledger = o->ledger;
    en->path = mem_strdup(o->model_path);
    int rc = en->path ? open_all(en, e) : error_set(e, ERROR_NOMEM, "engine: no memory for a path");
    if (rc < 0) {
        engine_close(en);
        return rc;
    }
    *ret = en;
    return 0;
}

void engine_close(struct engine *en)
{
    if (!en)
        return;
    scheduler_close(en);
    model_release(&en->model);
    if (en->process_reserved > 0)
        ledger_return(en->ledger, LEDGER_PROCESS, en->process_reserved);
    if (en->cache_reserved > 0)
        ledger_return(en->ledger, LEDGER_IO, en->cache_reserved);
    reasoner_free(en->reasoner);
    tokenizer_free(en->tokenizer);
    gguf_close(en->gguf);
    mem_free(en->arch);
    mem_free(en->name);
    mem_free(en->path);
    mem_free(en);
}

/* ------------------------------------------------------------------ describing */

void engine_describe(const struct engine *en, struct engine_info *ret)
{
    const struct hparams *hp = &en->model.hp;
    *ret = (struct engine_info){
        .path = en->path,
        .arch = en->arch,
        .name = en->name,
        .isa = en->kernels->name,
        .io = en->io,
        .io_depth = en->experts ? experts_io_depth(en->experts) : 0,
        .io_notice = en->experts ? experts_io_notice(en->experts) : en->io_why.text,
        .tokenizer_kind = en->tokenizer ? tokenizer_pre(en->tokenizer) : "",
        .chat_format = en->chat ? chat_format_name(en->chat) : "",
        .chat_refusal = en->chat ? "" : en->chat_refusal.text,
        .model_refusal = en->bound ? en->vocabulary_refusal.text : en->model_refusal.text,
        .n_params = model_n_params(&en->model),
        .file_bytes = gguf_total_bytes(en->gguf),
        .n_shards = (uint32_t)gguf_n_shards(en->gguf),
        .n_layers = hp->n_layers,
        .n_embd = hp->n_embd,
        .n_vocab = hp->n_vocab,
        .ctx_model = hp->n_ctx,
        .ctx = en->plan.ctx,
        .n_heads = hp->n_heads,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .n_ff = hp->n_ff,
        .slots = en->plan.slots};
    memcpy(ret->fingerprint, en->fingerprint, sizeof(ret->fingerprint));
    memcpy(ret->resume_fingerprint, en->resume_fingerprint, sizeof(ret->resume_fingerprint));
}

bool engine_tensor_at(const struct engine *en, size_t i, struct engine_tensor *ret)
{
    if (i >= gguf_n_tensors(en->gguf))
        return false;
    const struct gguf_tensor *t = gguf_tensor_at(en->gguf, i);
    const char *format = quant_id_name(t->ggml_id);
    *ret = (struct engine_tensor){.name = t->name,
                                  .format = format ? format : "?",
                                  .n_dims = t->n_dims,
                                  .bytes = t->bytes,
                                  .shard = t->shard};
    memcpy(ret->ne, t->ne, sizeof(ret->ne));
    return true;
}

int engine_plan_check(const struct engine *en, struct error *e)
{
    const struct error *refusal = en->bound ? &en->vocabulary_refusal : &en->model_refusal;
    if (refusal->code != ERROR_NONE) {
        if (e)
            *e = *refusal;
        return -refusal->code;
    }
    const struct plan_input in = plan_input_of(en);
    return plan_check(&en->plan, &in, e);
}

void engine_plan(const struct engine *en, struct engine_plan *ret)
{
    *ret = en->plan;
}

/* Of the file that failed most, whatever was read from it. */
static uint32_t worst_file_failures(const struct engine *en)
{
    uint32_t worst = 0;
    for (uint32_t i = 0; i < gguf_n_shards(en->gguf); i++) {
        const uint32_t experts = en->experts ? experts_failures(en->experts, i) : 0;
        const uint32_t layers = en->trunk ? trunk_failures(en->trunk, i) : 0;
        worst = MAX_OF(worst, experts + layers);
    }
    return worst;
}

void engine_counters(const struct engine *en, struct engine_counters *ret)
{
    struct expert_counters experts = {0};
    struct trunk_counters trunk = {0};
    *ret = en->counters;
    if (en->experts)
        experts_counters(en->experts, &experts);
    if (en->trunk)
        trunk_counters(en->trunk, &trunk);
    ret->bytes_read = experts.bytes_read + trunk.bytes_read;
    ret->layer_bytes = trunk.bytes_read;
    ret->layers_wait_ms = (double)trunk.wait_us / US_PER_MS;
    ret->experts_wanted = experts.wanted;
    ret->expert_hits = experts.hits;
    ret->expert_misses = experts.misses;
    ret->load_bytes += experts.probe_bytes;
    ret->expert_guesses = experts.guesses;
    ret->expert_good_guesses = experts.good_guesses;
    ret->expert_reads = experts.reads;
    ret->expert_busy_ms = (double)experts.busy_us / US_PER_MS;
    ret->expert_wait_ms = (double)experts.wait_us / US_PER_MS;
    ret->worst_file_failures = worst_file_failures(en);
}

/* A row's experts have to be there together. */
uint64_t engine_shrink_experts(struct engine *en, uint64_t bytes)
{
    return en->experts ? experts_shrink(en->experts, bytes, en->model.hp.n_experts_used) : 0;
}

int engine_tokenize(const struct engine *en, struct str text, bool special, bool bos,
                    struct buf *out, struct error *e)
{
    if (en->vocabulary_refusal.code)
        return error_set(e, (enum error_code)en->vocabulary_refusal.code, "%s",
                         en->vocabulary_refusal.text);
    if (!en->tokenizer)
        return error_set(e, ERROR_UNSUPPORTED, "%s: opened without vocabulary", en->path);
    struct tokens ids = {0};
    unsigned flags = (special ? TOKENIZE_SPECIAL : 0u) | (bos ? TOKENIZE_BOS : 0u);
    int rc = tokenizer_encode(en->tokenizer, text, flags, &ids, e);
    if (rc == 0 && buf_append(out, ids.ids, ids.n * sizeof(*ids.ids)) < 0)
        rc = buf_check(out, "token ids", e);
    tokens_release(&ids);
    return rc;
}
