/*
 * The same request gives the same tokens and the same bits of logits, whatever happens around it:
 * slots, chunks of the prompt, threads, company in the step, a restart after any token.
 */
#include "base/alloc.h"
#include "base/sha256.h"
#include "engine/local/local.h"
#include "tests/engine/kernels.h"
#include "tests/engine/local_kit.h"
#include "tests/engine/step_kit.h"
#include "tests/test.h"

#define N_REQUESTS 7

static const char long_text[] =
    "The harbour was closed for three days after the storm, and two cranes were damaged. The ferry "
    "company said that the evening service would begin again on Thursday, if the weather allowed; "
    "until then passengers should take the bus. Na\xC3\xAFve caf\xC3\xA9, "
    "\xE6\x97\xA5\xE6\x9C\xAC.";

/* Prompts of many lengths, greedy and sampled, with and without penalties and stop strings. */
static void make_requests(struct engine_request r[N_REQUESTS])
{
    static const struct str stop[] = {{"zq", 2}, {"e", 1}};
    static const size_t length[N_REQUESTS] = {1, 5, 40, 300, 70, 17, 160};
    for (size_t i = 0; i < N_REQUESTS; i++) {
        r[i] = (struct engine_request){
            .tag = 100 + i,
            .prompt = {long_text + i, length[i] < sizeof(long_text) - 1 - i
                                          ? length[i]
                                          : sizeof(long_text) - 1 - i},
            .max_tokens = 12 + 2 * (uint32_t)i,
            .sampling = {.temperature = i % 2 ? 0.8f : 0,
                         .top_p = i == 3 ? 0.9f : 1,
                         .top_k = i == 5 ? 40 : 0,
                         .repeat_penalty = i > 3 ? 1.1f : 1,
                         .repeat_last_n = 64,
                         .seed = 1000 + i},
            .stop = i == 5 ? stop : NULL,
            .n_stop = i == 5 ? 2 : 0,
        };
    }
}

struct setting {
    uint32_t slots, chunk;
    int threads;
};

static const struct setting settings[] = {
    {8, 3, 2}, {1, 3, 1}, {1, 64, 2}, {8, 1, 1}, {8, 64, 1}, {8, 256, 2},
};

static void check_settings(const char *model, const char *isa, bool exact, size_t n_settings)
{
    struct engine_request r[N_REQUESTS];
    struct kit_result *want = mem_array(N_REQUESTS, sizeof(*want));
    struct kit_result *got = mem_array(N_REQUESTS, sizeof(*got));
    make_requests(r);
    struct engine_options o = {
        .model_path = model, .slots = 1, .threads = 1, .isa = isa, .exact = exact};
    struct kit_engine k = kit_open(&o);
    kit_run(k.en, r, N_REQUESTS, want);
    kit_close(&k);
    size_t n_tokens = 0;
    for (size_t i = 0; i < N_REQUESTS; i++) {
        n_tokens += want[i].n_tokens;
        CHECK_INT(want[i].n_streamed, want[i].n_text);
        CHECK(memcmp(want[i].streamed, want[i].text, want[i].n_text) == 0);
        CHECK_INT(want[i].prefilled, want[i].usage.prompt_tokens);
    }
    CHECK(n_tokens > 50);
    for (size_t s = 0; s < n_settings; s++) {
        char what[64];
        o.slots = settings[s].slots;
        o.chunk = settings[s].chunk;
        o.threads = settings[s].threads;
        k = kit_open(&o);
        kit_run(k.en, r, N_REQUESTS, got);
        kit_close(&k);
        for (size_t i = 0; i < N_REQUESTS; i++) {
            snprintf(what, sizeof(what), "%s slots %u chunk %u threads %d request %zu", isa,
                     o.slots, o.chunk, o.threads, i);
            kit_check_same(&got[i], &want[i], what);
        }
    }
    mem_free(got);
    mem_free(want);
}

