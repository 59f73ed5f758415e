#include "engine/kv/kv.h"

#include "base/rng.h"
#include "engine/kernels/kernels.h"
#include "tests/test.h"

static const struct kv_shape shape = {.n_layers = 3, .k_dim = 8, .v_dim = 4, .f32 = false};

TEST(kv_bytes_are_whole_pages_of_every_layer)
{
    size_t page = KV_PAGE * (8 + 4) * 2;
    CHECK_INT(kv_sequence_bytes(&shape, 1), 3 * page);
    CHECK_INT(kv_sequence_bytes(&shape, KV_PAGE), 3 * page);
    CHECK_INT(kv_sequence_bytes(&shape, KV_PAGE + 1), 6 * page);
    CHECK_INT(kv_pages_needed(&shape, 0), 0);
}

/* Random reservations and releases: no page ever has two owners, and nothing leaks. */
TEST(kv_pages_have_one_owner)
{
    enum { SEQUENCES = 5, PAGES = 7, GROUPS = 12 };
    struct error e = {0};
    struct ledger *l;
    struct kv_pool *p;
    int slot_pages[SEQUENCES] = {0};
    CHECK_OK(ledger_new(&l, 1 << 24, &e), &e);
    uint64_t bytes = kv_sequence_bytes(&shape, GROUPS * KV_PAGE);
    CHECK_OK(kv_pool_new(&p, l, &shape, bytes, SEQUENCES, PAGES * KV_PAGE, &e), &e);
    CHECK_INT(kv_reserve(p, PAGES * KV_PAGE + 1), -1);
    int used = 0;
    for (uint64_t i = 0; i < 3000; i++) {
        int victim = (int)(rng_u64(1, i) % SEQUENCES);
        if (slot_pages[victim]) {
            kv_release(p, victim);
            used -= slot_pages[victim];
            slot_pages[victim] = 0;
        }
        int want = 1 + (int)(rng_u64(2, i) % PAGES);
        int slot = kv_reserve(p, (uint32_t)want * KV_PAGE);
        if (slot < 0) {
            CHECK(used + want > GROUPS);
            continue;
        }
        CHECK(slot_pages[slot] == 0);
        slot_pages[slot] = want;
        used += want;
        for (int page = 0; page < want; page++) {
            for (uint32_t il = 0; il < 3; il++)
                memset(kv_keys(p, slot, il, (uint32_t)page), 16 * (int)il + slot, KV_PAGE * 8 * 2);
        }
        for (int s = 0; s < SEQUENCES; s++) {
            for (int page = 0; page < slot_pages[s]; page++) {
                for (uint32_t il = 0; il < 3; il++) {
                    const unsigned char *k = kv_keys(p, s, il, (uint32_t)page);
                    CHECK(k[0] == 16 * il + (uint32_t)s && k[KV_PAGE * 16 - 1] == k[0]);
                    CHECK((const unsigned char *)kv_values(p, s, il, (uint32_t)page) ==
                          k + KV_PAGE * 16);
                }
            }
        }
    }
    kv_pool_free(p);
    CHECK_INT(ledger_total(l), 0);
    ledger_free(l);
}

TEST(kv_pool_is_refused_beyond_the_budget)
{
    struct error e = {0};
    struct ledger *l;
    struct kv_pool *p = NULL;
    uint64_t bytes = kv_sequence_bytes(&shape, 1000 * KV_PAGE);
    CHECK_OK(ledger_new(&l, bytes, &e), &e);
    CHECK_ERROR(kv_pool_new(&p, l, &shape, bytes, 4, 4096, &e), &e, ERROR_BUDGET,
                "state of sequences");
    CHECK(p == NULL && ledger_total(l) == 0);
    ledger_free(l);
}
