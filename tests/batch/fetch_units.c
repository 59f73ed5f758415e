/* What downloads are made of: addresses, lists, what headers say, manifests. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "batch/fetch/address.h"
#include "batch/fetch/answer.h"
#include "batch/fetch/manifest.h"
#include "batch/fetch/part.h"
#include "tests/test.h"

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* ---- addresses -------------------------------------------------------------------------------- */

TEST(fetch_address_gives_names_parts_and_no_secrets)
{
    struct error e = {0};
    char name[ADDRESS_NAME_MAX], out[ADDRESS_MAX];
    unsigned n = 0;
    const char *url = "https://me:pw@hub.example:8443/a/m%20x-00002-of-00034.gguf?sig=abc#top";
    CHECK_OK(address_check(url, &e), &e);
    CHECK_OK(address_name(url, name, &e), &e);
    CHECK_STR(name, "m x-00002-of-00034.gguf");
    CHECK(address_is_split(url, &n));
    CHECK_INT(n, 34);
    address_part(url, 17, out);
    CHECK_STR(out, "https://me:pw@hub.example:8443/a/m%20x-00017-of-00034.gguf?sig=abc#top");
    address_plain(url, out);
    CHECK_STR(out, "https://hub.example:8443/a/m%20x-00002-of-00034.gguf");
    address_host(url, out);
    CHECK_STR(out, "hub.example:8443");
    address_part("m-00003-of-00009.gguf", 1, out);
    CHECK_STR(out, "m-00001-of-00009.gguf");
    CHECK(address_private("https://x/y") && address_private("http://localhost:80/y"));
    CHECK(!address_private("http://localhost.example/y") && !address_private("http://x/y"));
}

