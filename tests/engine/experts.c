/* The store of experts: whatever the slots, whatever fails, a view shows the file's bytes. */
#include <linux/capability.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "engine/experts/depth.h"
#include "engine/experts/io.h"
#include "engine/experts/store.h"
#include "tests/test.h"

#define N_LAYERS 3
#define N_EXPERTS 32
#define WANTED 6

/* A test of the store with each way to read. */
#define TEST_WAYS(ident)                                                                           \
    static void ident(const char *way);                                                            \
    TEST(ident##_with_pread)                                                                       \
    {                                                                                              \
        ident("pread");                                                                            \
    }                                                                                              \
    TEST(ident##_with_uring)                                                                       \
    {                                                                                              \
        need_uring();                                                                              \
        ident("uring");                                                                            \
    }                                                                                              \
    static void ident(const char *way)

static void need_uring(void)
{
    const char *name;
    struct error why = {0}, e = {0};
    if (io_pick("uring", &name, &why, &e) != 0)
        SKIP("%s", e.text);
}

/* Two files; matrices of odd sizes at odd places. Layer 1 has no experts, layer 2 two matrices. */
static const struct expert_layer layers[N_LAYERS] = {
    {3, {{0, 123, 5000}, {1, 4096, 777}, {0, 200001, 4096}}},
    {0},
    {2, {{1, 50001, 12345}, {0, 400000, 1}}},
};
static const char *const paths[] = {"a.bin", "b.bin"};
#define FILE_BYTES 600000

static unsigned char byte_at(uint32_t shard, uint64_t offset)
{
    return (unsigned char)rng_u64(31 + shard, offset);
}

static void write_files(void)
{
    unsigned char *bytes = mem_alloc(FILE_BYTES);
    struct error e = {0};
    for (uint32_t shard = 0; shard < 2; shard++) {
        struct file_replace f;
        for (uint64_t i = 0; i < FILE_BYTES; i++)
            bytes[i] = byte_at(shard, i);
        CHECK_OK(file_replace_begin(&f, paths[shard], &e), &e);
        CHECK_OK(file_write_fd(f.fd, bytes, FILE_BYTES, paths[shard], &e), &e);
        CHECK_OK(file_replace_commit(&f, &e), &e);
    }
    mem_free(bytes);
}

struct kit {
    struct ledger *ledger;
    struct expert_store *store;
};

static struct expert_store_options store_options(const char *way, uint64_t n_slots)
{
    return (struct expert_store_options){.io = way,
                                         .paths = paths,
                                         .n_shards = 2,
                                         .layers = layers,
                                         .n_layers = N_LAYERS,
                                         .n_experts = N_EXPERTS,
                                         .n_slots = n_slots};
}

static struct kit open_store_with(struct expert_store_options o)
{
    struct kit k = {0};
    struct error e = {0};
    const uint64_t n_slots = o.n_slots;
    CHECK_OK(ledger_new(&k.ledger, 64u << 20, &e), &e);
    o.ledger = k.ledger;
    CHECK_OK(experts_open(&k.store, &o, &e), &e);
    CHECK_INT(ledger_used(k.ledger, LEDGER_SLOTS),
              experts_store_bytes(layers, N_LAYERS, N_EXPERTS, n_slots));
    if (o.io)
        CHECK_STR(experts_io(k.store), o.io);
    return k;
}

static struct kit open_store(const char *way, uint64_t n_slots)
{
    return open_store_with(store_options(way, n_slots));
}

static void close_store(struct kit *k)
{
    experts_close(k->store);
    CHECK_INT(ledger_total(k->ledger), 0);
    ledger_free(k->ledger);
}

static uint32_t worst_failures(struct expert_store *store)
{
    return MAX_OF(experts_failures(store, 0), experts_failures(store, 1));
}

static void check_view(uint32_t layer, uint32_t expert, const struct expert_view *view)
{
    for (uint32_t i = 0; i < layers[layer].n_slices; i++) {
        const struct expert_slice *x = &layers[layer].slice[i];
        const unsigned char *got = view->slice[i];
        const uint64_t offset = x->offset + (uint64_t)expert * x->bytes;
        for (size_t b = 0; b < x->bytes; b++) {
            if (got[b] != byte_at(x->shard, offset + b))
                test_fail(__FILE__, __LINE__, "layer %u expert %u slice %u byte %zu", layer, expert,
                          i, b);
        }
    }
}

/* A visit of some experts, ascending. */
struct some {
    uint32_t layer, n;
    uint32_t ids[WANTED];
    struct expert_want want[WANTED];
    struct expert_visit visit;
    bool seen[WANTED];
};

static void choose(struct some *s, uint64_t seed)
{
    *s = (struct some){.layer = rng_u64(seed, 0) % 2 ? 2 : 0};
    uint32_t id = 0;
    for (uint64_t i = 1; s->n < WANTED; i++) {
        id += 1 + (uint32_t)(rng_u64(seed, i) % 9);
        if (id >= N_EXPERTS)
            break;
        s->ids[s->n++] = id;
    }
}

/* Everything it wants, once each, as it comes. 0, or the code of what failed. */
static int serve(struct some *s, struct some *ahead, struct expert_store *store, struct error *e)
{
    struct expert_view view[WANTED];
    uint32_t n = 0, n_seen = 0;
    bool begun = ahead == NULL;
    for (;;) {
        int rc = experts_next(&s->visit, view, &n, e);
        if (rc != 0)
            return rc;
        if (!begun && experts_started(&s->visit)) {
            experts_begin(store, &ahead->visit, ahead->layer, ahead->ids, ahead->n, ahead->want);
            begun = true;
        }
        if (n == 0)
            break;
        for (uint32_t i = 0; i < n; i++) {
            CHECK(!s->seen[view[i].index]);
            s->seen[view[i].index] = true;
            check_view(s->layer, s->ids[view[i].index], &view[i]);
        }
        n_seen += n;
    }
    CHECK_INT(n_seen, s->n);
    CHECK(begun);
    experts_end(&s->visit);
    return 0;
}

/* Visits one after the other, each begun ahead of the end of the one before. */
static void check_visits(const struct expert_store_options *o)
{
    struct kit kit = open_store_with(*o);
    struct error e = {0};
    struct some visits[2];
    struct expert_counters c;
    uint64_t n_wanted = 0;
    choose(&visits[0], 1);
    experts_begin(kit.store, &visits[0].visit, visits[0].layer, visits[0].ids, visits[0].n,
                  visits[0].want);
    for (uint64_t i = 0; i < 100; i++) {
        struct some *s = &visits[i % 2], *ahead = &visits[(i + 1) % 2];
        choose(ahead, i + 2);
        n_wanted += s->n;
        CHECK_OK(serve(s, i < 99 ? ahead : NULL, kit.store, &e), &e);
    }
    experts_counters(kit.store, &c);
    CHECK(c.hits + c.misses <= n_wanted);
    CHECK(o->n_slots < 2 * N_EXPERTS || c.misses <= 2 * N_EXPERTS);
    CHECK(o->n_slots > 2 || c.misses > n_wanted / 2);
    CHECK_INT(worst_failures(kit.store), 0);
    close_store(&kit);
}

TEST_WAYS(experts_show_the_files_bytes_with_any_slots_and_policy)
{
    static const uint64_t n_slots[] = {1, 2, 3, WANTED, 11, 2 * N_EXPERTS, 1000};
    write_files();
    for (size_t k = 0; k < ARRAY_LEN(n_slots); k++) {
        struct expert_store_options o = store_options(way, n_slots[k]);
        for (size_t p = 0; (o.policy = expert_policy_at(p)) != NULL; p++)
            check_visits(&o);
    }
}

/* Every read fails once, at every place: it is tried again and nobody notices. */
TEST_WAYS(experts_read_again_what_failed_once)
{
    write_files();
    for (long at = 1; at < 13; at++) {
        struct kit kit = open_store(way, WANTED);
        struct error e = {0};
        struct some s;
        for (uint64_t i = 0; i < 4; i++) {
            choose(&s, i);
            if (i == 0)
                file_fail_once(at, FILE_FAULT_EIO);
            experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
            CHECK_OK(serve(&s, NULL, kit.store, &e), &e);
        }
        CHECK_INT(worst_failures(kit.store), 1);
        file_fail_after(0, FILE_FAULT_NONE);
        close_store(&kit);
    }
}

/* A disk that goes away fails the visit with file and offset; when it is back, all is as before. */
TEST_WAYS(experts_fail_a_visit_whose_read_fails_twice)
{
    write_files();
    for (long at = 1; at < 12; at++) {
        struct kit kit = open_store(way, 4);
        struct error e = {0};
        struct some s;
        choose(&s, 3);
        file_fail_after(at, FILE_FAULT_EIO);
        experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
        int rc = serve(&s, NULL, kit.store, &e);
        CHECK_ERROR(rc, &e, ERROR_IO, ".bin");
        CHECK(strstr(e.text, "expert ") != NULL);
        experts_end(&s.visit);
        file_fail_after(0, FILE_FAULT_NONE);
        CHECK(worst_failures(kit.store) >= 2);
        for (uint64_t i = 0; i < 5; i++) {
            choose(&s, i);
            experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
            CHECK_OK(serve(&s, NULL, kit.store, &e), &e);
        }
        close_store(&kit);
    }
}

TEST_WAYS(experts_of_a_file_that_was_cut_are_refused)
{
    struct error e = {0};
    struct some s;
    write_files();
    CHECK_INT(truncate(paths[1], 60000), 0);
    struct kit kit = open_store(way, 8);
    s = (struct some){.layer = 2, .n = 2, .ids = {0, 20}};
    experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
    CHECK_ERROR(serve(&s, NULL, kit.store, &e), &e, ERROR_IO, "b.bin");
    experts_end(&s.visit);
    close_store(&kit);
}

/* Every matrix in whole blocks of the file, and nothing else. */
TEST_WAYS(experts_count_the_bytes_they_read)
{
    write_files();
    _Atomic uint64_t came_back = 0;
    struct expert_store_options o = store_options(way, 2 * N_EXPERTS);
    o.n_reads = &came_back;
    struct kit kit = open_store_with(o);
    struct error e = {0};
    struct expert_counters c;
    uint64_t want = 0, n_reads = 0;
    for (uint32_t layer = 0; layer < N_LAYERS; layer += 2) {
        for (uint32_t expert = 0; expert < N_EXPERTS; expert += 3) {
            struct some s = {.layer = layer, .n = 1, .ids = {expert}};
            experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
            CHECK_OK(serve(&s, NULL, kit.store, &e), &e);
            for (uint32_t i = 0; i < layers[layer].n_slices; i++) {
                const struct expert_slice *x = &layers[layer].slice[i];
                const uint64_t from = x->offset + expert * x->bytes, end = from + x->bytes;
                want += (end + 4095) / 4096 * 4096 - from / 4096 * 4096;
                n_reads++;
            }
        }
    }
    experts_counters(kit.store, &c);
    CHECK_INT(c.bytes_read, want);
    CHECK_INT(c.reads, n_reads);
    CHECK_INT(came_back, n_reads);
    CHECK(c.busy_us > 0);
    close_store(&kit);
}

/* ------------------------------------------------------------------ races */

/* What comes back is held up for a moment each, and one in eight is not good. */
static int slow_check(const void *context, uint32_t layer, uint32_t slice, const void *data,
                      struct error *e)
{
    atomic_uint *n = (atomic_uint *)(uintptr_t)context;
    const uint64_t random = rng_u64(77, atomic_fetch_add(n, 1));
    const struct timespec pause = {.tv_nsec = (long)(random >> 8) % 100000};
    (void)slice;
    (void)data;
    nanosleep(&pause, NULL);
    return random % 8 == 0 ? error_set(e, ERROR_FORMAT, "layer %u: not good", layer) : 0;
}

/* As few slots as a visit wants, or one: no wrong byte, nobody waits for ever. */
TEST_WAYS(experts_survive_slow_and_failing_reads)
{
    write_files();
    for (uint64_t n_slots = 1; n_slots <= WANTED; n_slots += WANTED - 1) {
        atomic_uint n_checks = 0;
        struct expert_store_options o = store_options(way, n_slots);
        struct error e = {0};
        struct some visits[2] = {0};
        uint32_t n_failed = 0;
        o.check = slow_check;
        o.check_context = &n_checks;
        struct kit kit = open_store_with(o);
        for (uint64_t i = 0; i < 150; i++) {
            struct some *s = &visits[i % 2], *ahead = &visits[(i + 1) % 2];
            if (!s->visit.store) {
                choose(s, i + 1);
                experts_begin(kit.store, &s->visit, s->layer, s->ids, s->n, s->want);
            }
            if (i % 3 == 0)
                file_fail_once((long)(i % 7) + 1, i % 2 ? FILE_FAULT_EIO : FILE_FAULT_SHORT);
            choose(ahead, i + 2);
            if (serve(s, ahead, kit.store, &e) != 0) {
                n_failed++;
                experts_end(&s->visit);
                experts_end(&ahead->visit);
            }
        }
        file_fail_after(0, FILE_FAULT_NONE);
        experts_end(&visits[0].visit);
        experts_end(&visits[1].visit);
        CHECK(n_failed > 0 && n_failed < 140);
        close_store(&kit);
    }
}

/* Closed while reads that nobody waits for are under way: nothing is written to what is gone. */
TEST_WAYS(experts_close_while_reads_are_in_flight)
{
    write_files();
    for (uint64_t i = 0; i < 50; i++) {
        struct kit kit = open_store(way, 2 * N_EXPERTS);
        struct some s;
        choose(&s, i);
        experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
        experts_end(&s.visit);
        close_store(&kit);
    }
}

/* ------------------------------------------------------------------ ways to read */

TEST(experts_ways_to_read_are_picked_by_name)
{
    const char *name = NULL;
    struct error why = {0}, e = {0};
    CHECK_OK(io_pick("pread", &name, &why, &e), &e);
    CHECK_STR(name, "pread");
    CHECK_OK(io_pick(NULL, &name, &why, &e), &e);
    CHECK((strcmp(name, "pread") == 0) == (why.code != ERROR_NONE));
    CHECK_ERROR(io_pick("aio", &name, &why, &e), &e, ERROR_INVALID, "'aio' is not known");
}

/* What root may beyond the limit. */
static void give_up_locking(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    CHECK_INT(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_IPC_LOCK);
    CHECK_INT(syscall(SYS_capset, &header, data), 0);
}

/* Without the right to lock memory it reads all the same, and says so. */
TEST(experts_are_read_into_memory_that_may_not_be_locked)
{
    const struct rlimit little = {65536, 65536};
    need_uring();
    write_files();
    struct kit kit = open_store("uring", WANTED);
    CHECK_STR(experts_io_notice(kit.store), "");
    close_store(&kit);
    CHECK_INT(setrlimit(RLIMIT_MEMLOCK, &little), 0);
    give_up_locking();
    struct error e = {0};
    struct some s;
    kit = open_store("uring", WANTED);
    CHECK(strstr(experts_io_notice(kit.store), "ulimit -l") != NULL);
    choose(&s, 1);
    experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
    CHECK_OK(serve(&s, NULL, kit.store, &e), &e);
    close_store(&kit);
}

/* What a measurement with so many slots says: 0 where it cannot be made. */
static uint32_t measured_depth(uint64_t n_slots, uint64_t *ret_bytes)
{
    struct expert_store_options o = store_options("uring", n_slots);
    struct slots slots;
    struct file files[2];
    struct error e = {0};
    CHECK_OK(ledger_new(&o.ledger, 64u << 20, &e), &e);
    CHECK_OK(slots_open(&slots, &o, &e), &e);
    for (int i = 0; i < 2; i++)
        CHECK_OK(file_open_direct(&files[i], paths[i], &e), &e);
    const struct io_options io = {.way = o.io, .files = files, .n_files = 2};
    const uint32_t depth = depth_measure(&io, &slots, ret_bytes);
    for (int i = 0; i < 2; i++)
        file_close(&files[i]);
    slots_close(&slots);
    ledger_free(o.ledger);
    return depth;
}

/* Measured where there is room for as many and the disk reads; else the usual. */
TEST(experts_depth_is_what_slots_and_disk_allow)
{
    uint64_t bytes;
    need_uring();
    write_files();
    const uint32_t depth = measured_depth(2 * N_EXPERTS, &bytes);
    CHECK(depth >= 8 && depth <= 2 * N_EXPERTS && bytes > 0);
    CHECK_INT(measured_depth(15, &bytes), 8);
    CHECK(bytes > 0);
    CHECK_INT(measured_depth(7, &bytes), 0);
    CHECK_INT(bytes, 0);
    file_fail_after(3, FILE_FAULT_EIO);
    CHECK_INT(measured_depth(2 * N_EXPERTS, &bytes), 0);
    file_fail_after(0, FILE_FAULT_NONE);
    CHECK(io_deepens("uring") && !io_deepens("pread"));
}

TEST(experts_take_nothing_that_the_budget_does_not_have)
{
    struct ledger *l;
    struct error e = {0};
    struct expert_store *store = NULL;
    write_files();
    const uint64_t need = experts_store_bytes(layers, N_LAYERS, N_EXPERTS, 8);
    CHECK_OK(ledger_new(&l, need - 4096, &e), &e);
    struct expert_store_options o = store_options(NULL, 8);
    o.ledger = l;
    CHECK_ERROR(experts_open(&store, &o, &e), &e, ERROR_BUDGET, "experts");
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
}

static uint64_t tables_bytes(uint64_t n_slots)
{
    return experts_store_bytes(layers, N_LAYERS, N_EXPERTS, n_slots) -
           n_slots * experts_slot_bytes(layers, N_LAYERS);
}

/* Extents go back between visits, down to what a row needs: the ledger has them, and the bytes stay right. */
TEST_WAYS(experts_shrink_between_visits)
{
    static const uint32_t n_least = WANTED;
    const size_t slot_bytes = experts_slot_bytes(layers, N_LAYERS);
    write_files();
    for (size_t p = 0; expert_policy_at(p); p++) {
        struct expert_store_options o = store_options(way, 2 * N_EXPERTS);
        struct error e = {0};
        struct some s, next;
        uint64_t n_slots = 2 * N_EXPERTS;
        o.policy = expert_policy_at(p);
        o.lookahead = p % 2 == 0;
        struct kit kit = open_store_with(o);
        for (uint64_t i = 0; i < 120; i++) {
            choose(&s, i);
            experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
            CHECK_OK(serve(&s, NULL, kit.store, &e), &e);
            choose(&next, i + 1);
            experts_expect(kit.store, next.layer, next.ids, next.n);
            if (i < 20)
                continue;
            const uint64_t given = experts_shrink(kit.store, 1, n_least);
            CHECK_INT(given, n_slots < 4 + n_least ? 0 : 4 * slot_bytes);
            n_slots -= given / slot_bytes;
            CHECK_INT(ledger_used(kit.ledger, LEDGER_SLOTS),
                      n_slots * slot_bytes + tables_bytes(2 * N_EXPERTS));
        }
        CHECK_INT(n_slots, 8);
        close_store(&kit);
    }
}

static long pinned_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof(line), f))
        sscanf(line, "VmPin: %ld", &kib);
    fclose(f);
    return kib;
}

