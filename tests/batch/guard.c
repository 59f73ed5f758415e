/* Who uses the GPU, whether there is memory; and the worker that waits for either. */
#include "batch/worker/guard.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "batch/host/process.h"
#include "batch/worker/worker.h"
#include "tests/batch/nvml.h"
#include "tests/batch/root.h"
#include "tests/fault/kit.h"
#include "tests/test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define DB "guard.db"

/* ------------------------------------------------------------------ hysteresis */

static void expect(struct guard_hysteresis *h, int64_t now_us, bool busy, enum guard_phase want)
{
    guard_look(h, busy, now_us);
    CHECK_INT(h->phase, want);
}

TEST(guard_acts_on_what_stays_and_resumes_when_it_stays_away)
{
    struct guard_hysteresis h = {.busy_after_us = 10, .free_after_us = 300};
    expect(&h, 0, false, GUARD_FREE);
    expect(&h, 5, true, GUARD_SUSPECT);
    expect(&h, 14, true, GUARD_SUSPECT);
    expect(&h, 14, false, GUARD_FREE);
    expect(&h, 20, true, GUARD_SUSPECT);
    expect(&h, 30, true, GUARD_BUSY);
    expect(&h, 40, false, GUARD_BUSY);
    expect(&h, 300, true, GUARD_BUSY);
    expect(&h, 599, false, GUARD_BUSY);
    expect(&h, 600, false, GUARD_FREE);
}

TEST(guard_without_patience_acts_at_once)
{
    struct guard_hysteresis h = {0};
    expect(&h, 5, true, GUARD_BUSY);
    expect(&h, 5, false, GUARD_FREE);
}

/* ------------------------------------------------------------------ NVML */

static void ask(struct gpu_answer *ret)
{
    struct gpu_watch *g = NULL;
    struct error e = {0};
    CHECK_OK(gpu_watch_open(&g, 1000000, &e), &e);
    gpu_watch_read(g, 20000000, ret);
    gpu_watch_close(g);
}

TEST(gpu_without_the_library_is_missing)
{
    struct gpu_answer a;
    ask(&a);
    if (a.state == GPU_ANSWERED)
        SKIP("this machine has NVML");
    CHECK_INT(a.state, GPU_MISSING);
    CHECK(strstr(a.why, "libnvidia-ml.so.1") != NULL);
}

TEST(gpu_lists_who_holds_what)
{
    struct gpu_answer a;
    nvml_says("device 1000000 700000 First\ndevice - 0 NVIDIA GB10\n"
              "process 0 41 1000\nprocess 1 42 -\nprocess 1 43 5000\nsample 43 97\nsample 43 12\n");
    nvml_load();
    ask(&a);
    CHECK_INT(a.state, GPU_ANSWERED);
    CHECK_INT(a.view.n_devices, 2);
    CHECK_STR(a.view.device[1].name, "NVIDIA GB10");
    CHECK_INT(a.view.device[0].used_bytes, 700000);
    CHECK(a.view.device[1].total_bytes == GPU_UNKNOWN_BYTES && gpu_shares_memory(&a.view));
    CHECK_INT(a.view.device[0].busy_percent, -1); /* not supported is not 0 */
    CHECK_INT(a.view.n_processes, 3);
    CHECK(a.view.process[1].used_bytes == GPU_UNKNOWN_BYTES);
    CHECK_INT(a.view.process[1].busy_percent, 0);
    CHECK_INT(a.view.process[2].busy_percent, 97);
    CHECK_INT(gpu_largest(&a.view)->pid, 43);
    a.view.n_processes = 2;
    CHECK_INT(gpu_largest(&a.view)->pid, 41);
    a.view.n_processes = 0;
    CHECK(gpu_largest(&a.view) == NULL);
}

