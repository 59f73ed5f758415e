/*
 * Files that are wrong in one way, for every architecture: each of their tensors missing, under a name
 * that does not belong there, of another shape, or with a weight that is no number; each key of the
 * experts that cannot be. What is refused is named.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define SIZES "--embd 32 --heads 2 --vocab 300 --type F32 "
#define NAME_BYTES 96

struct architecture {
    const char *name, *sizes;
};

static const struct architecture architectures[] = {
    {"llama", SIZES "--head-dim 16 --kv-heads 1 --ff 48"},
    {"llama", SIZES "--head-dim 16 --kv-heads 1 --ff 48 --experts 4 --used 2"},
    {"qwen2", SIZES "--head-dim 16 --kv-heads 1 --ff 48"},
    {"qwen3", SIZES "--head-dim 16 --kv-heads 1 --ff 48"},
    {"qwen3moe", SIZES "--head-dim 16 --kv-heads 1 --expert-ff 16"},
    {"qwen3moe", SIZES "--head-dim 16 --kv-heads 1 --expert-ff 16 --merged"},
    {"deepseek2", SIZES "--ff 48 --expert-ff 16"},
    {"kimi-linear", SIZES "--layers 3 --mla-every 2 --ff 48 --expert-ff 16"},
    {"kimi-k3", SIZES "--layers 3 --mla-every 2 --ff 48 --expert-ff 16 --latent 24"},
};

/* Tensors that a file may go without: the error names only what stands in their place. */
static bool is_optional(const char *name)
{
    static const char *const ends[] = {"output.weight", "attn_gate.weight",
                                       "ffn_routed_norm.weight", "exp_probs_b.bias",
                                       "ffn_gate_up_exps.weight"};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        const size_t n = strlen(name);
        const size_t n_end = strlen(ends[i]);
        if (n >= n_end && strcmp(name + n - n_end, ends[i]) == 0 && !strstr(name, "attn_output"))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------ a file, and what opening it says */

/* Experts are looked at when they are read: every one of them, through two slots. */
static int read_experts(const struct model *m, struct ledger *l, struct error *e)
{
    struct expert_store *store;
    struct expert_visit visit;
    struct expert_want want;
    struct expert_view view;
    uint32_t n = 1;
    int rc = model_experts_open(m, &(struct model_experts_options){.ledger = l, .n_slots = 2},
                                &store, e);
    for (uint32_t i = 0; store && rc == 0 && i < m->hp.n_layers * m->hp.n_experts; i++) {
        const uint32_t layer = i / m->hp.n_experts;
        const uint32_t id = i % m->hp.n_experts;
        if (!(m->layers[layer].parts & PART_MOE))
            continue;
        experts_begin(store, &visit, layer, &id, 1, &want);
        rc = experts_next(&visit, &view, &n, e);
        CHECK(rc != 0 || n == 1);
        experts_end(&visit);
    }
    experts_close(store);
    return rc;
}

static int open_model(const char *path, struct error *e)
{
    struct gguf *g;
    struct model m;
    struct ledger *l;
    CHECK_OK(ledger_new(&l, 1 << 28, e), e);
    int rc = gguf_open(&g, path, e);
    if (rc == 0) {
        rc = model_bind(&m, g, e);
        if (rc == 0) {
            rc = model_load(&m, &(struct model_load_options){.ledger = l}, e);
            if (rc == 0)
                rc = read_experts(&m, l, e);
            model_release(&m);
        }
        gguf_close(g);
    }
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
    return rc;
}

/* The sentence holds the name in quotes, and the part behind it; without a name just the part. */
static void check_refused(const char *path, const char *what, const char *name, const char *part)
{
    struct error e = {0};
    char want[2 * NAME_BYTES];
    int rc = open_model(path, &e);
    snprintf(want, sizeof(want), name[0] ? "'%s'%s" : "%s%s", name, part);
    if (rc != -ERROR_FORMAT || !strstr(e.text, want))
        test_fail(__FILE__, __LINE__, "%s %s: %d \"%s\", want \"%s\"", what, name, rc, e.text,
                  want);
}

static void patch(const char *path, uint64_t at, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(pwrite(fd, bytes, n, (off_t)at) == (ssize_t)n);
    CHECK_INT(close(fd), 0);
}

/* A tensor of the file: its name, where that stands in the header, and where its data does. */
struct place {
    char name[NAME_BYTES];
    uint64_t name_at, data_at;
};

static struct place *list_tensors(const char *path, size_t *ret_n)
{
    struct gguf *g;
    struct buf file;
    struct error e = {0};
    buf_init(&file, 64u << 20);
    CHECK_OK(file_read_all(path, file.max, &file, &e), &e);
    CHECK_OK(gguf_open(&g, path, &e), &e);
    *ret_n = gguf_n_tensors(g);
    struct place *all = mem_array(*ret_n, sizeof(*all));
    for (size_t i = 0; i < *ret_n; i++) {
        const struct gguf_tensor *t = gguf_tensor_at(g, i);
        char key[8 + NAME_BYTES];
        const uint64_t length = t->name.len;
        snprintf(all[i].name, NAME_BYTES, "%.*s", (int)t->name.len, t->name.ptr);
        memcpy(key, &length, 8);
        memcpy(key + 8, t->name.ptr, t->name.len);
        const char *found = memmem(file.ptr, file.len, key, 8 + t->name.len);
        CHECK(found != NULL);
        all[i].name_at = (uint64_t)(found - file.ptr) + 8;
        all[i].data_at = t->offset;
    }
    gguf_close(g);
    buf_release(&file);
    return all;
}

/* ------------------------------------------------------------------ tensors */

/* The name without its layer. */
static const char *stem_of(const char *name)
{
    return strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') + 1 : name;
}

/* One name becomes another: a tensor is missing, and one is there that does not belong. */
static void check_renamed(const char *path, const struct place *t)
{
    const size_t at = (size_t)(stem_of(t->name) - t->name);
    char other[NAME_BYTES];
    snprintf(other, sizeof(other), "%s", t->name);
    other[at] = 'z';
    patch(path, t->name_at + at, "z", 1);
    if (!is_optional(t->name))
        check_refused(path, "renamed", t->name, " is missing");
    check_refused(path, "renamed", other, " is not part of");
    patch(path, t->name_at + at, t->name + at, 1);
}

static void check_poisoned(const char *path, const struct place *t)
{
    static const float bad[] = {NAN, INFINITY};
    float good;
    struct file f;
    struct error e = {0};
    CHECK_OK(file_open(&f, path, &e), &e);
    CHECK_OK(file_read_at(&f, &good, sizeof(good), t->data_at, &e), &e);
    file_close(&f);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        patch(path, t->data_at, &bad[i], sizeof(bad[i]));
        check_refused(path, "poisoned", t->name, " holds what is not a finite number");
    }
    patch(path, t->data_at, &good, sizeof(good));
}

