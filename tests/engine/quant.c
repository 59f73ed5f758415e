/* Weight formats: decode against goldens, conversions, synthesis. */
#include "engine/quant/quant.h"

#include <stdint.h>

#include "base/rng.h"
#include "base/sha256.h"
#include "engine/quant/grid.h"
#include "tests/test.h"

#define GOLDEN_ELEMS 4096

/* Reads a golden file whole; false when the set is not here. */
static bool read_golden(const char *format, const char *suffix, void *out, size_t n)
{
    char name[64];
    char path[4096];
    snprintf(name, sizeof(name), "dequant/%s%s", format, suffix);
    if (!test_golden(name, path))
        return false;
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    size_t got = fread(out, 1, n, f);
    CHECK(fgetc(f) == EOF);
    fclose(f);
    CHECK_INT(got, n);
    return true;
}

static bool check_golden(const struct quant *q, const char *blocks_suffix,
                         const char *floats_suffix)
{
    static uint8_t blocks[GOLDEN_ELEMS * 4];
    static float want[GOLDEN_ELEMS];
    static float got[GOLDEN_ELEMS];
    if (!read_golden(q->name, blocks_suffix, blocks, quant_row_bytes(q, GOLDEN_ELEMS)))
        return false;
    CHECK(read_golden(q->name, floats_suffix, want, sizeof(want)));
    q->decode(blocks, got, GOLDEN_ELEMS);
    for (int i = 0; i < GOLDEN_ELEMS; i++) {
        if (memcmp(&got[i], &want[i], sizeof(float)) != 0)
            test_fail(__FILE__, __LINE__, "%s%s, element %d: %.9g, want %.9g", q->name,
                      blocks_suffix, i, (double)got[i], (double)want[i]);
    }
    return true;
}

TEST(quant_decode_matches_goldens_to_the_bit)
{
    int n_checked = 0;
    for (int i = 0; i < QUANT_COUNT; i++) {
        const struct quant *q = quants[i];
        if (q->ggml_id == 0)
            continue; /* F32 has nothing to decode */
        if (!check_golden(q, ".bin", ".f32"))
            SKIP("no goldens of dequantisation here");
        n_checked++;
        if (q->block_elems > 1) {
            CHECK(check_golden(q, ".rnd.bin", ".rnd.f32"));
            n_checked++;
        }
    }
    CHECK_INT(n_checked, 2 + 2 * (QUANT_COUNT - 3));
}

TEST(quant_table_is_consistent)
{
    static const struct {
        uint32_t id, elems, bytes;
        enum act_kind act;
    } row[] = {
#define QUANT(ident, id, elems, bytes, partner) {id, elems, bytes, partner},
#include "engine/quant/quants.def"
#undef QUANT
    };
    for (int i = 0; i < QUANT_COUNT; i++) {
        const struct quant *q = quants[i];
        CHECK_INT(q->index, i);
        CHECK_INT(q->ggml_id, row[i].id);
        CHECK_INT(q->block_elems, row[i].elems);
        CHECK_INT(q->block_bytes, row[i].bytes);
        CHECK_INT(q->act, row[i].act);
        CHECK(quant_by_id(q->ggml_id) == q);
        CHECK(quant_by_name(q->name) == q);
        CHECK_STR(quant_id_name(q->ggml_id), q->name);
        CHECK(quant_row_bytes(q, 1024) == (size_t)1024 / row[i].elems * row[i].bytes);
    }
    CHECK(quant_by_name("q4_k") == &quant_q4_k);
    CHECK(quant_by_name("Q9_9") == NULL);
    CHECK(quant_by_id(4) == NULL);
    CHECK(quant_by_id(UINT32_MAX) == NULL);
    CHECK_STR(quant_id_name(19), "IQ1_S");
    CHECK(quant_id_name(4) == NULL);
    CHECK(quant_id_name(43) == NULL);
}

