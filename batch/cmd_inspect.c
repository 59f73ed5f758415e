/* What a model is and what it would take: nothing of it is loaded. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "batch/command.h"
#include "batch/host/confine.h"
#include "batch/host/machine.h"
#include "batch/model_options.h"
#include "batch/plan_json.h"
#include "batch/probe.h"
#include "batch/worker/worker.h"

#define MAX_FORMATS 64

/* Tensors by format: what the file is made of. */
struct format_sum {
    const char *format;
    uint64_t n, elements, bytes;
};

struct formats {
    struct format_sum at[MAX_FORMATS];
    size_t n;
};

static void add_tensor(struct formats *f, const struct engine_tensor *t)
{
    size_t i = 0;
    while (i < f->n && strcmp(f->at[i].format, t->format) != 0)
        i++;
    if (i == MAX_FORMATS)
        return; /* there are fewer formats than that */
    if (i == f->n)
        f->at[f->n++] = (struct format_sum){.format = t->format};
    f->at[i].n++;
    f->at[i].elements += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    f->at[i].bytes += t->bytes;
}

static void sum_formats(const struct engine *en, struct formats *f)
{
    struct engine_tensor t;
    for (size_t i = 0; engine_tensor_at(en, i, &t); i++)
        add_tensor(f, &t);
}

/* ------------------------------------------------------------------ for people */

static void print_text(struct output *out, const char *label, const char *value)
{
    if (value[0])
        output_put(out, "%-14s %s\n", label, value);
}

static void print_size(struct output *out, const char *label, uint64_t bytes, const char *note)
{
    char size[24];
    output_put(out, "  %-12s %12s  %16" PRIu64 "%s%s\n", label, str_format_size(bytes, size), bytes,
               note[0] ? "  " : "", note);
}

static const char *count_text(uint64_t n, char out[32])
{
    if (n >= 1000000000000)
        snprintf(out, 32, "%.2f trillion", (double)n / 1e12);
    else if (n >= 1000000000)
        snprintf(out, 32, "%.2f billion", (double)n / 1e9);
    else
        snprintf(out, 32, "%.3f million", (double)n / 1e6);
    return out;
}

static void print_model(struct output *out, const struct engine_info *info)
{
    char size[24], count[32];
    print_text(out, "file", info->path);
    print_text(out, "name", info->name);
    print_text(out, "architecture", info->arch);
    print_text(out, "cannot run", info->model_refusal);
    output_put(out, "%-14s %s\n", "parameters", count_text(info->n_params, count));
    output_put(out, "%-14s %s (%" PRIu64 " bytes)", "size", str_format_size(info->file_bytes, size),
               info->file_bytes);
    if (info->n_shards > 1)
        output_put(out, " in %u files", info->n_shards);
    output_put(out, "\n");
    if (info->n_layers > 0)
        output_put(out,
                   "%-14s %u layers of width %u, %u heads of %u (%u of keys), inner width %u\n",
                   "shape", info->n_layers, info->n_embd, info->n_heads, info->head_dim,
                   info->n_kv_heads, info->n_ff);
    if (info->n_vocab > 0)
        output_put(out, "%-14s %u tokens, pre-tokeniser %s\n", "vocabulary", info->n_vocab,
                   info->tokenizer_kind);
    if (info->ctx_model > 0)
        output_put(out, "%-14s %u tokens\n", "context", info->ctx_model);
    print_text(out, "chat format", info->chat_format[0] ? info->chat_format : info->chat_refusal);
    print_text(out, "fingerprint", info->fingerprint);
}

static int print_formats(struct output *out, const struct engine *en, struct error *e)
{
    static const char *const titles[] = {"FORMAT", ">TENSORS", ">ELEMENTS", ">SIZE", NULL};
    struct formats f = {0};
    struct table t;
    char size[24];
    sum_formats(en, &f);
    output_put(out, "\n");
    table_init(&t, out, titles);
    for (size_t i = 0; i < f.n; i++) {
        table_cell(&t, "%s", f.at[i].format);
        table_cell(&t, "%" PRIu64, f.at[i].n);
        table_cell(&t, "%" PRIu64, f.at[i].elements);
        table_cell(&t, "%s", str_format_size(f.at[i].bytes, size));
    }
    return table_end(&t, e);
}

static const char *shape_text(const struct engine_tensor *t, char out[96])
{
    size_t at = 0;
    for (uint32_t d = 0; d < t->n_dims && at < 96; d++)
        at += (size_t)snprintf(out + at, 96 - at, d == 0 ? "%" PRIu64 : " x %" PRIu64, t->ne[d]);
    return out;
}

