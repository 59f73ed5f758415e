/*
 * The test runner: run [--long] [--keep] [--list] [SUBSTRING...]
 *
 * Each test runs in a process of its own, in a process group of its own, inside an empty folder,
 * against a clock. What it prints is shown only when it fails. The last line is always
 * "N passed, N failed, N skipped"; nothing selected is a failure.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

/* Sanitizers slow everything down; the Makefile says by how much to stretch the limits. */
#ifndef TEST_TIME_SCALE
#define TEST_TIME_SCALE 1
#endif

#define OUTPUT_SHOWN_BYTES 8192

enum outcome { PASSED, FAILED, SKIPPED, INTERRUPTED };

static struct test *first_test;
static struct test **next_test = &first_test;

/* What the running test (a child) and the runner share. */
static int report_fd = -1;
static char source_root[PATH_MAX];
static char program_path[PATH_MAX];
static char scratch_root[PATH_MAX];
static char scratch_dir[PATH_MAX + 16];

void test_register(struct test *t)
{
    *next_test = t;
    next_test = &t->next;
}

/* A record is one letter, the text and a NUL: F failure, S skip, N note. */
static void report(char letter, const char *text)
{
    char record[2048];
    int n = snprintf(record, sizeof(record), "%c%s", letter, text);
    size_t bytes = n < (int)sizeof(record) ? (size_t)n + 1 : sizeof(record);
    if (write(report_fd, record, bytes) != (ssize_t)bytes)
        abort();
}

static void report_at(char letter, const char *file, int line, const char *fmt, va_list args)
    ATTR_PRINTF(4, 0);

static void report_at(char letter, const char *file, int line, const char *fmt, va_list args)
{
    char text[1900];
    int n = snprintf(text, sizeof(text), "%s:%d: ", file, line);
    vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
    report(letter, text);
}

void test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report_at('F', file, line, fmt, args);
    va_end(args);
    fflush(NULL);
    _exit(1); /* without the leak check: an aborted test frees nothing */
}

void test_skip(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    report_at('S', file, line, fmt, args);
    va_end(args);
    fflush(NULL);
    _exit(0);
}

void test_note(const char *fmt, ...)
{
    char text[1900];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    report('N', text);
}

const char *test_dir(void)
{
    return scratch_dir;
}

const char *test_source_root(void)
{
    return source_root;
}

const char *test_program(void)
{
    return program_path;
}

bool test_emulated(void)
{
    return getenv("NOCTURNE_EMULATED") != NULL;
}

bool test_golden(const char *name, char *out)
{
    char folders[3][PATH_MAX] = {""};
    const char *given = getenv("NOCTURNE_GOLDEN");
    if (given)
        snprintf(folders[0], sizeof(folders[0]), "%s", given);
    snprintf(folders[1], sizeof(folders[1]), "%.3800s/tests/fixtures/golden", source_root);
    snprintf(folders[2], sizeof(folders[2]), "%.3800s/../shared/golden", source_root);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        if (!folders[i][0])
            continue;
        int n = snprintf(out, 4096, "%s/%s", folders[i], name);
        if (n < 4096 && access(out, R_OK) == 0)
            return true;
    }
    return false;
}

/*
 * The runner is SOURCE/build/FLAVOUR/tests/run and the program SOURCE/build/FLAVOUR/nocturne, unless
 * that needs an emulator: then what starts it there is in $NOCTURNE_EMULATED (tests/emulated.sh).
 */
static bool find_paths(void)
{
    char self[PATH_MAX];
    const char *emulated = getenv("NOCTURNE_EMULATED");
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0)
        return false;
    self[n] = '\0';
    for (int level = 0; level < 4; level++) {
        char *slash = strrchr(self, '/');
        if (!slash)
            return false;
        *slash = '\0';
        if (level == 1)
            snprintf(program_path, sizeof(program_path), "%.4000s/nocturne", self);
    }
    memcpy(source_root, self, strlen(self) + 1);
    if (emulated)
        snprintf(program_path, sizeof(program_path), "%.4000s/nocturne", emulated);
    return true;
}

