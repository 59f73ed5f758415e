/*
 * Matrix products and the forms of activation rows, for every table and format.
 *
 * The bound of a product has two parts, tested apart: the kernel against the f64 product of the
 * decoded weights and the *quantised* activations (rounding only), and the quantised activations
 * against the original ones (half a step).
 */
#include "tests/engine/kernels.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

enum { OUT_MAX = 64, ROWS_MAX = 130, COLS_MAX = 1536 };

/* A product with everything it needs; y of another run is compared with it. */
struct product {
    const struct quant *quant;
    size_t n_cols, n_out, n_rows;
    uint8_t *w;
    float *x;    /* [n_rows][n_cols] */
    char *x_act; /* [n_rows] in the form that the format takes */
    float *y;    /* [n_rows][n_out] */
};

static void *block_of(size_t bytes)
{
    void *p = mem_zalloc(bytes);
    CHECK(p != NULL);
    return p;
}

static struct product product_new(const struct quant *q, size_t n_cols, size_t n_out, size_t n_rows)
{
    struct product p = {.quant = q, .n_cols = n_cols, .n_out = n_out, .n_rows = n_rows};
    /* Exact sizes: reading beyond a row's end is an error that ASan sees. */
    p.w = block_of(n_out * quant_row_bytes(q, n_cols));
    p.x = block_of(n_rows * n_cols * sizeof(float));
    p.x_act = block_of(n_rows * act_row_bytes(q->act, n_cols));
    p.y = block_of(n_rows * n_out * sizeof(float));
    return p;
}

static void product_release(struct product *p)
{
    mem_free(p->w);
    mem_free(p->x);
    mem_free(p->x_act);
    mem_free(p->y);
}

static void product_quantise(struct product *p, const struct kernels *k)
{
    for (size_t r = 0; r < p->n_rows; r++)
        k->act_quantise[p->quant->act](p->x + r * p->n_cols,
                                       p->x_act + r * act_row_bytes(p->quant->act, p->n_cols),
                                       p->n_cols);
}

static struct matmul product_matmul(const struct product *p)
{
    return (struct matmul){
        .quant = p->quant,
        .w = p->w,
        .w_row_bytes = quant_row_bytes(p->quant, p->n_cols),
        .x = p->x_act,
        .x_row_bytes = act_row_bytes(p->quant->act, p->n_cols),
        .n_cols = p->n_cols,
        .n_rows = p->n_rows,
        .y = p->y,
        .y_stride = p->n_out,
    };
}

/* The activation that the codes of an element stand for. */
static double act_value(enum act_kind kind, const void *row, size_t k)
{
    if (kind == ACT_Q8) {
        const struct act_q8 *b = (const struct act_q8 *)row + k / 32;
        return (double)b->d * b->q[k % 32];
    }
    if (kind == ACT_Q8K) {
        const struct act_q8k *b = (const struct act_q8k *)row + k / 256;
        return (double)b->d * b->q[k % 256];
    }
    return (double)((const float *)row)[k];
}

/*
 * One output against f64. Rounding grows with the magnitudes that are added, not with the result: for
 * each block its largest weight times the sum of its activations' magnitudes.
 */
static void check_output(const struct product *p, const float *w, size_t row, size_t i, float got)
{
    const char *x = p->x_act + row * act_row_bytes(p->quant->act, p->n_cols);
    size_t span = p->quant->block_elems > 1 ? p->quant->block_elems : 8;
    double want = 0;
    double magnitude = 0;
    for (size_t k0 = 0; k0 < p->n_cols; k0 += span) {
        double largest = 0;
        double sum = 0;
        for (size_t k = k0; k < k0 + span && k < p->n_cols; k++) {
            double value = act_value(p->quant->act, x, k);
            want += (double)w[k] * value;
            sum += fabs(value);
            largest = fmax(largest, fabs((double)w[k]));
        }
        magnitude += largest * sum;
    }
    size_t n_spans = p->n_cols / span;
    double steps = (double)n_spans + 8;
    char what[96];
    snprintf(what, sizeof(what), "%s, %zu columns, row %zu, output %zu", p->quant->name, p->n_cols,
             row, i);
    check_close(what, (double)got, want, steps * 0x1p-24 * magnitude + 1e-44);
}

