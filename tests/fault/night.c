/*
 * Nights: windows that close and open while the worker is at work, clocks that jump, runs with an end.
 *
 * Where the wall clock has to be set the worker runs in a thread of the test, with a clock that is
 * shifted (clock_test_shift); where it is the program itself, the time zone is made so that its window
 * changes within seconds.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "batch/when.h"
#include "batch/worker/parts.h"
#include "tests/fault/kit.h"

#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
#define JOBS 8
#define PATIENCE_US 100000000 /* the runner has its own */
#define LOOK_EVERY_US 200000  /* of a worker at work */

/* ---- A worker whose clock is ours ------------------------------------------------------------- */

struct night {
    pthread_t thread;
    const char *db;
    struct worker_options o;
    struct stop stop;
    int status;
};

static struct night *night_new(const char *db, const char *windows)
{
    struct error e = {0};
    struct night *n = mem_zalloc(sizeof(*n));
    CHECK(n != NULL);
    n->db = db;
    n->o = (struct worker_options){.root = "",
                                   .model_path = "model.gguf",
                                   .memory_bytes = UINT64_C(1) << 30,
                                   .threads = 1,
                                   .slots = 4,
                                   .isa = "auto",
                                   .io = "auto",
                                   .expert_policy = "lrfu",
                                   .raw = true,
                                   .drain = true,
                                   .gpu_busy = GUARD_GPU_IGNORE,
                                   .memory_ignore = true,
                                   .lease_us = 12000000,
                                   .report_us = 20000,
                                   .space_check_us = 60000000};
    CHECK_OK(windows_add(&n->o.windows, windows, &e), &e);
    return n;
}

static void *work(void *context)
{
    struct night *n = context;
    struct error e = {0};
    struct queue *q = drill_open(n->db);
    n->status = worker_run(&n->o, q, &n->stop, &e);
    queue_close(q);
    return NULL;
}

