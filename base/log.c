#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOG_LINE_BYTES 2048u

static atomic_int log_level_now = LOG_INFO;
static atomic_bool log_journal;

void log_set_level(enum log_level level)
{
    atomic_store(&log_level_now, (int)level);
}

bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

void log_set_journal(bool on)
{
    atomic_store(&log_journal, on);
}

/*
 * A reader that went away answers EPIPE and sends SIGPIPE to this thread; the signal is taken back
 * before the mask is, so that a log line can never end the program.
 */
static void write_quietly(const char *line, size_t n)
{
    sigset_t pipe_only;
    sigset_t old;
    sigset_t pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &old);
    ssize_t rc;
    do {
        rc = write(STDERR_FILENO, line, n);
    } while (rc < 0 && errno == EINTR);
    if (rc < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE)) {
        const struct timespec now = {0};
        sigtimedwait(&pipe_only, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void log_event(enum log_level level, const char *module, const char *fmt, ...)
{
    static const struct {
        const char *name;
        const char *journal; /* syslog's priority */
    } rows[] = {{"error", "<3>"}, {"warn", "<4>"}, {"info", "<6>"}, {"debug", "<7>"}};
    if (!log_enabled(level))
        return;
    int saved_errno = errno;
    char line[LOG_LINE_BYTES];
    const char *prefix = atomic_load(&log_journal) ? rows[level].journal : "";
    size_t len =
        (size_t)snprintf(line, sizeof(line), "%s%s %.64s ", prefix, rows[level].name, module);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line + len, sizeof(line) - len, fmt, args);
    va_end(args);
    if (n > 0)
        len += (size_t)n;
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    for (size_t i = 0; i < len; i++) {
        if (line[i] == '\n')
            line[i] = ' '; /* one event, one line */
    }
    line[len] = '\n';
    write_quietly(line, len + 1);
    errno = saved_errno;
}