static void check_product(const struct kernels *k, struct product *p)
{
    static float w[COLS_MAX];
    product_quantise(p, k);
    struct matmul m = product_matmul(p);
    k->matmul[p->quant->index](&m, 0, p->n_out);
    for (size_t i = 0; i < p->n_out; i++) {
        p->quant->decode(p->w + i * m.w_row_bytes, w, p->n_cols);
        for (size_t r = 0; r < p->n_rows; r++)
            check_output(p, w, r, i, p->y[r * p->n_out + i]);
    }
}

static void fill_synthesised(struct product *p, uint64_t seed)
{
    size_t n = p->n_out * p->n_cols / p->quant->block_elems;
    for (size_t b = 0; b < n; b++)
        p->quant->synthesise(p->w + b * p->quant->block_bytes, seed, b, 0.05f);
    random_floats(seed + 1, p->x, p->n_rows * p->n_cols, 3.0f);
}

/* Numbers of columns: one block; a panel and a bit; several; odd ones where blocks allow. */
static size_t columns_of(const struct quant *q, int i)
{
    static const size_t dense[4] = {1, 37, 264, 1003};
    static const size_t blocks[4] = {1, 9, 18, 48};
    static const size_t super_blocks[4] = {1, 2, 3, 6};
    if (q->block_elems == 1)
        return dense[i];
    return ALIGN_UP(q->act == ACT_Q8 ? 32 * blocks[i] : 256 * super_blocks[i],
                    (size_t)q->block_elems);
}

static void products_match_f64(const struct kernels *k)
{
    static const size_t n_outs[4] = {1, 7, 16, 21};
    static const size_t n_rows[4] = {1, 2, 4, 7};
    for (int q = 0; q < QUANT_COUNT; q++) {
        for (int i = 0; i < 4; i++) {
            struct product p =
                product_new(quants[q], columns_of(quants[q], i), n_outs[i], n_rows[i]);
            fill_synthesised(&p, (uint64_t)(100 * q + i));
            check_product(k, &p);
            product_release(&p);
        }
    }
}
KERNELS_TEST(products_match_f64)

/* Where the 16-bit numbers of a block's scales stand. */
static void set_scales(const struct quant *q, uint8_t *block, uint16_t d, uint16_t min)
{
    size_t at = 0;
    bool has_min = false;
    switch (q->index) {
    case QUANT_INDEX_q2_k:
        at = 80;
        has_min = true;
        break;
    case QUANT_INDEX_q3_k:
        at = 108;
        break;
    case QUANT_INDEX_q6_k:
        at = 208;
        break;
    case QUANT_INDEX_tq1_0:
        at = 52;
        break;
    case QUANT_INDEX_tq2_0:
        at = 64;
        break;
    case QUANT_INDEX_iq1_m: /* a nibble above each word of scales */
        for (int i = 0; i < 4; i++)
            block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (d >> 4 * i & 15) << 4);
        return;
    case QUANT_INDEX_nvfp4: /* four bytes: all kinds of them, large and small as d is */
        for (int i = 0; i < 4; i++)
            block[i] = (uint8_t)((d >> 7) + 3 * i);
        return;
    case QUANT_INDEX_mxfp4: /* a byte: the exponent, with room for the sums */
        block[0] = (uint8_t)(d >> 10 & 31 ? (d >> 10 & 31) + 113 : d & 1);
        return;
    case QUANT_INDEX_q4_1:
    case QUANT_INDEX_q5_1:
    case QUANT_INDEX_q4_k:
    case QUANT_INDEX_q5_k:
        has_min = true;
        break;
    case QUANT_INDEX_f32:
    case QUANT_INDEX_f16:
    case QUANT_INDEX_bf16:
    case QUANT_INDEX_q4_0:
    case QUANT_INDEX_q5_0:
    case QUANT_INDEX_q8_0:
    case QUANT_INDEX_iq1_s:
    case QUANT_INDEX_iq2_xxs:
    case QUANT_INDEX_iq2_xs:
    case QUANT_INDEX_iq2_s:
    case QUANT_INDEX_iq3_xxs:
    case QUANT_INDEX_iq3_s:
    case QUANT_INDEX_iq4_nl:
    case QUANT_INDEX_iq4_xs:
    case QUANT_INDEX_q1_0:
    case QUANT_INDEX_q2_0:
    case QUANT_COUNT:
        break;
    }
    memcpy(block + at, &d, sizeof(d));
    if (has_min)
        memcpy(block + at + 2, &min, sizeof(min));
}

