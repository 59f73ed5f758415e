/* Hooks: what a command is told, and that no command can hold up or harm who runs it. */
#include "batch/hook.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/file.h"
#include "tests/test.h"

/* Of the masks in /proc; those after 31 belong to the library and to whoever started us. */
#define NAMED_SIGNALS 0x7fffffffu
#define PATIENCE_US INT64_C(20000000)

struct warnings {
    int n;
    char last[900];
    int64_t hurried_us; /* monotonic */
};

static void take_warning(void *context, const char *text)
{
    struct warnings *w = context;
    w->n++;
    snprintf(w->last, sizeof(w->last), "%s", text);
}

static struct hook *open_hook(const char *command, int64_t timeout_us, struct warnings *w)
{
    struct error e = {0};
    struct hook *h = NULL;
    const struct hook_options o = {.command = command,
                                   .database = "a database.db",
                                   .model = "m",
                                   .timeout_us = timeout_us,
                                   .warn = take_warning,
                                   .context = w};
    CHECK_OK(hook_open(&h, &o, &e), &e);
    return h;
}

static char *read_text(const char *path)
{
    struct error e = {0};
    struct buf text;
    buf_init(&text, 64u << 20);
    CHECK_OK(file_read_all(path, 64u << 20, &text, &e), &e);
    buf_append(&text, "", 1);
    return buf_take(&text);
}

/* The objects that a command wrote, one a line. */
static cJSON *read_lines(const char *path)
{
    cJSON *all = cJSON_CreateArray();
    char *text = read_text(path), *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        cJSON *o = cJSON_Parse(line);
        CHECK(o != NULL);
        cJSON_AddItemToArray(all, o);
    }
    mem_free(text);
    return all;
}

static const char *text_of(const cJSON *o, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(o, name));
}

static int number_of(const cJSON *o, const char *name)
{
    return (int)cJSON_GetNumberValue(cJSON_GetObjectItem(o, name));
}

static void until_exists(const char *path)
{
    const int64_t until_us = clock_mono_us() + PATIENCE_US;
    while (access(path, F_OK) != 0) {
        CHECK(clock_mono_us() < until_us);
        clock_sleep_us(2000);
    }
}

TEST(hook_gets_one_object_and_its_event)
{
    struct warnings w = {0};
    struct hook *h = open_hook("cat >>in.txt;"
                               "echo \"$NOCTURNE_EVENT,$NOCTURNE_DB\" >>env.txt",
                               PATIENCE_US, &w);
    cJSON *about = cJSON_CreateObject();
    cJSON_AddStringToObject(about, "name", "it's \"quoted\" $(touch evil)\n");
    hook_tell(h, "finished", about);
    hook_tell(h, "drained", cJSON_CreateObject());
    hook_close(h, PATIENCE_US);
    CHECK_INT(w.n, 0);
    cJSON *got = read_lines("in.txt");
    CHECK_INT(cJSON_GetArraySize(got), 2);
    const cJSON *first = cJSON_GetArrayItem(got, 0);
    CHECK_STR(text_of(first, "event"), "finished");
    CHECK_STR(text_of(first, "name"), "it's \"quoted\" $(touch evil)\n");
    CHECK_STR(text_of(first, "database"), "a database.db");
    CHECK_STR(text_of(first, "model"), "m");
    CHECK_INT(number_of(first, "dropped"), 0);
    CHECK(text_of(first, "at") != NULL);
    CHECK_STR(text_of(cJSON_GetArrayItem(got, 1), "event"), "drained");
    cJSON_Delete(got);
    char *env = read_text("env.txt");
    CHECK_STR(env, "finished,a database.db\ndrained,a database.db\n");
    mem_free(env);
    CHECK(access("evil", F_OK) != 0);
}

TEST(hook_that_is_none_takes_everything)
{
    hook_tell(NULL, "finished", cJSON_CreateObject());
    hook_tell_failed(NULL, cJSON_CreateObject());
    hook_poll(NULL);
    hook_close(NULL, PATIENCE_US);
}

static int64_t elapsed_us(int64_t since_us)
{
    return clock_mono_us() - since_us;
}