/* What the ring has registered it lets go: else the memory would only seem to be given back. */
TEST(experts_shrink_unpins_what_was_registered)
{
    need_uring();
    write_files();
    const long before = pinned_kib();
    struct kit kit = open_store("uring", 2 * N_EXPERTS);
    const long registered = pinned_kib() - before;
    if (registered == 0)
        SKIP("%s", experts_io_notice(kit.store));
    const uint64_t given = experts_shrink(kit.store, UINT64_MAX, 1);
    CHECK(given > 0);
    CHECK_INT(pinned_kib() - before, registered - (long)(given / 1024));
    close_store(&kit);
}

/* What somebody counts on stays, and goes when it is given back. */
TEST(experts_shrink_leaves_what_is_leased)
{
    struct error e = {0};
    struct some s;
    struct expert_view view[WANTED];
    uint32_t n = 0, n_seen = 0;
    write_files();
    struct kit kit = open_store(NULL, WANTED);
    s = (struct some){.layer = 0, .n = WANTED, .ids = {1, 2, 3, 4, 5, 6}};
    experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
    while (n_seen < s.n) {
        CHECK_OK(experts_next(&s.visit, view, &n, &e), &e);
        n_seen += n;
    }
    const uint64_t given = experts_shrink(kit.store, UINT64_MAX, 1);
    CHECK(given < WANTED * experts_slot_bytes(layers, N_LAYERS));
    for (uint32_t i = 0; i < n; i++)
        check_view(s.layer, s.ids[view[i].index], &view[i]);
    experts_end(&s.visit);
    CHECK_INT(given + experts_shrink(kit.store, UINT64_MAX, 1),
              (WANTED - 1) * experts_slot_bytes(layers, N_LAYERS));
    close_store(&kit);
}

