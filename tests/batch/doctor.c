/* The doctor on machines made of files: one like a DGX Spark, a laptop, a container; and a queue. */
#include "batch/doctor/doctor.h"

#include <cjson/cJSON.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/batch/nvml.h"
#include "tests/batch/program.h"
#include "tests/batch/root.h"
#include "tests/fault/kit.h"
#include "tests/test.h"

#define GIB (UINT64_C(1) << 30)

static void put_memory(unsigned total_gib, unsigned unused_gib, unsigned available_gib,
                       unsigned swap_used_gib)
{
    char text[400];
    const unsigned gib = 1u << 20; /* of KiB */
    snprintf(text, sizeof(text),
             "MemTotal: %u kB\nMemFree: %u kB\nMemAvailable: %u kB\nSwapTotal: %u kB\n"
             "SwapFree: %u kB\nCommitLimit: %u kB\nCommitted_AS: %u kB\n",
             total_gib * gib, unused_gib * gib, available_gib * gib, 16 * gib,
             (16 - swap_used_gib) * gib, 8 * gib, 7 * gib);
    root_put("proc/meminfo", text);
}

/* Looks at one thing; the i-th finding has that status and says that, and how to mend it. */
static void expect(struct doctor *d, size_t i, enum doctor_status status, const char *says,
                   const char *mend)
{
    CHECK(i < d->n);
    const struct doctor_finding *f = &d->finding[i];
    if (f->status != status || !strstr(f->text, says) || (mend == NULL) != (f->mend == NULL) ||
        (mend && !strstr(f->mend, mend)))
        test_fail(__FILE__, __LINE__, "%s: \"%s\", \"%s\"; want %s: \"%s\", \"%s\"",
                  doctor_status_name(f->status), f->text, f->mend ? f->mend : "",
                  doctor_status_name(status), says, mend ? mend : "");
}

static void look(struct doctor *d, const char *check)
{
    doctor_forget(d);
    d->root = "root";
    CHECK(doctor_look_at(d, check));
    CHECK(d->found_all);
}

static void expect_one(const char *check, enum doctor_status status, const char *says,
                       const char *mend)
{
    struct doctor d = {0};
    look(&d, check);
    CHECK_INT(d.n, 1);
    expect(&d, 0, status, says, mend);
    doctor_forget(&d);
}

/* ------------------------------------------------------------------ a machine with unified memory */

TEST(doctor_sees_a_spark_after_days_of_work)
{
    put_memory(119, 20, 25, 9);
    root_put("proc/uptime", "900000.0 1.0\n");
    root_put("proc/4711/status", "VmRSS: 83886080 kB\n");
    root_put("proc/4711/comm", "python\n");
    root_put("proc/4711/stat", "4711 (python) S 1");
    root_put("proc/buddyinfo", "Node 0, zone Normal 9 9 9 9 9 9 9 9 9 9 9 9 9 0 0\n");
    root_put("proc/pressure/memory", "some avg10=31.50 avg60=1.00 avg300=0.00 total=500\n"
                                     "full avg10=12.00 avg60=0.00 avg300=0.00 total=400\n");
    root_put("run/systemd/units/invocation:systemd-oomd.service", "");
    expect_one("memory", DOCTOR_WARNING,
               "25.0 GiB of 119.0 GiB are available, 20.0 GiB free; 9.0 GiB",
               ", 'python' holds 80.0 GiB");
    if (sysconf(_SC_PAGESIZE) == 4096)
        expect_one("blocks", DOCTOR_WARNING, "0 of 32.0 MiB: free memory is in small pieces",
                   "restart the machine");
    expect_one("pressure", DOCTOR_WARNING, "in 31.5 % of the last 10 s", "end what is not needed");
    expect_one("killers", DOCTOR_WARNING, "systemd-oomd.service may kill", "ManagedOOMPreference");
    put_memory(119, 20, 110, 9);
    expect_one("memory", DOCTOR_NOTE, "9.0 GiB of 16.0 GiB swap in use", "80.0 GiB");
    put_memory(119, 3, 110, 0);
    expect_one("memory", DOCTOR_OK, "110.0 GiB", NULL);
    if (sysconf(_SC_PAGESIZE) == 4096)
        expect_one("blocks", DOCTOR_OK, "0 of 32.0 MiB", NULL); /* little is free at all */
}

