#include "tests/batch/web.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sha256.h"
#include "tests/test.h"

#define BAD_ANSWERS 3
#define OFTEN_BYTES 40000
/* But for the first bytes, which say what kind of file it is. */
#define CHANGED(i) ((unsigned char)((i) < 4 ? 0 : (i)*7 + 3))

struct connection {
    struct web *web;
    int fd;
};

/* What was asked for, and what will be said. */
struct exchange {
    struct web *web;
    int fd;
    bool ranged;
    size_t first, last; /* as asked for */
    char if_range[200];
    int number; /* of the answers with bytes, from 0 */
    bool changed, gone;
    size_t from, n;
};

void web_bytes(const struct web *w, bool changed, unsigned char *out)
{
    for (size_t i = 0; i < w->size; i++)
        out[i] = changed ? (unsigned char)(w->bytes[i] ^ CHANGED(i)) : w->bytes[i];
}

static bool send_all(struct exchange *x, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        const ssize_t put = send(x->fd, at, n, MSG_NOSIGNAL);
        if (put <= 0)
            return false;
        at += put;
        n -= (size_t)put;
        atomic_fetch_add(&x->web->sent_bytes, put);
    }
    return true;
}

static void say(struct exchange *x, const char *text)
{
    (void)send_all(x, text, strlen(text));
}

static const char *etag_of(const struct exchange *x, char out[64])
{
    snprintf(out, 64, "\"%s-%d\"", "tag",
             x->web->fault == WEB_KEEPS_CHANGING                   ? x->number
             : x->changed && x->web->fault != WEB_CHANGES_SILENTLY ? 1
                                                                   : 0);
    return out;
}

static void say_head(struct exchange *x, const char *status, const char *more)
{
    const struct web *w = x->web;
    char head[2000], tag[64], etag[100] = "", modified[100] = "", linked[300] = "";
    if (w->etag)
        snprintf(etag, sizeof(etag), "ETag: %s\r\n", etag_of(x, tag));
    if (w->modified)
        snprintf(modified, sizeof(modified), "Last-Modified: Mon, 30 Nov 2026 0%d:00:00 GMT\r\n",
                 x->changed);
    if (w->linked)
        snprintf(linked, sizeof(linked), "X-Linked-Etag: \"%s\"\r\nX-Linked-Size: %zu\r\n",
                 w->wrong_hash ? "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
                 : x->changed && w->fault != WEB_CHANGES_SILENTLY ? w->changed_sha256
                                                                  : w->sha256,
                 w->size);
    snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nConnection: close\r\n%s%s%s%s\r\n", status, etag,
             modified, linked, more);
    say(x, head);
}

/* The bytes [from, from + n) as the fault has them. */
static void say_bytes(struct exchange *x)
{
    struct web *w = x->web;
    unsigned char *all = malloc(w->size);
    CHECK(all != NULL);
    web_bytes(w, x->changed, all);
    const size_t target = w->size / 2;
    const bool has_target = x->from <= target && target < x->from + x->n;
    if (w->fault == WEB_CORRUPT ||
        (w->fault == WEB_CORRUPT_ONCE && has_target && !atomic_exchange(&w->corrupted, true)))
        all[target] ^= 1;
    size_t n = x->n;
    const bool first_ones = x->number < BAD_ANSWERS && n > 1;
    if (((w->fault == WEB_CUT || w->fault == WEB_STALL || w->fault == WEB_LIES_AND_CUTS) &&
         first_ones) ||
        (w->fault == WEB_SHORT && n > 1))
        n /= 2;
    if (w->fault == WEB_CUT_OFTEN && n > OFTEN_BYTES)
        n = OFTEN_BYTES;
    const bool lies = w->fault == WEB_LIES || w->fault == WEB_LIES_AND_CUTS;
    (void)send_all(x, all + (lies ? 0 : x->from), n);
    if (w->fault == WEB_LONG)
        (void)send_all(x, "more than there is", 18);
    free(all);
    char rest[64];
    if (w->fault == WEB_STALL && first_ones)
        while (recv(x->fd, rest, sizeof(rest), 0) > 0)
            ;
}