/* ------------------------------------------------------------------ lookahead */

static void wait_for_reads(struct expert_store *store, uint64_t n)
{
    struct expert_counters c = {0};
    while (c.reads < n) {
        experts_counters(store, &c);
        clock_sleep_us(100);
    }
}

static void visit_these(struct kit *kit, uint32_t layer, uint32_t a, uint32_t b)
{
    struct error e = {0};
    struct some s = {.layer = layer, .n = 2, .ids = {a, b}};
    experts_begin(kit->store, &s.visit, s.layer, s.ids, s.n, s.want);
    CHECK_OK(serve(&s, NULL, kit->store, &e), &e);
}

/* What comes true is not read again; what does not is, when it is wanted after all. */
TEST_WAYS(experts_expected_are_used_or_forgotten)
{
    static const uint32_t ids[] = {1, 4, 9};
    struct expert_store_options o = store_options(way, 2 * N_EXPERTS);
    struct expert_counters c;
    write_files();
    o.lookahead = true;
    struct kit kit = open_store_with(o);
    experts_expect(kit.store, 0, ids, 3);
    wait_for_reads(kit.store, 9);
    visit_these(&kit, 0, 4, 20);
    experts_counters(kit.store, &c);
    CHECK_INT(c.guesses, 3);
    CHECK_INT(c.good_guesses, 1);
    CHECK_INT(c.hits, 0);
    CHECK_INT(c.misses, 1);
    visit_these(&kit, 0, 1, 4);
    experts_counters(kit.store, &c);
    CHECK_INT(c.hits, 1);
    CHECK_INT(c.misses, 2);
    CHECK_INT(c.reads, 3 * (c.guesses + c.misses));
    close_store(&kit);
}