static int print_tensors(struct output *out, const struct engine *en, struct error *e)
{
    static const char *const titles[] = {"TENSOR", "FORMAT", "SHAPE", ">BYTES", NULL};
    struct engine_tensor tensor;
    struct table t;
    char shape[96] = "";
    output_put(out, "\n");
    table_init(&t, out, titles);
    for (size_t i = 0; engine_tensor_at(en, i, &tensor); i++) {
        table_cell(&t, "%.*s", (int)tensor.name.len, tensor.name.ptr);
        table_cell(&t, "%s", tensor.format);
        table_cell(&t, "%s", shape_text(&tensor, shape));
        table_cell(&t, "%" PRIu64, tensor.bytes);
    }
    return table_end(&t, e);
}

/* What `run` tells the kernel, as the unit of a service would say it. */
static void print_limits(struct output *out, uint64_t budget_bytes)
{
    struct subgroup_limits l;
    confine_limits(budget_bytes, &l);
    output_put(out, "  %-12s MemoryHigh=%" PRIu64 "M MemoryMax=%" PRIu64 "M\n", "kernel",
               l.high_bytes >> 20, l.max_bytes >> 20);
}

/* The plan for a budget, and when it does not fit the ways on, as `run` would refuse it. */
static void print_budget(struct command_context *c, const struct engine *en,
                         const struct engine_plan *p, const char *from)
{
    struct error why = {0};
    char note[800];
    if (p->limit_bytes == 0)
        return;
    snprintf(note, sizeof(note), "%s%s%s", p->fits ? "fits" : "does not fit", *from ? "; " : "",
             from);
    print_size(c->out, "budget", p->limit_bytes, note);
    if (p->fits)
        print_limits(c->out, p->limit_bytes);
    if (engine_plan_check(en, &why) == -ERROR_BUDGET)
        output_put(c->out, "\n%s\n", why.text);
}

/* Weights, and which layers of them do not stay. */
static void print_weights(struct output *out, const struct engine_plan *p, uint32_t n_layers)
{
    char size[24];
    char note[96] = "";
    const uint32_t stay = n_layers - p->streamed_layers;
    if (p->streamed_layers > 0)
        snprintf(note, sizeof(note), "%u of %u layers stay", stay, n_layers);
    print_size(out, "weights", p->trunk_bytes + p->repacked_bytes, note);
    if (p->streamed_layers == 0)
        return;
    snprintf(note, sizeof(note), "layers %u to %u stream through it, %s a step", stay, n_layers - 1,
             str_format_size(p->streamed_bytes, size));
    print_size(out, "ring", p->ring_bytes, note);
}

/* What one sequence that decodes will read; its speed where the machine was measured. */
static void print_forecast(struct output *out, const struct engine_forecast *f, uint32_t n_experts,
                           const struct probe *probe)
{
    char note[160] = "";
    double expected, at_most;
    if (f->read_bytes == 0 && f->hit_rate >= 1)
        return;
    output_put(out, "\nexpected of a sequence, a token\n");
    if (f->slots_per_layer > 0)
        snprintf(note, sizeof(note),
                 "%.0f %% of experts in memory: room for %.3g of each layer's %u",
                 100 * f->hit_rate, f->slots_per_layer, n_experts);
    print_size(out, "read", f->read_bytes, note);
    print_size(out, "multiplied", f->touched_bytes, "");
    if (probe->memory_bytes_per_s <= 0)
        return;
    print_size(out, "disk", (uint64_t)probe->disk_bytes_per_s, "a second, measured");
    print_size(out, "memory", (uint64_t)probe->memory_bytes_per_s, "a second, measured");
    engine_forecast_rate(f, probe->disk_bytes_per_s, probe->memory_bytes_per_s, &expected,
                         &at_most);
    output_put(out, "  %-12s %.3g tokens/s, at most %.3g\n", "speed", expected, at_most);
}

