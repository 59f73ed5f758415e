#include "tests/engine/local_kit.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

static void run_mkmodel(const char *format, const char *pre, const char *path)
{
    char tool[4200];
    snprintf(tool, sizeof(tool), "%s", test_program());
    char *slash = strrchr(tool, '/');
    CHECK(slash != NULL);
    snprintf(slash, sizeof(tool) - (size_t)(slash - tool), "/tools/mkmodel");
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl(tool, "mkmodel", "--arch", "llama", "--type", format, "--pre", pre, "--layers", "2",
              "--embd", "256", "--heads", "4", "--kv-heads", "2", "--head-dim", "64", "--ff", "512",
              "--ctx", "512", "--vocab", "600", "--seed", "7", "-o", path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0)
        test_fail(__FILE__, __LINE__, "%s: exit status %d", tool, WEXITSTATUS(status));
}

const char *kit_model(const char *format, char path[4096])
{
    snprintf(path, 4096, "%.3000s/%.20s.gguf", test_dir(), format);
    if (access(path, R_OK) != 0)
        run_mkmodel(format, "default", path);
    return path;
}

const char *kit_thinking_model(char path[4096])
{
    snprintf(path, 4096, "%.3000s/thinking.gguf", test_dir());
    if (access(path, R_OK) != 0)
        run_mkmodel("F16", "kimi-k2", path);
    return path;
}

struct kit_engine kit_open(const struct engine_options *o)
{
    struct kit_engine k = {0};
    struct error e = {0};
    struct engine_options with_ledger = *o;
    CHECK_OK(ledger_new(&k.ledger, (uint64_t)1 << 30, &e), &e);
    with_ledger.ledger = k.ledger;
    if (with_ledger.threads == 0)
        with_ledger.threads = 2;
    CHECK_OK(engine_open(&k.en, &with_ledger, &e), &e);
    return k;
}

void kit_close(struct kit_engine *k)
{
    engine_close(k->en);
    CHECK_INT(ledger_total(k->ledger), 0);
    ledger_free(k->ledger);
}

struct engine_plan kit_plan(const char *path, uint64_t limit, const struct engine_options *asked)
{
    struct engine *en = NULL;
    struct error e = {0};
    struct engine_plan p;
    struct engine_options o = *asked;
    o.model_path = path;
    o.headers_only = true;
    if (limit > 0)
        CHECK_OK(ledger_new(&o.ledger, limit, &e), &e);
    CHECK_OK(engine_open(&en, &o, &e), &e);
    engine_plan(en, &p);
    engine_close(en);
    ledger_free(o.ledger);
    return p;
}

static struct kit_result *find(const struct engine_request *r, size_t n, struct kit_result *results,
                               uint64_t tag)
{
    for (size_t i = 0; i < n; i++) {
        if (r[i].tag == tag)
            return &results[i];
    }
    test_fail(__FILE__, __LINE__, "an event of tag %llu, which nobody submitted",
              (unsigned long long)tag);
}

static void append(char *out, size_t size, size_t *n, struct str text)
{
    CHECK(text.len < size - *n);
    if (text.len > 0)
        memcpy(out + *n, text.ptr, text.len);
    *n += text.len;
}

static void take(struct kit_result *res, const struct engine_event *event)
{
    CHECK_INT(res->n_done, 0); /* nothing comes after the end */
    switch (event->kind) {
    case ENGINE_EVENT_TOKEN:
        CHECK(res->n_tokens < ARRAY_LEN(res->token));
        res->token[res->n_tokens++] = event->token;
        append(res->streamed, sizeof(res->streamed), &res->n_streamed, event->text);
        res->streamed_by[res->n_tokens - 1] = res->n_streamed;
        append(res->streamed_thought, sizeof(res->streamed_thought), &res->n_streamed_thought,
               event->reasoning);
        break;
    case ENGINE_EVENT_PREFILL:
        CHECK(event->prefilled > res->prefilled && event->prefilled <= event->prompt_tokens);
        res->prefilled = event->prefilled;
        break;
    case ENGINE_EVENT_DONE:
        append(res->text, sizeof(res->text), &res->n_text, event->text);
        append(res->thought, sizeof(res->thought), &res->n_thought, event->reasoning);
        res->in_thought = event->in_thought;
        res->finish = event->finish;
        res->detail = event->detail;
        res->usage = event->usage;
        res->n_done++;
        break;
    case ENGINE_EVENT_FAILED:
        res->error = event->error;
        res->usage = event->usage;
        res->n_done++;
        break;
    }
}

void kit_run(struct engine *en, const struct engine_request *r, size_t n, struct kit_result *ret)
{
    struct error e = {0};
    memset(ret, 0, n * sizeof(*ret));
    for (size_t next = 0; next < n || engine_busy(en);) {
        while (next < n && engine_room(en)) {
            enum engine_admission admission = ENGINE_BUSY;
            CHECK_OK(engine_submit(en, &r[next], &admission, &e), &e);
            if (admission == ENGINE_BUSY)
                break;
            next++;
        }
        struct engine_event event;
        int rc = engine_poll(en, &event, &e);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "engine_poll: %s", e.text);
        if (rc == 1)
            take(find(r, n, ret, event.tag), &event);
    }
    for (size_t i = 0; i < n; i++)
        CHECK_INT(ret[i].n_done, 1);
}

void kit_check_same(const struct kit_result *got, const struct kit_result *want, const char *what)
{
    if (got->n_tokens != want->n_tokens)
        test_fail(__FILE__, __LINE__, "%s: %zu tokens, want %zu", what, got->n_tokens,
                  want->n_tokens);
    for (size_t i = 0; i < want->n_tokens; i++) {
        if (got->token[i] != want->token[i])
            test_fail(__FILE__, __LINE__, "%s: token %zu is %d, want %d", what, i,
                      (int)got->token[i], (int)want->token[i]);
    }
    if (got->n_text != want->n_text || memcmp(got->text, want->text, want->n_text) != 0)
        test_fail(__FILE__, __LINE__, "%s: \"%s\", want \"%s\"", what, got->text, want->text);
    if (got->n_thought != want->n_thought ||
        memcmp(got->thought, want->thought, want->n_thought) != 0)
        test_fail(__FILE__, __LINE__, "%s: thought \"%s\", want \"%s\"", what, got->thought,
                  want->thought);
    CHECK_INT(got->usage.reasoning_tokens, want->usage.reasoning_tokens);
    CHECK_INT(got->finish, want->finish);
    CHECK_INT(got->detail, want->detail);
}
