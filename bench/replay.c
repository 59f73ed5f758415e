/*
 * replay [TRACE] [--shares 5,10,...] [--policy NAME]
 *        [--layers N] [--experts N] [--used N] [--tokens N] [--jobs N] [--rows N] [--gamma X] [--seed N]
 * replay --cost
 *
 * What each policy of the store would have read: goes through the visits of a trace (nocturne trace) with
 * the store's own slots and policies, without reading, and prints CSV: one line for each policy and share
 * of the experts that have a slot, and for Belady's optimum, which knows what comes.
 *
 * Without TRACE the visits are made here, as the published figures of Kimi-K3 say (16 of 896 experts;
 * neighbours share 37 %, 32 tokens touch 190 of a layer's): an expert's logit is a part of the job's,
 * variance 0.35, and an autoregressive one, variance 0.65 and factor 0.65 from token to token. --gamma is
 * the correlation of the jobs' parts; --rows N gives each job a prompt, its first N tokens in one step.
 * --cost takes the time of an access with 100, 10,000 and 100,000 slots instead.
 */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/experts/slots.h"
#include "engine/experts/trace.h"

/* ------------------------------------------------------------------ visits */

struct visit {
    uint32_t layer, n_rows, n;
    size_t first; /* in ids */
};

struct visits {
    uint32_t n_layers, n_experts, n_used;
    uint64_t slot_bytes;
    struct visit *visit;
    size_t n, cap;
    uint16_t *ids;
    size_t n_ids, ids_cap;
    uint64_t n_tokens;
    uint64_t n_all; /* experts of all layers that are visited */
};

static void release_visits(struct visits *v)
{
    mem_free(v->visit);
    mem_free(v->ids);
}

static void *grown(void *block, size_t *cap, size_t want, size_t size)
{
    if (want <= *cap)
        return block;
    *cap = MAX_OF(want, 2 * *cap);
    void *more = mem_regrow(block, *cap, size);
    if (!more) {
        fprintf(stderr, "replay: no memory for %zu entries\n", *cap);
        exit(1);
    }
    return more;
}

static void add_visit(struct visits *v, uint32_t layer, uint32_t n_rows, const uint16_t *ids,
                      uint32_t n)
{
    v->visit = grown(v->visit, &v->cap, v->n + 1, sizeof(*v->visit));
    v->ids = grown(v->ids, &v->ids_cap, v->n_ids + n, sizeof(*v->ids));
    v->visit[v->n++] = (struct visit){layer, n_rows, n, v->n_ids};
    memcpy(v->ids + v->n_ids, ids, n * sizeof(*ids));
    v->n_ids += n;
    v->n_tokens += layer == v->visit[0].layer ? n_rows : 0;
}

static int load(struct visits *v, const char *path, struct error *e)
{
    struct trace t;
    struct trace_visit one;
    int rc = trace_read(&t, path, e);
    if (rc != 0)
        return rc;
    v->n_layers = t.header.n_layers;
    v->n_experts = t.header.n_experts;
    v->n_used = t.header.n_used;
    v->slot_bytes = t.header.slot_bytes;
    for (size_t at = 0; trace_next(&t, &at, &one);)
        add_visit(v, one.layer, one.n_rows, one.ids, one.n);
    trace_release(&t);
    return 0;
}

/* ------------------------------------------------------------------ visits made here */

#define STATIC_VARIANCE 0.35
#define MOVING_VARIANCE 0.65
#define MOVING_FACTOR 0.65
#define USED_MAX 256u

struct maker {
    uint32_t n_layers, n_experts, n_used, n_tokens, n_jobs, n_rows;
    double gamma;
    uint64_t seed;
    float *fixed, *moving; /* [n_layers][n_experts] */
    uint8_t *wanted;       /* [n_experts] */
};

static void begin_job(struct maker *m, uint32_t job)
{
    const double of_all = sqrt(m->gamma), own = sqrt(1 - m->gamma);
    for (size_t i = 0; i < (size_t)m->n_layers * m->n_experts; i++) {
        m->fixed[i] =
            (float)(sqrt(STATIC_VARIANCE) * (of_all * (double)rng_normal(m->seed, i) +
                                             own * (double)rng_normal(m->seed + 1 + job, i)));
        m->moving[i] = rng_normal(m->seed + 1000 + job, i);
    }
}

