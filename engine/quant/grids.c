#include "engine/quant/grid.h"

/* A code of two bits to its byte, eight of them to an entry; and the same of four bits and four. */
#define BYTE_2(packed, j, a, b, c)                                                                 \
    ((uint64_t)(((packed) >> 2 * (j)&3) == 0   ? (a)                                               \
                : ((packed) >> 2 * (j)&3) == 1 ? (b)                                               \
                                               : (c))                                              \
     << 8 * (j))
#define HALF_2(packed, j, a, b, c)                                                                 \
    (BYTE_2(packed, j, a, b, c) | BYTE_2(packed, (j) + 1, a, b, c) |                               \
     BYTE_2(packed, (j) + 2, a, b, c) | BYTE_2(packed, (j) + 3, a, b, c))
#define ENTRY_2(packed, a, b, c) (HALF_2(packed, 0, a, b, c) | HALF_2(packed, 4, a, b, c)),

#define CODE_4(packed, j) ((uint32_t)(packed) >> 4 * (j)&7)
#define ENTRY_4(packed, value)                                                                     \
    (value(CODE_4(packed, 0)) | value(CODE_4(packed, 1)) << 8 | value(CODE_4(packed, 2)) << 16 |   \
     value(CODE_4(packed, 3)) << 24),
#define VALUE_IQ3_XXS(code) (8 * (code) + 4 + 2 * ((code) == 7)) /* 4, 12 .. 52, 62 */
#define VALUE_IQ3_S(code) (2 * (code) + 1)

#define GRID(packed) ENTRY_2(packed, 8, 25, 43)
const uint64_t grid_iq2_xxs[256] = {
#include "engine/quant/grids/iq2_xxs.def"
};
const uint64_t grid_iq2_xs[512] = {
#include "engine/quant/grids/iq2_xs.def"
};
const uint64_t grid_iq2_s[1024] = {
#include "engine/quant/grids/iq2_s.def"
};
#undef GRID

#define GRID(packed) ENTRY_2(packed, 0, 8, 16)
const uint64_t grid_iq1[2048] = {
#include "engine/quant/grids/iq1_s.def"
};
#undef GRID

#define GRID(packed) ENTRY_4(packed, VALUE_IQ3_XXS)
const uint32_t grid_iq3_xxs[256] = {
#include "engine/quant/grids/iq3_xxs.def"
};
#undef GRID

#define GRID(packed) ENTRY_4(packed, VALUE_IQ3_S)
const uint32_t grid_iq3_s[512] = {
#include "engine/quant/grids/iq3_s.def"
};
#undef GRID