static bool make_scratch_root(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch_root, sizeof(scratch_root), "%.3800s/nocturne-test.XXXXXX",
             tmp && tmp[0] == '/' ? tmp : "/tmp");
    return mkdtemp(scratch_root) != NULL;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)at;
    if (kind == FTW_DNR)
        chmod(path, 0700);
    return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void watched_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

static void run_child(const struct test *t, int output_fd, const sigset_t *old_mask)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    close(nothing);
    if (chdir(scratch_dir) < 0)
        test_fail(t->file, 0, "chdir %s: %s", scratch_dir, strerror(errno));
    t->run();
    exit(0); /* with the leak check of the sanitizers */
}

/* Waits for the child until `limit` seconds are over; then, or on a signal, kills its group. */
static enum outcome wait_child(pid_t pid, int limit, char *why, size_t why_size)
{
    sigset_t set;
    watched_signals(&set);
    double end = seconds_now() + limit;
    enum outcome outcome = PASSED;
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        double left = end - seconds_now();
        struct timespec pause = {.tv_sec = left > 1 ? 1 : 0, .tv_nsec = 50 * 1000 * 1000};
        int sig = left > 0 ? sigtimedwait(&set, NULL, &pause) : 0;
        if (sig == SIGINT || sig == SIGTERM)
            outcome = INTERRUPTED;
        if (left > 0 && outcome == PASSED)
            continue;
        if (outcome == PASSED) {
            snprintf(why, why_size, "still running after %d s", limit);
            outcome = FAILED;
        }
        break;
    }
    /* The group as a whole, before its leader is reaped: nothing that a test started survives. */
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    if (outcome != PASSED)
        return outcome;
    if (WIFSIGNALED(status))
        snprintf(why, why_size, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        snprintf(why, why_size, "exit status %d", WEXITSTATUS(status));
    return status == 0 ? PASSED : FAILED;
}

/* The whole of a memory file; the caller frees it. NULs may be inside, one more is at its end. */
static char *read_memory_file(int fd, size_t *ret_len)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc((size_t)size + 2, 1);
    if (!text)
        abort();
    ssize_t got = pread(fd, text, (size_t)size, 0);
    *ret_len = got > 0 ? (size_t)got : 0;
    return text;
}

/* A failure or a skip that the test reported overrides what its exit status says; then no `why`. */
static enum outcome read_report(int fd, enum outcome outcome, char *why)
{
    size_t len;
    char *text = read_memory_file(fd, &len);
    for (size_t i = 0; i < len; i += strlen(text + i) + 1) {
        if (text[i] == 'F' && outcome != INTERRUPTED) {
            outcome = FAILED;
            why[0] = '\0';
        }
        if (text[i] == 'S' && outcome == PASSED)
            outcome = SKIPPED;
    }
    free(text);
    return outcome;
}

static void print_report(int fd)
{
    size_t len;
    char *text = read_memory_file(fd, &len);
    for (size_t i = 0; i < len; i += strlen(text + i) + 1)
        printf("       %s%s\n", text[i] == 'S' ? "skipped: " : "", text + i + 1);
    free(text);
}

static void print_output(int fd)
{
    size_t len;
    char *text = read_memory_file(fd, &len);
    size_t from = len > OUTPUT_SHOWN_BYTES ? len - OUTPUT_SHOWN_BYTES : 0;
    if (from > 0)
        printf("       ... %zu bytes of output before this\n", from);
    fwrite(text + from, 1, len - from, stdout);
    if (len > 0 && text[len - 1] != '\n')
        putchar('\n');
    free(text);
}

