/* Reading and writing the header of a block's payload; see payload.h.
 *
 * A header is valid when it is the one that its own layout, token count and first token would be
 * written as: the parser reads those, works out the rest again, and compares. */
#include "manager/payload.h"

#include <assert.h>
#include <string.h>

#include <skymem/cache.h>
#include <skymem/keys.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"

enum {
    FIXED_BYTES = 32,
    GROUP_BYTES = 24,
    SECTION_BYTES = 8,
    CHECKSUM_BYTES = 8,
    ALIGN_BYTES = 64
};

static sky_status check_rows(const char *kind, uint32_t group, sky_element element,
                             uint32_t row_bytes, sky_error *why) {
    uint32_t unit = sky_element_bytes(element);
    if (!sky_element_is_known(element))
        return sky_fail(why, SKY_E_PARAM, "layout: groups[%u].%s_element is %d: no element", group,
                        kind, (int)element);
    if (row_bytes == 0 || row_bytes > SKY_ROW_BYTES_MAX || row_bytes % unit != 0)
        return sky_fail(why, SKY_E_PARAM,
                        "layout: groups[%u].%s_row_bytes is %u: a multiple of %u from %u to %u",
                        group, kind, row_bytes, unit, unit, SKY_ROW_BYTES_MAX);
    return SKY_OK;
}

static sky_status check_group(const sky_layer_group *g, uint32_t group, sky_error *why) {
    bool window = g->kind == SKY_LAYER_WINDOW;
    if (g->kind == SKY_LAYER_RECURRENT)
        return sky_fail(why, SKY_E_UNSUPPORTED,
                        "layout: groups[%u] is recurrent: its state cannot be cut into blocks",
                        group);
    if (!window && g->kind != SKY_LAYER_FULL)
        return sky_fail(why, SKY_E_PARAM, "layout: groups[%u].kind is %d: no kind", group,
                        (int)g->kind);
    if ((g->window_tokens != 0) != window)
        return sky_fail(why, SKY_E_PARAM, "layout: groups[%u].window_tokens is %u: %s", group,
                        g->window_tokens, window ? "at least 1" : "0 where layers are full");
    if (g->layer_count < 1 || g->layer_count > SKY_LAYERS_MAX)
        return sky_fail(why, SKY_E_PARAM, "layout: groups[%u].layer_count is %u: 1 to %u", group,
                        g->layer_count, SKY_LAYERS_MAX);
    sky_status status = check_rows("k", group, g->k_element, g->k_row_bytes, why);
    return status == SKY_OK ? check_rows("v", group, g->v_element, g->v_row_bytes, why) : status;
}

sky_status sky_layout_check(const sky_layout *layout, sky_error *why) {
    uint32_t layers = 0;
    if (layout->group_count < 1 || layout->group_count > SKY_LAYER_GROUPS_MAX)
        return sky_fail(why, SKY_E_PARAM, "layout: group_count is %u: 1 to %u", layout->group_count,
                        SKY_LAYER_GROUPS_MAX);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        sky_status status = check_group(&layout->groups[g], g, why);
        if (status != SKY_OK)
            return status;
        layers += layout->groups[g].layer_count;
    }
    if (layers > SKY_LAYERS_MAX)
        return sky_fail(why, SKY_E_PARAM, "layout: %u layers in all groups: at most %u", layers,
                        SKY_LAYERS_MAX);
    if (layout->shard_rank > 0 && layout->shard_rank >= layout->shard_count)
        return sky_fail(why, SKY_E_PARAM, "layout: shard_rank is %u of %u", layout->shard_rank,
                        layout->shard_count);
    return SKY_OK;
}

