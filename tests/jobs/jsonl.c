/* Batch input: what a line may be, how errors name it, and that memory stays flat. */
#include "jobs/jsonl.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "jobs/json.h"
#include "jobs/text.h"
#include "tests/test.h"

#define BODY "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define LINE(id)                                                                                   \
    "{\"custom_id\":\"" id                                                                         \
    "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":" BODY "}"

/* Gives a text in pieces of `step` bytes. */
struct source {
    struct str left;
    size_t step;
    bool broken; /* fails instead of ending */
};

static int64_t read_source(void *context, void *out, size_t n, struct error *e)
{
    struct source *s = context;
    size_t take = MIN_OF(MIN_OF(n, s->step), s->left.len);
    if (take == 0 && s->broken)
        return error_set(e, ERROR_IO, "in.jsonl: cannot read");
    if (take > 0)
        memcpy(out, s->left.ptr, take);
    s->left = str_slice(s->left.ptr + take, s->left.len - take);
    return (int64_t)take;
}

static struct jsonl *open_text(struct source *s, const char *text, size_t step)
{
    struct jsonl *j = NULL;
    struct error e;
    *s = (struct source){.left = str_of(text), .step = step};
    CHECK_OK(jsonl_open(&j, "in.jsonl", read_source, s, &e), &e);
    return j;
}

TEST(jsonl_reads_lines_however_they_arrive)
{
    static const char text[] = "\xEF\xBB\xBF\r\n" LINE("a") "\r\n\n  \t\n" LINE(
        "b") "\n"
             "{\"custom_id\":\"c\",\"url\":\"/v1/chat/completions\",\"body\":" BODY "}";
    static const char *const ids[] = {"a", "b", "c"};
    static const uint64_t numbers[] = {2, 5, 6};
    for (size_t step = 1; step < 200; step += 7) {
        struct source s;
        struct jsonl *j = open_text(&s, text, step);
        struct jsonl_line line;
        struct error e;
        for (size_t i = 0; i < 3; i++) {
            CHECK_INT(jsonl_next(j, &line, &e), 1);
            CHECK(str_equal_c(line.custom_id, ids[i]));
            CHECK(str_equal_c(line.body, BODY));
            CHECK_INT(line.number, numbers[i]);
            CHECK_STR(job_kind_endpoint(line.kind), "/v1/chat/completions");
        }
        CHECK_INT(jsonl_next(j, &line, &e), 0);
        CHECK_INT(jsonl_next(j, &line, &e), 0);
        struct jsonl_notes notes;
        jsonl_notes(j, &notes);
        CHECK_INT(notes.n_lines, 3);
        CHECK_INT(notes.n_without_method, 1);
        jsonl_close(j);
    }
}

TEST(jsonl_takes_bare_bodies)
{
    struct source s;
    struct error e;
    struct jsonl_line line;
    struct jsonl *j = open_text(
        &s, "\n{\"prompt\":\"x\"}\n{\"custom_id\":\"mine\", \"prompt\":\"y\",\"seed\":1}\n", 1000);
    CHECK_INT(jsonl_next(j, &line, &e), 1);
    CHECK(str_equal_c(line.custom_id, "line-2"));
    CHECK(str_equal_c(line.body, "{\"prompt\":\"x\"}"));
    CHECK_STR(job_kind_endpoint(line.kind), "/v1/completions");
    CHECK_INT(jsonl_next(j, &line, &e), 1);
    CHECK(str_equal_c(line.custom_id, "mine"));
    CHECK(str_equal_c(line.body, "{\"prompt\":\"y\",\"seed\":1}"));
    CHECK_INT(jsonl_next(j, &line, &e), 0);
    jsonl_close(j);
    j = open_text(&s, BODY, 1000);
    CHECK_INT(jsonl_next(j, &line, &e), 1);
    CHECK_STR(job_kind_endpoint(line.kind), "/v1/chat/completions");
    jsonl_close(j);
}

TEST(jsonl_echoes_ids_byte_for_byte)
{
    struct source s;
    struct error e;
    struct jsonl_line line;
    struct jsonl *j = open_text(&s, LINE("\\u00e9 \\\"\\\\\\n\xF0\x9F\x98\x80"), 1000);
    CHECK_INT(jsonl_next(j, &line, &e), 1);
    CHECK(str_equal_c(line.custom_id, "\xC3\xA9 \"\\\n\xF0\x9F\x98\x80"));
    jsonl_close(j);
}