/* Blocks of one byte or of random bytes, with such scales. */
static void fill_bytes(struct product *p, int fill, uint16_t d, uint16_t min, float x_range)
{
    size_t n_bytes = p->n_out * quant_row_bytes(p->quant, p->n_cols);
    for (size_t i = 0; i < n_bytes; i++)
        p->w[i] = fill >= 0 ? (uint8_t)fill : (uint8_t)rng_u64(77, i);
    for (size_t at = 0; at < n_bytes; at += p->quant->block_bytes)
        set_scales(p->quant, p->w + at, d, min);
    /* Rows of the largest codes: of one sign, alternating, and random. */
    for (size_t r = 0; r < p->n_rows; r++) {
        for (size_t k = 0; k < p->n_cols; k++) {
            float sign = r % 3 == 1 && k % 2 ? -1.0f : 1.0f;
            p->x[r * p->n_cols + k] =
                r % 3 == 2 ? random_float(5, r * p->n_cols + k, x_range) : sign * x_range;
        }
    }
}

/* y of a product computed with n_rows rows at a time and outputs cut at the given places. */
static void run_cut(const struct kernels *k, const struct product *p, size_t n_rows,
                    const size_t *cuts, size_t n_cuts, float *y)
{
    for (size_t r = 0; r < p->n_rows; r += n_rows) {
        struct matmul m = product_matmul(p);
        m.x = (const char *)m.x + r * m.x_row_bytes;
        m.n_rows = MIN_OF(n_rows, p->n_rows - r);
        m.y = y + r * p->n_out;
        for (size_t c = 0; c + 1 < n_cuts; c++)
            k->matmul[p->quant->index](&m, cuts[c], cuts[c + 1]);
    }
}

/* Rows together against f64; each alone, by kernels of its own, the same bits. */
static void extreme_blocks_match_f64(const struct kernels *k)
{
    static const struct {
        int fill; /* -1: random bytes */
        uint16_t d, min;
        float x_range;
    } extreme[] = {
        {0xff, 0x7bff, 0x7bff, 1.0f},  /* every code and scale the largest */
        {0x00, 0x7bff, 0xfbff, 1.0f},  /* every code 0: the offsets alone */
        {0x80, 0x7bff, 0x0000, 1.0f},  /* int8 -128 */
        {0x7f, 0xfbff, 0x7bff, 1e-3f}, /* negative scale */
        {-1, 0x7bff, 0xfbff, 100.0f},  {-1, 0x8000, 0x8000, 1.0f}, /* negative zero */
        {-1, 0x0001, 0x03ff, 1.0f},                                /* subnormal scales */
        {-1, 0x3c00, 0x3c00, 1e-38f},                              /* activations near nothing */
        {-1, 0x2000, 0xa000, 1e30f},
    };
    static const size_t cuts[] = {0, 1, 20};
    static float alone[5 * 20];
    for (int q = 0; q < QUANT_COUNT; q++) {
        if (quants[q]->block_elems == 1)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(extreme); i++) {
            struct product p = product_new(quants[q], 768, 20, 5);
            fill_bytes(&p, extreme[i].fill, extreme[i].d, extreme[i].min, extreme[i].x_range);
            check_product(k, &p);
            run_cut(k, &p, 1, cuts, ARRAY_LEN(cuts), alone);
            if (memcmp(alone, p.y, sizeof(alone)) != 0)
                test_fail(__FILE__, __LINE__, "%s, case %zu: other bits", quants[q]->name, i);
            product_release(&p);
        }
    }
}
KERNELS_TEST(extreme_blocks_match_f64)

/* Room between two pages that nobody may touch. */
enum { ROOM_BYTES = 1 << 19 };

