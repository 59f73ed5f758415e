#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/test.h"

static void write_file(const char *path, size_t n)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    for (size_t i = 0; i < n; i++)
        fputc((int)(i * 31 % 251), f);
    CHECK_INT(fclose(f), 0);
}

static bool is_sample(const void *bytes, size_t n, size_t offset)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < n; i++) {
        if (byte[i] != (offset + i) * 31 % 251)
            return false;
    }
    return true;
}

TEST(file_reads_exactly_or_says_why_not)
{
    struct file f = {0};
    struct error e = {0};
    char out[100];
    file_close(&f);
    write_file("data", 1000);
    CHECK_OK(file_open(&f, "data", &e), &e);
    CHECK_INT(f.size, 1000);
    CHECK_OK(file_read_at(&f, out, 100, 900, &e), &e);
    CHECK(is_sample(out, 100, 900));
    CHECK_OK(file_read_at(&f, out, 0, 1000, &e), &e);
    CHECK_ERROR(file_read_at(&f, out, 100, 901, &e), &e, ERROR_IO,
                "data: read 99 of 100 bytes at offset 901");
    CHECK_ERROR(file_read_at(&f, out, 1, UINT64_MAX, &e), &e, ERROR_IO, "read 0 of 1 bytes");
    CHECK_INT(truncate("data", 950), 0); /* behind our back */
    CHECK_ERROR(file_read_at(&f, out, 100, 900, &e), &e, ERROR_IO,
                "data: read 50 of 100 bytes at offset 900");
    file_close(&f);
    file_close(&f);
    CHECK_ERROR(file_open(&f, "missing", &e), &e, ERROR_NOTFOUND, "missing: No such file");
    CHECK_ERROR(file_open(&f, ".", &e), &e, ERROR_IO, "not a regular file");
    CHECK_ERROR(file_open_direct(&f, "missing", &e), &e, ERROR_NOTFOUND, "missing");
    CHECK_ERROR(file_open_direct(&f, ".", &e), &e, ERROR_IO, "not a regular file");
}

static void check_direct(const struct file *f, void *block, size_t size)
{
    static const size_t offsets[] = {0, 1, 4095, 4096, 4097, 8000, 12288, 20000};
    static const size_t lengths[] = {0, 1, 100, 4096, 5000};
    struct error e = {0};
    for (size_t o = 0; o < ARRAY_LEN(offsets); o++) {
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];
            CHECK(file_direct_span(offsets[o], n) <= n + 2 * FILE_DIRECT_ALIGN);
            if (offsets[o] + n > size) {
                CHECK(file_read_direct(f, block, n, offsets[o], &e) == -ERROR_IO);
                continue;
            }
            CHECK_OK(file_read_direct(f, block, n, offsets[o], &e), &e);
            CHECK(is_sample((char *)block + offsets[o] % FILE_DIRECT_ALIGN, n, offsets[o]));
        }
    }
}

/* The same bytes from the file system of the scratch folder, from tmpfs, and buffered. */
TEST(file_reads_direct_wherever_it_is)
{
    static const size_t size = 20481; /* not a multiple of anything */
    static const char *const folders[] = {".", "/dev/shm"};
    void *block = aligned_alloc(FILE_DIRECT_ALIGN, 16 * FILE_DIRECT_ALIGN);
    struct error e = {0};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char path[64];
        snprintf(path, sizeof(path), "%s/nocturne-test-%d", folders[i], (int)getpid());
        write_file(path, size);
        struct file f = {0};
        CHECK_OK(file_open_direct(&f, path, &e), &e);
        unlink(path);
        test_note("%s: %s", folders[i], f.direct ? "direct" : "buffered");
        check_direct(&f, block, size);
        file_close(&f);
    }
    write_file("plain", size);
    struct file f = {0};
    CHECK_OK(file_open(&f, "plain", &e), &e);
    check_direct(&f, block, size);
    file_close(&f);
    free(block);
}

/* What reads otherwise than with pread sees: pieces that stop anywhere, at most a block read twice. */
TEST(file_spans_go_on_where_a_read_stopped)
{
    static const size_t size = 20481, offset = 5000, n = 9000;
    char *block = aligned_alloc(FILE_DIRECT_ALIGN, 8 * FILE_DIRECT_ALIGN);
    struct error e = {0};
    struct file f = {0};
    struct file_span s;
    write_file("data", size);
    CHECK_OK(file_open_direct(&f, "data", &e), &e);
    for (int64_t step = 4100; step < 9000; step += 700) {
        int rc = file_span_begin(&s, &f, block, n, offset, &e);
        CHECK_OK(rc, &e);
        memset(block, 0, 8 * FILE_DIRECT_ALIGN);
        CHECK_INT(file_span_took(&f, &s, -EINTR, &e), 1);
        for (rc = 1; rc > 0;) {
            const struct file_piece p = file_span_next(&f, &s);
            CHECK(!f.direct || (p.offset % 4096 == 0 && p.n % 4096 == 0));
            const ssize_t got = pread(f.fd, p.out, p.n, (off_t)p.offset);
            CHECK(got > 0);
            rc = file_span_took(&f, &s, MIN_OF((int64_t)got, step), &e);
        }
        CHECK_OK(rc, &e);
        CHECK(is_sample(block + offset % FILE_DIRECT_ALIGN, n, offset));
    }
    CHECK_OK(file_span_begin(&s, &f, block, n, offset, &e), &e);
    CHECK_ERROR(file_span_took(&f, &s, -EIO, &e), &e, ERROR_IO, "data: reading ");
    CHECK_ERROR(file_span_took(&f, &s, 0, &e), &e, ERROR_IO,
                "data: read 0 of 9000 bytes at offset 5000: the file ends there");
    CHECK_ERROR(file_span_begin(&s, &f, block, n, 15000, &e), &e, ERROR_IO, "read 5481 of 9000");
    file_close(&f);
    free(block);
}

