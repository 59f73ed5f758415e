/* What examples/ holds is what its README says. */
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "jobs/body.h"
#include "jobs/document/document.h"
#include "jobs/jsonl.h"
#include "jobs/template.h"
#include "tests/test.h"

static const char *example(const char *name, char path[4200])
{
    snprintf(path, 4200, "%s/examples/%s", test_source_root(), name);
    return path;
}

TEST(examples_documents_fit_the_template)
{
    char path[4200];
    struct error e;
    struct buf text;
    struct prompt_template *t = NULL;
    buf_init(&text, 65536);
    CHECK_OK(file_read_all(example("summary.txt", path), 65536, &text, &e), &e);
    CHECK_OK(prompt_template_new(&t, path, buf_str(&text), NULL, 0, &e), &e);
    CHECK(prompt_template_uses_document(t));

    struct document_walk *w = NULL;
    struct document d;
    int n = 0;
    CHECK_OK(document_walk_open(&w, example("documents", path), &e), &e);
    for (; document_walk_next(w, &d, &e) == 1; n++) {
        const struct job_parameters p = {.has_max_tokens = true, .max_tokens = 160};
        struct buf body;
        buf_clear(&text);
        buf_init(&body, 65536);
        CHECK_OK(prompt_template_render(t, d.text, d.filename, &text, &e), &e);
        CHECK_OK(job_body_make(&body, job_kind_at(JOB_KIND_chat), &p, buf_str(&text), &e), &e);
        buf_release(&body);
    }
    CHECK_INT(n, 5);
    document_walk_close(w);
    prompt_template_free(t);
    buf_release(&text);
}

TEST(examples_requests_are_accepted)
{
    char path[4200];
    struct error e;
    struct jsonl *j = NULL;
    struct jsonl_line line;
    struct jsonl_notes notes;
    int fd = open(example("requests.jsonl", path), O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_OK(jsonl_open_fd(&j, path, fd, &e), &e);
    int rc = jsonl_next(j, &line, &e);
    while (rc == 1)
        rc = jsonl_next(j, &line, &e);
    CHECK_OK(rc, &e);
    jsonl_notes(j, &notes);
    CHECK_INT(notes.n_lines, 4);
    CHECK_INT(notes.n_without_method, 0);
    jsonl_close(j);
    close(fd);
}
