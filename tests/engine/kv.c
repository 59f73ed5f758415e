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

#define N_PAGED 2
#define N_RECURRENT 3

/* A saved state as one flat block, written or read from the front. */
struct saved {
    unsigned char *bytes;
    size_t at, size;
    bool restore;
    int calls_left; /* then the visit is refused; < 0: never */
};

static int copy_range(void *context, void *at, size_t bytes, struct error *e)
{
    struct saved *s = context;
    if (s->calls_left-- == 0)
        return error_set(e, ERROR_IO, "enough");
    CHECK(bytes > 0 && s->at + bytes <= s->size);
    memcpy(s->restore ? at : s->bytes + s->at, s->restore ? s->bytes + s->at : at, bytes);
    s->at += bytes;
    return 0;
}

/* Recurrent layers, then those with pages; what went wrong. */
static int visit_layers(struct kv_pool *p, int slot, uint32_t n, struct saved *s, struct error *e)
{
    int rc = 0;
    for (uint32_t layer = 0; rc == 0 && layer < N_RECURRENT; layer++)
        rc = kv_visit_recurrent(p, slot, layer, copy_range, s, e);
    for (uint32_t layer = 0; rc == 0 && layer < N_PAGED; layer++)
        rc = kv_visit(p, slot, layer, n, copy_range, s, e);
    return rc;
}

static void visit_all(struct kv_pool *p, int slot, uint32_t n, unsigned char *bytes, size_t size,
                      bool restore)
{
    struct error e = {0};
    struct saved s = {.bytes = bytes, .size = size, .restore = restore, .calls_left = -1};
    CHECK_OK(visit_layers(p, slot, n, &s, &e), &e);
    CHECK_INT(s.at, size);
}

/* Saved in one slot, restored in another that holds other pages; the neighbour keeps its own. */
TEST(kv_state_is_saved_and_restored_to_the_bit)
{
    enum { POSITIONS = 2 * KV_PAGE + 7 };
    static const struct kv_shape mixed = {
        .n_layers = N_PAGED, .k_dim = 9, .n_recurrent = N_RECURRENT, .recurrent_floats = 37};
    struct error e = {0};
    struct ledger *l;
    struct kv_pool *p;
    CHECK_OK(ledger_new(&l, 1 << 24, &e), &e);
    CHECK_OK(kv_pool_new(&p, l, &mixed, kv_sequence_bytes(&mixed, 9 * KV_PAGE), 3, 3 * KV_PAGE, &e),
             &e);
    const size_t size = N_RECURRENT * kv_recurrent_layer_bytes(&mixed) +
                        N_PAGED * kv_layer_bytes(&mixed, POSITIONS);
    CHECK_INT(size, POSITIONS * 9 * 2 * 2 + 3 * 37 * 4);
    unsigned char want[3][8192];
    unsigned char got[8192];
    CHECK(size <= sizeof(got));
    int slot[3];
    for (uint64_t i = 0; i < 3; i++) {
        slot[i] = kv_reserve(p, POSITIONS);
        for (size_t b = 0; b < size; b++)
            want[i][b] = (unsigned char)rng_u64(i, b);
        visit_all(p, slot[i], POSITIONS, want[i], size, true);
    }
    CHECK(memcmp(kv_recurrent(p, slot[1], 0), want[1], 37 * sizeof(float)) == 0);
    kv_release(p, slot[0]);
    kv_release(p, slot[2]);
    slot[2] = kv_reserve(p, 3 * KV_PAGE);
    visit_all(p, slot[2], POSITIONS, want[0], size, true);
    visit_all(p, slot[2], POSITIONS, got, size, false);
    CHECK(memcmp(got, want[0], size) == 0);
    visit_all(p, slot[1], POSITIONS, got, size, false);
    CHECK(memcmp(got, want[1], size) == 0);
    for (int calls = 0; calls < 3 + 3 * 2; calls++) { /* refused at every range in turn */
        struct saved s = {.bytes = got, .size = size, .calls_left = calls};
        CHECK_ERROR(visit_layers(p, slot[1], POSITIONS, &s, &e), &e, ERROR_IO, "enough");
    }
    kv_pool_free(p);
    ledger_free(l);
}