static void say_range(struct exchange *x)
{
    struct web *w = x->web;
    char more[300];
    size_t first = x->first, last = x->last, total = w->size, length;
    if (w->fault == WEB_SHIFTED && last > first) {
        first++;
        last = last + 1 < total ? last + 1 : last;
    }
    total += w->fault == WEB_WRONG_TOTAL ? 7 : 0;
    total += w->fault == WEB_HUGE ? (size_t)1 << 60 : 0;
    x->from = first;
    x->n = last - first + 1;
    if (w->fault == WEB_SHORT_LENGTH && x->n > 1)
        x->n = x->n / 2 + 1;
    length = x->n;
    int at = 0;
    if (w->fault != WEB_UNSAID)
        at = snprintf(more, sizeof(more), "Content-Range: bytes %zu-%zu/%zu\r\n", first, last,
                      total);
    if (w->fault != WEB_LONG || x->last == x->first)
        snprintf(more + at, sizeof(more) - (size_t)at, "Content-Length: %zu\r\n", length);
    say_head(x, "206 Partial Content", more);
    if (w->fault == WEB_LONG && x->last == x->first)
        (void)send_all(x, w->bytes, 1);
    else
        say_bytes(x);
}

static void say_whole(struct exchange *x)
{
    char more[200] = "";
    x->from = 0;
    x->n = x->web->size;
    if (x->web->fault != WEB_NO_LENGTH && x->web->fault != WEB_LONG)
        snprintf(more, sizeof(more), "Content-Length: %zu\r\n", x->n);
    if (x->web->fault == WEB_LONG && x->ranged)
        snprintf(more, sizeof(more), "Content-Length: %zu\r\n", x->n);
    if (x->web->fault == WEB_ENCODED)
        snprintf(more, sizeof(more), "Content-Length: %zu\r\nContent-Encoding: gzip\r\n", x->n);
    say_head(x, "200 OK", more);
    say_bytes(x);
}

static void answer(struct exchange *x)
{
    struct web *w = x->web;
    const bool asks = x->ranged && x->first == x->last;
    char tag[64];
    const int request = atomic_fetch_add(&w->requests, 1);
    x->number = asks ? atomic_load(&w->answers) : atomic_fetch_add(&w->answers, 1);
    x->changed = (w->fault == WEB_CHANGES || w->fault == WEB_CHANGES_SILENTLY) && x->number >= 2;
    const bool same = !x->if_range[0] || !w->etag || strcmp(x->if_range, etag_of(x, tag)) == 0;
    const bool whole = !x->ranged || !same || w->fault == WEB_NO_RANGES ||
                       w->fault == WEB_NO_LENGTH || w->fault == WEB_ENCODED ||
                       (w->fault == WEB_RANGES_ONCE && !asks);
    char there[200];
    snprintf(there, sizeof(there),
             "Location: http://localhost:%d/model.gguf?signature=abc\r\nContent-Length: 0\r\n",
             w->redirect_port);
    if (x->gone)
        say_head(x, "404 Not Found", "Content-Length: 0\r\n");
    else if (w->redirect_port)
        say_head(x, "302 Found", there);
    else if (w->fault == WEB_NOISE)
        say(x, "good evening\r\n\r\n");
    else if (w->fault == WEB_DENIED)
        say_head(x, "403 Forbidden", "Content-Length: 0\r\n");
    else if (w->fault == WEB_GONE)
        say_head(x, "404 Not Found", "Content-Length: 0\r\n");
    else if (w->fault == WEB_DOWN_LONG)
        say_head(x, "503 Service Unavailable", "Retry-After: 3600\r\nContent-Length: 0\r\n");
    else if (w->fault == WEB_DOWN || (w->fault == WEB_BUSY && request % 3 == 0))
        say_head(x, "503 Service Unavailable", "Retry-After: 0\r\nContent-Length: 4\r\n\r\nbusy");
    else if (w->fault == WEB_BUSY && request % 3 == 1)
        say_head(x, "429 Too Many Requests", "Content-Length: 0\r\n");
    else if (w->fault == WEB_PAGE)
        say_head(x, "200 OK", "Content-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>");
    else if (whole)
        say_whole(x);
    else
        say_range(x);
}

