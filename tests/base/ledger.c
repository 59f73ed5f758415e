#include "base/ledger.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/alloc.h"
#include "tests/test.h"

static struct ledger *new_ledger(uint64_t limit)
{
    struct ledger *l = NULL;
    struct error e = {0};
    CHECK_OK(ledger_new(&l, limit, &e), &e);
    return l;
}

TEST(ledger_refuses_beyond_its_limit_with_both_figures)
{
    struct error e = {0};
    struct ledger *l = new_ledger(1000);
    CHECK_OK(ledger_reserve(l, LEDGER_TRUNK, 600, "weights", &e), &e);
    CHECK_OK(ledger_reserve(l, LEDGER_STATE, 400, "cache", &e), &e);
    CHECK_INT(ledger_total(l), 1000);
    ledger_return(l, LEDGER_STATE, 400);
    CHECK_ERROR(ledger_reserve(l, LEDGER_STATE, 401, "attention cache", &e), &e, ERROR_BUDGET,
                "attention cache (state): needs 401 B (401 bytes), 400 B left of 1000 B (400 of");
    CHECK_ERROR(ledger_reserve(l, LEDGER_IO, UINT64_MAX, "buffer", &e), &e, ERROR_BUDGET, "buffer");
    CHECK_INT(ledger_used(l, LEDGER_TRUNK), 600);
    CHECK_INT(ledger_used(l, LEDGER_STATE), 0);
    CHECK_INT(ledger_peak(l, LEDGER_STATE), 400);
    CHECK_INT(ledger_total(l), 600);
    CHECK_INT(ledger_total_peak(l), 1000);
    CHECK_INT(ledger_limit(l), 1000);
    ledger_return(l, LEDGER_TRUNK, 600);
    ledger_free(l);
    ledger_free(NULL);
}

TEST(ledger_names_every_category)
{
    for (int c = 0; c < LEDGER_CATEGORIES; c++)
        CHECK(ledger_category_name((enum ledger_category)c)[0] != '\0');
}

TEST(ledger_blocks_are_zeroed_aligned_and_counted_in_pages)
{
    static const size_t sizes[] = {1, 4096, 4097, 70000, (2 << 20) - 1, 2 << 20, (5 << 20) + 17};
    struct error e = {0};
    struct ledger *l = new_ledger(64 << 20);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        void *block = NULL;
        size_t n = sizes[i];
        CHECK_OK(ledger_alloc(l, LEDGER_SLOTS, n, "slot", &block, &e), &e);
        CHECK_INT((uintptr_t)block % (n < (2 << 20) ? 4096 : 2 << 20), 0);
        CHECK_INT(ledger_used(l, LEDGER_SLOTS), (n + 4095) / 4096 * 4096);
        unsigned char *bytes = block;
        for (size_t at = 0; at < n; at += 997)
            CHECK_INT(bytes[at], 0);
        memset(block, 0xAA, n);
        ledger_release(l, LEDGER_SLOTS, block, n);
        CHECK_INT(ledger_used(l, LEDGER_SLOTS), 0);
    }
    ledger_release(l, LEDGER_SLOTS, NULL, 123);
    ledger_free(l);
}

TEST(ledger_leaves_everything_as_it_was_when_it_refuses)
{
    struct error e = {0};
    struct ledger *l = new_ledger(1 << 20);
    char untouched;
    void *block = &untouched;
    CHECK_ERROR(ledger_alloc(l, LEDGER_IO, (1 << 20) + 1, "ring", &block, &e), &e, ERROR_BUDGET,
                "ring");
    CHECK_ERROR(ledger_alloc(l, LEDGER_IO, SIZE_MAX, "ring", &block, &e), &e, ERROR_BUDGET, "ring");
    CHECK(block == &untouched);
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);

    l = new_ledger(UINT64_MAX); /* the budget allows what the machine cannot map */
    CHECK_ERROR(ledger_alloc(l, LEDGER_IO, (size_t)1 << 62, "ring", &block, &e), &e, ERROR_NOMEM,
                "ring (io): mapping");
    CHECK(block == &untouched);
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
}

TEST(ledger_fails_from_the_kth_on)
{
    struct error e = {0};
    struct ledger *l = new_ledger(1000);
    ledger_fail_after(l, 2);
    CHECK_OK(ledger_reserve(l, LEDGER_IO, 1, "a", &e), &e);
    CHECK_INT(ledger_reserve(l, LEDGER_IO, 1, "b", NULL), -ERROR_BUDGET);
    CHECK_INT(ledger_reserve(l, LEDGER_IO, 1, "c", NULL), -ERROR_BUDGET);
    ledger_fail_after(l, 0);
    CHECK_OK(ledger_reserve(l, LEDGER_IO, 1, "d", &e), &e);
    ledger_return(l, LEDGER_IO, 2);
    ledger_free(l);
    mem_fail_after(1);
    CHECK_ERROR(ledger_new(&l, 1, &e), &e, ERROR_NOMEM, "ledger");
    mem_fail_after(0);
}

#define RACERS 4
#define RACE_LIMIT 1000u

struct race {
    struct ledger *ledger;
    atomic_bool over; /* somebody saw more in use than the limit */
    atomic_int refusals;
};

static void *race_one(void *context)
{
    struct race *r = context;
    for (uint64_t i = 0; i < 20000; i++) {
        enum ledger_category c = (enum ledger_category)(i % LEDGER_CATEGORIES);
        uint64_t bytes = 100 + i * 7919 % 400; /* four of them do not always fit */
        if (ledger_reserve(r->ledger, c, bytes, "race", NULL) != 0) {
            atomic_fetch_add(&r->refusals, 1);
            continue;
        }
        if (ledger_total(r->ledger) > RACE_LIMIT || ledger_used(r->ledger, c) > RACE_LIMIT)
            atomic_store(&r->over, true);
        if (i % 16 == 0)
            sched_yield();
        ledger_return(r->ledger, c, bytes);
    }
    return NULL;
}

TEST(ledger_holds_its_limit_under_a_race)
{
    struct race r = {.ledger = new_ledger(RACE_LIMIT)};
    pthread_t thread[RACERS];
    for (int t = 0; t < RACERS; t++)
        CHECK_INT(pthread_create(&thread[t], NULL, race_one, &r), 0);
    for (int t = 0; t < RACERS; t++)
        pthread_join(thread[t], NULL);
    CHECK(!atomic_load(&r.over));
    CHECK_INT(ledger_total(r.ledger), 0);
    for (int c = 0; c < LEDGER_CATEGORIES; c++)
        CHECK_INT(ledger_used(r.ledger, (enum ledger_category)c), 0);
    CHECK(ledger_total_peak(r.ledger) <= RACE_LIMIT);
    test_note("%d of %d reservations refused", atomic_load(&r.refusals), RACERS * 20000);
    ledger_free(r.ledger);
}