TEST(hook_that_hangs_is_ended_with_all_it_started)
{
    struct warnings w = {0};
    /* The shell and one it starts, both deaf to what can be ignored. */
    struct hook *h = open_hook("trap '' TERM INT HUP; echo $$ >pid.txt;"
                               "sh -c 'trap \"\" TERM INT HUP; echo $$ >>pid.txt; touch on;"
                               "sleep 1000; sleep 1000' & sleep 1000; sleep 1000",
                               200000, &w);
    hook_tell(h, "paused", cJSON_CreateObject());
    until_exists("on");
    const int64_t since_us = clock_mono_us();
    while (w.n == 0) {
        CHECK(elapsed_us(since_us) < PATIENCE_US);
        hook_poll(h);
        clock_sleep_us(2000);
    }
    CHECK(strstr(w.last, "'paused' was ended after") != NULL);
    hook_close(h, 0);
    char *pids = read_text("pid.txt"), *save = NULL;
    for (char *line = strtok_r(pids, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const pid_t pid = (pid_t)strtol(line, NULL, 10);
        /* Whoever reaps orphans may take a moment. */
        while (kill(pid, 0) == 0 && elapsed_us(since_us) < PATIENCE_US) {
            char path[64], state = 0;
            snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
            FILE *f = fopen(path, "re");
            if (f && fscanf(f, "%*d %*s %c", &state) == 1 && state == 'Z')
                state = 0;
            if (f)
                fclose(f);
            if (!state)
                break;
            clock_sleep_us(2000);
        }
        CHECK(elapsed_us(since_us) < PATIENCE_US);
    }
    mem_free(pids);
}

TEST(hook_that_floods_or_reads_nothing_holds_nobody_up)
{
    struct warnings w = {0};
    cJSON *about = cJSON_CreateObject();
    char *large = mem_zalloc(300001);
    CHECK(large != NULL);
    memset(large, 'x', 300000);
    cJSON_AddStringToObject(about, "large", large);
    mem_free(large);
    struct hook *h =
        open_hook("head -c 3000000 /dev/zero; echo; echo the last >&2; exit 3", PATIENCE_US, &w);
    const int64_t since_us = clock_mono_us();
    hook_tell(h, "finished", about);
    CHECK(elapsed_us(since_us) < 5000000);
    hook_close(h, PATIENCE_US);
    CHECK_INT(w.n, 1);
    CHECK(strstr(w.last, "exit status 3") != NULL);
}

TEST(hook_that_is_missing_or_fails_is_said_once)
{
    struct warnings w = {0};
    struct hook *h = open_hook("no-such-command-here", PATIENCE_US, &w);
    for (int i = 0; i < 4; i++)
        hook_tell(h, "finished", cJSON_CreateObject());
    const int64_t since_us = clock_mono_us();
    while (w.n == 0 && elapsed_us(since_us) < PATIENCE_US)
        hook_poll(h);
    CHECK(strstr(w.last, "exit status 127") != NULL);
    CHECK(strstr(w.last, "no-such-command-here") != NULL);
    hook_close(h, PATIENCE_US);
    CHECK_INT(w.n, 2);
    CHECK(strstr(w.last, "4 of 4 hooks failed") != NULL);
}

TEST(hook_processes_are_one_at_a_time_and_what_finds_no_room_is_counted)
{
    struct warnings w = {0};
    struct hook *h = open_hook("mkdir busy || touch two; cat >>in.txt;"
                               "while [ ! -e go ]; do sleep 0.01; done; rmdir busy",
                               PATIENCE_US, &w);
    for (int i = 0; i < 100; i++)
        hook_tell(h, "finished", cJSON_CreateObject());
    hook_tell(h, "drained", cJSON_CreateObject());
    hook_tell(h, "drained", cJSON_CreateObject());
    CHECK_INT(close(open("go", O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    hook_close(h, PATIENCE_US);
    CHECK_INT(w.n, 0);
    CHECK(access("two", F_OK) != 0);
    cJSON *got = read_lines("in.txt");
    const int n = cJSON_GetArraySize(got);
    CHECK_INT(n, 1 + HOOK_PENDING_MAX + 1);
    CHECK_INT(number_of(cJSON_GetArrayItem(got, 0), "dropped"), 0);
    CHECK_INT(number_of(cJSON_GetArrayItem(got, 1), "dropped"), 100 - 1 - HOOK_PENDING_MAX + 1);
    CHECK_INT(number_of(cJSON_GetArrayItem(got, 2), "dropped"), 0);
    CHECK_STR(text_of(cJSON_GetArrayItem(got, n - 1), "event"), "drained");
    cJSON_Delete(got);
}

TEST(hook_failures_of_a_burst_are_told_together)
{
    struct warnings w = {0};
    struct hook *h = open_hook("cat >>in.txt", PATIENCE_US, &w);
    for (int i = 0; i < 5000; i++) {
        char id[16];
        cJSON *one = cJSON_CreateObject();
        snprintf(id, sizeof(id), "job-%d", i);
        cJSON_AddStringToObject(one, "custom_id", id);
        hook_tell_failed(h, one);
    }
    hook_tell(h, "drained", cJSON_CreateObject());
    hook_close(h, PATIENCE_US);
    CHECK_INT(w.n, 0);
    cJSON *got = read_lines("in.txt");
    CHECK_INT(cJSON_GetArraySize(got), 3);
    const cJSON *first = cJSON_GetArrayItem(got, 0), *rest = NULL;
    CHECK_INT(number_of(first, "count"), 1);
    const cJSON *of_first = cJSON_GetArrayItem(cJSON_GetObjectItem(first, "requests"), 0);
    CHECK_STR(text_of(of_first, "custom_id"), "job-0");
    for (int i = 1; i < 3; i++) {
        if (strcmp(text_of(cJSON_GetArrayItem(got, i), "event"), "failed") == 0)
            rest = cJSON_GetArrayItem(got, i);
    }
    CHECK_INT(number_of(rest, "count"), 4999);
    CHECK_INT(cJSON_GetArraySize(cJSON_GetObjectItem(rest, "requests")), HOOK_LISTED_MAX);
    cJSON_Delete(got);
}

/* Descriptors of ours, signals that are blocked or ignored here: the command has none of it. */
TEST(hook_inherits_no_descriptor_and_no_signal_mask)
{
    struct warnings w = {0};
    sigset_t set;
    sigfillset(&set);
    CHECK_INT(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    const int fd = open("open.txt", O_CREAT | O_RDWR, 0600); /* without O_CLOEXEC */
    CHECK(fd > STDERR_FILENO && dup2(fd, 77) == 77);
    struct hook *h = open_hook("ls /proc/self/fd >fd.txt; cut -d' ' -f5 /proc/self/stat >group.txt;"
                               "sed -n 's/Sig[BI][lg][kn]:.//p' /proc/self/status >signals.txt",
                               PATIENCE_US, &w);
    hook_tell(h, "finished", cJSON_CreateObject());
    hook_close(h, PATIENCE_US);
    CHECK_INT(w.n, 0);
    char *fds = read_text("fd.txt"), *signals = read_text("signals.txt");
    char *group = read_text("group.txt");
    CHECK_STR(fds, "0\n1\n2\n3\n"); /* 3 is the folder that ls reads */
    char *rest = NULL;
    CHECK_INT(strtoull(signals, &rest, 16) & NAMED_SIGNALS, 0);
    CHECK_INT(strtoull(rest, NULL, 16) & NAMED_SIGNALS, 0);
    CHECK(strtol(group, NULL, 10) != getpgrp());
    mem_free(fds);
    mem_free(signals);
    mem_free(group);
}

TEST(hook_that_is_still_running_at_the_end_is_ended_when_patience_is)
{
    struct warnings w = {0};
    struct hook *h = open_hook("sleep 1000", PATIENCE_US, &w);
    hook_tell(h, "finished", cJSON_CreateObject());
    hook_tell(h, "drained", cJSON_CreateObject());
    const int64_t since_us = clock_mono_us();
    hook_close(h, 100000);
    CHECK(elapsed_us(since_us) < PATIENCE_US / 2);
    CHECK_INT(w.n, 1);
    CHECK(strstr(w.last, "2 left") != NULL);
}

static bool after_a_while(void *context)
{
    const struct warnings *w = context;
    return clock_mono_us() > w->hurried_us;
}

/* A signal that comes while hooks have their time: nobody waits for the rest of that. */
TEST(hook_that_is_still_running_when_the_end_is_in_a_hurry_is_ended)
{
    struct warnings w = {.hurried_us = clock_mono_us() + 100000};
    const struct hook_options o = {.command = "sleep 1000",
                                   .database = "/tmp/q.db",
                                   .timeout_us = 10 * HOOK_HURRIED_US,
                                   .warn = take_warning,
                                   .hurried = after_a_while,
                                   .context = &w};
    struct error e = {0};
    struct hook *h = NULL;
    CHECK_OK(hook_open(&h, &o, &e), &e);
    hook_tell(h, "finished", cJSON_CreateObject());
    const int64_t since_us = clock_mono_us();
    hook_close(h, 10 * HOOK_HURRIED_US);
    CHECK(elapsed_us(since_us) >= HOOK_HURRIED_US);
    CHECK(elapsed_us(since_us) < 2 * HOOK_HURRIED_US);
    CHECK(strstr(w.last, "1 left") != NULL);
}

TEST(hook_that_finds_no_memory_is_a_hook_that_failed)
{
    struct warnings w = {0};
    struct hook *h = open_hook("cat >>in.txt", PATIENCE_US, &w);
    mem_fail_after(1);
    hook_tell(h, "finished", cJSON_CreateObject());
    mem_fail_after(0);
    CHECK_INT(w.n, 1);
    CHECK(strstr(w.last, "could not be run") != NULL);
    hook_tell(h, "drained", cJSON_CreateObject());
    hook_close(h, PATIENCE_US);
    cJSON *got = read_lines("in.txt");
    CHECK_INT(cJSON_GetArraySize(got), 1);
    cJSON_Delete(got);
}
