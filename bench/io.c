/*
 * io record MODEL [--memory SIZE] [--prompt N] [--tokens N] [--io WAY] [--threads N]
 *           [--lookahead on|off]
 * io random FILE [--bytes N] [--reads N] [--burst N] [--seed N]
 * io replay READS FILE... [--io WAY,...] [--depth N,...] [--split BYTES,...] [--repeat N]
 *
 * Reads without computing. `record` runs a model within a budget (a prompt of N bytes, then N tokens) and
 * prints every read of experts as it was asked for; `random` makes such a list over any file. `replay`
 * reads one through the engine's own code (engine/experts/io.h), burst by burst: the next begins when the
 * last has come back. FILEs are those of the model, in order. Each combination of ways, depths (0: the
 * way's own) and pieces that reads are split into (0: whole) is run --repeat times, in turns; one line
 * of CSV each. The list is CSV, too: burst,file,offset,bytes.
 */
#include "engine/experts/io.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/str.h"
#include "engine/engine.h"

#define EXTENT_BYTES ((size_t)256 << 20)
#define CHOICES 8

struct settings {
    const char *file[256];
    uint32_t n_files;
    const char *way[CHOICES];
    uint64_t depth[CHOICES], split[CHOICES];
    size_t n_ways, n_depths, n_splits;
    uint64_t memory, prompt, tokens, bytes, reads, burst, seed, repeat;
    int threads;
    bool lookahead;
};

struct item {
    uint64_t burst, offset;
    uint32_t file;
    size_t bytes;
};

struct list {
    struct item *item;
    size_t n, cap;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "io: %s%s%s\n", what, *why ? ": " : "", why);
    exit(1);
}

static void add(struct list *l, struct item x)
{
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 4096;
        l->item = mem_regrow(l->item, l->cap, sizeof(*l->item));
        if (!l->item)
            fail("no memory for the list of reads", "");
    }
    l->item[l->n++] = x;
}

/* ------------------------------------------------------------------ lists */

static void put_header(void)
{
    puts("burst,file,offset,bytes");
}

static void print_item(uint64_t burst, uint32_t file, uint64_t offset, size_t bytes)
{
    printf("%" PRIu64 ",%u,%" PRIu64 ",%zu\n", burst, file, offset, bytes);
}

/* Printed when the model has ended: the engine waits for whoever it tells. */
static void keep_read(void *context, const struct engine_read *r)
{
    add(context, (struct item){r->burst, r->offset, r->file, r->bytes});
}

static void print_list(const struct list *l)
{
    put_header();
    for (size_t i = 0; i < l->n; i++)
        print_item(l->item[i].burst, l->item[i].file, l->item[i].offset, l->item[i].bytes);
}

static void load(struct list *l, const char *path)
{
    struct item x;
    char line[128];
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof(line), f))
        fail(path, strerror(errno));
    while (fscanf(f, "%" SCNu64 ",%" SCNu32 ",%" SCNu64 ",%zu ", &x.burst, &x.file, &x.offset,
                  &x.bytes) == 4)
        add(l, x);
    if (!feof(f))
        fail(path, "not a list of reads");
    fclose(f);
}

static void run_model(const struct settings *s, struct engine *en, struct error *e)
{
    struct engine_event event;
    enum engine_admission answer;
    struct buf prompt;
    buf_init(&prompt, s->prompt + 16);
    for (uint64_t i = 0; prompt.len < s->prompt; i++)
        buf_append_c(&prompt, i % 5 == 4 ? " " : (char[2]){(char)('a' + rng_u64(9, i) % 26)});
    const struct engine_request r = {.tag = 1,
                                     .prompt = buf_str(&prompt),
                                     .max_tokens = (uint32_t)s->tokens,
                                     .sampling = {.temperature = 1, .top_p = 1, .seed = s->seed}};
    int rc = engine_submit(en, &r, &answer, e);
    while (rc == 0 && engine_busy(en)) {
        rc = engine_poll(en, &event, e);
        rc = rc < 0 ? rc : 0;
    }
    if (rc < 0)
        fail("running the model", e->text);
    buf_release(&prompt);
}