/* ------------------------------------------------------------------ a laptop */

TEST(doctor_sees_a_laptop_that_would_sleep)
{
    struct doctor d = {0};
    root_put("sys/power/state", "freeze mem disk\n");
    root_put("sys/class/power_supply/BAT0/status", "Discharging\n");
    root_put("sys/class/power_supply/BAT0/capacity", "41\n");
    root_put("sys/class/power_supply/AC/online", "0\n");
    root_put("proc/acpi/button/lid/LID0/state", "state: open\n");
    look(&d, "sleep");
    CHECK_INT(d.n, 2);
    expect(&d, 0, DOCTOR_WARNING, "can go to sleep (freeze mem disk) in the middle of work",
           "settings for power");
    expect(&d, 1, DOCTOR_NOTE, "it has a lid", "HandleLidSwitch=ignore");
    root_put("run/systemd/system/x", "");
    root_put("usr/bin/systemd-inhibit", "");
    look(&d, "sleep");
    expect(&d, 0, DOCTOR_OK, "a worker keeps it awake", NULL);
    CHECK_INT(mkdir("root/etc", 0755), 0);
    CHECK_INT(mkdir("root/etc/systemd", 0755), 0);
    CHECK_INT(mkdir("root/etc/systemd/system", 0755), 0);
    CHECK_INT(symlink("/dev/null", "root/etc/systemd/system/sleep.target"), 0);
    look(&d, "sleep");
    CHECK_INT(d.n, 1);
    expect(&d, 0, DOCTOR_OK, "does not go to sleep", NULL);
    doctor_forget(&d);
    expect_one("power", DOCTOR_WARNING, "battery, which is at 41 %", "plug it in");
    root_put("sys/class/power_supply/BAT0/status", "Charging\n");
    expect_one("power", DOCTOR_OK, "not on a battery", NULL);
}

TEST(doctor_sees_sessions_that_end_and_restarts_that_come)
{
    char linger[160];
    expect_one("systemd", DOCTOR_NOTE, "does not manage", "start the worker again");
    root_put("run/systemd/system/x", "");
    expect_one("systemd", DOCTOR_WARNING, "no manager for this user, who does not linger",
               "loginctl enable-linger ");
    struct doctor d = {0};
    look(&d, "systemd");
    snprintf(linger, sizeof(linger), "var/lib/systemd/linger/%s",
             d.finding[0].mend + strlen("loginctl enable-linger "));
    doctor_forget(&d);
    root_put(linger, "");
    expect_one("systemd", DOCTOR_OK, "who lingers", NULL);
    expect_one("restarts", DOCTOR_OK, "none is planned", NULL);
    root_put("etc/apt/apt.conf.d/50unattended-upgrades",
             "//Unattended-Upgrade::Automatic-Reboot \"true\";\n");
    expect_one("restarts", DOCTOR_OK, "none is planned", NULL);
    root_put("etc/apt/apt.conf.d/50unattended-upgrades",
             "x\n  Unattended-Upgrade::Automatic-Reboot \"true\";\n");
    expect_one("restarts", DOCTOR_NOTE, "may restart the machine", "at boot");
    root_put("run/reboot-required", "");
    expect_one("restarts", DOCTOR_WARNING, "an update waits for that", "at boot");
}

/* ------------------------------------------------------------------ a container */