/* What it says goes to err.txt. */
static void night_begin(struct night *n)
{
    const int fd = open("err.txt", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_INT(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    close(fd);
    CHECK_INT(pthread_create(&n->thread, NULL, work, n), 0);
}

static void night_end(struct night *n)
{
    CHECK_INT(pthread_join(n->thread, NULL), 0);
    CHECK_INT(n->status, 0);
    mem_free(n);
}

static void set_zone(const char *zone)
{
    CHECK_INT(setenv("TZ", zone, 1), 0);
    tzset();
}

/* From now on the wall clock shows that time, and goes on from there; it never shows another one between. */
static void set_clock(const char *text)
{
    struct error e = {0};
    struct timespec unshifted;
    int64_t at_us = 0;
    CHECK_OK(when_parse(text, 0, &at_us, &e), &e);
    CHECK_INT(clock_gettime(CLOCK_REALTIME, &unshifted), 0);
    clock_test_shift(at_us - unshifted.tv_sec * 1000000 - unshifted.tv_nsec / 1000, 0);
}

static void until_said(const char *text, int n_times)
{
    const int64_t since_us = clock_mono_us();
    while (drill_count("err.txt", text) < n_times) {
        CHECK(clock_mono_us() - since_us < PATIENCE_US);
        clock_sleep_us(5000);
    }
}

/* The window has closed: nothing is running any more, and nobody has lost anything. */
static void until_closed(struct queue *q, int n_times)
{
    until_said("waiting for the window, ", n_times);
    CHECK_INT(drill_counts(q).state[QUEUE_RUNNING], 0);
}

/* It has looked at the clock meanwhile, between two tokens, and works on. */
static void until_looked(void)
{
    clock_sleep_us(2 * LOOK_EVERY_US);
    until_said(" running", drill_count("err.txt", " running") + 2);
}

static char *prepare_model(const char *db, int max_tokens, unsigned n_vocab)
{
    const struct drill_jobs jobs = {.n = JOBS, .max_tokens = max_tokens, .name = "night"};
    return drill_prepare(db, n_vocab, &jobs);
}

static char *prepare(const char *db, int max_tokens)
{
    return prepare_model(db, max_tokens, 4096);
}

/* Two at a time take some seconds, on a fast machine, too: several looks at the clock. */
static char *prepare_slow(const char *db)
{
    return prepare_model(db, 400, 32768);
}

static void check_answers(const char *db, char *calm)
{
    drill_check_answers(db, "night", JOBS, calm);
}

static void ask_gate(const char *now, const char *windows, int64_t load_us, struct gate_view *ret)
{
    struct error e = {0};
    struct worker_options o = {0};
    struct worker w = {.o = &o, .load_us = load_us};
    *ret = (struct gate_view){0};
    CHECK_OK(windows_add(&o.windows, windows, &e), &e);
    set_clock(now);
    CHECK_OK(gate_window(&w, ret, &e), &e);
}

/* A model is not loaded for what is left of a night when the last load took longer. */
TEST(night_that_is_too_short_for_the_model)
{
    struct gate_view view;
    set_zone("UTC");
    ask_gate("2030-06-02T06:50", "22:00-07:00", 0, &view);
    CHECK(view.stand == GATE_OPEN);
    ask_gate("2030-06-02T06:50", "22:00-07:00", 500000000, &view);
    CHECK(view.stand == GATE_OPEN);
    ask_gate("2030-06-02T06:50", "22:00-07:00", 700000000, &view);
    CHECK(view.stand == GATE_SHUT);
    CHECK(strstr(view.why, "waiting for the window, Sun 22:00") != NULL);
    CHECK(strstr(view.why, "closes before the model would be loaded") != NULL);
    ask_gate("2030-06-02T06:50", "00:00-24:00", 700000000, &view);
    CHECK(view.stand == GATE_OPEN);
}

/* ---- Nights ----------------------------------------------------------------------------------- */

/*
 * The end of a window does not wait for a long step: it is suspended at the next layer, kept, and the next
 * night goes on there.
 */
TEST(night_that_ends_in_a_long_prompt_goes_on_in_the_next)
{
    drill_deep("deep.jsonl");
    drill_submit("calm.db", "deep.jsonl");
    CHECK_INT(drill("calm.db", DRILL_RUN "--exact --chunk 2048 --drain 2>calm.txt"), 0);
    char *calm = drill_answers("calm.db", "deep", 1);
    drill_submit("deep.db", "deep.jsonl");
    struct queue *q = drill_open("deep.db");

    set_zone("UTC");
    set_clock("2030-06-01T23:00");
    struct night *n = night_new("deep.db", "22:00-07:00");
    n->o.exact = true;
    n->o.chunk = 2048;
    night_begin(n);
    drill_until_file_says("err.txt", " tokens at layer ");
    set_clock("2030-06-02T07:00");
    until_closed(q, 1);
    CHECK_INT(drill_count("err.txt", "is kept"), 1);
    CHECK_INT(drill_count("err.txt", "waiting for the window, Sun 22:00"), 1);
    do { /* what is told people comes a moment before it */
        CHECK_INT(drill("deep.db", "status >status.txt"), 0);
    } while (!drill_file_says("status.txt", "waiting for the window, Sun 22:00 (in "));
    set_clock("2030-06-02T22:00");
    night_end(n);
    CHECK_INT(drill_count("err.txt", "goes on after"), 1);
    CHECK_INT(drill_count("err.txt", " loaded in "), 2); /* the model's memory was given back */
    CHECK_INT(rmdir("deep.db-snapshots"), 0);            /* empty */
    queue_close(q);
    drill_check_answers("deep.db", "deep", 1, calm);
}

/*
 * Answers longer than a night, in the nights of both changes of the clock: the one has an hour more, and
 * the other's window opens at a time that no clock shows.
 */
TEST_FOR(night_of_daylight_saving_time_goes_on_where_the_one_before_stopped, 120)
{
    char *calm = prepare_slow("night.db");
    struct queue *q = drill_open("night.db");
    set_zone(BERLIN);
    set_clock("2030-10-27T00:45Z"); /* 02:45 for the first time */
    struct night *n = night_new("night.db", "sun 02:30-04:00");
    n->o.slots = 2;
    night_begin(n);
    drill_until_progress(q, 1);
    set_clock("2030-10-27T02:58Z"); /* 03:58: an hour later than on any other Sunday */
    until_looked();
    CHECK_INT(drill_count("err.txt", "waiting for the window, "), 0);
    set_clock("2030-10-27T03:00Z");
    until_closed(q, 1);
    CHECK(drill_counts(q).state[QUEUE_DONE] < JOBS);
    /* A window that was missed does not open late. */
    set_clock("2031-03-23T04:00");
    until_said("waiting for the window, Sun 03:00", 1);
    CHECK_INT(drill_counts(q).state[QUEUE_RUNNING], 0);
    set_clock("2031-03-30T00:59:59Z"); /* 01:59:59, and then 03:00 */
    night_end(n);
    CHECK_INT(drill_count("err.txt", "resumed"), 1);
    queue_close(q);
    CHECK(drill_resumed("night.db") > 0);
    check_answers("night.db", calm);
}

/* A model that takes a while to load. */
static struct night *prepare_load(const char *db)
{
    const struct drill_jobs jobs = {.n = 2, .max_tokens = 40, .name = "load"};
    char line[9000];
    const int folder = (int)(strrchr(test_program(), '/') - test_program());
    SKIP_EMULATED("a drill against the clock");
    snprintf(line, sizeof(line),
             "'%.*s/tools/mkmodel' --arch llama --type F32 --layers 20 --embd 512 --vocab 600"
             " --ctx 512 -o model.gguf >/dev/null",
             folder, test_program());
    CHECK_INT(system(line), 0);
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_submit(db, "jobs.jsonl");
    set_zone("UTC");
    set_clock("2030-06-01T23:00");
    struct night *n = night_new(db, "22:00-07:00");
    n->o.report_us = 0;
    n->o.drain = false; /* a load that nobody noticed may be followed by work */
    return n;
}

static void end_load(struct night *n, struct queue *q, const char *db, int n_times)
{
    drill_until(q, QUEUE_DONE, 2);
    atomic_store(&n->stop.over, true);
    night_end(n);
    test_note("given up at load %d", n_times);
    queue_close(q);
    drill_check_all_done(db, 2);
}

static void until_load_begins(int n_before)
{
    const int64_t since_us = clock_mono_us();
    while (drill_count("err.txt", "loading the model") == n_before) {
        CHECK(clock_mono_us() - since_us < PATIENCE_US);
        clock_sleep_us(500);
    }
}

/* Loading is given up when the window closes meanwhile, and begun again in the next one. */
TEST(night_that_ends_while_the_model_is_loaded)
{
    struct night *n = prepare_load("load.db");
    struct queue *q = drill_open("load.db");
    int n_times = 0, before = 0;
    night_begin(n);
    do { /* a load that was over before we knew of it is not counted */
        CHECK(n_times < 40);
        until_load_begins(before);
        set_clock("2030-06-01T21:00");
        until_closed(q, ++n_times);
        before = drill_count("err.txt", "loading the model");
        set_clock("2030-06-01T23:00");
    } while (!drill_file_says("err.txt", "the window closed before the model was loaded"));
    end_load(n, q, "load.db", n_times);
}

/* And when somebody pauses the queue. */
TEST(night_that_is_paused_while_the_model_is_loaded)
{
    struct error e = {0};
    struct night *n = prepare_load("load.db");
    struct queue *q = drill_open("load.db");
    int n_times = 0, before = 0;
    night_begin(n);
    do {
        CHECK(n_times < 40);
        until_load_begins(before);
        CHECK_OK(queue_pause(q, str_of("tea"), &e), &e);
        until_said("paused; 'nocturne resume'", ++n_times);
        before = drill_count("err.txt", "loading the model");
        CHECK_OK(queue_resume(q, &e), &e);
    } while (!drill_file_says("err.txt", "paused before the model was loaded"));
    end_load(n, q, "load.db", n_times);
}

/* A disk that is full does not keep the model in memory beyond the end of the window. */
TEST(night_that_ends_while_the_disk_is_full)
{
    drill_small_disk();
    char *calm = prepare("small/queue.db", 200);
    struct queue *q = drill_open("small/queue.db");
    set_zone("UTC");
    set_clock("2030-06-01T23:00");
    struct night *n = night_new("small/queue.db", "22:00-07:00");
    n->o.space_check_us = 2000000;
    night_begin(n);
    drill_until_progress(q, 1);
    drill_fill("small/fill");
    drill_until_file_says("err.txt", "paused: disk");
    set_clock("2030-06-01T21:00");
    until_closed(q, 1);
    CHECK(!drill_file_says("err.txt", "has room again"));
    CHECK_INT(unlink("small/fill"), 0);
    until_said("has room again", 1);
    do { /* what is told people comes a moment later */
        CHECK_INT(drill("small/queue.db", "status >status.txt"), 0);
    } while (!drill_file_says("status.txt", "waiting for the window, Sat 22:00"));
    set_clock("2030-06-01T23:00");
    night_end(n);
    CHECK_INT(drill_count("err.txt", " loaded in "), 2);
    queue_close(q);
    check_answers("small/queue.db", calm);
}

/* Out of the window and into it again, at any moment: only what the clock shows counts. */
TEST_FOR(night_of_a_clock_that_jumps_both_ways, 120)
{
    char *calm = prepare_slow("night.db");
    struct queue *q = drill_open("night.db");
    set_zone("UTC");
    set_clock("2030-06-01T23:00");
    struct night *n = night_new("night.db", "22:00-07:00");
    n->o.slots = 2;
    n->o.keep_loaded = true;
    night_begin(n);
    drill_until_progress(q, 1);
    for (int i = 1; i <= 4; i++) {
        set_clock(i % 2 ? "2030-06-01T21:00" : "2031-01-01T12:00");
        until_closed(q, i);
        set_clock(i % 2 ? "2029-12-31T23:59:59" : "2030-06-01T03:00");
        until_said("resumed", i);
        clock_sleep_us(i * 30000);
    }
    night_end(n);
    CHECK_INT(drill_count("err.txt", " loaded in "), 1); /* it stayed */
    queue_close(q);
    check_answers("night.db", calm);
}

/* ---- The program itself ----------------------------------------------------------------------- */

/*
 * A time zone whose clock shows noon in so many seconds, jumps then by 58 s, and shows 12:01 two seconds
 * after that: so a window that ends at noon and one that begins at 12:01 are two seconds apart.
 */
static time_t set_zone_to_noon(int seconds)
{
    char zone[200];
    const time_t noon = (time_t)(clock_wall_us() / 1000000) + seconds;
    const int west = (int)(noon % 86400) - 43200;
    const time_t shown = noon - west;
    const int then = west - 58;
    struct tm tm;
    gmtime_r(&shown, &tm);
    snprintf(zone, sizeof(zone), "NIT%s%d:%02d:%02dNIS%s%d:%02d:%02d,%d/12,%d/12",
             west < 0 ? "-" : "", abs(west) / 3600, abs(west) / 60 % 60, abs(west) % 60,
             then < 0 ? "-" : "", abs(then) / 3600, abs(then) / 60 % 60, abs(then) % 60, tm.tm_yday,
             (tm.tm_yday + 100) % 365);
    set_zone(zone);
    return noon;
}

/* Whether it is there before noon is over, on a machine that may have much else to do. */
static bool sees_noon(time_t noon)
{
    while (!drill_file_says("err.txt", "waiting for the window, ")) {
        if (clock_wall_us() / 1000000 > noon + 4)
            return false;
        clock_sleep_us(5000);
    }
    return true;
}

TEST(night_of_the_program_ends_and_the_next_one_begins)
{
    char *calm = prepare("night.db", 200);
    pid_t pid = 0;
    for (int seconds = 2; pid == 0; seconds *= 2) {
        const time_t noon = set_zone_to_noon(seconds);
        CHECK(seconds < 64);
        pid = drill_start("night.db",
                          DRILL_RUN "--window 00:00-12:00,12:01-24:00 --log info 2>err.txt");
        if (sees_noon(noon))
            break;
        CHECK_INT(kill(pid, SIGTERM), 0);
        CHECK_INT(drill_wait(pid), 0);
        pid = 0;
    }
    CHECK(drill_count("err.txt", " 12:01") > 0);
    drill_until_file_says("err.txt", "resumed");
    struct queue *q = drill_open("night.db");
    drill_until(q, QUEUE_DONE, JOBS);
    queue_close(q);
    CHECK_INT(kill(pid, SIGTERM), 0);
    CHECK_INT(drill_wait(pid), 0);
    check_answers("night.db", calm);
}

TEST(night_until_a_time_ends_like_a_stop)
{
    char *calm = prepare("until.db", 800);
    const int64_t began_us = clock_mono_us();
    CHECK_INT(drill("until.db", DRILL_RUN "--slots 1 --until +0.5s --drain 2>err.txt"), 0);
    CHECK_INT(drill_count("err.txt", "the time of --until has come"), 1);
    struct queue *q = drill_open("until.db");
    CHECK_INT(drill_counts(q).state[QUEUE_RUNNING], 0);
    CHECK(drill_counts(q).state[QUEUE_DONE] < JOBS);
    queue_close(q);
    /* Outside of a window, too: without it this would wait for hours. The time is for the start. */
    set_zone("UTC");
    const int hour = (int)(clock_wall_us() / 3600000000 % 24);
    CHECK_INT(drill("until.db", DRILL_RUN "--until +3s --window %02d:00-%02d:00 2>late.txt",
                    (hour + 12) % 24, (hour + 13) % 24),
              0);
    CHECK_INT(drill_count("late.txt", "waiting for the window, "), 1);
    CHECK_INT(drill_count("late.txt", " loaded in "), 0);
    CHECK(clock_mono_us() - began_us < 2 * PATIENCE_US);
    CHECK_INT(drill("until.db", DRILL_RUN "--slots 4 --until +1h --drain"), 0);
    check_answers("until.db", calm);
}

/* How many requests have ever been claimed. */
static int count_claimed(struct queue *q)
{
    struct error e = {0};
    struct queue_requests list = {0};
    int n = 0;
    CHECK_OK(queue_requests(q, &(struct queue_filter){0}, &list, &e), &e);
    CHECK_INT(list.n, JOBS);
    for (size_t i = 0; i < list.n; i++)
        n += list.item[i].attempts > 0;
    queue_requests_release(&list);
    return n;
}

TEST(night_of_so_many_jobs_claims_no_more)
{
    char *calm = prepare("some.db", 200);
    struct queue *q = drill_open("some.db");
    CHECK_INT(drill("some.db", DRILL_RUN "--slots 4 --max-jobs 3"), 0);
    CHECK_INT(drill_counts(q).state[QUEUE_DONE], 3);
    CHECK_INT(count_claimed(q), 3);
    CHECK_INT(drill("some.db", DRILL_RUN "--slots 2 --max-jobs 3 --drain"), 0);
    CHECK_INT(drill_counts(q).state[QUEUE_DONE], 6);
    CHECK_INT(count_claimed(q), 6);
    CHECK_INT(drill("some.db", DRILL_RUN "--slots 4 --max-jobs 3 --drain"), 0); /* there are two */
    queue_close(q);
    check_answers("some.db", calm);
}

/* ---- What the service manager hears ----------------------------------------------------------- */

/* A manager that watches closely; what it hears is read with read_some. */
static int listen_here(void)
{
    char name[64];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int len = snprintf(name, sizeof(name), "@nocturne-night-%d", (int)getpid());
    memcpy(at.sun_path + 1, name + 1, (size_t)len - 1);
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK_INT(bind(fd, (struct sockaddr *)(void *)&at, bytes), 0);
    CHECK_INT(setenv("NOTIFY_SOCKET", name, 1), 0);
    CHECK_INT(setenv("WATCHDOG_USEC", "200000", 1), 0);
    return fd;
}

/* What has come since, to the end of heard.txt, a line each. */
static void read_some(int fd)
{
    char text[600];
    FILE *f = fopen("heard.txt", "a");
    CHECK(f != NULL);
    for (ssize_t n; (n = recv(fd, text, sizeof(text) - 1, 0)) > 0;) {
        text[n] = '\0';
        for (char *c = text; *c; c++)
            *c = *c == '\n' ? ' ' : *c;
        fprintf(f, "%s\n", text);
    }
    CHECK_INT(fclose(f), 0);
}

static int until_ended(pid_t pid, int fd)
{
    while (drill_alive(pid)) {
        read_some(fd);
        clock_sleep_us(5000);
    }
    read_some(fd);
    return drill_wait(pid);
}

TEST(night_is_told_to_the_service_manager)
{
    mem_free(prepare("told.db", 200));
    const int fd = listen_here();
    pid_t pid = drill_start("told.db", DRILL_RUN "--drain --report-every 20ms");
    CHECK_INT(until_ended(pid, fd), 0);
    char *heard = drill_read("heard.txt");
    CHECK(strncmp(heard, "READY=1 ", 8) == 0); /* before the model is loaded */
    const char *loads = strstr(heard, "STATUS=loading model ");
    const char *works = strstr(heard, " of 8 finished, ");
    const char *ends = strstr(heard, "STOPPING=1 STATUS=drained\n");
    CHECK(loads && works && ends && loads < works && works < ends);
    CHECK(strstr(heard, "ERRNO=") == NULL); /* children are not heard */
    mem_free(heard);
    /* While there is nothing to do it lives, too. */
    CHECK_INT(unlink("heard.txt"), 0);
    pid = drill_start("told.db", DRILL_RUN);
    while (drill_count("heard.txt", "WATCHDOG=1") < 3) {
        read_some(fd);
        clock_sleep_us(5000);
    }
    CHECK_INT(kill(pid, SIGTERM), 0);
    CHECK_INT(until_ended(pid, fd), 0);
    CHECK(drill_count("heard.txt", "STOPPING=1 STATUS=stopped") > 0);
    close(fd);
}