static void record(const struct settings *s)
{
    struct error e = {0};
    struct engine *en;
    struct engine_counters c;
    struct list reads = {0};
    struct engine_options o = {.model_path = s->file[0],
                               .io = s->way[0],
                               .threads = s->threads,
                               .slots = 1,
                               .lookahead = s->lookahead,
                               .reading = keep_read,
                               .reading_context = &reads};
    if (ledger_new(&o.ledger, s->memory, &e) != 0 || engine_open(&en, &o, &e) != 0)
        fail(s->file[0], e.text);
    run_model(s, en, &e);
    engine_counters(en, &c);
    print_list(&reads);
    fprintf(stderr,
            "%" PRIu64 " reads, %" PRIu64 " bytes, %.3f s with reads under way, %.3f s waiting, "
            "%.3f s of steps\n",
            c.expert_reads, c.bytes_read, c.expert_busy_ms / 1e3, c.expert_wait_ms / 1e3,
            c.step_ms / 1e3);
    fprintf(stderr,
            "%" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64 " guesses, %" PRIu64 " of them good\n",
            c.expert_hits, c.expert_misses, c.expert_guesses, c.expert_good_guesses);
    engine_close(en);
    ledger_free(o.ledger);
    mem_free(reads.item);
}

static void random_list(const struct settings *s)
{
    struct error e = {0};
    struct file f;
    if (file_open(&f, s->file[0], &e) != 0)
        fail("random", e.text);
    const uint64_t n = f.size / s->bytes;
    if (n == 0)
        fail(s->file[0], "smaller than one read");
    put_header();
    for (uint64_t i = 0; i < s->reads; i++)
        print_item(i / s->burst, 0, rng_u64(s->seed, i) % n * s->bytes, s->bytes);
    file_close(&f);
}

/* ------------------------------------------------------------------ replaying */

struct replay {
    const struct list *list;
    struct file file[256];
    struct io_extent extent;
    size_t stride, n_places;
    pthread_mutex_t lock;
    pthread_cond_t all_back;
    size_t next, end, n_out; /* of the burst */
    uint64_t bytes;
    struct error failure;
};

static bool take(void *context, struct io_read *ret)
{
    struct replay *r = context;
    pthread_mutex_lock(&r->lock);
    const bool any = r->next < r->end;
    if (any) {
        const struct item *x = &r->list->item[r->next];
        *ret = (struct io_read){.file = x->file,
                                .offset = x->offset,
                                .bytes = x->bytes,
                                .out = (char *)r->extent.at + r->next % r->n_places * r->stride};
        r->next++;
    }
    pthread_mutex_unlock(&r->lock);
    return any;
}

static void done(void *context, const struct io_read *x, int rc, const struct error *e)
{
    struct replay *r = context;
    pthread_mutex_lock(&r->lock);
    r->bytes += file_direct_span(x->offset, x->bytes);
    if (rc != 0)
        r->failure = *e;
    if (--r->n_out == 0)
        pthread_cond_signal(&r->all_back);
    pthread_mutex_unlock(&r->lock);
}

