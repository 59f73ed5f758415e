/* Documents: what a walk gives, in which order, and what it refuses by name. */
#include "jobs/document/document.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tests/test.h"

static void put_bytes(const char *path, const void *bytes, size_t n)
{
    struct error e;
    CHECK_OK(file_make_parent(path, &e), &e);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(write(fd, bytes, n), n);
    close(fd);
}

static void put(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

/* Ids and texts of a walk as "id=text;". */
static int list(const char *argument, char out[1024], struct error *e)
{
    struct document_walk *w = NULL;
    struct document d;
    size_t n = 0;
    out[0] = 0;
    int rc = document_walk_open(&w, argument, e);
    while (rc >= 0) {
        rc = document_walk_next(w, &d, e);
        if (rc <= 0)
            break;
        n += (size_t)snprintf(out + n, 1024 - n, "%.*s=%.*s;", (int)d.custom_id.len,
                              d.custom_id.ptr, (int)d.text.len, d.text.ptr);
        CHECK(str_equal_c(d.custom_id, d.filename.ptr) || d.filename.ptr[-1] == '/');
    }
    document_walk_close(w);
    return rc;
}

static void check_list(const char *argument, const char *want)
{
    char got[1024];
    struct error e;
    CHECK_OK(list(argument, got, &e), &e);
    CHECK_STR(got, want);
}

static void check_refused(const char *argument, int code, const char *reason)
{
    char got[1024];
    struct error e = {0};
    CHECK_ERROR(list(argument, got, &e), &e, code, reason);
}

TEST(document_folders_are_walked_in_byte_order)
{
    put("d/b.md", "B");
    put("d/a/z.txt", "AZ");
    put("d/a/b/c", "ABC");
    put("d/a.txt", "A");
    put("d/a-1", "A1");
    put("d/Z", "Z");
    put("d/.hidden", "no");
    put("d/.git/config", "no");
    put("d/\xC3\xA9.txt", "\xC3\xA9");
    const char *want = "Z=Z;a-1=A1;a.txt=A;a/b/c=ABC;a/z.txt=AZ;b.md=B;\xC3\xA9.txt=\xC3\xA9;";
    check_list("d", want);
    check_list("d/", want);
    check_list("d///", want);
    check_list("./d", want);
    check_list("d/a", "b/c=ABC;z.txt=AZ;");
}

TEST(document_files_are_named_by_themselves)
{
    put("d/b.md", "\xEF\xBB\xBFtext\r\n");
    put("c.TXT", "C");
    check_list("d/b.md", "b.md=text\r\n;");
    check_list("c.TXT", "c.TXT=C;");
    put("d/.hidden", "given by name");
    check_list("d/.hidden", ".hidden=given by name;");
}

TEST(document_links_are_followed_but_not_in_circles)
{
    put("d/sub/a.txt", "A");
    put("other/o.txt", "O");
    CHECK_INT(symlink("..", "d/sub/up"), 0);
    CHECK_INT(symlink("../d", "d/me"), 0);
    CHECK_INT(symlink("../other", "d/link"), 0);
    CHECK_INT(symlink("sub/a.txt", "d/z"), 0);
    check_list("d", "link/o.txt=O;sub/a.txt=A;z=A;");
    CHECK_INT(symlink("nowhere", "d/broken"), 0);
    check_refused("d", ERROR_BADDATA, "d/broken: cannot be read");
}

TEST(document_special_files_are_refused)
{
    CHECK_INT(mkdir("d", 0700), 0);
    CHECK_INT(mkfifo("d/pipe", 0600), 0);
    check_refused("d", ERROR_BADDATA, "d/pipe: neither a file nor a folder");
    check_refused("d/pipe", ERROR_BADDATA, "d/pipe: neither a file nor a folder");
    check_refused("/dev/null", ERROR_BADDATA, "/dev/null: neither");
    check_refused("absent", ERROR_NOTFOUND, "absent: No such file");
}

TEST(document_empty_inputs_are_refused)
{
    CHECK_INT(mkdir("d", 0700), 0);
    check_refused("d", ERROR_BADDATA, "d/: no documents");
    CHECK_INT(mkdir("d/sub", 0700), 0);
    check_refused("d", ERROR_BADDATA, "d/: no documents");
    put("d/empty.txt", "");
    check_refused("d", ERROR_BADDATA, "d/empty.txt: no text in 0 bytes");
    put("d/empty.txt", "\xEF\xBB\xBF \n\t\r\n");
    check_refused("d", ERROR_BADDATA, "d/empty.txt: no text in 8 bytes");
}

TEST(document_binary_files_are_refused_by_name)
{
    static const struct {
        const char *path;
        const char *bytes;
        size_t n;
        const char *reason;
    } cases[] = {
        {"d/a", "text\0more", 9, "d/a: a NUL byte at byte 5"},
        {"d/a", "text\xFFmore", 9, "d/a: invalid UTF-8 at byte 5"},
        {"d/a", "\xC3", 1, "d/a: invalid UTF-8 at byte 1"},
        {"d/a", "\0\xFF", 2, "NUL byte at byte 1"},
        {"d/a", "\xFF\xFEh\0i\0", 6, "d/a: UTF-16"},
        {"d/a", "\xFE\xFF\0h\0i", 6, "d/a: UTF-16"},
        {"d/a", "%PDF-1.7\nascii", 14, "d/a: PDF"},
        {"d/a.PDF", "not really", 10, "d/a.PDF: PDF"},
        {"d/a.docx", "x", 1, "d/a.docx: ZIP or office"},
        {"d/a", "PK\3\4rest", 8, "d/a: ZIP"},
        {"d/a", "\x89PNG\r\n", 6, "d/a: image"},
        {"d/in.jsonl", "{}", 2, "d/in.jsonl: batch input"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put_bytes(cases[i].path, cases[i].bytes, cases[i].n);
        check_refused("d", ERROR_BADDATA, cases[i].reason);
        CHECK_INT(unlink(cases[i].path), 0);
    }
    put("d/.hidden/x", "x");
    put("d/bad\xFF.txt", "fine");
    check_refused("d", ERROR_BADDATA, "the name is not valid UTF-8 (byte 4)");
}

TEST(document_ids_and_sizes_are_bounded)
{
    char path[700] = "d";
    for (int i = 0; i < 5; i++) {
        size_t n = strlen(path);
        path[n] = '/';
        memset(path + n + 1, 'a' + i, 110);
        path[n + 111] = 0;
    }
    put(path, "x");
    check_refused("d", ERROR_BADDATA, "the relative path has 554 bytes, limit 512");
    CHECK_INT(truncate(path, DOCUMENT_MAX_BYTES + 1), 0);
    check_refused(path, ERROR_INVALID, "33554433 bytes, limit 33554432");
}

TEST(document_stdin_is_one_document)
{
    int pipe_fd[2];
    CHECK_INT(pipe(pipe_fd), 0);
    CHECK_INT(write(pipe_fd[1], "hello\n", 6), 6);
    close(pipe_fd[1]);
    CHECK_INT(dup2(pipe_fd[0], 0), 0);
    check_list("-", "stdin=hello\n;");
    check_refused("-", ERROR_BADDATA, "stdin: no text in 0 bytes");
}

TEST(document_read_failures_name_the_file)
{
    put("d/a", "A");
    char got[1024];
    struct error e;
    file_fail_after(1, FILE_FAULT_EIO);
    CHECK_ERROR(list("d", got, &e), &e, ERROR_IO, "d/a");
    file_fail_after(0, FILE_FAULT_NONE);
}

TEST(document_walk_survives_every_failing_allocation)
{
    put("d/a/b", "AB");
    put("d/c", "C");
    int rc = -1;
    for (long k = 1; rc < 0; k++) {
        char got[1024];
        struct error e;
        mem_fail_after(k);
        rc = list("d", got, &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        CHECK(k < 200);
    }
}