TEST(fetch_address_refuses_names_that_leave_the_folder)
{
    struct error e = {0};
    char name[ADDRESS_NAME_MAX];
    unsigned n = 0;
    static const char *const bad[] = {"http://h",       "http://h/",        "http://h/a/",
                                      "http://h/..",    "http://h/.hidden", "http://h/%2e%2e",
                                      "http://h/a%2fb", "http://h/a%00b",   "http://h/a%0ab",
                                      "http://h/%2drf", "http://h/a%5cb",   "http://h?x=/b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK_ERROR(address_name(bad[i], name, &e), &e, ERROR_USAGE, "ends in no name");
    CHECK_ERROR(address_check("file:///etc/passwd", &e), &e, ERROR_USAGE, "no URL of");
    CHECK_ERROR(address_check("http://h/a b", &e), &e, ERROR_USAGE, "a blank");
    CHECK_ERROR(address_check("http:///a", &e), &e, ERROR_USAGE, "names no host");
    CHECK_ERROR(address_check("http://me:pw@/a", &e), &e, ERROR_USAGE, "'http:///a' names no host");
    CHECK_ERROR(address_check("ftp://me:pw@h/a?sig=abc", &e), &e, ERROR_USAGE,
                "'ftp://h/a' is no URL");
    CHECK_ERROR(address_check("http://me:pw@h/a\tb", &e), &e, ERROR_USAGE, "'http://h/a\tb': a");
    CHECK(!address_is_split("http://h/m-00000-of-00003.gguf", &n));
    CHECK(!address_is_split("http://h/m-00004-of-00003.gguf", &n));
    CHECK(!address_is_split("http://h/m-0001-of-00003.gguf", &n));
    CHECK(!address_is_split("-00001-of-00003.gguf", &n));
}

TEST(fetch_list_takes_urls_parts_and_lines)
{
    struct error e = {0};
    struct fetch_list l;
    CHECK_OK(fetch_list_read(&l, "http://h/m-00002-of-00003.gguf?download=true", &e), &e);
    CHECK_INT(l.n, 3);
    CHECK_STR(l.item[2].name, "m-00003-of-00003.gguf");
    CHECK_STR(l.item[0].url, "http://h/m-00001-of-00003.gguf?download=true");
    fetch_list_release(&l);
    write_file("list", "# comment\n\nhttp://h/a 12\r\n\thttp://h/b "
                       "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855 7 # end\n"
                       "http://h/m-00001-of-00003.gguf");
    CHECK_OK(fetch_list_read(&l, "list", &e), &e);
    CHECK_INT(l.n, 3);
    CHECK(l.item[0].size == 12 && !l.item[0].sha256[0]);
    CHECK(l.item[1].size == 7);
    CHECK_STR(l.item[1].sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(l.item[2].size == FETCH_UNKNOWN);
    fetch_list_release(&l);
    write_file("list", "http://h/a -1\n");
    CHECK_ERROR(fetch_list_read(&l, "list", &e), &e, ERROR_BADDATA, "list:1: '-1' is neither");
    fetch_list_release(&l);
    write_file("list", "http://h/SHA256SUMS\n");
    CHECK_ERROR(fetch_list_read(&l, "list", &e), &e, ERROR_USAGE, "one of our own");
    fetch_list_release(&l);
    CHECK_OK(file_write_all("list", "http://h/a\n\0http://h/b\n", 23, &e), &e);
    CHECK_ERROR(fetch_list_read(&l, "list", &e), &e, ERROR_BADDATA, "byte 11 is a NUL");
    fetch_list_release(&l);
    write_file("list", "# nothing\n");
    CHECK_ERROR(fetch_list_read(&l, "list", &e), &e, ERROR_BADDATA, "no URL");
    fetch_list_release(&l);
    CHECK_ERROR(fetch_list_read(&l, "http://h/m-00001-of-09999.gguf", &e), &e, ERROR_USAGE,
                "9999 parts");
    fetch_list_release(&l);
}

/* ---- answers ---------------------------------------------------------------------------------- */

static void say(struct answer *a, const char *const *line)
{
    answer_init(a);
    for (; *line; line++)
        answer_line(a, str_of(*line));
}

static const struct remote known = {.size = 100, .etag = "\"x\""};

TEST(fetch_answer_keeps_what_the_hub_said_before_it_redirected)
{
    struct answer a;
    char sha[65];
    const char *const lines[] = {
        "HTTP/2 302",
        "X-Linked-Size: 100",
        "X-LINKED-ETAG: \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
        "ETag: \"of the redirect\"",
        "Content-Length: 5",
        "HTTP/1.1 206 Partial Content\r\n",
        "content-range: bytes 10-19/100\r\n",
        "ETag: \"0123456789012345678901234567890123456789012345678901234567890123\"",
        "\r\n",
        NULL};
    say(&a, lines);
    CHECK_INT(a.status, 206);
    CHECK(a.has_range && a.first == 10 && a.last == 19 && a.total == 100);
    CHECK(a.length == FETCH_UNKNOWN && a.remote.size == 100);
    remote_sha256(&a.remote, sha);
    CHECK_STR(sha, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    a.remote.linked_sha256[0] = '\0';
    remote_sha256(&a.remote, sha);
    CHECK_STR(sha, "0123456789012345678901234567890123456789012345678901234567890123");
    snprintf(a.remote.etag, sizeof(a.remote.etag), "\"abc\"");
    remote_sha256(&a.remote, sha);
    CHECK_STR(sha, "");
}

TEST(fetch_answer_judges_what_was_asked_for)
{
    static const struct {
        const char *line[5];
        bool ranged, hashed;
        enum verdict want;
    } rows[] = {
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/100", "ETag: \"x\""}, 1, 0, VERDICT_OK},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-15/100", "ETag: \"x\""}, 1, 0, VERDICT_OK},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-20/100", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 9-19/100", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-9/100", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/15", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: lines 10-19/100", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/100x", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-99999999999999999999/100", "ETag: \"x\""},
         1,
         0,
         VERDICT_LIES},
        {{"HTTP/1.1 206", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/100", "ETag: \"x\"",
          "Content-Type: multipart/byteranges; boundary=x"},
         1,
         0,
         VERDICT_LIES},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/101", "ETag: \"x\""}, 1, 0, VERDICT_CHANGED},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/100", "ETag: \"y\""}, 1, 1, VERDICT_CHANGED},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/100"}, 1, 0, VERDICT_CHANGED},
        {{"HTTP/1.1 206", "Content-Range: bytes 10-19/100"}, 1, 1, VERDICT_OK},
        {{"HTTP/1.1 200", "Content-Length: 100", "ETag: \"x\""}, 1, 0, VERDICT_LIES},
        {{"HTTP/1.1 200", "Content-Length: 100", "ETag: \"y\""}, 1, 0, VERDICT_CHANGED},
        {{"HTTP/1.1 200", "Content-Length: 100", "ETag: \"x\""}, 0, 0, VERDICT_OK},
        {{"HTTP/1.1 200", "Content-Length: 99", "ETag: \"x\""}, 0, 0, VERDICT_CHANGED},
        {{"HTTP/1.1 200", "ETag: \"x\""}, 0, 0, VERDICT_OK},
        {{"HTTP/1.1 200", "ETag: \"x\"", "Content-Encoding: br"}, 0, 0, VERDICT_REFUSED},
        {{"HTTP/1.1 206", "Content-Range: bytes 0-99/100", "ETag: \"x\""}, 0, 0, VERDICT_LIES},
        {{"HTTP/1.1 416", "Content-Range: bytes */50"}, 1, 0, VERDICT_CHANGED},
        {{"HTTP/1.1 503"}, 1, 0, VERDICT_LATER},
        {{"HTTP/1.1 429"}, 1, 0, VERDICT_LATER},
        {{"HTTP/1.1 401"}, 1, 0, VERDICT_DENIED},
        {{"HTTP/1.1 410"}, 1, 0, VERDICT_GONE},
        {{"HTTP/1.1 204"}, 1, 0, VERDICT_REFUSED},
        {{"HTTP/1.1 -1"}, 1, 0, VERDICT_REFUSED},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct answer a;
        const struct question q = {.ranged = rows[i].ranged,
                                   .first = 10,
                                   .last = 19,
                                   .remote = &known,
                                   .hashed = rows[i].hashed};
        say(&a, rows[i].line);
        if (answer_judge(&a, &q) != rows[i].want)
            test_fail(__FILE__, __LINE__, "row %zu: %d, want %d", i, answer_judge(&a, &q),
                      rows[i].want);
    }
}