TEST(gpu_use_that_is_not_found_is_none_and_that_fails_is_unknown)
{
    struct gpu_answer a;
    nvml_load();
    nvml_says("device 1000 700 A\nprocess 0 41 1000\n");
    ask(&a);
    CHECK_INT(a.view.process[0].busy_percent, 0);
    CHECK(!gpu_shares_memory(&a.view));
    nvml_says("device 1000 700 A\nprocess 0 41 1000\nsamples 3\n");
    ask(&a);
    CHECK_INT(a.view.process[0].busy_percent, -1);
}

TEST(gpu_failures_are_told_in_the_librarys_words)
{
    struct gpu_answer a;
    nvml_load();
    nvml_says("init 18\n");
    ask(&a);
    CHECK_INT(a.state, GPU_FAILED);
    CHECK_STR(a.why, "NVML does not start: Driver/library version mismatch");
    nvml_says("count 999\n");
    ask(&a);
    CHECK_STR(a.why, "NVML does not count the GPUs: Unknown Error");
    nvml_says("device 1 1 A\nprocesses 999\n");
    ask(&a);
    CHECK_STR(a.why, "NVML does not list the GPU's processes: Unknown Error");
}

TEST(gpu_more_processes_than_there_is_room_for_are_many)
{
    struct gpu_answer a;
    char text[4096];
    size_t n = (size_t)snprintf(text, sizeof(text), "device 1 1 A\n");
    for (int i = 1; i <= GPU_PROCESSES_MAX + 5; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "process 0 %d 7\n", i);
    nvml_load();
    nvml_says("%s", text);
    ask(&a);
    CHECK_INT(a.state, GPU_ANSWERED);
    CHECK_INT(a.view.n_processes, GPU_PROCESSES_MAX);
}

TEST(gpu_watch_without_memory_is_an_error)
{
    struct gpu_watch *g = NULL;
    struct error e = {0};
    mem_fail_after(1);
    const int rc = gpu_watch_open(&g, 1000000, &e);
    mem_fail_after(0);
    CHECK_ERROR(rc, &e, ERROR_NOMEM, "watch of GPUs");
    gpu_watch_close(g);
}

TEST(gpu_driver_that_hangs_holds_nobody_up)
{
    struct gpu_watch *g = NULL;
    struct gpu_answer a;
    struct error e = {0};
    nvml_load();
    nvml_says("init hang\n");
    CHECK_OK(gpu_watch_open(&g, 1000000, &e), &e);
    const int64_t from_us = clock_mono_us();
    gpu_watch_read(g, 50000, &a);
    CHECK_INT(a.state, GPU_SILENT);
    CHECK(clock_mono_us() - from_us < 5000000);
    gpu_watch_close(g);
    CHECK(clock_mono_us() - from_us < 10000000);
}

/* ------------------------------------------------------------------ processes and memory */

static void put_process(int pid, const char *resident_kib, const char *command, size_t n)
{
    char path[64], text[300];
    snprintf(path, sizeof(path), "proc/%d/status", pid);
    snprintf(text, sizeof(text), "Name:\tx\nVmRSS:\t %s kB\n", resident_kib);
    root_put(path, text);
    snprintf(path, sizeof(path), "proc/%d/cmdline", pid);
    root_put_bytes(path, command, n);
    snprintf(path, sizeof(path), "proc/%d/comm", pid);
    root_put(path, "a name\n");
    snprintf(path, sizeof(path), "proc/%d/stat", pid);
    snprintf(text, sizeof(text),
             "%d (a ) name) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %ld 9", pid,
             100 * sysconf(_SC_CLK_TCK));
    root_put(path, text);
}

TEST(processes_are_named_with_owner_command_and_age)
{
    struct process p;
    char text[PROCESS_TEXT_BYTES];
    root_put("proc/uptime", "3700.55 7000.1\n");
    put_process(7, "2048", "python\0train.py\0--evil\033[31m\0", 28);
    CHECK(process_describe("root", 7, &p));
    CHECK_INT(p.resident_bytes, 2 * MIB);
    CHECK_INT(p.age_s, 3600);
    CHECK_STR(p.command, "python train.py --evil?[31m");
    CHECK(p.user[0] != '\0');
    snprintf(p.user, sizeof(p.user), "alice");
    CHECK_STR(process_text(&p, text), "pid 7 of alice, 'python train.py --evil?[31m'");
    put_process(8, "1", "", 0);
    CHECK(process_describe("root", 8, &p));
    CHECK_STR(p.command, "a name");
    CHECK(!process_describe("root", 9, &p));
    CHECK_STR(process_text(&p, text), "pid 9, of which nothing is known here");
}