/* A layer's likeliest experts, after one token more. */
static void next_token(struct maker *m, uint32_t layer, uint64_t token)
{
    const float keep = (float)MOVING_FACTOR;
    const float fresh = (float)sqrt(1 - MOVING_FACTOR * MOVING_FACTOR);
    const float weight = (float)sqrt(MOVING_VARIANCE);
    const float *fixed = m->fixed + (size_t)layer * m->n_experts;
    float *moving = m->moving + (size_t)layer * m->n_experts;
    uint32_t best[USED_MAX + 1]; /* the last: one that is not among them */
    float logit[USED_MAX + 1];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_experts; i++) {
        moving[i] =
            keep * moving[i] + fresh * rng_normal(m->seed + 2000 + layer, token * m->n_experts + i);
        const float x = fixed[i] + weight * moving[i];
        uint32_t at = n;
        for (; at > 0 && logit[at - 1] < x; at--) {
            logit[at] = logit[at - 1];
            best[at] = best[at - 1];
        }
        logit[at] = x;
        best[at] = i;
        n = MIN_OF(n + 1, m->n_used);
    }
    for (uint32_t i = 0; i < n; i++)
        m->wanted[best[i]] = 1;
}

static void put_visit(struct visits *v, struct maker *m, uint32_t layer, uint32_t n_rows)
{
    uint16_t ids[TRACE_EXPERTS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_experts; i++) {
        if (m->wanted[i])
            ids[n++] = (uint16_t)i;
        m->wanted[i] = 0;
    }
    add_visit(v, layer, n_rows, ids, n);
}

static void make(struct visits *v, struct maker *m)
{
    const size_t n = (size_t)m->n_layers * m->n_experts;
    m->fixed = mem_array(n, sizeof(*m->fixed));
    m->moving = mem_array(n, sizeof(*m->moving));
    m->wanted = mem_array(m->n_experts, 1);
    v->n_layers = m->n_layers;
    v->n_experts = m->n_experts;
    v->n_used = m->n_used;
    v->slot_bytes = 1;
    for (uint32_t job = 0; job < m->n_jobs; job++) {
        begin_job(m, job);
        for (uint32_t token = 0; token < m->n_tokens;) {
            const uint32_t n_rows = token == 0 ? MIN_OF(m->n_rows, m->n_tokens) : 1;
            for (uint32_t il = 0; il < m->n_layers; il++) {
                for (uint32_t r = 0; r < n_rows; r++)
                    next_token(m, il, (uint64_t)job * m->n_tokens + token + r);
                put_visit(v, m, il, n_rows);
            }
            token += n_rows;
        }
    }
    mem_free(m->fixed);
    mem_free(m->moving);
    mem_free(m->wanted);
}

/* How alike neighbours are and how many experts some tokens touch, of visits of one row. */
static void print_shape(const struct visits *v)
{
    double shared = 0, distinct = 0;
    uint64_t n_pairs = 0, n_spans = 0;
    uint32_t *last = mem_array((size_t)v->n_layers * v->n_experts, sizeof(*last));
    uint32_t *at = mem_array(v->n_layers, sizeof(*at)),
             *touched = mem_array(v->n_layers, sizeof(*touched));
    for (size_t i = 0; i < v->n; i++) {
        const struct visit *x = &v->visit[i];
        if (x->n_rows != 1)
            continue;
        const uint32_t now = ++at[x->layer], span = (now - 1) / 32 * 32;
        for (uint32_t k = 0; k < x->n; k++) {
            uint32_t *l = &last[(size_t)x->layer * v->n_experts + v->ids[x->first + k]];
            shared += *l != 0 && *l == now - 1;
            touched[x->layer] += *l <= span;
            *l = now;
        }
        n_pairs += now > 1 ? x->n : 0;
        if (now % 32 == 0) {
            distinct += touched[x->layer];
            touched[x->layer] = 0;
            n_spans++;
        }
    }
    fprintf(stderr, "%u layers, %u of %u experts, %" PRIu64 " tokens", v->n_layers, v->n_used,
            v->n_experts, v->n_tokens);
    if (n_pairs && n_spans)
        fprintf(stderr, "; neighbours share %.3f, 32 tokens touch %.3f of a layer's",
                shared / (double)n_pairs, distinct / (double)n_spans / v->n_experts);
    fputc('\n', stderr);
    mem_free(last);
    mem_free(at);
    mem_free(touched);
}

/* ------------------------------------------------------------------ a policy */

struct outcome {
    uint64_t hits, misses;
    double seconds;
};