TEST(fetch_answer_reads_pauses_and_forgets_long_validators)
{
    struct answer a;
    char line[400];
    answer_init(&a);
    answer_line(&a, str_of("Retry-After: 120"));
    CHECK_INT(a.retry_after_s, 120);
    answer_line(&a, str_of("Retry-After: 99999999999"));
    CHECK_INT(a.retry_after_s, 3600);
    answer_init(&a);
    answer_line(&a, str_of("Retry-After: Mon, 30 Nov 2026 00:00:00 GMT"));
    CHECK_INT(a.retry_after_s, -1);
    snprintf(line, sizeof(line), "ETag: \"%0300d\"", 7);
    answer_line(&a, str_of(line));
    CHECK_STR(a.remote.etag, "");
    answer_line(&a, str_of("ETag: W/\"weak\""));
    CHECK_STR(remote_if_range(&a.remote), "");
    answer_line(&a, str_of("ETag: \"strong\""));
    CHECK_STR(remote_if_range(&a.remote), "\"strong\"");
    answer_line(&a, str_of(""));
    answer_line(&a, str_of("nonsense"));
    answer_line(&a, str_of(":"));
}

/* ---- manifest and part ------------------------------------------------------------------------ */

TEST(fetch_manifest_keeps_what_others_wrote)
{
    struct error e = {0};
    struct manifest m;
    static const char *const sha =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    char text[600];
    snprintf(text, sizeof(text), "# by hand\n%s *other file\n\n", sha);
    write_file("SHA256SUMS", text);
    CHECK_OK(manifest_read(&m, ".", &e), &e);
    struct manifest_entry mine = {.name = (char[]){"a.gguf"},
                                  .url = (char[]){"http://h/a.gguf"},
                                  .size = 5,
                                  .written_ns = 77,
                                  .published = false};
    memcpy(mine.sha256, sha, 65);
    CHECK_OK(manifest_put(&m, &mine, &e), &e);
    CHECK_OK(manifest_write(&m, &e), &e);
    manifest_release(&m);
    CHECK_OK(manifest_read(&m, ".", &e), &e);
    CHECK_INT(m.n, 2);
    const struct manifest_entry *other = manifest_find(&m, "other file");
    const struct manifest_entry *own = manifest_find(&m, "a.gguf");
    CHECK(other && other->size == FETCH_UNKNOWN && other->published && !other->url[0]);
    CHECK(own && own->size == 5 && own->written_ns == 77 && !own->published);
    CHECK_STR(own->url, "http://h/a.gguf");
    manifest_release(&m);
    write_file("SHA256SUMS", "abc  name\n");
    CHECK_ERROR(manifest_read(&m, ".", &e), &e, ERROR_BADDATA, "SHA256SUMS:1");
    manifest_release(&m);
}

