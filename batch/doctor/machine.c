/* Processor and memory, and what limits either. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/cpu.h"
#include "base/parallel.h"
#include "batch/doctor/doctor.h"
#include "batch/host/cgroup.h"
#include "batch/host/memory.h"
#include "batch/host/pressure.h"
#include "batch/host/process.h"
#include "batch/host/subgroup.h"

/* So much free memory of which none is in large blocks is worth a word. */
#define MUCH_BYTES (UINT64_C(4) << 30)
#define STALLED_PERCENT 10

static void name_features(char out[160])
{
    struct cpu c;
    size_t n = 0;
    cpu_detect(&c);
    const struct {
        bool there;
        const char *name;
    } features[] = {{c.avx2, "avx2"},         {c.fma, "fma"},
                    {c.f16c, "f16c"},         {c.avx512f, "avx512f"},
                    {c.avx512bw, "avx512bw"}, {c.avx512vl, "avx512vl"},
                    {c.avx512dq, "avx512dq"}, {c.avx512vnni, "avx512vnni"},
                    {c.neon, "neon"},         {c.dotprod, "dotprod"},
                    {c.i8mm, "i8mm"}};
    snprintf(out, 160, "no vector instructions");
    for (size_t i = 0; i < ARRAY_LEN(features); i++) {
        if (features[i].there)
            n += (size_t)snprintf(out + n, 160 - n, "%s%s", n ? " " : "", features[i].name);
    }
}

void doctor_processor(struct doctor *d)
{
    char has[160];
    const char *isa = engine_isa();
    const bool slow = strcmp(isa, "generic") == 0;
    name_features(has);
    doctor_say(d, slow ? DOCTOR_WARNING : DOCTOR_OK,
               slow ? "use a processor with AVX2 or NEON's dot products: here each token takes "
                      "several times as long"
                    : NULL,
               "kernels: %s; %d of %ld cores are for this process; %s", isa, parallel_cores(),
               sysconf(_SC_NPROCESSORS_ONLN), has);
    doctor_value(d, "cores", parallel_cores());
}

/* A worker that runs has what it is meant to have. */
static int worker_pid(const struct doctor *d)
{
    return d->status.worker.alive ? d->status.worker.pid : (int)getpid();
}

static const char *name_largest(const struct doctor *d, char out[256])
{
    struct process p;
    char who[PROCESS_TEXT_BYTES], held[24];
    snprintf(out, 256, "end what is not needed tonight");
    if (process_largest(d->root, worker_pid(d), &p))
        snprintf(out, 256, "end what is not needed tonight: %s holds %s", process_text(&p, who),
                 str_format_size(p.resident_bytes, held));
    return out;
}

void doctor_memory(struct doctor *d)
{
    struct memory m;
    struct process own;
    char total[24], available[24], unused[24], swap[24], used[24], largest[256];
    if (!memory_read(d->root, &m)) {
        doctor_say(d, DOCTOR_WARNING, "give --memory",
                   "the kernel does not tell what is available");
        return;
    }
    (void)process_describe(d->root, worker_pid(d), &own);
    const bool little = m.available_bytes + own.resident_bytes < m.total_bytes / 4;
    const bool swapped = m.swap_used_bytes > m.total_bytes / 16;
    doctor_say(d,
               little    ? DOCTOR_WARNING
               : swapped ? DOCTOR_NOTE
                         : DOCTOR_OK,
               little || swapped ? name_largest(d, largest) : NULL,
               "%s of %s are available, %s free; %s of %s swap in use",
               str_format_size(m.available_bytes, available), str_format_size(m.total_bytes, total),
               str_format_size(m.free_bytes, unused), str_format_size(m.swap_used_bytes, used),
               str_format_size(m.swap_bytes, swap));
    doctor_value(d, "total_bytes", (double)m.total_bytes);
    doctor_value(d, "available_bytes", (double)m.available_bytes);
    doctor_value(d, "free_bytes", (double)m.free_bytes);
    doctor_value(d, "swap_used_bytes", (double)m.swap_used_bytes);
}

void doctor_blocks(struct doctor *d)
{
    struct memory m;
    char block[24];
    if (!memory_read(d->root, &m) || m.large_block_bytes == 0)
        return;
    const bool none = m.large_blocks == 0 && m.free_bytes >= MUCH_BYTES;
    doctor_say(d, none ? DOCTOR_WARNING : DOCTOR_OK,
               none ? "restart the machine, or as root: sync; echo 3 > /proc/sys/vm/drop_caches; "
                      "echo 1 > /proc/sys/vm/compact_memory"
                    : NULL,
               "%" PRIu64 " of %s%s", m.large_blocks, str_format_size(m.large_block_bytes, block),
               none
                   ? ": free memory is in small pieces, with which a GPU's driver may crawl or fail"
                   : "");
    doctor_value(d, "blocks", (double)m.large_blocks);
    doctor_value(d, "block_bytes", (double)m.large_block_bytes);
}