static void print_plan(struct output *out, const struct engine_plan *p, uint32_t n_layers)
{
    char each[24];
    char position[24];
    char note[96];
    output_put(out, "\nmemory for %u slot%s of %u tokens, steps of %u rows\n", p->slots,
               p->slots == 1 ? "" : "s", p->ctx, p->chunk);
    print_size(out, "process", p->process_bytes, "");
    print_weights(out, p, n_layers);
    if (p->expert_count > 0) {
        snprintf(note, sizeof(note), "%llu of %llu at once", (unsigned long long)p->expert_slots,
                 (unsigned long long)p->expert_count);
        print_size(out, "experts", p->experts_bytes, note);
    }
    snprintf(note, sizeof(note), "%s a slot, %s a token",
             str_format_size(p->per_sequence_bytes, each),
             str_format_size(p->per_token_bytes, position));
    print_size(out, "state", p->state_bytes, note);
    print_size(out, "scratch", p->scratch_bytes, "");
    print_size(out, "io", p->io_bytes, "");
    print_size(out, "files", p->cache_bytes, "page cache of database, log and exports");
    print_size(out, "total", p->total_bytes, "");
    print_size(out, "at least", p->smallest_bytes, "one slot of this context");
}

/* "69 with delta attention, 24 with latent attention; 1 dense, 92 with experts" */
static const char *kinds_text(const struct engine_makeup *m, char out[200])
{
    const struct {
        uint32_t n;
        const char *what;
    } kinds[] = {{m->n_gqa, "with grouped-query attention"},
                 {m->n_kda, "with delta attention (KDA)"},
                 {m->n_mla, "with latent attention (MLA)"},
                 {m->n_dense, "dense"},
                 {m->n_moe, "with experts"}};
    int at = 0;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (kinds[i].n > 0)
            at += snprintf(out + at, 200 - (size_t)at, "%s%u %s", at > 0 ? ", " : "", kinds[i].n,
                           kinds[i].what);
    }
    return out;
}

static void print_experts(struct output *out, const struct engine_makeup *m)
{
    char largest[64] = "";
    if (m->largest_expert_bytes != m->smallest_expert_bytes)
        snprintf(largest, sizeof(largest), " to %" PRIu64, m->largest_expert_bytes);
    output_put(out, "%-14s %u a layer, %u used by a token, %u shared; %" PRIu64 " in all\n",
               "experts", m->n_experts, m->n_experts_used, m->n_experts_shared,
               (uint64_t)m->n_experts * m->n_moe);
    output_put(out, "%-14s %" PRIu64 "%s bytes, %" PRIu64 " weights\n", "  one of them",
               m->smallest_expert_bytes, largest, m->expert_weights);
}

static void print_makeup(struct output *out, const struct engine_makeup *m,
                         const struct engine_info *info)
{
    char kinds[200] = "";
    char note[64];
    if (m->n_dense + m->n_moe == 0)
        return;
    print_text(out, "layers", kinds_text(m, kinds));
    if (m->n_moe > 0) {
        print_experts(out, m);
        output_put(out, "%-14s with %s%s%s\n", "  read", info->io, *info->io_notice ? "; " : "",
                   info->io_notice);
    }
    output_put(out, "\nbytes by kind\n");
    snprintf(note, sizeof(note), "%" PRIu64 " weights", m->trunk_weights);
    print_size(out, "trunk", m->trunk_bytes, note);
    if (m->n_moe > 0) {
        snprintf(note, sizeof(note), "%" PRIu64 " weights", m->experts_weights);
        print_size(out, "experts", m->experts_bytes, note);
    }
    output_put(out, "read for each token\n");
    snprintf(note, sizeof(note), "%" PRIu64 " weights", m->trunk_read_weights);
    print_size(out, "trunk", m->trunk_read_bytes, note);
    if (m->n_moe > 0) {
        snprintf(note, sizeof(note), "%" PRIu64 " weights", m->experts_read_weights);
        print_size(out, "experts", m->experts_read_bytes, note);
        print_size(out, "total", m->trunk_read_bytes + m->experts_read_bytes, "");
    }
    output_put(out, "state of a sequence\n");
    print_size(out, "each token", m->cache_bytes, "");
    if (m->recurrent_bytes > 0)
        print_size(out, "always", m->recurrent_bytes, "recurrent, however long it is");
}

/* ------------------------------------------------------------------ for programs */

static void add_number(cJSON *o, const char *name, uint64_t value)
{
    cJSON_AddNumberToObject(o, name, (double)value);
}

