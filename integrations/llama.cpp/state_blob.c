/* See state_blob.h. */
#include "state_blob.h"

#include <string.h>

#include <llama.h>

#define BLOB_MAGIC 0xaf143cd8u
enum { FILE_HEAD = 8, PART_HEAD = 8, CELL = 12, LAYERS_HEAD = 8, LAYER_HEAD = 12 };

static const struct {
    sky_element element;
    int32_t type;
} elements[] = {
    {SKY_ELEMENT_F16, GGML_TYPE_F16},
    {SKY_ELEMENT_F32, GGML_TYPE_F32},
    {SKY_ELEMENT_BF16, GGML_TYPE_BF16},
};

static bool element_of(int32_t type, sky_element *out) {
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (elements[i].type == type) {
            *out = elements[i].element;
            return true;
        }
    }
    return false;
}

static int32_t type_of(sky_element element) {
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (elements[i].element == element)
            return elements[i].type;
    return -1;
}

/* A cursor that yields zeros past its end and remembers it. */
typedef struct {
    uint8_t *at;
    size_t left;
    bool failed;
} cursor;

static uint8_t *cursor_take(cursor *c, size_t bytes) {
    if (c->failed || bytes > c->left) {
        c->failed = true;
        return NULL;
    }
    uint8_t *at = c->at;
    c->at += bytes;
    c->left -= bytes;
    return at;
}