/* Reads of expert 1 of layer 0: the first is held up until the gate opens, the second is not good. */
struct gate {
    atomic_uint n_reads;
    atomic_bool open;
};

static int check_at_gate(const void *context, uint32_t layer, uint32_t slice, const void *data,
                         struct error *e)
{
    struct gate *gate = (struct gate *)(uintptr_t)context;
    const unsigned char *got = data;
    const uint64_t offset = layers[0].slice[0].offset + layers[0].slice[0].bytes;
    for (uint64_t b = 0; b < 8; b++) {
        if (layer != 0 || slice != 0 || got[b] != byte_at(0, offset + b))
            return 0;
    }
    const unsigned n = atomic_fetch_add(&gate->n_reads, 1);
    while (n == 0 && !atomic_load(&gate->open))
        clock_sleep_us(100);
    return n == 1 ? error_set(e, ERROR_FORMAT, "not good") : 0;
}

/* Wanted again while it is still under way, it is read anew: that it was forgotten is no failed read. */
TEST_WAYS(experts_forgotten_on_their_way_are_read_anew)
{
    static const uint32_t ids[] = {1};
    struct gate gate = {0};
    struct expert_store_options o = store_options(way, 2 * N_EXPERTS);
    struct expert_counters c;
    struct error e = {0};
    struct some other = {.layer = 0, .n = 1, .ids = {20}}, again = {.layer = 0, .n = 1, .ids = {1}};
    write_files();
    o.lookahead = true;
    o.check = check_at_gate;
    o.check_context = &gate;
    struct kit kit = open_store_with(o);
    experts_expect(kit.store, 0, ids, 1);
    while (atomic_load(&gate.n_reads) == 0)
        clock_sleep_us(100);
    experts_begin(kit.store, &other.visit, 0, other.ids, 1, other.want);
    experts_begin(kit.store, &again.visit, 0, again.ids, 1, again.want);
    atomic_store(&gate.open, true);
    CHECK_OK(serve(&other, NULL, kit.store, &e), &e);
    CHECK_OK(serve(&again, NULL, kit.store, &e), &e);
    CHECK_INT(atomic_load(&gate.n_reads), 3);
    experts_counters(kit.store, &c);
    CHECK_INT(c.good_guesses, 0);
    CHECK_INT(c.hits, 0);
    CHECK_INT(c.misses, 2);
    close_store(&kit);
}