TEST(fetch_manifest_believes_no_line_that_could_deceive)
{
    struct error e = {0};
    struct manifest m;
    char text[600];
    static const char *const sha =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    snprintf(text, sizeof(text), "#: 5 77 published http://h/\033[31m\r\n%s  a.gguf\r\n", sha);
    write_file("SHA256SUMS", text);
    CHECK_OK(manifest_read(&m, ".", &e), &e);
    CHECK(manifest_find(&m, "a.gguf") && !m.entry[0].url[0] && m.entry[0].size == FETCH_UNKNOWN);
    manifest_release(&m);
    snprintf(text, sizeof(text), "%s  a\033[31m\n", sha);
    write_file("SHA256SUMS", text);
    CHECK_ERROR(manifest_read(&m, ".", &e), &e, ERROR_BADDATA, "SHA256SUMS:1: 'e3b0");
    manifest_release(&m);
    CHECK_OK(file_write_all("SHA256SUMS", "# a\n\0b\n", 7, &e), &e);
    CHECK_ERROR(manifest_read(&m, ".", &e), &e, ERROR_BADDATA, "is a NUL");
    manifest_release(&m);
}

/* Every cut of the state file is either refused or says no more than was saved. */
TEST(fetch_part_believes_whole_states_only)
{
    struct error e = {0};
    struct part p;
    const struct remote remote = {.size = 1000, .etag = "\"x\""};
    struct stat st;
    CHECK_OK(part_init(&p, ".", "f", &e), &e);
    CHECK_OK(part_open(&p, &remote, 300, true, &e), &e);
    CHECK_INT(p.n, 4);
    CHECK_INT(part_segment_length(&p, 3), 100);
    p.done[1] = 300;
    p.done[3] = 7;
    CHECK_OK(part_save(&p, &e), &e);
    CHECK(stat("f.part.state", &st) == 0);
    CHECK_OK(part_open(&p, &remote, 300, true, &e), &e);
    CHECK_INT(part_done_bytes(&p), 307);
    struct buf text;
    buf_init(&text, 4096);
    CHECK_OK(file_read_all("f.part.state", 4096, &text, &e), &e);
    for (off_t n = st.st_size - 1; n >= 0; n--) {
        FILE *f = fopen("f.part.state", "w");
        CHECK(f && fwrite(text.ptr, 1, (size_t)n, f) == (size_t)n && fclose(f) == 0);
        CHECK_OK(part_open(&p, &remote, 300, true, &e), &e);
        CHECK_INT(part_done_bytes(&p), 0);
    }
    write_file("f.part.state", text.ptr);
    const struct remote other = {.size = 1000, .etag = "\"y\""};
    CHECK_OK(part_open(&p, &other, 300, true, &e), &e);
    CHECK_INT(part_done_bytes(&p), 0);
    buf_release(&text);
    part_discard(&p);
    CHECK(access("f.part", F_OK) != 0 && access("f.part.state", F_OK) != 0);
    part_release(&p);
}

TEST(fetch_part_cuts_any_size_into_few_segments)
{
    for (uint64_t size = 1; size < UINT64_C(1) << 50; size = size * 3 + 1) {
        const uint64_t cut = part_cut(size);
        CHECK(cut >= UINT64_C(16) << 20 && size / cut <= 4096);
        CHECK(size < UINT64_C(1) << 42 ? cut <= UINT64_C(1) << 30 : true);
    }
}