static char *room_open(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, ROOM_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    CHECK_INT(mprotect(map + page, ROOM_BYTES, PROT_READ | PROT_WRITE), 0);
    return map + page;
}

/* The same product from rooms, with all at their beginning or all at their end, gives the same bits. */
static void check_in_rooms(const struct kernels *k, const struct product *p, char *const room[3],
                           bool at_end)
{
    struct matmul m = product_matmul(p);
    const size_t bytes[3] = {p->n_out * m.w_row_bytes, p->n_rows * m.x_row_bytes,
                             p->n_rows * p->n_out * sizeof(float)};
    char *at[3];
    for (int i = 0; i < 3; i++) {
        CHECK(bytes[i] <= ROOM_BYTES);
        at[i] = room[i] + (at_end ? ROOM_BYTES - bytes[i] : 0);
    }
    m.w = memcpy(at[0], p->w, bytes[0]);
    m.x = memcpy(at[1], p->x_act, bytes[1]);
    m.y = (float *)memset(at[2], 0xff, bytes[2]);
    k->matmul[p->quant->index](&m, 0, p->n_out / 2);
    k->matmul[p->quant->index](&m, p->n_out / 2, p->n_out);
    if (memcmp(m.y, p->y, bytes[2]) != 0)
        test_fail(__FILE__, __LINE__, "%s: %zu columns, %zu rows, at the %s: other bits",
                  p->quant->name, p->n_cols, p->n_rows, at_end ? "end" : "beginning");
}

/*
 * Weights of a file may end where its mapping does. They end at any address, as those of a file's tensors
 * begin; what is read or written beyond is a fault, of gathers and in every build.
 */
static void products_touch_nothing_beyond(const struct kernels *k)
{
    static const size_t n_outs[4] = {1, 7, 16, 37};
    char *const room[3] = {room_open(), room_open(), room_open()};
    for (int q = 0; q < QUANT_COUNT; q++) {
        for (int i = 0; i < 4; i++) {
            for (size_t n_rows = 1; n_rows < 15; n_rows += 6) {
                struct product p =
                    product_new(quants[q], columns_of(quants[q], i), n_outs[i], n_rows);
                fill_synthesised(&p, (uint64_t)(q + i));
                check_product(k, &p);
                check_in_rooms(k, &p, room, false);
                check_in_rooms(k, &p, room, true);
                product_release(&p);
            }
        }
    }
}
KERNELS_TEST(products_touch_nothing_beyond)

static void rows_and_ranges_change_no_bit(const struct kernels *k)
{
    static const size_t one_cut[] = {0, OUT_MAX - 1};
    static const size_t odd_cuts[] = {0, 1, 2, 5, 13, 14, 21, 30, 38, 63};
    static const size_t sizes[] = {2, 3, 5, 8, 64, 130};
    for (int q = 0; q < QUANT_COUNT; q++) {
        size_t n_cols = quants[q]->block_elems == 1    ? 131
                        : quants[q]->block_elems == 32 ? 352
                                                       : 512;
        struct product p = product_new(quants[q], n_cols, OUT_MAX - 1, ROWS_MAX);
        size_t y_bytes = p.n_rows * p.n_out * sizeof(float);
        float *again = block_of(y_bytes);
        fill_synthesised(&p, (uint64_t)q);
        product_quantise(&p, k);
        run_cut(k, &p, 1, one_cut, ARRAY_LEN(one_cut), p.y);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            memset(again, 0xff, y_bytes);
            run_cut(k, &p, sizes[i], one_cut, ARRAY_LEN(one_cut), again);
            if (memcmp(again, p.y, y_bytes) != 0)
                test_fail(__FILE__, __LINE__, "%s: %zu rows at a time", quants[q]->name, sizes[i]);
            memset(again, 0xff, y_bytes);
            run_cut(k, &p, sizes[i], odd_cuts, ARRAY_LEN(odd_cuts), again);
            if (memcmp(again, p.y, y_bytes) != 0)
                test_fail(__FILE__, __LINE__, "%s: %zu rows, odd cuts", quants[q]->name, sizes[i]);
        }
        mem_free(again);
        product_release(&p);
    }
}
KERNELS_TEST(rows_and_ranges_change_no_bit)