/* The first line is good, the second is at fault. */
TEST(jsonl_errors_name_line_and_reason)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"{", "not valid JSON"},
        {"7", "must be a JSON object"},
        {"[]", "must be a JSON object"},
        {"{}", "body: missing"},
        {"\xFF", "invalid UTF-8 at byte 1"},
        {"{\"url\":\"/v1/chat/completions\",\"body\":" BODY "}", "custom_id: missing"},
        {"{\"custom_id\":7,\"url\":\"/v1/chat/completions\",\"body\":" BODY "}",
         "custom_id: must be a string"},
        {LINE(""), "custom_id: 0 bytes"},
        {"{\"custom_id\":\"a\",\"body\":" BODY "}", "url: missing"},
        {"{\"custom_id\":\"a\",\"url\":7,\"body\":" BODY "}", "url: must be a string"},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/embeddings\",\"body\":" BODY "}",
         "url: /v1/embeddings is not supported"},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/completions\",\"body\":{\"prompt\":\"x\"}}",
         "url: /v1/completions, but the lines before it are for /v1/chat/completions"},
        {"{\"prompt\":\"x\"}", "/v1/completions, but"},
        {"{\"custom_id\":\"a\",\"method\":\"GET\",\"url\":\"/v1/chat/completions\",\"body\":" BODY
         "}",
         "method: must be \"POST\""},
        {"{\"custom_id\":\"a\",\"method\":null,\"url\":\"/v1/chat/completions\",\"body\":" BODY "}",
         "method: must be \"POST\""},
        {"{\"custom_id\":\"a\",\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":" BODY
         "}",
         "custom_id: given twice"},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":" BODY ",\"x\":1}",
         "x: unknown field"},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":7}",
         "the body must be a JSON object"},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":{}}", "messages: missing"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"stream\":true}", "stream:"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"custom_id\":\"a\","
         "\"custom_id\":\"b\"}",
         "custom_id: unknown field"},
        {"{\"custom_id\":\"a\",\"url\":\"/v1/chat/completions\",\"body\":"
         "{\"seed\":9007199254740993}}",
         "body.seed: a number of 2^53"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[2048];
        snprintf(text, sizeof(text), LINE("first") "\n\n%s\n" LINE("last"), cases[i].line);
        struct source s;
        struct error e = {0};
        struct jsonl_line line;
        struct jsonl *j = open_text(&s, text, 64);
        CHECK_INT(jsonl_next(j, &line, &e), 1);
        CHECK_ERROR(jsonl_next(j, &line, &e), &e, ERROR_BADDATA, cases[i].reason);
        CHECK(strncmp(e.text, "in.jsonl: line 3: ", 18) == 0);
        jsonl_close(j);
    }
}

TEST(jsonl_bounds_the_custom_id)
{
    char text[1024];
    for (int n = JOB_CUSTOM_ID_MAX_BYTES; n <= (int)JOB_CUSTOM_ID_MAX_BYTES + 1; n++) {
        char id[JOB_CUSTOM_ID_MAX_BYTES + 2];
        memset(id, 'i', (size_t)n);
        id[n] = 0;
        snprintf(text, sizeof(text), LINE("%s"), id);
        struct source s;
        struct error e;
        struct jsonl_line line;
        struct jsonl_notes notes;
        struct jsonl *j = open_text(&s, text, 64);
        if (n == JOB_CUSTOM_ID_MAX_BYTES)
            CHECK_INT(jsonl_next(j, &line, &e), 1);
        else
            CHECK_ERROR(jsonl_next(j, &line, &e), &e, ERROR_BADDATA,
                        "line 1: custom_id: 513 bytes, must be 1 to 512");
        jsonl_notes(j, &notes);
        CHECK_INT(notes.n_long_ids, n == JOB_CUSTOM_ID_MAX_BYTES ? 1 : 0);
        jsonl_close(j);
    }
}