static void write_model(const struct architecture *a, const char *more, char path[4096])
{
    char arguments[1024];
    snprintf(arguments, sizeof(arguments), "--arch %s %s %s", a->name, a->sizes, more);
    snprintf(path, 4096, "%.3000s/model.gguf", test_dir());
    unlink(path);
    step_kit_model("model", arguments, path);
}

/* Once for all layers: a file has to be written for each. */
static void check_misshaped(const struct architecture *a, const struct place *all, size_t i)
{
    const char *name = all[i].name;
    char more[256];
    char path[4096];
    for (size_t j = 0; j < i; j++) {
        if (strcmp(stem_of(all[j].name), stem_of(name)) == 0)
            return;
    }
    snprintf(more, sizeof(more), "--misshape %s", name);
    write_model(a, more, path);
    check_refused(path, "misshaped", name, ": ");
}

static void check_tensors(const struct architecture *a)
{
    char path[4096];
    size_t n;
    struct error e = {0};
    write_model(a, "", path);
    CHECK_OK(open_model(path, &e), &e);
    struct place *all = list_tensors(path, &n);
    for (size_t i = 0; i < n; i++) {
        check_renamed(path, &all[i]);
        check_poisoned(path, &all[i]);
    }
    CHECK_OK(open_model(path, &e), &e);
    for (size_t i = 0; i < n; i++)
        check_misshaped(a, all, i);
    mem_free(all);
    test_note("%s: %zu tensors", a->name, n);
}