/* A call writes the columns of its range and nothing else. */
static void products_write_their_range_only(const struct kernels *k)
{
    for (int q = 0; q < QUANT_COUNT; q++) {
        size_t n_cols = quants[q]->block_elems == 1 ? 40 : quants[q]->block_elems;
        struct product p = product_new(quants[q], n_cols, 29, 6);
        fill_synthesised(&p, 3);
        product_quantise(&p, k);
        for (size_t i = 0; i < p.n_rows * p.n_out; i++)
            p.y[i] = 12345.0f;
        struct matmul m = product_matmul(&p);
        k->matmul[q](&m, 3, 14);
        k->matmul[q](&m, 20, 20);
        for (size_t i = 0; i < p.n_rows * p.n_out; i++) {
            bool inside = i % p.n_out >= 3 && i % p.n_out < 14;
            CHECK((p.y[i] != 12345.0f) == inside);
        }
        product_release(&p);
    }
}
KERNELS_TEST(products_write_their_range_only)

TEST(kernels_exact_product_is_f64)
{
    static const size_t n_rows[4] = {1, 3, 4, 9};
    static float w[COLS_MAX];
    static float scratch[COLS_MAX];
    for (int q = 0; q < QUANT_COUNT; q++) {
        for (int s = 0; s < 4; s++) {
            struct product p = product_new(quants[q], columns_of(quants[q], s), 5, n_rows[s]);
            fill_synthesised(&p, (uint64_t)(q + s));
            struct matmul m = product_matmul(&p);
            m.x = p.x;
            m.x_row_bytes = p.n_cols * sizeof(float);
            matmul_exact(&m, 0, 2, scratch);
            matmul_exact(&m, 2, 5, scratch);
            for (size_t i = 0; i < p.n_out * p.n_rows; i++) {
                const float *x = p.x + i / p.n_out * p.n_cols;
                double want = 0;
                double magnitude = 0;
                p.quant->decode(p.w + i % p.n_out * m.w_row_bytes, w, p.n_cols);
                for (size_t c = 0; c < p.n_cols; c++) {
                    want += (double)w[c] * (double)x[c];
                    magnitude += fabs((double)w[c] * (double)x[c]);
                }
                check_close(p.quant->name, (double)p.y[i], want,
                            0x1p-24 * fabs(want) + 1e-12 * magnitude);
            }
            product_release(&p);
        }
    }
}

/* What the activations' form costs a product of bf16 weights: rms error by rms result. */
TEST(kernels_bf16_activations_stay_f32)
{
    const struct kernels *k = NULL;
    struct error e = {0};
    struct product p = product_new(quant_by_name("BF16"), 1024, 64, 8);
    static struct act_q8 codes[1024 / 32];
    static float w[1024];
    double result = 0, by_kernel = 0, by_bf16 = 0, by_codes = 0;
    CHECK_OK(kernels_pick(NULL, &k, &e), &e);
    fill_synthesised(&p, 1);
    check_product(k, &p);
    for (size_t r = 0; r < p.n_rows; r++) {
        const float *x = p.x + r * p.n_cols;
        k->act_quantise[ACT_Q8](x, codes, p.n_cols);
        for (size_t i = 0; i < p.n_out; i++) {
            double want = 0, rounded = 0, coded = 0;
            p.quant->decode(p.w + i * quant_row_bytes(p.quant, p.n_cols), w, p.n_cols);
            for (size_t c = 0; c < p.n_cols; c++) {
                want += (double)w[c] * (double)x[c];
                rounded += (double)w[c] * (double)quant_bf16_to_f32(quant_f32_to_bf16(x[c]));
                coded += (double)w[c] * act_value(ACT_Q8, codes, c);
            }
            result += want * want;
            by_kernel += pow((double)p.y[r * p.n_out + i] - want, 2);
            by_bf16 += pow(rounded - want, 2);
            by_codes += pow(coded - want, 2);
        }
    }
    test_note("bf16 products, %s: %.1e off; with activations in bf16 %.1e, in codes of 8 bits %.1e",
              k->name, sqrt(by_kernel / result), sqrt(by_bf16 / result), sqrt(by_codes / result));
    CHECK(by_kernel < 1e-12 * result);
    CHECK(by_bf16 > 1e6 * by_kernel);
    CHECK(by_bf16 < by_codes);
    product_release(&p);
}