TEST(processes_largest_is_another_one)
{
    struct process p;
    CHECK(!process_largest("root", 1, &p));
    put_process(20, "100", "small", 5);
    put_process(21, "90000", "self", 4);
    put_process(22, "5000", "big", 3);
    root_put("proc/sys/kernel", "");
    CHECK(process_largest("root", 21, &p));
    CHECK_STR(p.command, "big");
}

#define MEMINFO(total, unused, available)                                                          \
    "MemTotal: " total " kB\nMemFree: " unused " kB\nMemAvailable: " available                     \
    " kB\nSwapTotal: 4096 kB\nSwapFree: 1024 kB\n"

TEST(memory_counts_free_blocks_of_32_mib_or_the_largest)
{
    struct memory m;
    CHECK(!memory_read("root", &m));
    root_put("proc/meminfo", MEMINFO("8388608", "1048576", "4194304"));
    CHECK(memory_read("root", &m));
    CHECK_INT(m.free_bytes, GIB);
    CHECK_INT(m.swap_used_bytes, 3 * MIB);
    CHECK_INT(m.large_block_bytes, 0);
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    root_put("proc/buddyinfo",
             "Node 0, zone      DMA      1      0      0      0      0      0      "
             "0      0      1      1      3\n"
             "Node 0, zone   Normal      9      9      9      9      9      9      "
             "9      9      9      9      7\n");
    CHECK(memory_read("root", &m));
    if (page != 4096)
        SKIP("pages of %" PRIu64 " bytes", page);
    CHECK_INT(m.large_block_bytes, 4 * MIB);
    CHECK_INT(m.large_blocks, 10);
    root_put("proc/buddyinfo", "Node 0, zone Movable 1 1 1 1 1 1 1 1 1 1 1 1 1 2 3\n");
    CHECK(memory_read("root", &m));
    CHECK_INT(m.large_block_bytes, 32 * MIB);
    CHECK_INT(m.large_blocks, 2 + 2 * 3);
}

TEST(guard_leaves_a_reserve_and_names_what_is_short)
{
    struct guard_shortage s;
    struct cgroup_memory group = {.limit_bytes = UINT64_MAX, .left_bytes = UINT64_MAX};
    struct memory m = {.total_bytes = 128 * GIB, .available_bytes = 100 * GIB};
    CHECK_INT(memory_reserve(&m), 5 * GIB);
    CHECK(guard_fits(95 * GIB, &m, &group, &s));
    CHECK(!guard_fits(95 * GIB + 1, &m, &group, &s));
    CHECK_STR(s.of, "the machine");
    CHECK_INT(s.have_bytes, 100 * GIB);
    group.left_bytes = 90 * GIB;
    snprintf(group.file, sizeof(group.file), "memory.max");
    CHECK(!guard_fits(95 * GIB, &m, &group, &s));
    CHECK_STR(s.of, "memory.max");
    CHECK_INT(s.have_bytes, 90 * GIB);
    /* A machine of half a GiB keeps no more than a sixteenth. */
    m = (struct memory){.total_bytes = 512 * MIB, .available_bytes = 400 * MIB};
    CHECK_INT(memory_reserve(&m), 32 * MIB);
}

/* ------------------------------------------------------------------ drills */

/* And a look every 100 ms. */
#define GUARDED DRILL_RUN "--gpu-busy-after 400ms --gpu-free-after 500ms "

static void make_jobs(int n, int max_tokens)
{
    const struct drill_jobs jobs = {.n = n, .max_tokens = max_tokens, .name = "guard"};
    drill_model(4096);
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_submit(DB, "jobs.jsonl");
}