static uint32_t take_u32(cursor *c) {
    uint32_t v = 0;
    const uint8_t *at = cursor_take(c, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return v;
}

static uint64_t take_u64(cursor *c) {
    uint64_t v = 0;
    const uint8_t *at = cursor_take(c, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return v;
}

/* Streams [first, end) of a part have no cells. */
static bool skip_streams(cursor *c, uint32_t first, uint32_t end) {
    uint32_t cells = 0;
    for (uint32_t i = first; i < end; i++)
        cells |= take_u32(c);
    return cells == 0;
}

static const char *parse_cells(cursor *c, const blob_shape *shape, blob_part *part) {
    if (take_u32(c) != shape->streams || !skip_streams(c, 0, shape->stream))
        return "is kept in other streams than expected";
    uint32_t cell_count = take_u32(c);
    if (cell_count == 0 || c->left / CELL < cell_count)
        return "holds no cells";
    for (uint32_t i = 0; i < cell_count; i++) {
        uint32_t position = take_u32(c);
        if (i == 0)
            *part = (blob_part){position, cell_count, 1};
        if (i == 1)
            part->stride = position - part->first_token;
        if (position != part->first_token + i * part->stride)
            return "has cells out of order";
        if (take_u32(c) != 1)
            return "has cells that belong to several sequences";
        take_u32(c);
    }
    if (take_u32(c) != 0)
        return "keeps V transposed (flash attention is off)";
    return NULL;
}

/* K (or V) of all layers of a part: one element type, one row size. */
static const char *parse_rows(cursor *c, const blob_part *part, uint32_t layer_count, bool is_v,
                              sky_layer_group *group, sky_tensor *rows) {
    sky_element *element = is_v ? &group->v_element : &group->k_element;
    uint32_t *row_bytes = is_v ? &group->v_row_bytes : &group->k_row_bytes;
    for (uint32_t layer = 0; layer < layer_count; layer++) {
        sky_element e;
        if (!element_of((int32_t)take_u32(c), &e))
            return "has elements that are not f16, f32 or bf16";
        uint64_t bytes = take_u64(c);
        if (bytes == 0 || bytes > SKY_ROW_BYTES_MAX)
            return "has rows of no size";
        if (layer == 0) {
            *element = e;
            *row_bytes = (uint32_t)bytes;
        }
        if (e != *element || bytes != *row_bytes)
            return "has layers of different sizes in one part";
        uint8_t *data = cursor_take(c, (size_t)bytes * part->token_count);
        if (rows)
            rows[2 * layer + is_v] = sky_layer_packed(group, is_v ? SKY_KV_V : SKY_KV_K, data,
                                                      part->first_token, part->token_count);
    }
    return NULL;
}

static bool group_equal(const sky_layer_group *a, const sky_layer_group *b) {
    return a->layer_count == b->layer_count && a->k_element == b->k_element &&
           a->v_element == b->v_element && a->k_row_bytes == b->k_row_bytes &&
           a->v_row_bytes == b->v_row_bytes;
}

const char *blob_parse(uint8_t *blob, size_t bytes, bool learn, blob_shape *shape, blob_part *parts,
                       sky_tensor *rows) {
    cursor c = {blob, bytes, false};
    blob_shape found = {.streams = shape->streams, .stream = shape->stream};
    const char *wrong = NULL;
    if (take_u32(&c) != BLOB_MAGIC)
        return "is of another version of llama.cpp";
    take_u32(&c);
    while (!wrong && !c.failed && c.left > 0) {
        uint32_t g = found.layout.group_count;
        if (g == (learn ? SKY_LAYER_GROUPS_MAX : shape->layout.group_count))
            return "has more parts than expected";
        sky_layer_group *group = &found.layout.groups[g];
        sky_tensor *part_rows = rows ? rows + found.row_sets : NULL;
        group->kind = SKY_LAYER_FULL;
        wrong = parse_cells(&c, shape, &parts[g]);
        group->layer_count = take_u32(&c);
        if (!wrong && (group->layer_count == 0 || group->layer_count > SKY_LAYERS_MAX))
            wrong = "has no layers";
        if (!wrong && !learn && group->layer_count != shape->layout.groups[g].layer_count)
            wrong = "has another number of layers than before";
        if (!wrong)
            wrong = parse_rows(&c, &parts[g], group->layer_count, false, group, part_rows);
        if (!wrong)
            wrong = parse_rows(&c, &parts[g], group->layer_count, true, group, part_rows);
        if (!wrong && !skip_streams(&c, shape->stream + 1, shape->streams))
            wrong = "has cells of other sequences";
        if (!wrong && !learn && !group_equal(group, &shape->layout.groups[g]))
            wrong = "has another shape than before";
        found.row_sets += 2 * group->layer_count;
        found.layout.group_count++;
    }
    if (wrong)
        return wrong;
    if (c.failed || found.layout.group_count == 0)
        return "ends early";
    if (!learn)
        return found.layout.group_count == shape->layout.group_count ? NULL : "has parts missing";
    if (found.row_sets > 2 * SKY_LAYERS_MAX)
        return "has too many layers";
    *shape = found;
    return NULL;
}

size_t blob_bytes(const blob_shape *shape, const blob_part *parts) {
    size_t others = sizeof(uint32_t) * (shape->streams - 1);
    size_t bytes = FILE_HEAD + others * shape->layout.group_count;
    for (uint32_t g = 0; g < shape->layout.group_count; g++) {
        const sky_layer_group *group = &shape->layout.groups[g];
        if (parts[g].token_count == 0) {
            bytes += PART_HEAD;
            continue;
        }
        size_t rows = (size_t)group->k_row_bytes + group->v_row_bytes;
        bytes += PART_HEAD + LAYERS_HEAD + (size_t)CELL * parts[g].token_count +
                 group->layer_count * (2 * LAYER_HEAD + rows * parts[g].token_count);
    }
    return bytes;
}

static uint8_t *put_u32(uint8_t *at, uint32_t v) {
    memcpy(at, &v, sizeof v);
    return at + sizeof v;
}

static uint8_t *put_rows(uint8_t *at, const sky_layer_group *group, const blob_part *part,
                         bool is_v, sky_tensor *rows) {
    uint64_t row_bytes = is_v ? group->v_row_bytes : group->k_row_bytes;
    uint32_t type = (uint32_t)type_of(is_v ? group->v_element : group->k_element);
    for (uint32_t layer = 0; layer < group->layer_count; layer++) {
        at = put_u32(at, type);
        memcpy(at, &row_bytes, sizeof row_bytes);
        at += sizeof row_bytes;
        if (rows)
            rows[2 * layer + is_v] = sky_layer_packed(group, is_v ? SKY_KV_V : SKY_KV_K, at,
                                                      part->first_token, part->token_count);
        at += row_bytes * part->token_count;
    }
    return at;
}

void blob_compose(const blob_shape *shape, const blob_part *parts, uint8_t *blob,
                  sky_tensor *rows) {
    uint8_t *at = put_u32(put_u32(blob, BLOB_MAGIC), 0);
    for (uint32_t g = 0; g < shape->layout.group_count; g++) {
        const sky_layer_group *group = &shape->layout.groups[g];
        at = put_u32(at, shape->streams);
        for (uint32_t i = 0; i < shape->stream; i++)
            at = put_u32(at, 0);
        at = put_u32(at, parts[g].token_count);
        for (uint32_t i = 0, position = parts[g].first_token; i < parts[g].token_count; i++) {
            at = put_u32(put_u32(put_u32(at, position), 1), 0);
            position += parts[g].stride;
        }
        if (parts[g].token_count == 0)
            continue;
        at = put_u32(put_u32(at, 0), group->layer_count);
        at = put_rows(at, group, &parts[g], false, rows);
        at = put_rows(at, group, &parts[g], true, rows);
        for (uint32_t i = shape->stream + 1; i < shape->streams; i++)
            at = put_u32(at, 0);
        if (rows)
            rows += 2 * group->layer_count;
    }
}