/* Expanded entries back to the packed words that the checksums of tools/make-grids.py are of. */
static void add_entry(struct sha256 *h, uint64_t entry, int n, const char *values, int bits)
{
    unsigned packed = 0;
    for (int j = 0; j < n; j++) {
        const char *found = memchr(values, (int)(entry >> 8 * j & 255), n == 8 ? 3 : 8);
        CHECK(found != NULL);
        packed |= (unsigned)(found - values) << bits * j;
    }
    sha256_add(h, (const uint8_t[2]){(uint8_t)packed, (uint8_t)(packed >> 8)}, 2);
}

static void check_grid(const uint64_t *eights, const uint32_t *fours, size_t n, const char *values,
                       const char *want)
{
    struct sha256 h;
    uint8_t digest[32];
    char hex[65];
    sha256_init(&h);
    for (size_t i = 0; i < n; i++) {
        if (eights)
            add_entry(&h, eights[i], 8, values, 2);
        else
            add_entry(&h, fours[i], 4, values, 4);
    }
    sha256_end(&h, digest);
    sha256_hex(digest, hex);
    hex[16] = '\0';
    CHECK_STR(hex, want);
}

TEST(quant_grids_have_their_checksums)
{
    check_grid(grid_iq2_xxs, NULL, 256, "\x08\x19\x2b", "915952ebc4af8ddb");
    check_grid(grid_iq2_xs, NULL, 512, "\x08\x19\x2b", "f66435966ca8d64e");
    check_grid(grid_iq2_s, NULL, 1024, "\x08\x19\x2b", "e6e75e121b65e8af");
    check_grid(NULL, grid_iq3_xxs, 256, "\x04\x0c\x14\x1c\x24\x2c\x34\x3e", "15d5c59616fa9370");
    check_grid(NULL, grid_iq3_s, 512, "\x01\x03\x05\x07\x09\x0b\x0d\x0f", "881df6ab9508749c");
    check_grid(grid_iq1, NULL, 2048, "\x00\x08\x10", "e9ffebfc997ad602");
}

/* Both ways to the signs: 28 packed bits, and seven in each byte. */
TEST(quant_grid_signs_are_even)
{
    for (uint32_t i = 0; i < 128; i++) {
        const uint32_t want = i | (uint32_t)(__builtin_popcount(i) & 1) << 7;
        const uint32_t other = 127 - i;
        const uint32_t want_other = other | (uint32_t)(__builtin_popcount(other) & 1) << 7;
        CHECK_INT(grid_even_signs(i | other << 8 | i << 16 | other << 24),
                  want | want_other << 8 | want << 16 | want_other << 24);
        CHECK_INT(grid_packed_signs(i | other << 7 | i << 14 | other << 21 | 0xf0000000),
                  want | want_other << 8 | want << 16 | want_other << 24);
    }
}

/* A weight row of any bytes decodes without a trap; under UBSan this is the proof. */
TEST(quant_decode_takes_any_bytes)
{
    static uint8_t blocks[210 * 16];
    float out[256];
    for (int fill = 0; fill < 256; fill += 17) {
        memset(blocks, fill, sizeof(blocks));
        for (int i = 0; i < QUANT_COUNT; i++)
            quants[i]->decode(blocks, out, 256);
    }
}

/* Random blocks, one in eight with a scale made infinite or no number: what decoding says. */
TEST(quant_finite_is_what_decoding_says)
{
    for (int i = 0; i < QUANT_COUNT; i++) {
        const struct quant *q = quants[i];
        int n_bad = 0;
        for (uint64_t b = 0; b < 400; b++) {
            uint8_t block[256];
            float x[256];
            bool finite = true;
            q->synthesise(block, 3, b, 1.0f);
            if (b % 8 == 0)
                memset(block + rng_u64(i, b) % q->block_bytes, b % 16 ? 0xff : 0x7c,
                       1 + rng_u64(i, ~b) % 2);
            q->decode(block, x, q->block_elems);
            for (uint32_t k = 0; k < q->block_elems; k++)
                finite = finite && isfinite(x[k]);
            CHECK_INT(quant_finite(q, block, 1), finite);
            n_bad += !finite;
        }
        test_note("%s: %d of 400", q->name, n_bad);
    }
}