static void shared_gpu(const char *rest)
{
    nvml_says("device - 0 NVIDIA GB10\n%s", rest);
}

static void shared_gpu_taken(void)
{
    char line[64];
    snprintf(line, sizeof(line), "process 0 %d 1073741824\n", (int)getpid());
    shared_gpu(line);
}

TEST(guard_waits_for_a_stranger_names_him_and_goes_on)
{
    char want[64];
    make_jobs(2, 8);
    shared_gpu_taken();
    const pid_t pid = drill_start(DB, GUARDED "--drain 2> err");
    snprintf(want, sizeof(want), "GPU 0 is in use: pid %d of ", (int)getpid());
    drill_until_file_says("err", want);
    CHECK(drill_file_says("err", ", 1.0 GiB, since 20"));
    CHECK(drill_file_says("err", "goes on when free for 0s, or with --gpu-busy ignore"));
    clock_sleep_us(500000);
    CHECK(!drill_file_says("err", " loaded in "));
    shared_gpu("");
    CHECK_INT(drill_wait(pid), 0);
    CHECK(drill_file_says("err", " loaded in "));
    drill_check_all_done(DB, 2);
}

TEST(guard_stops_for_a_stranger_that_stays_and_loses_nothing)
{
    make_jobs(40, 400);
    shared_gpu("");
    struct queue *q = drill_open(DB);
    const pid_t pid = drill_start(DB, GUARDED "--drain 2> err");
    drill_until_progress(q, 1);
    shared_gpu_taken();
    drill_until_file_says("err", "GPU 0 is in use");
    drill_until(q, QUEUE_QUEUED, 1);
    CHECK_INT(drill_counts(q).state[QUEUE_RUNNING], 0);
    CHECK(drill_counts(q).state[QUEUE_DONE] < 40);
    shared_gpu("");
    CHECK_INT(drill_wait(pid), 0);
    CHECK_INT(drill_count("err", " loaded in "), 2);
    CHECK(drill_resumed(DB) > 0);
    queue_close(q);
    drill_check_all_done(DB, 40);
}

TEST(guard_pauses_the_queue_when_told_and_a_resume_is_not_undone)
{
    bool paused = false;
    struct error e = {0};
    struct buf why;
    buf_init(&why, 1000);
    make_jobs(2, 8);
    shared_gpu_taken();
    CHECK_INT(drill(DB, GUARDED "--gpu-busy pause --drain 2> err"), 75);
    struct queue *q = drill_open(DB);
    CHECK_OK(queue_paused(q, &paused, &why, &e), &e);
    CHECK(paused && strstr(why.ptr, "GPU 0 is in use: pid ") != NULL);
    CHECK_OK(queue_resume(q, &e), &e);
    const pid_t pid = drill_start(DB, GUARDED "--gpu-busy pause 2> err2");
    drill_until_file_says("err2", "paused: GPU 0 is in use: pid ");
    CHECK_OK(queue_resume(q, &e), &e);
    drill_until(q, QUEUE_DONE, 2);
    CHECK_INT(kill(pid, SIGTERM), 0);
    CHECK_INT(drill_wait(pid), 0);
    buf_release(&why);
    queue_close(q);
}

TEST(guard_ignores_what_it_is_told_to_and_gpus_with_memory_of_their_own)
{
    char line[100];
    make_jobs(2, 8);
    shared_gpu_taken();
    CHECK_INT(drill(DB, GUARDED "--gpu-busy ignore --drain 2> err"), 0);
    drill_submit(DB, "jobs.jsonl");
    snprintf(line, sizeof(line), "process 0 %d 1073741824\n", (int)getpid());
    nvml_says("device 80000000000 70000000000 NVIDIA H100\n%s", line);
    CHECK_INT(drill(DB, GUARDED "--drain --log debug 2> err"), 0);
    CHECK(drill_file_says("err", "GPUs are not watched: their memory is their own"));
    drill_submit(DB, "jobs.jsonl");
    nvml_says("device 80000000000 70000000000 NVIDIA T4\nprocesses 3\n");
    CHECK_INT(drill(DB, GUARDED "--drain 2> err"), 0);
    CHECK(!drill_file_says("err", "nobody can say")); /* and nobody needs to */
}