TEST(doctor_sees_a_container_with_a_small_group_of_the_first_version)
{
    expect_one("groups", DOCTOR_NOTE, "none with the memory controller", "mount them");
    put_memory(64, 30, 60, 0);
    root_put("proc/self/status", "RssAnon: 1024 kB\n");
    root_put("proc/self/cgroup", "4:memory:/docker/abc\n");
    root_put("proc/self/mountinfo",
             "35 31 0:32 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup "
             "rw,memory\n");
    root_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    root_put("sys/fs/cgroup/memory/memory.usage_in_bytes", "6442450944\n");
    root_put("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 9223372036854771712\n");
    expect_one("groups", DOCTOR_OK,
               "version 1; nothing but the machine limits memory yet; a run makes a group", NULL);
    root_put("run/systemd/system/x", "");
    root_put("usr/bin/systemd-run", "");
    expect_one("groups", DOCTOR_OK, "a run has systemd make a scope", NULL);
    root_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n");
    expect_one("groups", DOCTOR_WARNING,
               "memory.limit_in_bytes allows 8.0 GiB, of which others leave", "higher limit");
    expect_one("pressure", DOCTOR_NOTE, "does not tell", "psi=1");
    root_put("proc/sys/kernel/io_uring_disabled", "2\n");
    expect_one("io_uring", DOCTOR_NOTE, "io_uring_disabled=2", "sysctl");
}

TEST(doctor_says_when_it_could_not_keep_what_it_found)
{
    struct doctor d = {.root = "root"};
    mem_fail_after(1);
    CHECK(doctor_look_at(&d, "processor"));
    mem_fail_after(0);
    CHECK(!d.found_all && d.n == 1);
    doctor_forget(&d);
    CHECK(!doctor_look_at(&d, "no such check"));
}

TEST(doctor_leaves_a_worker_that_runs_alone)
{
    struct doctor d = {.model_path = "model.gguf", .queue_error = {.code = ERROR_NOTFOUND}};
    d.status.worker = (struct queue_worker_info){
        .present = true, .alive = true, .pid = 4711, .planned_bytes = 80 * GIB};
    put_memory(119, 20, 25, 0);
    root_put("proc/4711/status", "VmRSS: 83886080 kB\n");
    root_put("proc/4711/comm", "nocturne\n");
    root_put("proc/99/status", "VmRSS: 1048576 kB\n");
    root_put("proc/99/comm", "other\n");
    look(&d, "memory");
    expect(&d, 0, DOCTOR_OK, "25.0 GiB of 119.0 GiB", NULL);
    look(&d, "model");
    CHECK_INT(d.n, 1);
    expect(&d, 0, DOCTOR_OK, "a worker runs, with 80.0 GiB planned", NULL);
    put_memory(119, 20, 25, 9);
    look(&d, "memory");
    expect(&d, 0, DOCTOR_NOTE, "swap in use", ", 'other' holds 1.0 GiB");
    look(&d, "budget");
    CHECK_INT(d.n, 0);
    doctor_forget(&d);
}

TEST(doctor_counts_promises_where_the_kernel_does)
{
    struct doctor d = {0};
    struct error e = {0};
    put_memory(64, 30, 60, 0);
    root_put("proc/sys/vm/overcommit_memory", "2\n");
    CHECK_OK(ledger_new(&d.ledger, 2 * GIB, &e), &e);
    look(&d, "limits");
    expect(&d, 0, DOCTOR_WARNING, "promises 8.0 GiB of memory at most and has promised 7.0 GiB",
           "vm.overcommit_memory=0");
    root_put("proc/sys/vm/overcommit_memory", "0\n");
    look(&d, "limits");
    CHECK_INT(d.n, 0);
    doctor_forget(&d);
    ledger_free(d.ledger);
}

/* ------------------------------------------------------------------ a queue */