TEST(jsonl_reports_a_broken_source)
{
    struct source s;
    struct error e;
    struct jsonl_line line;
    struct jsonl *j = open_text(&s, LINE("a") "\n{\"cus", 1000);
    s.broken = true;
    CHECK_INT(jsonl_next(j, &line, &e), 1);
    CHECK_ERROR(jsonl_next(j, &line, &e), &e, ERROR_IO, "in.jsonl: cannot read");
    jsonl_close(j);
    int fd = open(".", O_RDONLY | O_CLOEXEC);
    CHECK_OK(jsonl_open_fd(&j, "folder", fd, &e), &e);
    CHECK_ERROR(jsonl_next(j, &line, &e), &e, ERROR_IO, "folder: cannot read");
    jsonl_close(j);
    close(fd);
}

TEST(jsonl_reads_descriptors)
{
    int pipe_fd[2];
    CHECK_INT(pipe(pipe_fd), 0);
    CHECK_INT(write(pipe_fd[1], LINE("a"), strlen(LINE("a"))), strlen(LINE("a")));
    close(pipe_fd[1]);
    struct jsonl *j = NULL;
    struct error e;
    struct jsonl_line line;
    CHECK_OK(jsonl_open_fd(&j, "-", pipe_fd[0], &e), &e);
    CHECK_INT(jsonl_next(j, &line, &e), 1);
    CHECK_INT(jsonl_next(j, &line, &e), 0);
    jsonl_close(j);
    close(pipe_fd[0]);
}

/* Repeats a line `left` times. */
struct repeater {
    struct str line;
    size_t pos;
    uint64_t left;
};

static int64_t read_repeated(void *context, void *out, size_t n, struct error *e)
{
    struct repeater *r = context;
    (void)e;
    size_t done = 0;
    while (done < n && r->left > 0) {
        size_t take = MIN_OF(n - done, r->line.len - r->pos);
        memcpy((char *)out + done, r->line.ptr + r->pos, take);
        done += take;
        r->pos += take;
        if (r->pos == r->line.len) {
            r->pos = 0;
            r->left--;
        }
    }
    return (int64_t)done;
}

static unsigned long blocks_for(uint64_t n_lines)
{
    static const char line_text[] = LINE("same") "\n";
    struct repeater r = {.line = str_of(line_text), .left = n_lines};
    struct jsonl *j = NULL;
    struct error e;
    struct jsonl_line line;
    unsigned long before = mem_count();
    CHECK_OK(jsonl_open(&j, "in", read_repeated, &r, &e), &e);
    for (uint64_t i = 1; i <= n_lines; i++) {
        CHECK_INT(jsonl_next(j, &line, &e), 1);
        CHECK(line.number == i);
    }
    CHECK_INT(jsonl_next(j, &line, &e), 0);
    jsonl_close(j);
    return mem_count() - before;
}

/* Two blocks a request (messages, joined parts), cJSON's trees apart, and none for the reader. */
TEST(jsonl_buffers_do_not_grow_with_the_input)
{
    CHECK_INT(blocks_for(20000) - blocks_for(2000), 2 * (20000 - 2000));
}

/* Gives `left` blanks, then ends. */
static int64_t read_blanks(void *context, void *out, size_t n, struct error *e)
{
    size_t *left = context;
    (void)e;
    size_t take = MIN_OF(n, *left);
    memset(out, ' ', take);
    *left -= take;
    return (int64_t)take;
}

TEST(jsonl_refuses_endless_lines)
{
    size_t left = (size_t)JSONL_LINE_MAX_BYTES + 1;
    struct jsonl *j = NULL;
    struct error e;
    struct jsonl_line line;
    CHECK_OK(jsonl_open(&j, "in", read_blanks, &left, &e), &e);
    CHECK_ERROR(jsonl_next(j, &line, &e), &e, ERROR_BADDATA, "in: line 1: longer than 209715200");
    jsonl_close(j);
}

TEST(jsonl_survives_every_failing_allocation)
{
    json_init();
    int rc = -1;
    for (long k = 1; rc < 0; k++) {
        struct source s = {.left = str_of(LINE("a") "\n" BODY "\n"), .step = 50};
        struct jsonl *j = NULL;
        struct jsonl_line line;
        struct error e = {0};
        mem_fail_after(k);
        rc = jsonl_open(&j, "in", read_source, &s, &e);
        while (rc >= 0) {
            rc = jsonl_next(j, &line, &e);
            if (rc <= 0)
                break;
        }
        mem_fail_after(0);
        jsonl_close(j);
        CHECK(rc == 0 || (rc == -ERROR_NOMEM && e.code == ERROR_NOMEM));
        CHECK(k < 1000);
    }
}