static void add_info(cJSON *o, const struct engine_info *info)
{
    cJSON_AddStringToObject(o, "file", info->path);
    cJSON_AddStringToObject(o, "name", info->name);
    cJSON_AddStringToObject(o, "architecture", info->arch);
    cJSON_AddStringToObject(o, "refusal", info->model_refusal);
    cJSON_AddStringToObject(o, "tokenizer", info->tokenizer_kind);
    cJSON_AddStringToObject(o, "chat_format", info->chat_format);
    cJSON_AddStringToObject(o, "chat_refusal", info->chat_refusal);
    cJSON_AddStringToObject(o, "fingerprint", info->fingerprint);
    cJSON_AddStringToObject(o, "io", info->io);
    cJSON_AddStringToObject(o, "io_notice", info->io_notice);
    add_number(o, "parameters", info->n_params);
    add_number(o, "bytes", info->file_bytes);
    add_number(o, "files", info->n_shards);
    add_number(o, "layers", info->n_layers);
    add_number(o, "embedding", info->n_embd);
    add_number(o, "heads", info->n_heads);
    add_number(o, "kv_heads", info->n_kv_heads);
    add_number(o, "head_dim", info->head_dim);
    add_number(o, "feed_forward", info->n_ff);
    add_number(o, "vocabulary", info->n_vocab);
    add_number(o, "context", info->ctx_model);
}

static void add_makeup(cJSON *o, const struct engine_makeup *m)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"gqa_layers", m->n_gqa},
                   {"mla_layers", m->n_mla},
                   {"kda_layers", m->n_kda},
                   {"dense_layers", m->n_dense},
                   {"moe_layers", m->n_moe},
                   {"experts", m->n_experts},
                   {"experts_used", m->n_experts_used},
                   {"experts_shared", m->n_experts_shared},
                   {"smallest_expert_bytes", m->smallest_expert_bytes},
                   {"largest_expert_bytes", m->largest_expert_bytes},
                   {"expert_weights", m->expert_weights},
                   {"trunk_bytes", m->trunk_bytes},
                   {"trunk_weights", m->trunk_weights},
                   {"experts_bytes", m->experts_bytes},
                   {"experts_weights", m->experts_weights},
                   {"trunk_read_bytes", m->trunk_read_bytes},
                   {"trunk_read_weights", m->trunk_read_weights},
                   {"experts_read_bytes", m->experts_read_bytes},
                   {"experts_read_weights", m->experts_read_weights},
                   {"cache_bytes_per_token", m->cache_bytes},
                   {"recurrent_bytes_per_sequence", m->recurrent_bytes}};
    cJSON *makeup = cJSON_AddObjectToObject(o, "makeup");
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        add_number(makeup, numbers[i].name, numbers[i].value);
}

static void add_plan(cJSON *o, const struct engine_plan *p, const char *budget_from)
{
    cJSON *plan = plan_json(p);
    cJSON_AddItemToObject(o, "plan", plan);
    if (*budget_from)
        cJSON_AddStringToObject(plan, "limit_from", budget_from);
}

static void add_forecast(cJSON *o, const struct engine_forecast *f, const struct probe *probe)
{
    cJSON *forecast = cJSON_AddObjectToObject(o, "forecast");
    double expected, at_most;
    cJSON_AddNumberToObject(forecast, "hit_rate", f->hit_rate);
    add_number(forecast, "read_bytes_per_token", f->read_bytes);
    add_number(forecast, "multiplied_bytes_per_token", f->touched_bytes);
    if (probe->memory_bytes_per_s <= 0)
        return;
    engine_forecast_rate(f, probe->disk_bytes_per_s, probe->memory_bytes_per_s, &expected,
                         &at_most);
    cJSON_AddNumberToObject(forecast, "disk_bytes_per_second", probe->disk_bytes_per_s);
    cJSON_AddNumberToObject(forecast, "memory_bytes_per_second", probe->memory_bytes_per_s);
    cJSON_AddNumberToObject(forecast, "tokens_per_second", expected);
    cJSON_AddNumberToObject(forecast, "tokens_per_second_at_most", at_most);
}

static void add_tensors(cJSON *o, const struct engine *en)
{
    cJSON *all = cJSON_AddArrayToObject(o, "tensors");
    struct engine_tensor t;
    for (size_t i = 0; engine_tensor_at(en, i, &t); i++) {
        cJSON *one = cJSON_CreateObject();
        char *name = mem_strndup(t.name.ptr, t.name.len);
        cJSON_AddStringToObject(one, "name", name ? name : "");
        mem_free(name);
        cJSON_AddStringToObject(one, "format", t.format);
        cJSON *shape = cJSON_AddArrayToObject(one, "shape");
        for (uint32_t d = 0; d < t.n_dims; d++)
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t.ne[d]));
        add_number(one, "bytes", t.bytes);
        add_number(one, "shard", t.shard);
        cJSON_AddItemToArray(all, one);
    }
}