static void read_line(struct exchange *x, const char *line)
{
    size_t first = 0, last = 0;
    const char *gone = x->web->gone;
    if (gone && strncmp(line, "GET ", 4) == 0 && strstr(line, gone))
        x->gone = true;
    if (sscanf(line, "Range: bytes=%zu-%zu", &first, &last) == 2) {
        x->ranged = true;
        x->first = first;
        x->last = last < x->web->size ? last : x->web->size - 1;
    }
    if (strncasecmp(line, "If-Range: ", 10) == 0)
        snprintf(x->if_range, sizeof(x->if_range), "%s", line + 10);
    if (strcmp(line, "Authorization: Bearer secret") == 0)
        atomic_fetch_add(&x->web->tokens, 1);
}

static void *serve(void *context)
{
    struct connection *c = context;
    struct web *w = c->web;
    struct exchange x = {.web = w, .fd = c->fd};
    char text[8000];
    size_t n = 0;
    free(c);
    for (;;) {
        const ssize_t got = recv(x.fd, text + n, sizeof(text) - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        text[n] = '\0';
        if (!strstr(text, "\r\n\r\n"))
            continue;
        char *rest = NULL;
        for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
            read_line(&x, line);
        answer(&x);
        break;
    }
    shutdown(x.fd, SHUT_WR);
    while (recv(x.fd, text, sizeof(text), 0) > 0)
        ; /* a close with bytes unread would be a reset, and what was sent be lost */
    close(x.fd);
    atomic_fetch_sub(&w->serving, 1);
    return NULL;
}

static void *take_connections(void *context)
{
    struct web *w = context;
    for (int fd = accept(w->listener, NULL, NULL); fd >= 0; fd = accept(w->listener, NULL, NULL)) {
        struct connection *c = malloc(sizeof(*c));
        pthread_t thread;
        CHECK(c != NULL);
        *c = (struct connection){w, fd};
        atomic_fetch_add(&w->serving, 1);
        CHECK(pthread_create(&thread, NULL, serve, c) == 0);
        pthread_detach(thread);
    }
    return NULL;
}

void web_stop(struct web *w)
{
    shutdown(w->listener, SHUT_RDWR);
    pthread_join(w->thread, NULL);
    while (atomic_load(&w->serving) > 0)
        clock_sleep_us(1000);
    close(w->listener);
    free(w->bytes);
}

static void hash(const struct web *w, bool changed, char out[65])
{
    struct sha256 h;
    uint8_t digest[32];
    unsigned char *bytes = malloc(w->size + 1);
    CHECK(bytes != NULL);
    web_bytes(w, changed, bytes);
    sha256_init(&h);
    sha256_add(&h, bytes, w->size);
    sha256_end(&h, digest);
    sha256_hex(digest, out);
    free(bytes);
}

void web_start(struct web *w, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    w->size = size;
    w->bytes = malloc(size + 1);
    CHECK(w->bytes != NULL);
    unsigned state = 12345;
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245u + 12345u;
        w->bytes[i] = (unsigned char)(state >> 16);
    }
    if (size >= 4)
        memcpy(w->bytes, "GGUF", 4);
    hash(w, false, w->sha256);
    hash(w, true, w->changed_sha256);
    w->listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(w->listener >= 0 && bind(w->listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
          listen(w->listener, 64) == 0);
    CHECK(getsockname(w->listener, (struct sockaddr *)&at, &len) == 0);
    w->port = ntohs(at.sin_port);
    CHECK(pthread_create(&w->thread, NULL, take_connections, w) == 0);
}