static enum outcome run_test(const struct test *t, const sigset_t *old_mask)
{
    static int number;
    snprintf(scratch_dir, sizeof(scratch_dir), "%s/%d", scratch_root, ++number);
    int output_fd = memfd_create("output", MFD_CLOEXEC);
    report_fd = memfd_create("report", MFD_CLOEXEC);
    if (output_fd < 0 || report_fd < 0 || mkdir(scratch_dir, 0700) < 0) {
        perror("run: preparing a test");
        exit(1);
    }
    fflush(stdout);
    double start = seconds_now();
    pid_t pid = fork();
    if (pid < 0) {
        perror("run: fork");
        exit(1);
    }
    if (pid == 0)
        run_child(t, output_fd, old_mask);
    setpgid(pid, pid); /* in both processes: whoever comes first */
    char why[128] = "";
    enum outcome outcome = wait_child(pid, t->seconds * TEST_TIME_SCALE, why, sizeof(why));
    outcome = read_report(report_fd, outcome, why);
    static const char *const word[] = {"ok", "FAIL", "skip", "STOP"};
    printf("%-4s %7.2f  %s %s%s%s\n", word[outcome], seconds_now() - start, t->file, t->name,
           why[0] ? ": " : "", why);
    print_report(report_fd);
    if (outcome == FAILED)
        print_output(output_fd);
    close(output_fd);
    close(report_fd);
    return outcome;
}

struct options {
    bool with_long;
    bool keep;
    bool list;
    char **parts; /* substrings of "file name"; any of them selects */
    int n_parts;
};

static bool selected(const struct test *t, const struct options *o)
{
    char full[512];
    snprintf(full, sizeof(full), "%s %s", t->file, t->name);
    for (int i = 0; i < o->n_parts; i++) {
        if (strstr(full, o->parts[i]))
            return true;
    }
    return o->n_parts == 0;
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--long") == 0)
            o->with_long = true;
        else if (strcmp(argv[i], "--keep") == 0)
            o->keep = true;
        else if (strcmp(argv[i], "--list") == 0)
            o->list = true;
        else if (argv[i][0] == '-')
            return false;
        else
            o->parts[o->n_parts++] = argv[i];
    }
    return true;
}

static bool run_all(const struct options *o)
{
    int count[INTERRUPTED + 1] = {0};
    int n_left_out = 0;
    sigset_t set;
    sigset_t old_mask;
    watched_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &old_mask);
    for (const struct test *t = first_test; t && count[INTERRUPTED] == 0; t = t->next) {
        if (!selected(t, o))
            continue;
        if (t->kind == TEST_LONG && !o->with_long) {
            n_left_out++;
            continue;
        }
        count[run_test(t, &old_mask)]++;
        if (!o->keep)
            remove_tree(scratch_dir);
    }
    bool none = count[PASSED] + count[FAILED] + count[SKIPPED] == 0;
    if (n_left_out > 0)
        printf("%d long tests left out (--long)\n", n_left_out);
    if (none)
        printf("no test was run; --list shows all, and 'make cli-test' runs the transcripts\n");
    if (count[INTERRUPTED] > 0)
        printf("interrupted\n");
    printf("%d passed, %d failed, %d skipped\n", count[PASSED], count[FAILED], count[SKIPPED]);
    return !none && count[FAILED] == 0 && count[INTERRUPTED] == 0;
}

/*
 * libgomp reads before main how long its threads spin while they wait. Beside other processes that
 * turns a test of two threads from seconds into minutes.
 */
static void stop_spinning(char **argv)
{
    if (getenv("GOMP_SPINCOUNT"))
        return;
    setenv("GOMP_SPINCOUNT", "1000", 1);
    execv("/proc/self/exe", argv);
}

/*
 * A kernel's limit knows the memory of sanitizers and emulators, which no plan does, and says where it
 * was found, which differs between machines. Tests of it ask for it.
 */
static void confine_nothing(void)
{
    setenv("NOCTURNE_CONFINE", "off", 0);
}

int main(int argc, char **argv)
{
    stop_spinning(argv);
    confine_nothing();
    struct options o = {.parts = argv}; /* the substrings are collected at the front of argv */
    if (!parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: run [--long] [--keep] [--list] [SUBSTRING...]\n");
        return 2;
    }
    if (o.list) {
        for (const struct test *t = first_test; t; t = t->next) {
            if (selected(t, &o))
                printf("%s %s%s\n", t->file, t->name, t->kind == TEST_LONG ? " (long)" : "");
        }
        return first_test ? 0 : 1;
    }
    if (!find_paths() || !make_scratch_root()) {
        perror("run");
        return 1;
    }
    bool good = run_all(&o);
    if (o.keep)
        printf("kept: %s\n", scratch_root);
    else
        remove_tree(scratch_root);
    return good ? 0 : 1;
}
