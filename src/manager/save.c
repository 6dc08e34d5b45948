/* From an engine's state to keys: which blocks no tier has, their rows, and one put a run of
 * blocks.
 *
 * An engine gives at most as many rows at once as every layer still tells apart (the smallest
 * window), and they are its own only until the next call. So a run of blocks is extracted and put
 * before the next one, its rows straight from the engine's memory; a block longer than that is put
 * together in a buffer first. */
#include <skymem/manager.h>

#include <stdlib.h>
#include <string.h>

#include "manager/blocks.h"

#define EXTRACT_TOKENS_MAX 512u
/* A put that the nearest tier has not taken by then is given up: the answer is long out. */
#define PUT_LIMIT SKY_SECONDS(10)

static uint32_t extract_tokens_max(const sky_manager *m) {
    uint32_t most = EXTRACT_TOKENS_MAX;
    for (uint32_t g = 0; g < m->payload.layout.group_count; g++) {
        uint32_t window = m->payload.layout.groups[g].window_tokens;
        if (window && window < most)
            most = window;
    }
    return most;
}

static sky_status extract(sky_manager *m, uint32_t first_token, uint32_t token_count) {
    sky_state state = sky__manager_rows(m);
    return m->engine.ops->extract(m->engine.self, first_token, token_count, &state);
}

/* Copy rows [first_token, …) of a long block, just extracted, to their place in its payload. */
static void stage_rows(sky_manager *m, uint32_t row, uint32_t row_count) {
    for (uint32_t i = 0; i < m->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&m->payload, i);
        memcpy(m->staging + s.offset + (size_t)row * s.row_bytes, m->rows[s.row_set].data,
               (size_t)row_count * s.row_bytes);
    }
}

/* Put a block together that is longer than one extraction. */
static sky_status stage_block(sky_manager *m, uint32_t block, uint32_t step_max) {
    if (!m->staging)
        m->staging = malloc(m->payload.payload_bytes);
    if (!m->staging)
        return SKY_E_NOMEM;
    uint32_t first = block * m->block_tokens;
    sky_payload_header_write(&m->payload, first, m->staging);
    for (uint32_t row = 0, step; row < m->block_tokens; row += step) {
        step = m->block_tokens - row < step_max ? m->block_tokens - row : step_max;
        sky_status status = extract(m, first + row, step);
        if (status != SKY_OK)
            return status;
        stage_rows(m, row, step);
    }
    m->scratch.spans[0] = (sky_span){m->staging, m->payload.payload_bytes};
    m->scratch.items[0].spans = m->scratch.spans;
    m->scratch.items[0].span_count = 1;
    return SKY_OK;
}

/* Extract a run of blocks; the items' spans point into the engine's rows. */
static sky_status gather_blocks(sky_manager *m, uint32_t first_block, uint32_t block_count) {
    uint32_t first = first_block * m->block_tokens;
    sky_status status = extract(m, first, block_count * m->block_tokens);
    if (status != SKY_OK)
        return status;
    for (uint32_t b = 0; b < block_count; b++) {
        uint8_t *header = m->scratch.headers + (size_t)b * m->payload.header_bytes;
        sky_span *spans = m->scratch.spans + b * sky__spans_per_block(m);
        sky_payload_header_write(&m->payload, first + b * m->block_tokens, header);
        spans[0] = (sky_span){header, m->payload.header_bytes};
        for (uint32_t i = 0; i < m->payload.row_sets; i++) {
            sky_payload_section s = sky_payload_section_at(&m->payload, i);
            uint8_t *rows = m->rows[s.row_set].data;
            spans[1 + i] = (sky_span){rows + (size_t)b * s.bytes, s.bytes};
        }
        m->scratch.items[b].spans = spans;
        m->scratch.items[b].span_count = 1 + m->payload.row_sets;
    }
    return SKY_OK;
}

/* Store blocks [first_block, first_block + block_count): one extraction, or one long block.
 * Errors: also what a tier said that did not take one; those before it are counted */