/* The cache gives nothing up: once it is full, guesses go to the slots that are kept for them. */
TEST_WAYS(experts_expected_take_no_slot_from_what_is_kept)
{
    static const uint32_t ids[] = {25, 26, 27, 28};
    struct expert_store_options o = store_options(way, 2 * N_EXPERTS);
    struct expert_counters c;
    write_files();
    o.lookahead = true; /* of 64 slots, two are kept */
    struct kit kit = open_store_with(o);
    for (uint32_t i = 0; i < 2 * N_EXPERTS; i += 2)
        visit_these(&kit, i < N_EXPERTS ? 0 : 2, i % N_EXPERTS, i % N_EXPERTS + 1);
    experts_expect(kit.store, 0, (const uint32_t[]){0, 1, 2, 3}, 4); /* the first to make room */
    experts_counters(kit.store, &c);
    CHECK_INT(c.guesses, 2);
    visit_these(&kit, 2, 30, 31);
    experts_expect(kit.store, 0, ids, 4); /* all here */
    experts_counters(kit.store, &c);
    CHECK_INT(c.guesses, 2);
    CHECK_INT(c.misses, 2 * N_EXPERTS);
    close_store(&kit);
}

/* Guesses, good and bad, among visits whose reads are slow and fail: no wrong byte, nobody waits for ever. */
TEST_WAYS(experts_expected_survive_slow_and_failing_reads)
{
    static const uint64_t n_slots[] = {2, WANTED, 40};
    write_files();
    for (size_t k = 0; k < ARRAY_LEN(n_slots); k++) {
        atomic_uint n_checks = 0;
        struct expert_store_options o = store_options(way, n_slots[k]);
        struct error e = {0};
        o.lookahead = true;
        o.check = slow_check;
        o.check_context = &n_checks;
        struct kit kit = open_store_with(o);
        for (uint64_t i = 0; i < 150; i++) {
            struct some s, guess;
            choose(&s, i);
            choose(&guess, i % 3 ? i : i + 1000);
            if (i % 4 == 0)
                file_fail_once((long)(i % 5) + 1, i % 8 ? FILE_FAULT_EIO : FILE_FAULT_SHORT);
            experts_expect(kit.store, guess.layer, guess.ids, guess.n);
            clock_sleep_us((int64_t)(rng_u64(3, i) % 300));
            experts_begin(kit.store, &s.visit, s.layer, s.ids, s.n, s.want);
            if (serve(&s, NULL, kit.store, &e) != 0)
                experts_end(&s.visit);
        }
        file_fail_after(0, FILE_FAULT_NONE);
        close_store(&kit);
    }
}