static void check_synthesis(const struct quant *q, float rms)
{
    enum { N = 1 << 16 };
    static uint8_t blocks[N * 4];
    static uint8_t again[N * 4];
    static float x[N];
    size_t n_blocks = N / q->block_elems;
    for (size_t b = 0; b < n_blocks; b++)
        q->synthesise(blocks + b * q->block_bytes, 7, b, rms);
    q->synthesise(again, 7, n_blocks - 1, rms);
    CHECK(memcmp(again, blocks + (n_blocks - 1) * q->block_bytes, q->block_bytes) == 0);
    q->synthesise(again, 8, n_blocks - 1, rms);
    CHECK(memcmp(again, blocks + (n_blocks - 1) * q->block_bytes, q->block_bytes) != 0);
    q->decode(blocks, x, N);
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < N; i++) {
        CHECK(isfinite(x[i]));
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    double got = sqrt(squares / N);
    if (fabs(got / (double)rms - 1) > 0.05 || fabs(sum / N) > 0.03 * (double)rms)
        test_fail(__FILE__, __LINE__, "%s: rms %g, want %g; mean %g", q->name, got, (double)rms,
                  sum / N);
}

TEST(quant_synthesis_has_the_rms_asked_for)
{
    for (int i = 0; i < QUANT_COUNT; i++) {
        check_synthesis(quants[i], 0.02f);
        check_synthesis(quants[i], 1.0f);
    }
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

/* The value of a binary16 by its definition. */
static double value_of_f16(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 0x3ff;
    double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -v : v;
}

TEST(quant_f16_conversions_are_exact_both_ways)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = quant_f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) == 0x7c00) {
            CHECK((h & 0x3ff) ? isnan(f) : isinf(f));
            CHECK(!!signbit(f) == (h >> 15 != 0));
            CHECK_INT(quant_f32_to_f16(f), (h & 0x3ff) ? (h | 0x200) : h);
            continue;
        }
        CHECK((double)f == value_of_f16((uint16_t)h) && !!signbit(f) == (h >> 15 != 0));
        CHECK_INT(quant_f32_to_f16(f), h);
    }
}

/* Between two neighbours: below the middle down, above it up, on it to the even one. */
TEST(quant_f32_to_f16_rounds_to_nearest_even)
{
    for (uint16_t h = 0; h < 0x7bff; h++) {
        float middle = (float)((value_of_f16(h) + value_of_f16(h + 1)) / 2); /* exact in f32 */
        CHECK_INT(quant_f32_to_f16(middle), h + (h & 1));
        CHECK_INT(quant_f32_to_f16(nextafterf(middle, 0)), h);
        CHECK_INT(quant_f32_to_f16(nextafterf(middle, INFINITY)), h + 1);
        CHECK_INT(quant_f32_to_f16(-middle), 0x8000 | (h + (h & 1)));
    }
    CHECK_INT(quant_f32_to_f16(65519.996f), 0x7bff);
    CHECK_INT(quant_f32_to_f16(65520.0f), 0x7c00);
    CHECK_INT(quant_f32_to_f16(1e30f), 0x7c00);
}

TEST(quant_bf16_conversions_round_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = quant_bf16_to_f32((uint16_t)h);
        CHECK(bits_of(f) == h << 16);
        CHECK_INT(quant_f32_to_bf16(f), isnan(f) ? (h | 0x40) : h);
    }
    CHECK_INT(quant_f32_to_bf16(1.00390625f), 0x3f80); /* a tie: to even, down */
    CHECK_INT(quant_f32_to_bf16(1.01171875f), 0x3f82); /* a tie: to even, up */
    CHECK_INT(quant_f32_to_bf16(1.00390637f), 0x3f81);
    CHECK_INT(quant_f32_to_bf16(3.4028234e38f), 0x7f80);
}