TEST(guard_is_off_without_nvml_and_goes_on_when_it_fails_or_hangs)
{
    make_jobs(1, 4);
    if (access("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", F_OK) != 0) {
        CHECK_INT(drill(DB, GUARDED "--drain --log debug 2> err"), 0);
        CHECK(drill_file_says("err", "GPUs are not watched: no libnvidia-ml.so.1"));
    }
    nvml_says("count 999\n");
    drill_submit(DB, "jobs.jsonl");
    CHECK_INT(drill(DB, GUARDED "--drain 2> err"), 0);
    CHECK_INT(drill_count("err", "nobody can say who uses the GPU: NVML does not count"), 1);
    nvml_says("init hang\n");
    drill_submit(DB, "jobs.jsonl");
    CHECK_INT(drill(DB, GUARDED "--drain 2> err"), 0);
    CHECK_INT(drill_count("err", "nobody can say who uses the GPU: the GPU's driver does not"), 1);
}

/* ------------------------------------------------------------------ memory that comes */

/* A worker in this process, on a machine made of files; what it says is in "err". */
struct inner {
    pthread_t thread;
    struct stop stop;
    struct error e;
    int rc;
};

static void *run_worker(void *context)
{
    struct inner *in = context;
    const struct worker_options o = {.root = "root",
                                     .model_path = "model.gguf",
                                     .memory_bytes = 512 * MIB,
                                     .threads = 1,
                                     .raw = true,
                                     .drain = true,
                                     .gpu_busy = GUARD_GPU_IGNORE,
                                     .lease_us = 12000000,
                                     .report_us = 10000000,
                                     .space_check_us = 1000000,
                                     .snapshot_after_us = 10000000};
    struct queue *q = drill_open(DB);
    in->rc = worker_run(&o, q, &in->stop, &in->e);
    queue_close(q);
    return NULL;
}

static void redirect_stderr(void)
{
    const int fd = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && dup2(fd, 2) == 2);
    close(fd);
}

TEST(guard_waits_for_memory_names_who_has_it_and_goes_on)
{
    struct inner in = {0};
    make_jobs(1, 4);
    root_put("proc/uptime", "3700.55 7000.1\n");
    put_process(4242, "7340032", "make -j64", 9);
    root_put("proc/meminfo", MEMINFO("8388608", "10240", "20480"));
    redirect_stderr();
    CHECK_INT(pthread_create(&in.thread, NULL, run_worker, &in), 0);
    drill_until_file_says("err", "waits for memory: ");
    CHECK(drill_file_says("err", "the machine has 20.0 MiB left; --memory-busy ignore goes on"));
    CHECK(drill_file_says("err", "; pid 4242 of "));
    CHECK(drill_file_says("err", ", 'make -j64' holds 7.0 GiB"));
    CHECK(!drill_file_says("err", " loaded in "));
    root_put("proc/meminfo", MEMINFO("8388608", "10240", "4194304"));
    CHECK_INT(pthread_join(in.thread, NULL), 0);
    CHECK_INT(in.rc, 0);
    CHECK(drill_file_says("err", "resumed"));
    CHECK(drill_file_says("err", " loaded in "));
    drill_check_all_done(DB, 1);
}

TEST(guard_refuses_a_plan_that_the_machine_can_never_hold)
{
    struct inner in = {0};
    make_jobs(1, 4);
    root_put("proc/meminfo", MEMINFO("16384", "10240", "12288"));
    (void)run_worker(&in);
    CHECK_INT(in.rc, -ERROR_BUDGET);
    CHECK(strstr(in.e.text, "but the machine has 16.0 MiB of memory in all") != NULL);
}
