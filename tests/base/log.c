#include "base/log.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "tests/test.h"

static char text[8192];

/* What log_event writes while body runs, with stderr in a file. */
static const char *logged(void (*body)(void))
{
    int saved = dup(STDERR_FILENO);
    int fd = open("log", O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    body();
    dup2(saved, STDERR_FILENO);
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    close(saved);
    return text;
}

static void some_events(void)
{
    log_event(LOG_INFO, "queue", "claimed job=%d", 7);
    log_event(LOG_DEBUG, "queue", "not shown");
    log_event(LOG_ERROR, "engine", "two\nlines");
}

TEST(log_writes_one_line_an_event)
{
    CHECK_STR(logged(some_events), "info queue claimed job=7\nerror engine two lines\n");
    log_set_level(LOG_DEBUG);
    CHECK(strstr(logged(some_events), "debug queue not shown\n"));
    log_set_level(LOG_ERROR);
    log_set_journal(true);
    CHECK_STR(logged(some_events), "<3>error engine two lines\n");
    CHECK(log_enabled(LOG_ERROR) && !log_enabled(LOG_WARN));
}

static void long_event(void)
{
    char value[5000];
    memset(value, 'x', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    log_event(LOG_WARN, value, "k=%s", value);
}

TEST(log_cuts_long_lines)
{
    const char *line = logged(long_event);
    CHECK(strlen(line) > 1000 && strlen(line) < 4096);
    CHECK(strchr(line, '\n') == line + strlen(line) - 1);
}

TEST(log_survives_a_closed_pipe)
{
    int ends[2];
    CHECK_INT(pipe(ends), 0);
    close(ends[0]);
    int saved = dup(STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL); /* would end this process */
    dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        log_event(LOG_ERROR, "test", "into nothing");
    dup2(saved, STDERR_FILENO);
    sigset_t pending;
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGPIPE));
}