static void check_all_settings(const struct kernels *k)
{
    char path[4096];
    check_settings(kit_model("Q4_K", path), k->name, false, ARRAY_LEN(settings));
}
KERNELS_EACH(TEST, identity_slots_chunks_and_threads, check_all_settings)

TEST(identity_exact_mode)
{
    char path[4096];
    SKIP_EMULATED("takes minutes; exact mode's arithmetic is hashed");
    check_settings(kit_model("Q5_0", path), "generic", true, 1);
}

/* States that cannot be rolled back, latent caches and experts behind the same scheduler. */
TEST(identity_of_a_hybrid_model)
{
    char path[4096];
    check_settings(
        step_kit_model("kimi-k3", "--arch kimi-k3 --vocab 300 --layers 3 --type Q8_0", path),
        "auto", false, 4);
}

/* Stopped after every number of tokens, and again: the rest is what it would have been. */
TEST(identity_resume_after_any_token)
{
    char path[4096];
    struct engine_request r[N_REQUESTS];
    struct kit_result *want = mem_array(N_REQUESTS, sizeof(*want));
    struct kit_result *got = mem_array(N_REQUESTS, sizeof(*got));
    make_requests(r);
    struct engine_options o = {
        .model_path = kit_model("Q4_K", path), .slots = 8, .chunk = 32, .threads = 1};
    struct kit_engine k = kit_open(&o);
    kit_run(k.en, r, N_REQUESTS, want);
    const size_t step = test_emulated() ? 8 : 1; /* an emulator takes minutes for all */
    for (size_t n = 0; n <= 24; n += step) {
        for (size_t i = 0; i < N_REQUESTS; i++) {
            r[i].resume = want[i].token;
            r[i].n_resume = n < want[i].n_tokens ? n : want[i].n_tokens;
        }
        kit_run(k.en, r, N_REQUESTS, got);
        for (size_t i = 0; i < N_REQUESTS; i++) {
            char what[64];
            const size_t n_new = got[i].n_tokens;
            snprintf(what, sizeof(what), "request %zu resumed after %zu", i, r[i].n_resume);
            CHECK_INT(n_new + r[i].n_resume, want[i].n_tokens);
            memmove(got[i].token + r[i].n_resume, got[i].token, n_new * sizeof(int32_t));
            memcpy(got[i].token, r[i].resume, r[i].n_resume * sizeof(int32_t));
            got[i].n_tokens += r[i].n_resume;
            kit_check_same(&got[i], &want[i], what);
            CHECK_INT(got[i].usage.resumed_tokens, r[i].n_resume);
            CHECK_INT(got[i].usage.completion_tokens, want[i].n_tokens);
            /* A step is run only for what is missing. */
            CHECK_INT(got[i].prefilled,
                      n_new > 0 ? want[i].usage.prompt_tokens + r[i].n_resume : 0);
        }
    }
    kit_close(&k);
    mem_free(got);
    mem_free(want);
}

/* ------------------------------------------------------------------ logits, bit for bit */

#define N_IDS 150

struct all_rows {
    float *logits; /* [N_IDS][n_vocab] */
    uint32_t n_vocab;
    uint32_t next;
};

static int keep(void *context, uint32_t position, const float *logits, uint32_t n_vocab,
                struct error *e)
{
    struct all_rows *a = context;
    (void)e;
    CHECK_INT(position, a->next++);
    if (!a->logits)
        a->logits = mem_array(N_IDS, n_vocab * sizeof(float));
    a->n_vocab = n_vocab;
    memcpy(a->logits + (size_t)position * n_vocab, logits, n_vocab * sizeof(float));
    return 0;
}

static struct all_rows score_some(const struct engine_options *o, size_t n)
{
    int32_t ids[N_IDS];
    struct all_rows a = {0};
    struct error e = {0};
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 37 + 11) % 250;
    struct kit_engine k = kit_open(o);
    CHECK_OK(engine_score(k.en, ids, n, 0, keep, &a, &e), &e);
    CHECK_INT(a.next, n);
    kit_close(&k);
    return a;
}