/* Half a step from each number, and codes that use their range. */
static void check_act(const struct kernels *k, enum act_kind kind, const float *x, size_t n)
{
    size_t span = kind == ACT_Q8 ? 32 : 256;
    char *row = block_of(act_row_bytes(kind, n));
    k->act_quantise[kind](x, row, n);
    for (size_t i = 0; i < n; i += span) {
        double largest = 0;
        for (size_t j = i; j < i + span; j++)
            largest = fmax(largest, fabs((double)x[j]));
        double step = largest < 0x1p-100 ? 2 * largest : largest / 127;
        for (size_t j = i; j < i + span; j++)
            check_close("activation", act_value(kind, row, j), (double)x[j], step * 0.5000005);
    }
    mem_free(row);
}

static void check_act_sums(const struct kernels *k, const float *x, size_t n)
{
    struct act_q8 q8[COLS_MAX / 32];
    struct act_q8k q8k[COLS_MAX / 256];
    k->act_quantise[ACT_Q8](x, q8, n);
    k->act_quantise[ACT_Q8K](x, q8k, n);
    for (size_t b = 0; b < n / 32; b++) {
        int sum = 0;
        for (int j = 0; j < 32; j++) {
            CHECK(q8[b].q[j] >= -127);
            sum += q8[b].q[j];
        }
        CHECK(q8[b].qsum == (float)sum);
    }
    for (size_t g = 0; g < n / 16; g++) {
        int sum = 0;
        for (size_t j = 0; j < 16; j++) {
            CHECK(q8k[g / 16].q[g % 16 * 16 + j] >= -127);
            sum += q8k[g / 16].q[g % 16 * 16 + j];
        }
        CHECK_INT(q8k[g / 16].bsums[g % 16], sum);
    }
}

static void activations_are_half_a_step_off_at_most(const struct kernels *k)
{
    static const float range[] = {1.0f, 1e-20f, 1e30f, 3.4e38f * 0.25f, 1e-36f, 1e-44f};
    static float x[COLS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(range); i++) {
        random_floats(i, x, COLS_MAX, range[i]);
        x[5] = -0.0f;
        x[40] = range[i];
        x[300] = -range[i];
        check_act(k, ACT_Q8, x, COLS_MAX);
        check_act(k, ACT_Q8K, x, COLS_MAX);
        check_act_sums(k, x, COLS_MAX);
    }
}
KERNELS_TEST(activations_are_half_a_step_off_at_most)

static void zero_activations_give_zero(const struct kernels *k)
{
    for (int q = 0; q < QUANT_COUNT; q++) {
        struct product p = product_new(quants[q], 512, 9, 2);
        fill_synthesised(&p, 1);
        for (size_t i = 0; i < p.n_rows * p.n_cols; i++)
            p.x[i] = i % 3 ? 0.0f : -0.0f;
        product_quantise(&p, k);
        struct matmul m = product_matmul(&p);
        k->matmul[q](&m, 0, p.n_out);
        for (size_t i = 0; i < p.n_rows * p.n_out; i++)
            CHECK(p.y[i] == 0.0f);
        product_release(&p);
    }
}
KERNELS_TEST(zero_activations_give_zero)

/* What is not finite in a row is not finite in the row's outputs, and in no other row's. */
static void infinities_and_nans_show(const struct kernels *k)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    for (int q = 0; q < QUANT_COUNT; q++) {
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
            struct product p = product_new(quants[q], 512, 8, 3);
            fill_synthesised(&p, 4);
            p.x[512 + 300] = bad[i];
            product_quantise(&p, k);
            struct matmul m = product_matmul(&p);
            k->matmul[q](&m, 0, p.n_out);
            for (size_t j = 0; j < p.n_rows * p.n_out; j++)
                CHECK(!isfinite(p.y[j]) == (j / p.n_out == 1));
            product_release(&p);
        }
    }
}
KERNELS_TEST(infinities_and_nans_show)

