/* What the service manager hears, on a real socket. */
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "batch/host/watchdog.h"
#include "tests/test.h"

static int listen_at(const char *address)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = 20};
    const size_t len = strlen(address);
    memcpy(at.sun_path, address, len);
    if (*address == '@')
        at.sun_path[0] = '\0';
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_INT(bind(fd, (struct sockaddr *)(void *)&at, bytes), 0);
    CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    return fd;
}

/* The next message; "" without one. */
static const char *hear(int fd, int flags, char out[600])
{
    const ssize_t n = recv(fd, out, 599, flags);
    out[n > 0 ? n : 0] = '\0';
    return out;
}

static void say_and_hear(const char *address)
{
    struct notify n;
    struct error e = {0};
    char text[600];
    const int fd = listen_at(address);
    CHECK_OK(notify_open(&n, address, &e), &e);
    notify_send(&n, "READY=1\nSTATUS=%s %d %%", "loading model", 43);
    CHECK_STR(hear(fd, 0, text), "READY=1\nSTATUS=loading model 43 %");
    close(fd);
    notify_send(&n, "STATUS=nobody listens"); /* and that harms nothing */
    notify_close(&n);
    notify_send(&n, "STATUS=closed");
}

TEST(notify_speaks_to_a_path_and_to_an_abstract_name)
{
    char path[4096], name[64];
    snprintf(path, sizeof(path), "%s/notify", test_dir());
    snprintf(name, sizeof(name), "@nocturne-test-%d", (int)getpid());
    say_and_hear(strlen(path) < 100 ? path : "/tmp/nocturne-test-notify");
    say_and_hear(name);
}

TEST(notify_without_an_address_says_nothing)
{
    struct notify n;
    struct error e = {0};
    char longer[300];
    CHECK_OK(notify_open(&n, NULL, &e), &e);
    notify_send(&n, "READY=1");
    CHECK_OK(notify_open(&n, "", &e), &e);
    CHECK_INT(n.fd, -1);
    CHECK_ERROR(notify_open(&n, "vsock:2:1", &e), &e, ERROR_UNSUPPORTED, "no path");
    CHECK_INT(n.fd, -1);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[0] = '/';
    longer[sizeof(longer) - 1] = '\0';
    CHECK_ERROR(notify_open(&n, longer, &e), &e, ERROR_UNSUPPORTED, "longer");
    notify_close(&n);
}

TEST(notify_does_not_wait_to_say_what_may_be_lost)
{
    struct notify n;
    struct error e = {0};
    char name[64];
    snprintf(name, sizeof(name), "@nocturne-full-%d", (int)getpid());
    const int fd = listen_at(name); /* and never read */
    CHECK_OK(notify_open(&n, name, &e), &e);
    const int64_t from_us = clock_mono_us();
    for (int i = 0; i < 2000; i++)
        notify_send(&n, "STATUS=%d", i);
    CHECK(clock_mono_us() - from_us < 1000000);
    notify_close(&n);
    close(fd);
}

/* No ping without progress, not even a first one; with progress one, and no second for the same. */
TEST(watchdog_pings_only_when_something_has_moved)
{
    struct notify n;
    struct error e = {0};
    char name[64], text[600];
    _Atomic uint64_t moved = 7;
    struct watchdog w = {0};
    snprintf(name, sizeof(name), "@nocturne-dog-%d", (int)getpid());
    const int fd = listen_at(name);
    CHECK_OK(notify_open(&n, name, &e), &e);
    CHECK_OK(watchdog_open(&w, &n, 80000, &moved, &e), &e);
    clock_sleep_us(150000);
    CHECK_STR(hear(fd, MSG_DONTWAIT, text), "");
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&moved, 1);
        CHECK_STR(hear(fd, 0, text), "WATCHDOG=1");
        clock_sleep_us(100000);
        CHECK_STR(hear(fd, MSG_DONTWAIT, text), "");
    }
    watchdog_close(&w);
    atomic_fetch_add(&moved, 1);
    CHECK_OK(watchdog_open(&w, &n, 0, &moved, &e), &e); /* a manager that does not watch */
    CHECK(!w.running);
    watchdog_close(&w);
    notify_close(&n);
    close(fd);
}