/*
 * One run of every format, hashed in groups, so that a new format is a new group and changes no old
 * hash. Another hash is another arithmetic: raise NUMERIC_VERSION, which voids progress made with the
 * old one, and put the new hashes here.
 */
static const char *const format_groups[][20] = {
    {"F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
     "BF16", NULL},
    {"IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0", NULL},
    {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", NULL},
};

struct known_hash {
    const char *isa;
    bool exact;
    uint32_t version;
    const char *hash[ARRAY_LEN(format_groups)]; /* the first 16 digits of each */
};

static const struct known_hash known_hashes[] = {
    {"generic", false, 2, {"c701f29f769a509c", "ef6cab7eb6390755", "7f77a8b65a1a47ca"}},
    {"avx2", false, 2, {"036f8a4ae03720b4", "7d639aa9292fef01", "38c0e8e29e16dda4"}},
    {"avx512", false, 2, {"a14437df29514d26", "7d639aa9292fef01", "38c0e8e29e16dda4"}},
    {"neon", false, 2, {"036f8a4ae03720b4", "7d639aa9292fef01", "38c0e8e29e16dda4"}},
    {"neon-i8mm", false, 2, {"036f8a4ae03720b4", "7d639aa9292fef01", "38c0e8e29e16dda4"}},
    {"generic", true, 2, {"10960ba91b95e6fc", "54fcc7d6978dd164", "64adfeab52689774"}},
};

static void add_run(struct sha256 *h, const char *path, const char *isa, bool exact)
{
    const struct engine_options o = {
        .model_path = path, .slots = 1, .threads = 1, .isa = isa, .exact = exact};
    struct all_rows a = score_some(&o, 70);
    sha256_add(h, a.logits + 69 * (size_t)a.n_vocab, a.n_vocab * sizeof(float));
    mem_free(a.logits);
}

static void end_hash(struct sha256 *h, char out[65])
{
    uint8_t digest[32];
    sha256_end(h, digest);
    sha256_hex(digest, out);
    out[16] = '\0';
}

static void hash_run(const char *const *formats, const char *isa, bool exact, char out[65])
{
    struct sha256 h;
    sha256_init(&h);
    for (size_t i = 0; formats[i]; i++) {
        char path[4096];
        add_run(&h, kit_model(formats[i], path), isa, exact);
    }
    end_hash(&h, out);
}

static void check_known_hashes(const struct kernels *kernels)
{
    int n_other = 0;
    int n_known = 0;
    for (size_t i = 0; i < ARRAY_LEN(known_hashes); i++) {
        const struct known_hash *k = &known_hashes[i];
        char hash[65];
        if (strcmp(k->isa, kernels->name) != 0)
            continue;
        n_known++;
        CHECK_INT(k->version, NUMERIC_VERSION);
        for (size_t g = 0; g < ARRAY_LEN(format_groups); g++) {
            hash_run(format_groups[g], k->isa, k->exact, hash);
            test_note("%s%s, %s ...: %s, want %s", k->isa, k->exact ? " exact" : "",
                      format_groups[g][0], hash, k->hash[g]);
            n_other += strcmp(hash, k->hash[g]) != 0;
        }
    }
    CHECK(n_known > 0);
    CHECK_INT(n_other, 0);
}
KERNELS_EACH(TEST, identity_arithmetic_has_the_version_it_says, check_known_hashes)

/* The same of the blocks that other architectures are made of. */
static const char *const block_models[][2] = {
    {"qwen3moe", "--arch qwen3moe --vocab 300 --type Q8_0"},
    {"deepseek2", "--arch deepseek2 --vocab 300 --type Q8_0"},
    {"kimi-linear", "--arch kimi-linear --vocab 300 --type Q8_0"},
    {"kimi-k3", "--arch kimi-k3 --vocab 300 --type Q8_0"},
};

struct block_hashes {
    const char *isa;
    bool exact;
    uint32_t version;
    const char *hash[ARRAY_LEN(block_models)];
};

static const struct block_hashes block_hashes[] = {
    {"generic",
     false,
     2,
     {"7f6da5e7d50b9d7f", "19b425907814d390", "612de23994ca98d1", "4553d14df7174165"}},
    {"avx2",
     false,
     2,
     {"90e46d8ca5e6522d", "4982f5c35dcaea52", "73e4be8babce8e47", "3994f2d3dca5b9b5"}},
    {"avx512",
     false,
     2,
     {"b80f17dbc5217eca", "4982f5c35dcaea52", "6c54980738d62dac", "9d392daddeeedab0"}},
    {"neon",
     false,
     2,
     {"90e46d8ca5e6522d", "4982f5c35dcaea52", "73e4be8babce8e47", "3994f2d3dca5b9b5"}},
    {"neon-i8mm",
     false,
     2,
     {"90e46d8ca5e6522d", "4982f5c35dcaea52", "73e4be8babce8e47", "3994f2d3dca5b9b5"}},
    {"generic",
     true,
     2,
     {"2f6b23492c52484d", "b5eb1a79d5c5c7c9", "6ff04f39bc1b9203", "95f3525dc3b77e98"}},
};

static void check_block_hashes(const struct kernels *kernels)
{
    int n_other = 0;
    int n_known = 0;
    if (test_emulated())
        SKIP("an emulator takes a quarter of an hour for these models");
    for (size_t i = 0; i < ARRAY_LEN(block_hashes); i++) {
        const struct block_hashes *k = &block_hashes[i];
        if (strcmp(k->isa, kernels->name) != 0)
            continue;
        n_known++;
        CHECK_INT(k->version, NUMERIC_VERSION);
        for (size_t m = 0; m < ARRAY_LEN(block_models); m++) {
            struct sha256 h;
            char path[4096], hash[65];
            sha256_init(&h);
            add_run(&h, step_kit_model(block_models[m][0], block_models[m][1], path), k->isa,
                    k->exact);
            end_hash(&h, hash);
            test_note("%s%s, %s: %s, want %s", k->isa, k->exact ? " exact" : "", block_models[m][0],
                      hash, k->hash[m]);
            n_other += strcmp(hash, k->hash[m]) != 0;
        }
    }
    if (n_known == 0)
        SKIP("no hash of %s's blocks is known yet", kernels->name);
    CHECK_INT(n_other, 0);
}
KERNELS_EACH(TEST, identity_arithmetic_of_blocks_has_the_version_it_says, check_block_hashes)

TEST(identity_arithmetic_of_every_format_is_hashed)
{
    for (size_t i = 0; i < QUANT_COUNT; i++) {
        int n = 0;
        for (size_t g = 0; g < ARRAY_LEN(format_groups); g++) {
            for (const char *const *name = format_groups[g]; *name; name++)
                n += strcmp(*name, quants[i]->name) == 0;
        }
        if (n != 1)
            test_note("%s is in %d groups", quants[i]->name, n);
        CHECK_INT(n, 1);
    }
}

TEST(identity_logits_for_any_chunk)
{
    static const char *const formats[] = {"F32", "F16", "Q4_1", "Q8_0", "Q3_K", "Q6_K"};
    static const uint32_t chunks[] = {1, 3, 64};
    for (size_t f = 0; f < ARRAY_LEN(formats); f++) {
        char path[4096];
        struct engine_options o = {
            .model_path = kit_model(formats[f], path), .slots = 1, .threads = 1};
        struct all_rows want = score_some(&o, N_IDS);
        for (size_t c = 0; c < ARRAY_LEN(chunks); c++) {
            o.chunk = chunks[c];
            o.threads = 1 + (int)(c % 2);
            struct all_rows got = score_some(&o, N_IDS);
            const size_t bytes = (size_t)N_IDS * want.n_vocab * sizeof(float);
            if (memcmp(got.logits, want.logits, bytes) != 0)
                test_fail(__FILE__, __LINE__, "%s: chunk %u gives other bits than 256", formats[f],
                          o.chunk);
            mem_free(got.logits);
        }
        mem_free(want.logits);
    }
}
