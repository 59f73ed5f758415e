/*
 * Sizes of the types that a file may hold: those with a decoder (quants.def) and, so that a file
 * that has others can still be checked and shown, the rest. Ids 4, 5, 31-33 and 36-38 were removed
 * from ggml and are refused.
 */
#include "engine/gguf/internal.h"

struct other_type {
    uint32_t id;
    struct gguf_layout layout;
};

static const struct other_type other_types[] = {
    {9, {32, 36}},    /* Q8_1 */
    {15, {256, 292}}, /* Q8_K */
    {24, {1, 1}},     /* I8 */
    {25, {1, 2}},     /* I16 */
    {26, {1, 4}},     /* I32 */
    {27, {1, 8}},     /* I64 */
    {28, {1, 8}},     /* F64 */
};

bool gguf_layout_of(uint32_t ggml_id, struct gguf_layout *ret)
{
    const struct quant *q = quant_by_id(ggml_id);
    if (q) {
        *ret = (struct gguf_layout){q->block_elems, q->block_bytes};
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(other_types); i++) {
        if (other_types[i].id == ggml_id) {
            *ret = other_types[i].layout;
            return true;
        }
    }
    return false;
}

uint64_t gguf_tensor_disk_bytes(const struct gguf_tensor *t)
{
    struct gguf_layout layout = {1, 0};
    (void)gguf_layout_of(t->ggml_id, &layout); /* the header's check has seen the id */
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] / layout.block_elems * layout.block_bytes;
}