TEST(file_read_faults_reach_the_caller)
{
    struct file f = {0};
    struct error e = {0};
    char out[1000];
    write_file("data", 1000);
    CHECK_OK(file_open(&f, "data", &e), &e);
    file_fail_after(1, FILE_FAULT_EIO);
    CHECK_ERROR(file_read_at(&f, out, 1000, 0, &e), &e, ERROR_IO, "data: reading 1000 bytes");
    file_fail_after(2, FILE_FAULT_EIO);
    CHECK_OK(file_read_at(&f, out, 1000, 0, &e), &e);
    CHECK_ERROR(file_read_at(&f, out, 1000, 0, &e), &e, ERROR_IO, "Input/output error");
    file_fail_after(1, FILE_FAULT_SHORT);
    CHECK_ERROR(file_read_at(&f, out, 1000, 0, &e), &e, ERROR_IO, "of 1000 bytes at offset 0");
    struct buf b;
    buf_init(&b, 5000);
    CHECK_ERROR(file_read_all("data", 5000, &b, &e), &e, ERROR_IO, "data: read");
    file_fail_after(0, FILE_FAULT_NONE);
    buf_clear(&b);
    CHECK_OK(file_read_all("data", 5000, &b, &e), &e);
    CHECK_INT(b.len, 1000);
    buf_release(&b);
    file_close(&f);
}

TEST(file_reads_whole_files_up_to_a_limit)
{
    struct error e = {0};
    struct buf b;
    buf_init(&b, 1 << 20);
    write_file("data", 50000);
    CHECK_OK(file_read_all("data", 50000, &b, &e), &e);
    CHECK(is_sample(b.ptr, 50000, 0) && b.len == 50000);
    buf_clear(&b);
    CHECK_ERROR(file_read_all("data", 49999, &b, &e), &e, ERROR_INVALID,
                "data: 50000 bytes, limit 49999");
    CHECK_ERROR(file_read_all("missing", 1, &b, &e), &e, ERROR_NOTFOUND, "missing");
    CHECK_ERROR(file_read_all(".", 100, &b, &e), &e, ERROR_IO, ".");
    CHECK_OK(file_read_all("/proc/self/status", 100000, &b, &e), &e); /* says it has size 0 */
    CHECK(strstr(b.ptr, "Pid:"));
    buf_release(&b);
    buf_init(&b, 100);
    CHECK_ERROR(file_read_all("data", 50000, &b, &e), &e, ERROR_INVALID, "limit 100");
    buf_release(&b);
}

TEST(file_reads_texts_without_nul)
{
    struct error e = {0};
    struct buf b;
    buf_init(&b, 100);
    CHECK_OK(file_write_all("text", "", 0, &e), &e);
    CHECK_OK(file_read_text("text", 100, &b, &e), &e);
    CHECK_INT(b.len, 0);
    CHECK_OK(file_write_all("text", "one\ntwo", 7, &e), &e);
    CHECK_OK(file_read_text("text", 100, &b, &e), &e);
    CHECK_STR(b.ptr, "one\ntwo");
    CHECK_OK(file_write_all("text", "one\0two", 7, &e), &e);
    CHECK_ERROR(file_read_text("text", 100, &b, &e), &e, ERROR_BADDATA, "text: no text: byte 3");
    CHECK_ERROR(file_read_text("missing", 100, &b, &e), &e, ERROR_NOTFOUND, "missing");
    buf_release(&b);
}

TEST(file_reads_pipes_to_their_end)
{
    struct error e = {0};
    struct buf b;
    buf_init(&b, 1 << 20);
    CHECK_INT(mkfifo("fifo", 0600), 0);
    pid_t child = fork();
    if (child == 0) {
        write_file("fifo", 200000);
        _exit(0);
    }
    CHECK_OK(file_read_all("fifo", 1 << 20, &b, &e), &e);
    CHECK_INT(b.len, 200000);
    CHECK(is_sample(b.ptr, b.len, 0));
    waitpid(child, NULL, 0);
    buf_release(&b);
    CHECK_ERROR(file_replace_begin(&(struct file_replace){0}, "fifo", &e), &e, ERROR_IO,
                "fifo: not a regular file");
}