static void run_burst(struct replay *r, struct io *io)
{
    const struct list *l = r->list;
    pthread_mutex_lock(&r->lock);
    while (r->end < l->n && l->item[r->end].burst == l->item[r->next].burst)
        r->end++;
    r->n_out = r->end - r->next;
    io_wake(io, (uint32_t)r->n_out);
    while (r->n_out > 0)
        pthread_cond_wait(&r->all_back, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run_once(struct replay *r, const struct settings *s, const char *way, uint64_t depth,
                     uint64_t split)
{
    struct error e = {0};
    struct io *io;
    uint64_t n_bursts = 0;
    const struct io_options o = {.way = way,
                                 .depth = (uint32_t)depth,
                                 .files = r->file,
                                 .n_files = s->n_files,
                                 .extents = &r->extent,
                                 .n_extents = 1,
                                 .take = take,
                                 .done = done,
                                 .context = r};
    if (io_open(&io, &o, &e) != 0)
        fail("replay", e.text);
    if (*io_notice(io))
        fprintf(stderr, "io: %s\n", io_notice(io));
    r->next = r->end = 0;
    r->bytes = 0;
    const double cpu = cpu_seconds();
    const int64_t from_us = clock_mono_us();
    for (; r->next < r->list->n && r->failure.code == ERROR_NONE; n_bursts++)
        run_burst(r, io);
    const double seconds = (double)(clock_mono_us() - from_us) / 1e6;
    if (r->failure.code != ERROR_NONE)
        fail("replay", r->failure.text);
    printf("%s,%u,%" PRIu64 ",%zu,%" PRIu64 ",%" PRIu64 ",%.4f,%.1f,%.3f\n", io_name(io),
           io_depth(io), split, r->list->n, n_bursts, r->bytes, seconds,
           (double)r->bytes / seconds / 1e6, cpu_seconds() - cpu);
    fflush(stdout);
    io_close(io);
}

/* The same reads in pieces of at most that size, whole blocks but the first and last. */
static void split_list(struct list *to, const struct list *from, uint64_t bytes)
{
    for (size_t i = 0; i < from->n; i++) {
        struct item x = from->item[i];
        const uint64_t end = x.offset + x.bytes;
        while (bytes > 0 && end - x.offset > bytes) {
            const uint64_t next = (x.offset + bytes) / FILE_DIRECT_ALIGN * FILE_DIRECT_ALIGN;
            x.bytes = (size_t)(next - x.offset);
            add(to, x);
            x.offset = next;
        }
        x.bytes = (size_t)(end - x.offset);
        add(to, x);
    }
}

static void open_replay(struct replay *r, const struct settings *s, const struct list *all,
                        struct ledger *ledger)
{
    struct error e = {0};
    for (uint32_t i = 0; i < s->n_files; i++) {
        if (file_open_direct(&r->file[i], s->file[i], &e) != 0)
            fail("replay", e.text);
    }
    for (size_t i = 0; i < all->n; i++) {
        if (all->item[i].file >= s->n_files)
            fail("replay", "the list names more files than there are");
        r->stride = MAX_OF(r->stride, file_direct_span(FILE_DIRECT_ALIGN - 1, all->item[i].bytes));
    }
    r->extent.bytes = MAX_OF(EXTENT_BYTES / r->stride, (size_t)128) * r->stride;
    r->n_places = r->extent.bytes / r->stride;
    if (ledger_alloc(ledger, LEDGER_IO, r->extent.bytes, "reads", &r->extent.at, &e) != 0)
        fail("replay", e.text);
    memset(r->extent.at, 1, r->extent.bytes);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->all_back, NULL);
}

static void replay(struct settings *s)
{
    struct replay r = {0};
    struct ledger *ledger;
    struct list all = {0}, pieces[CHOICES] = {0};
    const char *path = s->file[0];
    memmove(s->file, s->file + 1, --s->n_files * sizeof(*s->file));
    load(&all, path);
    if (all.n == 0)
        fail(path, "no reads");
    if (ledger_new(&ledger, LEDGER_NO_LIMIT, NULL) != 0)
        fail("replay", "no memory");
    open_replay(&r, s, &all, ledger);
    for (size_t i = 0; i < s->n_splits; i++)
        split_list(&pieces[i], &all, s->split[i]);
    puts("io,depth,split,reads,bursts,bytes,seconds,MB_s,cpu_s");
    for (uint64_t i = 0; i < s->repeat * s->n_ways * s->n_depths * s->n_splits; i++) {
        const size_t split = i % s->n_splits, depth = i / s->n_splits % s->n_depths;
        r.list = &pieces[split];
        run_once(&r, s, s->way[i / s->n_splits / s->n_depths % s->n_ways], s->depth[depth],
                 s->split[split]);
    }
    ledger_release(ledger, LEDGER_IO, r.extent.at, r.extent.bytes);
    ledger_free(ledger);
    for (size_t i = 0; i < s->n_splits; i++)
        mem_free(pieces[i].item);
    for (uint32_t i = 0; i < s->n_files; i++)
        file_close(&r.file[i]);
    mem_free(all.item);
}

/* ------------------------------------------------------------------ options */

static uint64_t size_of(const char *text)
{
    uint64_t n = 0;
    struct error e = {0};
    if (!text || str_parse_size(text, &n, &e) != 0)
        fail(text ? e.text : "a number is missing", "");
    return n;
}

static size_t words_of(char *text, const char *out[CHOICES])
{
    size_t n = 0;
    while (text && n < CHOICES) {
        out[n++] = text;
        text = strchr(text, ',');
        if (text)
            *text++ = '\0';
    }
    return n;
}

static size_t sizes_of(char *text, uint64_t out[CHOICES])
{
    const char *word[CHOICES];
    const size_t n = words_of(text, word);
    for (size_t i = 0; i < n; i++)
        out[i] = size_of(word[i]);
    return n;
}

static bool take_number(struct settings *s, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint64_t *to;
    } all[] = {{"--memory", &s->memory}, {"--prompt", &s->prompt}, {"--tokens", &s->tokens},
               {"--bytes", &s->bytes},   {"--reads", &s->reads},   {"--burst", &s->burst},
               {"--seed", &s->seed},     {"--repeat", &s->repeat}};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (strcmp(all[i].name, name) == 0) {
            *all[i].to = size_of(value);
            return true;
        }
    }
    return false;
}