TEST(mutated_tensors_are_refused_by_name)
{
    for (size_t i = 0; i < ARRAY_LEN(architectures); i++)
        check_tensors(&architectures[i]);
}

/* ------------------------------------------------------------------ keys */

/* Each breaks one thing of the experts; the sentence names it. */
TEST(mutated_keys_of_experts_are_refused_by_name)
{
    static const struct {
        size_t architecture;
        const char *more, *part;
    } cases[] = {
        {1, "--set-key llama.expert_used_count=0", "expert_used_count is 0, must be 1 to 4"},
        {1, "--set-key llama.expert_used_count=5", "expert_used_count is 5, must be 1 to 4"},
        {1, "--set-key llama.expert_count=0", "'blk.0.ffn_gate.weight' is missing"},
        {4, "--set-key qwen3moe.expert_count=0", "expert_count is 0, must be 1 to 1024"},
        {4, "--set-key qwen3moe.expert_count=1025", "expert_count is 1025, must be 1 to 1024"},
        {4, "--set-key qwen3moe.expert_count=9", "tensor 'blk.0.ffn_gate_inp.weight': "},
        {4, "--omit-key qwen3moe.expert_used_count", "expert_used_count is 0"},
        {4, "--set-key qwen3moe.expert_feed_forward_length=17000000",
         "expert_feed_forward_length is 17000000"},
        {4, "--set-key qwen3moe.expert_feed_forward_length=8",
         "tensor 'blk.0.ffn_gate_exps.weight': "},
        {4, "--extra blk.0.ffn_gate_up_exps.weight", "'blk.0.ffn_gate_exps.weight' is not part of"},
        {5, "--extra blk.1.ffn_up_exps.weight", "'blk.1.ffn_up_exps.weight' is not part of"},
        {6, "--set-key deepseek2.expert_group_count=3", "expert_group_count 3 does not divide"},
        {6, "--set-key deepseek2.expert_group_used_count=0", "expert_group_used_count is 0"},
        {6, "--set-key deepseek2.expert_group_used_count=99", "expert_group_used_count is 99"},
        {6, "--groups 8 --groups-used 1 --used 2",
         "expert_used_count is 2, expert_group_used_count 1 groups have 1"},
        {6, "--set-key deepseek2.expert_gating_func=4", "expert_gating_func is 4, must be 1"},
        {6, "--set-key deepseek2.expert_shared_count=4000000000",
         "expert_shared_count is 4000000000"},
        {6, "--set-key deepseek2.leading_dense_block_count=99",
         "leading_dense_block_count is 99, block_count"},
        {6, "--set-key deepseek2.feed_forward_length=0", "feed_forward_length is 0, must be 1"},
        {7, "--omit-key kimi-linear.expert_gating_func", "expert_gating_func"},
        {7, "--omit blk.1.exp_probs_b.bias", "'blk.1.exp_probs_b.bias' is missing"},
        {8, "--set-key kimi-k3.expert_latent_length=4000000000",
         "expert_latent_length is 4000000000"},
        {8, "--set-key kimi-k3.expert_latent_length=0", "tensor 'blk.1.ffn_gate_exps.weight': "},
        {8, "--omit-key kimi-k3.activation.situ_beta", "kimi-k3.activation.situ_beta"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[4096];
        write_model(&architectures[cases[i].architecture], cases[i].more, path);
        check_refused(path, cases[i].more, "", cases[i].part);
    }
}

/* Very old files had a tensor for each expert; they are told from others by name. */
TEST(mutated_llama_with_a_tensor_for_each_expert_is_refused)
{
    char path[4096];
    struct error e = {0};
    write_model(&architectures[1], "--extra blk.0.ffn_gate.0.weight", path);
    CHECK_ERROR(open_model(path, &e), &e, ERROR_UNSUPPORTED, "'blk.0.ffn_gate.0.weight'");
}