static int count_entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    CHECK(d != NULL);
    for (struct dirent *entry = readdir(d); entry; entry = readdir(d))
        n += entry->d_name[0] != '.';
    closedir(d);
    return n;
}

static int replace_with(const char *path, const char *text, struct error *e)
{
    return file_write_all(path, text, strlen(text), e);
}

static const char *content_of(const char *path, char out[64])
{
    struct buf b;
    struct error e = {0};
    buf_init(&b, 60);
    CHECK_OK(file_read_all(path, 60, &b, &e), &e);
    snprintf(out, 64, "%s", b.ptr ? b.ptr : "");
    buf_release(&b);
    return out;
}

/* Whatever step fails, the file has its old or its new content whole, and nothing is left behind. */
static void check_replace_under(enum file_fault kind, enum error_code want)
{
    struct error e = {0};
    char text[64];
    CHECK_INT(mkdir("d", 0700), 0);
    CHECK_OK(replace_with("d/out", "old content", &e), &e);
    int rc = -1;
    long k = 1;
    for (; rc != 0; k++) {
        CHECK(k < 20);
        file_fail_after(k, kind);
        rc = replace_with("d/out", "new content", &e);
        file_fail_after(0, FILE_FAULT_NONE);
        CHECK(rc == 0 || rc == -(int)want);
        content_of("d/out", text);
        bool is_new = strcmp(text, "new content") == 0;
        CHECK(is_new || (rc != 0 && strcmp(text, "old content") == 0));
        CHECK_INT(count_entries("d"), 1);
        if (rc != 0)
            CHECK_OK(replace_with("d/out", "old content", &e), &e);
    }
    CHECK(k >= 5); /* write, fsync, rename, fsync of the folder were each hit */
}

TEST(file_replace_is_whole_under_io_errors)
{
    check_replace_under(FILE_FAULT_EIO, ERROR_IO);
}

TEST(file_replace_is_whole_on_a_full_disk)
{
    check_replace_under(FILE_FAULT_ENOSPC, ERROR_FULL);
}

TEST(file_replace_completes_short_writes)
{
    struct error e = {0};
    char text[64];
    file_fail_after(1, FILE_FAULT_SHORT);
    CHECK_OK(replace_with("out", "written in pieces", &e), &e);
    file_fail_after(0, FILE_FAULT_NONE);
    CHECK_STR(content_of("out", text), "written in pieces");
}

TEST(file_replace_keeps_mode_and_link)
{
    struct error e = {0};
    struct stat st;
    char text[64];
    CHECK_OK(replace_with("real", "first", &e), &e);
    CHECK_INT(chmod("real", 0640), 0);
    CHECK_INT(symlink("real", "link"), 0);
    CHECK_OK(replace_with("link", "second", &e), &e);
    CHECK_STR(content_of("real", text), "second");
    CHECK_INT(lstat("link", &st), 0);
    CHECK(S_ISLNK(st.st_mode));
    CHECK_INT(stat("real", &st), 0);
    CHECK_INT(st.st_mode & 0777, 0640);
    CHECK_ERROR(replace_with("no/such/out", "x", &e), &e, ERROR_NOTFOUND, "no/such/out");
}

TEST(file_replace_abort_leaves_the_old_file)
{
    struct file_replace r;
    struct error e = {0};
    char text[64];
    CHECK_OK(replace_with("out", "old", &e), &e);
    CHECK_OK(file_replace_begin(&r, "out", &e), &e);
    CHECK_OK(file_write_fd(r.fd, "half", 4, "out", &e), &e);
    file_replace_abort(&r);
    file_replace_abort(&r);
    CHECK_STR(content_of("out", text), "old");
    CHECK_INT(count_entries("."), 1);
}

TEST(file_replace_survives_memory_faults)
{
    struct error e = {0};
    int rc = -1;
    for (long k = 1; rc != 0; k++) {
        CHECK(k < 50);
        mem_fail_after(k);
        rc = replace_with("out", "content", &e);
        mem_fail_after(0);
        CHECK(rc == 0 || rc == -ERROR_NOMEM);
        CHECK_INT(count_entries("."), rc == 0);
    }
}

TEST(file_makes_parents_and_tells_space)
{
    struct error e = {0};
    struct stat st;
    uint64_t bytes = 0;
    CHECK_OK(file_make_parent("a/b/c/queue.db", &e), &e);
    CHECK_OK(file_make_parent("a/b/c/queue.db", &e), &e);
    CHECK_OK(file_make_parent("queue.db", &e), &e);
    CHECK_INT(stat("a/b/c", &st), 0);
    CHECK_INT(st.st_mode & 0777, 0700);
    CHECK(access("a/b/c/queue.db", F_OK) != 0);
    write_file("a/plain", 1);
    CHECK(file_make_parent("a/plain/x/y", &e) == -ERROR_IO);
    CHECK_OK(file_space("a", &bytes, &e), &e);
    CHECK(bytes > 0);
    CHECK_ERROR(file_space("missing", &bytes, &e), &e, ERROR_NOTFOUND, "missing");
}