static void take_option(struct settings *s, const char *name, char *value)
{
    if (!value)
        fail(name, "needs a value");
    else if (strcmp(name, "--io") == 0)
        s->n_ways = words_of(value, s->way);
    else if (strcmp(name, "--depth") == 0)
        s->n_depths = sizes_of(value, s->depth);
    else if (strcmp(name, "--split") == 0)
        s->n_splits = sizes_of(value, s->split);
    else if (strcmp(name, "--threads") == 0)
        s->threads = (int)size_of(value);
    else if (strcmp(name, "--lookahead") == 0)
        s->lookahead = strcmp(value, "on") == 0;
    else if (!take_number(s, name, value))
        fail(name, "unknown");
}

static void check(const struct settings *s)
{
    if (s->bytes == 0 || s->burst == 0)
        fail("--bytes and --burst", "at least 1");
    for (size_t i = 0; i < s->n_splits; i++) {
        if (s->split[i] != 0 && s->split[i] < FILE_DIRECT_ALIGN)
            fail("--split", "0, or a block of a direct read at least");
    }
}

int main(int argc, char **argv)
{
    struct settings s = {.way = {"auto"},
                         .n_ways = 1,
                         .n_depths = 1,
                         .n_splits = 1,
                         .memory = LEDGER_NO_LIMIT,
                         .prompt = 32,
                         .tokens = 64,
                         .bytes = 262144,
                         .reads = 4096,
                         .burst = 48,
                         .seed = 1,
                         .repeat = 1};
    for (int i = 2; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            take_option(&s, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
            i++;
        } else if (s.n_files < ARRAY_LEN(s.file)) {
            s.file[s.n_files++] = argv[i];
        }
    }
    check(&s);
    if (argc > 2 && strcmp(argv[1], "record") == 0 && s.n_files == 1)
        record(&s);
    else if (argc > 2 && strcmp(argv[1], "random") == 0 && s.n_files == 1)
        random_list(&s);
    else if (argc > 2 && strcmp(argv[1], "replay") == 0 && s.n_files > 1)
        replay(&s);
    else
        fail("record MODEL | random FILE | replay READS FILE...; see the head of bench/io.c", "");
    return 0;
}