static sky_status put_blocks(sky_manager *m, uint32_t first_block, uint32_t block_count,
                             uint32_t step_max, uint32_t *saved_blocks, uint64_t *saved_bytes) {
    const sky_key *keys = m->scratch.keys;
    sky_item *items = m->scratch.items;
    memset(items, 0, block_count * sizeof *items);
    sky_status status = m->block_tokens > step_max ? stage_block(m, first_block, step_max)
                                                   : gather_blocks(m, first_block, block_count);
    if (status != SKY_OK)
        return status;
    for (uint32_t b = 0; b < block_count; b++) {
        items[b].key = keys[first_block + b];
        if (first_block + b > 0)
            items[b].parent = keys[first_block + b - 1];
    }
    const sky_call call = {.deadline_ns = sky_now() + PUT_LIMIT};
    status = sky_run(m->cache, SKY_OP_PUT, items, block_count, &call);
    if (status != SKY_OK)
        return status;
    for (uint32_t b = 0; b < block_count; b++) {
        if (items[b].status != SKY_OK)
            return items[b].status;
        *saved_blocks += 1;
        *saved_bytes += m->payload.payload_bytes;
    }
    return SKY_OK;
}

/* missing[b]: no tier has block b, or none that is of use: a tier that is asked whether it has one
 * does not look inside. */
static sky_status find_missing(sky_manager *m, uint32_t block_count, uint64_t *missing) {
    sky_item *items = m->scratch.items;
    memset(items, 0, block_count * sizeof *items);
    for (uint32_t b = 0; b < block_count; b++)
        items[b].key = m->scratch.keys[b];
    const sky_call call = {.deadline_ns = sky_now() + PUT_LIMIT};
    sky_status status = sky_run(m->cache, SKY_OP_HAS, items, block_count, &call);
    bool spoiled = false;
    for (uint32_t b = 0; status == SKY_OK && b < block_count; b++) {
        spoiled |= m->spoiled && sky_key_equal(&items[b].key, &m->spoiled_key);
        missing[b] = spoiled || items[b].status != SKY_OK || !sky__may_be_block(m, items[b].bytes);
    }
    m->spoiled &= !spoiled; /* once */
    return status;
}

sky_status sky_manager_add_blocks_tokens(sky_manager *manager, const uint32_t *tokens,
                                         size_t token_count, uint32_t *saved_blocks,
                                         uint64_t *saved_bytes) {
    sky_manager *m = manager;
    uint32_t blocks;
    uint64_t bytes;
    saved_blocks = saved_blocks ? saved_blocks : &blocks;
    saved_bytes = saved_bytes ? saved_bytes : &bytes;
    *saved_blocks = 0;
    *saved_bytes = 0;
    if (token_count > UINT32_MAX)
        return SKY_E_PARAM;
    size_t whole = token_count / m->block_tokens;
    uint32_t block_count = whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
    if (m->refused || block_count == 0)
        return SKY_OK;
    sky_status status = sky__manager_keys(m, tokens, block_count);
    uint64_t *missing = m->scratch.stored;
    if (status == SKY_OK)
        status = find_missing(m, block_count, missing);

    uint32_t step_max = extract_tokens_max(m);
    uint32_t run_max = m->block_tokens > step_max ? 1 : step_max / m->block_tokens;
    for (uint32_t b = 0, run; status == SKY_OK && b < block_count; b += run) {
        for (run = 0; run < run_max && b + run < block_count && missing[b + run];)
            run++;
        if (run > 0)
            status = put_blocks(m, b, run, step_max, saved_blocks, saved_bytes);
        else
            run = 1;
        /* A block that was there at the lookup and is not now: the engine has its rows no more, and
         * without it nothing after it can be found. */
        if (status == SKY_E_PARAM && b * m->block_tokens < m->restored_tokens)
            return SKY_OK;
    }
    return status;
}