/* ------------------------------------------------------------------ the command */

/* What the machine says, beside the file. */
struct machine_facts {
    struct machine_budget budget;
    struct probe probe; /* zeros: not measured */
};

static int print(struct command_context *c, const struct engine *en,
                 const struct machine_facts *facts, struct error *e)
{
    struct engine_info info;
    struct engine_plan plan;
    struct engine_makeup makeup;
    struct engine_forecast forecast;
    engine_forecast(en, &forecast);
    engine_describe(en, &info);
    engine_makeup(en, &makeup);
    engine_plan(en, &plan);
    if (option_on(c->options, OPTION_JSON)) {
        cJSON *o = cJSON_CreateObject();
        add_info(o, &info);
        add_makeup(o, &makeup);
        if (plan.slots > 0)
            add_plan(o, &plan, facts->budget.from);
        if (plan.slots > 0 && plan.fits)
            add_forecast(o, &forecast, &facts->probe);
        add_tensors(o, en);
        return output_json(c->out, o, true, e);
    }
    print_model(c->out, &info);
    print_makeup(c->out, &makeup, &info);
    int rc = print_formats(c->out, en, e);
    if (rc == 0 && option_on(c->options, OPTION_TENSORS))
        rc = print_tensors(c->out, en, e);
    if (rc == 0 && plan.slots > 0) {
        print_plan(c->out, &plan, info.n_layers);
        print_budget(c, en, &plan, facts->budget.from);
        if (plan.fits)
            print_forecast(c->out, &forecast, makeup.n_experts, &facts->probe);
    }
    return rc;
}

/*
 * --memory, which may be another machine's, or what `run` would take here; no limit where nobody knows
 * that.
 */
static int make_ledger(struct ledger **ret, const struct options *o, struct machine_budget *budget,
                       struct error *e)
{
    struct error why = {0};
    if (option_given(o, OPTION_MEMORY))
        return ledger_new(ret, option_size(o, OPTION_MEMORY), e);
    if (machine_budget("", budget, &why) == 0)
        return ledger_new(ret, budget->bytes, e);
    message("no budget: %s", why.text);
    return ledger_new(ret, LEDGER_NO_LIMIT, e);
}

static int run(struct command_context *c, struct error *e)
{
    struct engine_options o;
    struct engine *en = NULL;
    struct machine_facts facts = {0};
    int rc = model_options_read(&o, c->options, c->n_args > 0 ? c->arg[0] : NULL, e);
    if (rc == 0)
        rc = make_ledger(&o.ledger, c->options, &facts.budget, e);
    if (rc < 0)
        return rc;
    o.headers_only = true;
    o.cache_bytes = WORKER_CACHE_BYTES;
    rc = engine_open(&en, &o, e);
    if (rc == 0 && option_on(c->options, OPTION_MEASURE))
        rc = probe_run(o.model_path, o.ledger, &facts.probe, e);
    if (rc == 0)
        rc = print(c, en, &facts, e);
    engine_close(en);
    ledger_free(o.ledger);
    return rc;
}

static const enum option_id options[] = {
    OPTION_MODEL,       OPTION_MEMORY,  OPTION_SLOTS,   OPTION_CTX,
    OPTION_CHUNK,       OPTION_EXACT,   OPTION_IO,      OPTION_EXPERT_POLICY,
    OPTION_CHAT_FORMAT, OPTION_TENSORS, OPTION_MEASURE, OPTION_LOOKAHEAD,
    OPTION_THREADS,     OPTION_ISA,     OPTION_JSON,    OPTION_NONE};

const struct command command_inspect = {
    .name = "inspect",
    .arguments = "[MODEL]",
    .max_args = 1,
    .option = options,
    .details =
        "Reads the headers of a GGUF file (all parts of a split one) and says what is in it: "
        "layers\n"
        "by kind, experts, bytes of trunk and experts, what a token reads of them, the state of a\n"
        "sequence, the formats used; whether it can run; and the memory plan: what a worker with\n"
        "these --slots, --ctx and --exact would take, and whether that fits --memory (without it,\n"
        "as run does, what machine and control groups leave, less a reserve); if not, what would.\n"
        "Where not everything stays in memory it says what a token will read, by a model of how\n"
        "sequences move between experts; with --measure, also how fast that will be here.",
    .examples = "nocturne inspect model.gguf --memory 8G --slots 8\n"
                "nocturne inspect model.gguf --json",
    .run = run,
};