sky_status sky_payload_init(sky_payload *payload, const sky_layout *layout, uint32_t token_count) {
    sky_payload p = {.layout.group_count = layout->group_count,
                     .layout.shard_rank = layout->shard_rank,
                     .layout.shard_count = layout->shard_count,
                     .token_count = token_count};
    if (sky_layout_check(layout, NULL) != SKY_OK || token_count < 1 ||
        token_count > SKY_BLOCK_TOKENS_MAX)
        return SKY_E_PARAM;
    uint32_t layers = 0, stored = 0;
    for (uint32_t g = 0; g < layout->group_count; g++) {
        p.layout.groups[g] = layout->groups[g];
        layers += layout->groups[g].layer_count;
    }
    p.row_sets = layers * 2;
    uint32_t used = FIXED_BYTES + GROUP_BYTES * layout->group_count + SECTION_BYTES * p.row_sets +
                    CHECKSUM_BYTES;
    p.header_bytes = (used + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;

    uint64_t offset = p.header_bytes;
    for (sky_layer_kind kind = SKY_LAYER_FULL; kind <= SKY_LAYER_WINDOW; kind++) {
        for (uint32_t g = 0; g < layout->group_count; g++) {
            const sky_layer_group *group = &p.layout.groups[g];
            if (group->kind != kind)
                continue;
            p.stored_order[stored++] = (uint8_t)g;
            p.group_offset[g] = (uint32_t)offset;
            offset += ((uint64_t)group->k_row_bytes + group->v_row_bytes) * group->layer_count *
                      token_count;
            if (offset > SKY_PAYLOAD_BYTES_MAX)
                return SKY_E_PARAM;
        }
    }
    p.payload_bytes = (uint32_t)offset;
    *payload = p;
    return SKY_OK;
}

uint32_t sky_payload_window_tokens(const sky_payload *payload) {
    uint32_t longest = 0;
    for (uint32_t g = 0; g < payload->layout.group_count; g++)
        if (payload->layout.groups[g].window_tokens > longest)
            longest = payload->layout.groups[g].window_tokens;
    return longest;
}

uint32_t sky_payload_lead_bytes(const sky_payload *payload) {
    uint32_t bytes = payload->payload_bytes;
    for (uint32_t g = 0; g < payload->layout.group_count; g++)
        if (payload->layout.groups[g].window_tokens && payload->group_offset[g] < bytes)
            bytes = payload->group_offset[g];
    return bytes;
}

/* Section of a layer's K or V; row sets count in the layout's order. */
static sky_payload_section section_of(const sky_payload *p, uint32_t group, uint32_t layer,
                                      bool is_v) {
    const sky_layer_group *g = &p->layout.groups[group];
    uint32_t row_set = 2 * layer + is_v;
    for (uint32_t i = 0; i < group; i++)
        row_set += 2 * p->layout.groups[i].layer_count;
    uint32_t before = layer * (g->k_row_bytes + g->v_row_bytes) + (is_v ? g->k_row_bytes : 0);
    uint32_t row_bytes = is_v ? g->v_row_bytes : g->k_row_bytes;
    return (sky_payload_section){
        .group = group,
        .layer = layer,
        .is_v = is_v,
        .row_set = row_set,
        .row_bytes = row_bytes,
        .offset = p->group_offset[group] + before * p->token_count,
        .bytes = row_bytes * p->token_count,
    };
}

sky_payload_section sky_payload_section_at(const sky_payload *payload, uint32_t i) {
    assert(i < payload->row_sets);
    uint32_t layer = i / 2;
    const uint8_t *group = payload->stored_order;
    while (layer >= payload->layout.groups[*group].layer_count)
        layer -= payload->layout.groups[*group++].layer_count;
    return section_of(payload, *group, layer, i % 2);
}

static void write_group(sky_writer *w, const sky_layer_group *g) {
    sky_write_u8(w, (uint8_t)g->kind);
    sky_write_u8(w, (uint8_t)g->k_element);
    sky_write_u8(w, (uint8_t)g->v_element);
    sky_write_u8(w, 0);
    sky_write_u32(w, g->window_tokens);
    sky_write_u32(w, g->layer_count);
    sky_write_u32(w, g->kv_heads);
    sky_write_u32(w, g->k_row_bytes);
    sky_write_u32(w, g->v_row_bytes);
}

void sky_payload_header_write(const sky_payload *payload, uint32_t first_token, uint8_t *out) {
    memset(out, 0, payload->header_bytes);
    sky_writer w = sky_writer_over(out, payload->header_bytes);
    sky_write_u32(&w, SKY_PAYLOAD_MAGIC);
    sky_write_u16(&w, SKY_PAYLOAD_VERSION);
    sky_write_u16(&w, (uint16_t)payload->layout.group_count);
    sky_write_u32(&w, payload->header_bytes);
    sky_write_u32(&w, payload->payload_bytes);
    sky_write_u32(&w, first_token);
    sky_write_u32(&w, payload->token_count);
    sky_write_u32(&w, payload->row_sets);
    sky_write_u32(&w, 0);
    for (uint32_t g = 0; g < payload->layout.group_count; g++)
        write_group(&w, &payload->layout.groups[g]);
    for (uint32_t g = 0; g < payload->layout.group_count; g++) {
        for (uint32_t i = 0; i < payload->layout.groups[g].layer_count * 2; i++) {
            sky_payload_section s = section_of(payload, g, i / 2, i % 2);
            sky_write_u32(&w, s.offset);
            sky_write_u32(&w, s.bytes);
        }
    }
    assert(!w.failed && w.left >= CHECKSUM_BYTES);
    size_t covered = payload->header_bytes - CHECKSUM_BYTES;
    sky_store_u64(out + covered, sky_checksum(out, covered, 0));
}

static sky_layer_group read_group(sky_reader *r) {
    sky_layer_group g = {0};
    g.kind = (sky_layer_kind)sky_read_u8(r);
    g.k_element = (sky_element)sky_read_u8(r);
    g.v_element = (sky_element)sky_read_u8(r);
    sky_read_u8(r);
    g.window_tokens = sky_read_u32(r);
    g.layer_count = sky_read_u32(r);
    g.kv_heads = sky_read_u32(r);
    g.k_row_bytes = sky_read_u32(r);
    g.v_row_bytes = sky_read_u32(r);
    return g;
}

/* The longest header there is: SKY_LAYERS_MAX layers in SKY_LAYER_GROUPS_MAX groups. */
enum {
    HEADER_BYTES_MAX = (FIXED_BYTES + GROUP_BYTES * SKY_LAYER_GROUPS_MAX +
                        SECTION_BYTES * 2 * SKY_LAYERS_MAX + CHECKSUM_BYTES + ALIGN_BYTES - 1) /
                       ALIGN_BYTES * ALIGN_BYTES
};

static bool written_as(const sky_payload *payload, uint32_t first_token, const void *header) {
    uint8_t expected[HEADER_BYTES_MAX];
    assert(payload->header_bytes <= sizeof(expected));
    sky_payload_header_write(payload, first_token, expected);
    return memcmp(expected, header, payload->header_bytes) == 0;
}

sky_status sky_payload_header_read(const void *data, size_t bytes, sky_payload *payload,
                                   uint32_t *first_token) {
    sky_reader r = sky_reader_over(data, bytes);
    uint32_t magic = sky_read_u32(&r);
    uint16_t version = sky_read_u16(&r);
    uint16_t group_count = sky_read_u16(&r);
    sky_read_u32(&r);
    sky_read_u32(&r);
    uint32_t first = sky_read_u32(&r);
    uint32_t token_count = sky_read_u32(&r);
    sky_read_u32(&r);
    sky_read_u32(&r);
    if (r.failed || magic != SKY_PAYLOAD_MAGIC)
        return SKY_E_CORRUPT;
    if (version > SKY_PAYLOAD_VERSION)
        return SKY_E_UNSUPPORTED;
    if (group_count > SKY_LAYER_GROUPS_MAX)
        return SKY_E_CORRUPT;

    sky_layout layout = {.group_count = group_count};
    for (uint32_t g = 0; g < group_count; g++)
        layout.groups[g] = read_group(&r);
    sky_payload p;
    if (r.failed || sky_payload_init(&p, &layout, token_count) != SKY_OK)
        return SKY_E_CORRUPT;
    if (bytes < p.header_bytes || !written_as(&p, first, data))
        return SKY_E_CORRUPT;
    *payload = p;
    *first_token = first;
    return SKY_OK;
}

sky_status sky_payload_header_check(const sky_payload *payload, uint32_t first_token,
                                    const uint8_t *header) {
    return written_as(payload, first_token, header) ? SKY_OK : SKY_E_CORRUPT;
}