/* All tables give the same codes: activations do not depend on the machine. */
static void activations_are_the_generic_ones(const struct kernels *k)
{
    static float x[COLS_MAX];
    struct act_q8k want[COLS_MAX / 256];
    struct act_q8k got[COLS_MAX / 256];
    struct act_q8 want32[COLS_MAX / 32];
    struct act_q8 got32[COLS_MAX / 32];
    for (uint64_t seed = 0; seed < 50; seed++) {
        random_floats(seed, x, COLS_MAX, ldexpf(1.0f, (int)(seed * 5) - 125));
        kernels_generic.act_quantise[ACT_Q8K](x, want, COLS_MAX);
        k->act_quantise[ACT_Q8K](x, got, COLS_MAX);
        CHECK(memcmp(want, got, sizeof(want)) == 0);
        kernels_generic.act_quantise[ACT_Q8](x, want32, COLS_MAX);
        k->act_quantise[ACT_Q8](x, got32, COLS_MAX);
        CHECK(memcmp(want32, got32, sizeof(want32)) == 0);
    }
}
KERNELS_TEST(activations_are_the_generic_ones)

/*
 * Blocks of the widest range of scales: the tables of one architecture obey the same order, so where both
 * are there they give the same bits. What has no blocks is summed by as many lanes as there are.
 */
static void check_same_bits(const char *isa, const char *other_isa)
{
    const struct kernels *k = kernels_named(isa);
    const struct kernels *other = kernels_named(other_isa);
    for (int q = 0; q < QUANT_COUNT; q++) {
        if (quants[q]->block_elems == 1)
            continue;
        for (size_t n_rows = 1; n_rows < 20; n_rows += 6) {
            struct product p = product_new(quants[q], 768, 37, n_rows);
            const size_t y_bytes = p.n_rows * p.n_out * sizeof(float);
            float *want = block_of(y_bytes);
            fill_bytes(&p, -1, 0x2c01, 0xa803, 10.0f);
            product_quantise(&p, k);
            struct matmul m = product_matmul(&p);
            k->matmul[q](&m, 0, p.n_out);
            memcpy(want, p.y, y_bytes);
            other->matmul[q](&m, 0, p.n_out);
            if (memcmp(p.y, want, y_bytes) != 0)
                test_fail(__FILE__, __LINE__, "%s: %zu rows", quants[q]->name, n_rows);
            mem_free(want);
            product_release(&p);
        }
    }
}

TEST(kernels_avx2_and_avx512_agree_on_blocks)
{
    check_same_bits("avx2", "avx512");
}

TEST(kernels_neon_and_neon_i8mm_agree_on_blocks)
{
    check_same_bits("neon", "neon-i8mm");
}

TEST(kernels_tables_are_complete)
{
    CHECK(kernels_all[0] == &kernels_generic);
    for (size_t i = 0; kernels_all[i]; i++) {
        const struct kernels *k = kernels_all[i];
        CHECK(k->name && k->supported);
        for (int a = 0; a < ACT_KINDS; a++)
            CHECK(k->act_quantise[a] != NULL);
        for (int q = 0; q < QUANT_COUNT; q++)
            CHECK(k->matmul[q] != NULL);
        CHECK(k->rms_norm && k->swiglu && k->situ && k->add && k->to_f16);
        CHECK(k->attention_page && k->merge && k->exp1);
    }
}

TEST(kernels_pick_by_name_or_the_best)
{
    const struct kernels *k = NULL;
    struct error e = {0};
    CHECK_OK(kernels_pick(NULL, &k, &e), &e);
    CHECK(k != NULL);
    const struct kernels *best = k;
    CHECK_OK(kernels_pick("auto", &k, &e), &e);
    CHECK(k == best);
    CHECK_OK(kernels_pick("generic", &k, &e), &e);
    CHECK(k == &kernels_generic);
    CHECK_ERROR(kernels_pick("sse9", &k, &e), &e, ERROR_UNSUPPORTED,
                "'sse9': not known here, auto, generic, ");
    CHECK(k == &kernels_generic);
}