/* What is wanted is leased and read at once; what was served goes back when there is no slot left. */
static void serve(struct slots *s, const struct visits *v, const struct visit *x, uint32_t *slot,
                  struct outcome *o)
{
    const uint16_t *ids = v->ids + x->first;
    uint32_t n_back = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        slot[i] = slots_find(s, x->layer, ids[i]);
        if (slot[i] == EXPERT_NO_SLOT)
            continue;
        o->hits++;
        slots_lease(s, slot[i]);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        if (slot[i] != EXPERT_NO_SLOT)
            continue;
        while ((slot[i] = slots_take(s, x->layer, ids[i])) == EXPERT_NO_SLOT) {
            if (slot[n_back] != EXPERT_NO_SLOT)
                slots_release(s, slot[n_back]);
            n_back++;
        }
        o->misses++;
        slots_lease(s, slot[i]);
        slots_loading(s, slot[i], 1);
        slots_slice_done(s, slot[i], true);
    }
    for (uint32_t i = n_back; i < x->n; i++)
        slots_release(s, slot[i]);
}

/* Every layer that is visited has one slice of one byte: extents are only addresses. */
static int open_slots(struct slots *s, const struct visits *v, uint64_t n_slots,
                      const struct expert_policy *policy, struct ledger *ledger, struct error *e)
{
    struct expert_layer *layers = mem_array(v->n_layers, sizeof(*layers));
    for (size_t i = 0; i < v->n; i++)
        layers[v->visit[i].layer] = (struct expert_layer){.n_slices = 1, .slice = {{.bytes = 1}}};
    const struct expert_store_options o = {.ledger = ledger,
                                           .layers = layers,
                                           .n_layers = v->n_layers,
                                           .n_experts = v->n_experts,
                                           .n_slots = n_slots,
                                           .policy = policy};
    int rc = slots_open(s, &o, e);
    mem_free(layers);
    return rc;
}

static int replay(const struct visits *v, const struct expert_policy *policy, uint64_t n_slots,
                  struct outcome *ret, struct error *e)
{
    struct slots s;
    struct ledger *ledger;
    uint32_t slot[TRACE_EXPERTS_MAX];
    *ret = (struct outcome){0};
    int rc = ledger_new(&ledger, UINT64_MAX / 2, e);
    if (rc != 0)
        return rc;
    rc = open_slots(&s, v, n_slots, policy, ledger, e);
    const int64_t from_us = clock_mono_us();
    for (size_t i = 0; rc == 0 && i < v->n; i++)
        serve(&s, v, &v->visit[i], slot, ret);
    ret->seconds = (double)(clock_mono_us() - from_us) / 1e6;
    slots_close(&s);
    ledger_free(ledger);
    return rc;
}

/* ------------------------------------------------------------------ the optimum */

struct heap_entry {
    size_t when;
    uint32_t key;
};

/*
 * Belady's: what is wanted again last makes room. All of a visit are there together where the slots
 * suffice; otherwise what was served may go.
 */
struct belady {
    const struct visits *v;
    size_t *next;   /* [n_ids] 1 + the visit that wants the same next; SIZE_MAX: none */
    size_t *wanted; /* [n_keys] of those that are here, when next, or IN_USE; 0: not here */
    bool *hit;      /* [TRACE_EXPERTS_MAX] of the visit at work */
    struct heap_entry *heap; /* the latest first; with entries that do not hold any more */
    size_t n_heap, heap_cap;
    uint64_t n_here, n_slots;
};

#define IN_USE (SIZE_MAX - 1)

