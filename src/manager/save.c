/* From an engine's state to keys: which blocks no tier has, their rows, and one put a run of
 * blocks. What a tier has at some levels only is next door (save_levels.c).
 *
 * An engine gives at most as many rows at once as every layer still tells apart (the smallest
 * window), and they are its own only until the next call. So a run of blocks is extracted and put
 * before the next one, its rows straight from the engine's memory; a block longer than that is put
 * together in a buffer first. */
#include <skymem/manager.h>

#include <stdlib.h>
#include <string.h>

#include "cache/cache_internal.h"
#include "io/sync.h"
#include "manager/blocks.h"

#define EXTRACT_TOKENS_MAX 512u
/* A put is given up when no tier took anything for so long, and for the time that a link of 8 Mb/s
 * carries its bytes in, as blocks that cross it together end together. The answer is long out. */
#define PATIENCE_NS_PER_BYTE 1000 /* beside the manager's patience */
#define LOOK_LIMIT           SKY_SECONDS(10)
/* Not the tier's own patience, which does not look at what it gets done. */
#define PUT_LIMIT SKY_SECONDS(24 * 3600)
#define QUIET_NS  SKY_MS(100)

uint32_t sky__save_tokens_max(const sky_manager *m) {
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

sky_status sky__save_gather(sky_manager *m, uint32_t first_block, uint32_t block_count) {
    const sky_key *keys = m->scratch.keys;
    sky_item *items = m->scratch.items;
    uint32_t step_max = sky__save_tokens_max(m);
    memset(items, 0, block_count * sizeof *items);
    for (uint32_t b = 0; b < block_count; b++) {
        items[b].key = keys[first_block + b];
        if (first_block + b > 0)
            items[b].parent = keys[first_block + b - 1];
    }
    return m->block_tokens > step_max ? stage_block(m, first_block, step_max)
                                      : gather_blocks(m, first_block, block_count);
}

/* ---- putting ---- */

/* Values that tiers have taken so far, whoever gave them. */
static uint64_t count_puts(const sky_manager *m) {
    uint64_t puts = 0;
    for (size_t t = 0; t < sky_tier_count(m->cache); t++) {
        sky_tier_counts counts = {0};
        (void)sky__cache_tier_counts(m->cache, t, &counts);
        puts += counts.puts;
    }
    return puts;
}

/* Until the batch is over, or nothing moves any more. */
static sky_status wait_patiently(sky_manager *m, sky_batch batch, sky_time patience) {
    sky_status status = sky_wait(m->cache, batch, 1); /* memory has answered already */
    while (status == SKY_E_DEADLINE) {
        uint64_t puts = count_puts(m);
        status = sky_wait(m->cache, batch, sky_now() + patience);
        if (status == SKY_E_DEADLINE && count_puts(m) == puts) {
            sky_cancel(m->cache, batch);
            return SKY_E_DEADLINE;
        }
    }
    return status;
}

sky_status sky__save_put(sky_manager *m, uint32_t count, const sky_call *call) {
    sky_time patience = m->patience_ns +
                        (sky_time)count * m->payload.payload_bytes * PATIENCE_NS_PER_BYTE;
    sky_call own = *call;
    sky_batch batch;
    sky_status status = sky_event_create(&own.event_fd);
    if (status != SKY_OK)
        return status;
    own.deadline_ns = sky_now() + PUT_LIMIT;
    status = sky_submit(m->cache, SKY_OP_PUT, m->scratch.items, count, &own, &batch);
    if (status == SKY_OK)
        status = wait_patiently(m, batch, patience);
    sky_event_close(own.event_fd);
    return status;
}

/* Store blocks [first_block, first_block + block_count): one extraction, or one long block.
 * Errors: also what a tier said that did not take one; those before it are counted */
static sky_status put_blocks(sky_manager *m, uint32_t first_block, uint32_t block_count,
                             sky_saved *saved) {
    const sky_item *items = m->scratch.items;
    sky_status status = sky__save_gather(m, first_block, block_count);
    if (status != SKY_OK)
        return status;
    status = sky__save_put(m, block_count, &(sky_call){.drop = m->drop});
    if (status != SKY_OK && status != SKY_E_DEADLINE)
        return status;
    for (uint32_t b = 0; b < block_count; b++) {
        if (items[b].status != SKY_OK)
            return status != SKY_OK ? status : items[b].status;
        saved->blocks++;
        saved->bytes += m->payload.payload_bytes;
    }
    return SKY_OK;
}

/* missing[b]: no tier has block b, or none that is of use: a tier that is asked whether it has one
 * does not look inside. */
static sky_status find_missing(sky_manager *m, uint32_t block_count, uint64_t *missing) {
    sky_item *items = m->scratch.items;
    for (uint32_t b = 0; b < block_count; b++)
        items[b] = (sky_item){.key = m->scratch.keys[b]};
    const sky_call call = {.deadline_ns = sky_now() + LOOK_LIMIT};
    sky_status status = sky_run(m->cache, SKY_OP_HAS, items, block_count, &call);
    bool spoiled = false;
    for (uint32_t b = 0; status == SKY_OK && b < block_count; b++) {
        spoiled |= m->spoiled && sky_key_equal(&items[b].key, &m->spoiled_key);
        missing[b] = spoiled || items[b].status != SKY_OK || !sky__may_be_block(m, items[b].bytes);
        if (!missing[b] && items[b].tier < SKY_TIERS_MAX)
            m->reached |= 1u << items[b].tier;
    }
    m->spoiled &= !spoiled; /* once */
    return status;
}

static sky_status put_missing(sky_manager *m, uint32_t block_count, const uint64_t *missing,
                              sky_saved *saved) {
    uint32_t tokens_max = sky__save_tokens_max(m);
    uint32_t run_max = m->block_tokens > tokens_max ? 1 : tokens_max / m->block_tokens;
    sky_status status = SKY_OK;
    for (uint32_t b = 0, run; status == SKY_OK && b < block_count; b += run) {
        for (run = 0; run < run_max && b + run < block_count && missing[b + run];)
            run++;
        if (run > 0)
            status = put_blocks(m, b, run, saved);
        else
            run = 1;
        /* A block that was there at the lookup and is not now: the engine has its rows no more, and
         * without it nothing after it can be found. */
        if (status == SKY_E_PARAM && b * m->block_tokens < m->restored_tokens)
            return SKY_OK;
    }
    return status;
}

/* Levels that lack are put while nothing else is on its way: what is may be just these. */
static sky_status put_levels(sky_manager *m, uint32_t block_count, const uint64_t *missing,
                             sky_saved *saved) {
    uint32_t tiers = m->reached;
    if (tiers == 0 || !sky__cache_settle(m->cache, sky_now() + QUIET_NS))
        return SKY_OK;
    m->reached = 0; /* once */
    return sky__save_levels(m, block_count, tiers, missing, saved);
}

sky_status sky_manager_add_blocks_tokens(sky_manager *manager, const uint32_t *tokens,
                                         size_t token_count, uint32_t *saved_blocks,
                                         uint64_t *saved_bytes) {
    sky_manager *m = manager;
    sky_saved saved = {0};
    if (!manager || (!tokens && token_count > 0))
        return SKY_E_PARAM;
    size_t whole = token_count <= UINT32_MAX ? token_count / m->block_tokens : 0;
    uint32_t block_count = whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
    sky_status status = token_count <= UINT32_MAX ? SKY_OK : SKY_E_PARAM;
    if (m->refused)
        block_count = 0;
    if (block_count > 0)
        status = sky__manager_keys(m, tokens, block_count);
    if (status == SKY_OK && block_count > 0)
        status = find_missing(m, block_count, m->scratch.stored);
    if (status == SKY_OK && block_count > 0) {
        sky_status levels = put_levels(m, block_count, m->scratch.stored, &saved);
        status = put_missing(m, block_count, m->scratch.stored, &saved);
        status = status == SKY_OK ? levels : status;
    }
    sky_count(&sky__cache_counts(m->cache)->saved_blocks, saved.blocks);
    if (saved_blocks)
        *saved_blocks = saved.blocks;
    if (saved_bytes)
        *saved_bytes = saved.bytes;
    return status;
}