void doctor_pressure(struct doctor *d)
{
    struct pressure_place place = {0};
    struct pressure_sample s;
    pressure_find(d->root, &place);
    pressure_read(&place, &s);
    if (s.system.some_us < 0) {
        doctor_say(d, DOCTOR_NOTE, "boot with psi=1 on the kernel's command line",
                   "this kernel does not tell how much memory is waited for");
        return;
    }
    const bool stalled = s.system.some_avg10 >= STALLED_PERCENT;
    doctor_say(d, stalled ? DOCTOR_WARNING : DOCTOR_OK,
               stalled ? "end what is not needed: programs wait for memory already" : NULL,
               "in %.1f %% of the last 10 s some program waited for memory, in %.1f %% all of them",
               s.system.some_avg10, s.system.full_avg10);
    doctor_value(d, "some_avg10", s.system.some_avg10);
    doctor_value(d, "full_avg10", s.system.full_avg10);
}

/* What a run would have as a limit of its own (batch/host/confine.h), as far as it shows. */
static void say_means(struct doctor *d, const struct cgroup_place *own)
{
    char ignored[512];
    const bool scopes =
        doctor_exists(d, "run/systemd/system") && doctor_exists(d, "usr/bin/systemd-run");
    const bool ours = subgroup_allowed(own, d->root, ignored);
    const bool none = !scopes && !ours;
    doctor_say(d, none ? DOCTOR_NOTE : DOCTOR_OK,
               none ? "start the worker as a service of systemd's with MemoryMax=" : NULL,
               "version %d; nothing but the machine limits memory yet; a run %s",
               own->unified ? 2 : 1,
               scopes ? "has systemd make a scope"
               : ours ? "makes a group of its own"
                      : "will have no limit but its own count");
}

void doctor_groups(struct doctor *d)
{
    struct cgroup_memory g;
    struct cgroup_place own;
    char limit[24], left[24];
    const bool there = cgroup_own(d->root, &own);
    cgroup_memory(d->root, &g);
    if (g.limit_bytes != UINT64_MAX) {
        const bool little = g.left_bytes < g.limit_bytes / 2;
        doctor_say(d, little ? DOCTOR_WARNING : DOCTOR_OK,
                   little ? "give this group a higher limit, or end what else is in it" : NULL,
                   "%s allows %s, of which others leave %s", g.file,
                   str_format_size(g.limit_bytes, limit), str_format_size(g.left_bytes, left));
        doctor_value(d, "limit_bytes", (double)g.limit_bytes);
        doctor_value(d, "left_bytes", (double)g.left_bytes);
    } else if (!there) {
        doctor_say(
            d, DOCTOR_NOTE, "mount them, or let systemd start the worker",
            "none with the memory controller: only nocturne's own count keeps to the budget");
    } else {
        say_means(d, &own);
    }
}

/* What the kernel may promise, where it keeps count of promises. */
static void look_at_promises(struct doctor *d)
{
    char mode[16], limit[24], committed[24];
    struct memory m;
    doctor_read(d, "proc/sys/vm/overcommit_memory", mode, sizeof(mode));
    if (strcmp(mode, "2") != 0 || !memory_read(d->root, &m))
        return;
    const uint64_t left = m.commit_limit_bytes - MIN_OF(m.committed_bytes, m.commit_limit_bytes);
    const bool little = d->ledger && left < ledger_limit(d->ledger);
    doctor_say(d, little ? DOCTOR_WARNING : DOCTOR_NOTE,
               little ? "sysctl vm.overcommit_memory=0, or a smaller --memory" : NULL,
               "the kernel promises %s of memory at most and has promised %s "
               "(vm.overcommit_memory=2)",
               str_format_size(m.commit_limit_bytes, limit),
               str_format_size(m.committed_bytes, committed));
}

static const char *limit_text(const struct rlimit *l, char out[24])
{
    if (l->rlim_cur == RLIM_INFINITY)
        snprintf(out, 24, "no limit");
    else
        str_format_size(l->rlim_cur, out);
    return out;
}

void doctor_limits(struct doctor *d)
{
    struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY}, locked = space;
    char a[24], b[24];
    look_at_promises(d);
    if (!doctor_live(d))
        return;
    (void)getrlimit(RLIMIT_AS, &space);
    (void)getrlimit(RLIMIT_MEMLOCK, &locked);
    const bool small =
        space.rlim_cur != RLIM_INFINITY && d->ledger && space.rlim_cur < ledger_limit(d->ledger);
    doctor_say(d, small ? DOCTOR_PROBLEM : DOCTOR_OK, small ? "ulimit -v unlimited" : NULL,
               "address space: %s; locked memory: %s", limit_text(&space, a),
               limit_text(&locked, b));
}