TEST(doctor_reads_the_queue_and_its_worker)
{
    struct doctor d = {.lease_us = 12000000};
    struct error e = {0};
    d.queue_error.code = 0;
    const struct queue_options o = {.create = true};
    CHECK_OK(queue_open("q.db", &o, &d.queue, &e), &e);
    look(&d, "queue");
    expect(&d, 0, DOCTOR_NOTE, "0 of 0 requests wait", "nocturne submit");
    d.status = (struct queue_status){.paused = true};
    d.status.counts.total = 20;
    d.status.counts.state[QUEUE_QUEUED] = 12;
    d.status.counts.state[QUEUE_HELD] = d.status.counts.held_user = 3;
    look(&d, "queue");
    CHECK_INT(d.n, 3);
    expect(&d, 0, DOCTOR_PROBLEM, "paused: no job will start", "nocturne resume");
    expect(&d, 1, DOCTOR_OK, "12 of 20 requests wait, 3 are held", NULL);
    expect(&d, 2, DOCTOR_NOTE, "3 are held by a person", NULL);
    CHECK_INT(doctor_worst(&d), DOCTOR_PROBLEM);
    look(&d, "worker");
    expect(&d, 0, DOCTOR_NOTE, "none is running", "nocturne run");
    d.status.worker = (struct queue_worker_info){.present = true, .pid = 77, .planned_bytes = GIB};
    look(&d, "worker");
    expect(&d, 0, DOCTOR_WARNING, "pid 77 died", "takes over");
    d.status.worker.alive = true;
    d.status.worker.beat_age_ms = 2000;
    look(&d, "worker");
    expect(&d, 0, DOCTOR_OK, "pid 77, 1.0 GiB planned", NULL);
    d.status.worker.beat_age_ms = 100000;
    look(&d, "worker");
    expect(&d, 0, DOCTOR_PROBLEM, "pid 77 hangs: it has not moved for 1m 40s", "kill -9 77");
    look(&d, "time_needed");
    expect(&d, 0, DOCTOR_NOTE, "unknown until a first request is done", NULL);
    doctor_forget(&d);
    queue_close(d.queue);
}

/* 3 are done; the rest takes longer than a window of a minute, and less than one without end. */
TEST(doctor_compares_what_is_left_with_the_window)
{
    struct doctor d = {0};
    struct error e = {0};
    const struct drill_jobs jobs = {.n = 3, .max_tokens = 8, .name = "doc"};
    drill_model(2048);
    drill_write_jobs("jobs.jsonl", &jobs);
    drill_submit("q.db", "jobs.jsonl");
    CHECK_INT(drill("q.db", DRILL_RUN "--drain 2> err"), 0);
    d.queue = drill_open("q.db");
    d.status.counts.total = d.status.counts.state[QUEUE_QUEUED] = 1000000;
    look(&d, "time_needed");
    expect(&d, 0, DOCTOR_OK, "at the rate measured so far; done around 20", NULL);
    CHECK_OK(windows_add(&d.windows, "00:00-00:01", &e), &e);
    look(&d, "time_needed");
    expect(&d, 0, DOCTOR_WARNING, "of work, more than the ", "widen --window");
    doctor_forget(&d);
    queue_close(d.queue);
}

/* ------------------------------------------------------------------ the command */

static cJSON *finding_of(const cJSON *all, const char *check, const char *status)
{
    cJSON *f = NULL;
    cJSON_ArrayForEach(f, cJSON_GetObjectItem(all, "findings"))
    {
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(f, "check")), check) == 0 &&
            strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(f, "status")), status) == 0)
            return f;
    }
    return NULL;
}

TEST(doctor_command_names_strangers_on_the_gpu_and_what_does_not_fit)
{
    char out[65536];
    drill_model(2048);
    CHECK_INT(setenv("NOCTURNE_DB", "q.db", 1), 0);
    nvml_says("device - 0 NVIDIA GB10\nprocess 0 %d 1073741824\n", (int)getpid());
    CHECK_INT(program_run("doctor --json -m model.gguf --memory 1M", out, sizeof(out)), 4);
    cJSON *o = cJSON_Parse(out);
    CHECK_STR(cJSON_GetStringValue(cJSON_GetObjectItem(o, "status")), "problem");
    const cJSON *gpu = finding_of(o, "gpu", "warning");
    CHECK(gpu && strstr(cJSON_GetStringValue(cJSON_GetObjectItem(gpu, "text")), ", 1.0 GiB"));
    CHECK_INT(cJSON_GetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(gpu, "values"), "pid")),
              getpid());
    CHECK(finding_of(o, "model", "problem") != NULL);
    cJSON_Delete(o);
    CHECK_INT(program_run("doctor --json -m model.gguf --memory 512M", out, sizeof(out)), 0);
    o = cJSON_Parse(out);
    CHECK(finding_of(o, "model", "ok") != NULL && finding_of(o, "database", "note") != NULL);
    CHECK(finding_of(o, "model_disk", "ok") != NULL || finding_of(o, "model_disk", "warning"));
    cJSON_Delete(o);
}