static void heap_push(struct belady *b, size_t when, uint32_t key)
{
    b->heap = grown(b->heap, &b->heap_cap, b->n_heap + 1, sizeof(*b->heap));
    size_t at = b->n_heap++;
    for (; at > 0 && b->heap[(at - 1) / 2].when < when; at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = (struct heap_entry){when, key};
}

static struct heap_entry heap_pop(struct belady *b)
{
    const struct heap_entry top = b->heap[0], last = b->heap[--b->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < b->n_heap; at = child) {
        if (child + 1 < b->n_heap && b->heap[child + 1].when > b->heap[child].when)
            child++;
        if (b->heap[child].when <= last.when)
            break;
        b->heap[at] = b->heap[child];
    }
    b->heap[at] = last;
    return top;
}

static uint32_t key_of(const struct visits *v, const struct visit *x, uint32_t i)
{
    return x->layer * v->n_experts + v->ids[x->first + i];
}

static void find_next(struct belady *b)
{
    const struct visits *v = b->v;
    size_t *soonest = mem_array((size_t)v->n_layers * v->n_experts, sizeof(*soonest));
    for (size_t i = v->n; i-- > 0;) {
        for (uint32_t k = 0; k < v->visit[i].n; k++) {
            const uint32_t key = key_of(v, &v->visit[i], k);
            b->next[v->visit[i].first + k] = soonest[key] ? soonest[key] : SIZE_MAX;
            soonest[key] = i + 1;
        }
    }
    mem_free(soonest);
}

static void make_room(struct belady *b)
{
    if (b->n_here < b->n_slots) {
        b->n_here++;
        return;
    }
    struct heap_entry top = heap_pop(b);
    while (b->wanted[top.key] != top.when)
        top = heap_pop(b);
    b->wanted[top.key] = 0;
}

static void may_go(struct belady *b, const struct visit *x, uint32_t i)
{
    const uint32_t key = key_of(b->v, x, i);
    b->wanted[key] = b->next[x->first + i];
    heap_push(b, b->wanted[key], key);
}

static void serve_best(struct belady *b, const struct visit *x, struct outcome *o)
{
    const bool together = x->n <= b->n_slots;
    for (uint32_t i = 0; i < x->n; i++) {
        b->hit[i] = b->wanted[key_of(b->v, x, i)] != 0;
        o->hits += b->hit[i];
        if (b->hit[i])
            b->wanted[key_of(b->v, x, i)] = IN_USE;
    }
    for (uint32_t i = 0; !together && i < x->n; i++) {
        if (b->hit[i])
            may_go(b, x, i);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        if (b->hit[i])
            continue;
        o->misses++;
        make_room(b);
        b->wanted[key_of(b->v, x, i)] = IN_USE;
        if (!together)
            may_go(b, x, i);
    }
    for (uint32_t i = 0; together && i < x->n; i++)
        may_go(b, x, i);
}

static void optimum(const struct visits *v, uint64_t n_slots, struct outcome *ret)
{
    struct belady b = {
        .v = v,
        .next = mem_array(v->n_ids, sizeof(*b.next)),
        .wanted = mem_array((size_t)v->n_layers * v->n_experts, sizeof(*b.wanted)),
        .hit = mem_array(TRACE_EXPERTS_MAX, sizeof(*b.hit)),
        .n_slots = n_slots,
    };
    *ret = (struct outcome){0};
    find_next(&b);
    for (size_t i = 0; i < v->n; i++)
        serve_best(&b, &v->visit[i], ret);
    mem_free(b.next);
    mem_free(b.wanted);
    mem_free(b.hit);
    mem_free(b.heap);
}

/* ------------------------------------------------------------------ printing */

#define TITLES "policy,slots,share,hits,misses,miss_ratio,bytes_per_token,ns_per_access"

static void print_line(const struct visits *v, const char *policy, uint64_t n_slots,
                       const struct outcome *o)
{
    const double n = (double)(o->hits + o->misses);
    printf("%s,%" PRIu64 ",%.4f,%" PRIu64 ",%" PRIu64 ",%.4f,%.0f,", policy, n_slots,
           (double)n_slots / (double)v->n_all, o->hits, o->misses, (double)o->misses / n,
           (double)o->misses * (double)v->slot_bytes / (double)v->n_tokens);
    if (o->seconds > 0)
        printf("%.0f", 1e9 * o->seconds / n);
    putchar('\n');
}

/* Of all layers that are visited. */
static void count_experts(struct visits *v)
{
    uint8_t *seen = mem_array(v->n_layers, 1);
    for (size_t i = 0; i < v->n; i++) {
        v->n_all += seen[v->visit[i].layer] ? 0 : v->n_experts;
        seen[v->visit[i].layer] = 1;
    }
    mem_free(seen);
}

/* One number of slots; only: NULL for all policies, or the name of one. */
static int compare(const struct visits *v, uint64_t n_slots, const char *only, struct error *e)
{
    struct outcome o;
    const struct expert_policy *p;
    for (size_t i = 0; (p = expert_policy_at(i)) != NULL; i++) {
        if (only && strcmp(only, p->name) != 0)
            continue;
        int rc = replay(v, p, n_slots, &o, e);
        if (rc != 0)
            return rc;
        print_line(v, p->name, n_slots, &o);
    }
    if (!only || strcmp(only, "belady") == 0) {
        optimum(v, n_slots, &o);
        print_line(v, "belady", n_slots, &o);
    }
    return 0;
}

static int compare_shares(const struct visits *v, const char *shares, const char *only,
                          struct error *e)
{
    const struct expert_policy *p;
    int rc = 0;
    if (only && strcmp(only, "belady") != 0 && (rc = expert_policy_find(only, &p, e)) != 0)
        return rc;
    puts(TITLES);
    for (const char *at = shares; rc == 0 && at; at = strchr(at, ',')) {
        at += *at == ',';
        const double n_slots = strtod(at, NULL) / 100 * (double)v->n_all;
        rc = compare(v, (uint64_t)fmax(n_slots + 0.5, 1), only, e);
    }
    return rc;
}

/* Random visits of four times as many experts as slots: three accesses of four make room. */
static int measure_cost(struct error *e)
{
    static const uint32_t n_slots[] = {100, 10000, 100000};
    int rc = 0;
    puts(TITLES);
    for (size_t k = 0; rc == 0 && k < ARRAY_LEN(n_slots); k++) {
        struct maker m = {.n_layers = MAX_OF(n_slots[k] / 200, 1u), .n_experts = 800, .n_used = 8};
        struct visits v = {
            .n_layers = m.n_layers, .n_experts = m.n_experts, .n_used = 8, .slot_bytes = 1};
        m.wanted = mem_array(m.n_experts, 1);
        for (uint64_t i = 0; i < 200000; i++) {
            for (uint64_t n = 0; n < 8; n++)
                m.wanted[rng_u64(i, n) % m.n_experts] = 1;
            put_visit(&v, &m, (uint32_t)(i % m.n_layers), 1);
        }
        count_experts(&v);
        for (size_t i = 0; rc == 0 && expert_policy_at(i); i++)
            rc = compare(&v, n_slots[k], expert_policy_at(i)->name, e);
        mem_free(m.wanted);
        release_visits(&v);
    }
    return rc;
}

/* ------------------------------------------------------------------ the command line */

static const struct option options[] = {
    {"shares", 1, NULL, 's'}, {"policy", 1, NULL, 'p'},  {"cost", 0, NULL, 'c'},
    {"layers", 1, NULL, 'l'}, {"experts", 1, NULL, 'e'}, {"used", 1, NULL, 'u'},
    {"tokens", 1, NULL, 't'}, {"jobs", 1, NULL, 'j'},    {"rows", 1, NULL, 'r'},
    {"gamma", 1, NULL, 'g'},  {"seed", 1, NULL, 'S'},    {0}};

struct arguments {
    struct maker maker;
    const char *shares, *only, *path;
    bool cost;
};

static uint32_t number(const char *text, uint32_t most)
{
    return (uint32_t)MIN_OF(MAX_OF(strtoul(text, NULL, 10), 1ul), (unsigned long)most);
}

static bool take_option(struct arguments *a, int option)
{
    struct maker *m = &a->maker;
    if (option == 's')
        a->shares = optarg;
    else if (option == 'p')
        a->only = optarg;
    else if (option == 'c')
        a->cost = true;
    else if (option == 'l')
        m->n_layers = number(optarg, 1000);
    else if (option == 'e')
        m->n_experts = number(optarg, 4096);
    else if (option == 'u')
        m->n_used = number(optarg, USED_MAX);
    else if (option == 't')
        m->n_tokens = number(optarg, 1u << 20);
    else if (option == 'j')
        m->n_jobs = number(optarg, 900);
    else if (option == 'r')
        m->n_rows = number(optarg, 65536);
    else if (option == 'g')
        m->gamma = fmin(fmax(strtod(optarg, NULL), 0), 1);
    else if (option == 'S')
        m->seed = strtoul(optarg, NULL, 10);
    else
        return false;
    return true;
}

static int run(const struct arguments *a, struct error *e)
{
    struct visits v = {0};
    struct maker m = a->maker;
    int rc = 0;
    if (a->cost)
        return measure_cost(e);
    m.n_used = MIN_OF(m.n_used, m.n_experts);
    if (a->path)
        rc = load(&v, a->path, e);
    else
        make(&v, &m);
    if (rc == 0 && v.n == 0)
        rc = error_set(e, ERROR_INVALID, "%s: no visits", a->path);
    if (rc == 0) {
        count_experts(&v);
        print_shape(&v);
        rc = compare_shares(&v, a->shares, a->only, e);
    }
    release_visits(&v);
    return rc;
}

int main(int argc, char **argv)
{
    struct arguments a = {.maker = {.n_layers = 10,
                                    .n_experts = 896,
                                    .n_used = 16,
                                    .n_tokens = 128,
                                    .n_jobs = 4,
                                    .n_rows = 1,
                                    .gamma = 0.5,
                                    .seed = 1},
                          .shares = "1,2,3,5,7,10,15,22,30,40,50,75,100"};
    struct error e = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (!take_option(&a, c))
            return 2;
    }
    a.path = argv[optind];
    int rc = run(&a, &e);
    if (rc != 0)
        fprintf(stderr, "replay: %s\n", e.text);
    return rc != 0;
}
