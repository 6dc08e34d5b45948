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

#include "base/tensor.h"
#include "cache/cache_internal.h"
#include "io/sync.h"
#include "io/trace.h"
#include "manager/blocks.h"

#define EXTRACT_TOKENS_MAX 512u
/* A put is given up when no tier took anything for so long, and for the time that a link of 8 Mb/s
 * carries its bytes in, as blocks that cross it together end together. The answer is long out. */
#define PATIENCE_NS_PER_BYTE 1000 /* beside the manager's patience */
#define LOOK_LIMIT           SKY_SECONDS(10)
/* Not the tier's own patience, which does not look at what it gets done. */
#define PUT_LIMIT SKY_SECONDS(24 * 3600)
#define QUIET_NS  SKY_MS(100)

uint32_t sky__save_tokens_max(const sky_sequence *q) {
    uint32_t most = EXTRACT_TOKENS_MAX;
    for (uint32_t g = 0; g < q->manager->payload.layout.group_count; g++) {
        uint32_t window = q->manager->payload.layout.groups[g].window_tokens;
        if (window && window < most)
            most = window;
    }
    return most;
}

/* Copy rows [row, row + row_count) of a long block that begins with token `first`, just extracted,
 * to their place in its payload. */
static void stage_rows(sky_sequence *q, uint32_t first, uint32_t row, uint32_t row_count) {
    for (uint32_t i = 0; i < q->manager->payload.row_sets; i++) {
        sky_payload_section s = sky_payload_section_at(&q->manager->payload, i);
        sky__tensor_gather(&q->rows[s.row_set], first + row, row_count,
                           q->staging + s.offset + (size_t)row * s.row_bytes);
    }
}

/* Put a block together that is longer than one extraction. */
static sky_status stage_block(sky_sequence *q, uint32_t block, uint32_t step_max) {
    if (!q->staging)
        q->staging = malloc(q->manager->payload.payload_bytes);
    if (!q->staging)
        return SKY_E_NOMEM;
    uint32_t first = block * q->manager->block_tokens;
    sky_payload_header_write(&q->manager->payload, first, q->staging);
    for (uint32_t row = 0, step; row < q->manager->block_tokens; row += step) {
        step = q->manager->block_tokens - row < step_max ? q->manager->block_tokens - row
                                                         : step_max;
        sky_status status = sky__engine_extract(q, first + row, step);
        if (status != SKY_OK)
            return status;
        stage_rows(q, first, row, step);
    }
    q->scratch.spans[0] = (sky_span){q->staging, q->manager->payload.payload_bytes};
    q->scratch.items[0].spans = q->scratch.spans;
    q->scratch.items[0].span_count = 1;
    return SKY_OK;
}

/* Extract a run of blocks; the items' spans point into the engine's rows. */
static sky_status gather_blocks(sky_sequence *q, uint32_t first_block, uint32_t block_count) {
    uint32_t block_tokens = q->manager->block_tokens, first = first_block * block_tokens;
    sky_status status = sky__engine_extract(q, first, block_count * block_tokens);
    if (status != SKY_OK)
        return status;
    for (uint32_t b = 0; b < block_count; b++, first += block_tokens) {
        uint8_t *header = q->scratch.headers + (size_t)b * q->manager->payload.header_bytes;
        sky_span *spans = q->scratch.spans + b * q->spans_per_block;
        uint32_t count = 1;
        sky_payload_header_write(&q->manager->payload, first, header);
        spans[0] = (sky_span){header, q->manager->payload.header_bytes};
        for (uint32_t i = 0; i < q->manager->payload.row_sets; i++) {
            sky_payload_section s = sky_payload_section_at(&q->manager->payload, i);
            count += sky__tensor_pieces(&q->rows[s.row_set], first, block_tokens, spans + count);
        }
        q->scratch.items[b].spans = spans;
        q->scratch.items[b].span_count = count;
    }
    return SKY_OK;
}

sky_status sky__save_gather(sky_sequence *q, uint32_t first_block, uint32_t block_count) {
    const sky_key *keys = q->scratch.keys;
    sky_item *items = q->scratch.items;
    uint32_t step_max = sky__save_tokens_max(q);
    memset(items, 0, block_count * sizeof *items);
    for (uint32_t b = 0; b < block_count; b++) {
        items[b].key = keys[first_block + b];
        if (first_block + b > 0)
            items[b].parent = keys[first_block + b - 1];
    }
    return q->manager->block_tokens > step_max ? stage_block(q, first_block, step_max)
                                               : gather_blocks(q, first_block, block_count);
}

/* ---- putting ---- */

/* Until the batch is over, or nothing moves any more. */
static sky_status wait_patiently(sky_sequence *q, sky_time patience) {
    sky_status status = sky__sequence_wait(q, 1); /* memory has answered already */
    while (status == SKY_E_DEADLINE) {
        uint64_t puts = sky__cache_put_count(q->manager->cache);
        status = sky__sequence_wait(q, sky_now() + patience);
        if (status == SKY_E_DEADLINE && sky__cache_put_count(q->manager->cache) == puts) {
            sky_cancel(q->manager->cache, q->batch);
            return SKY_E_DEADLINE;
        }
    }
    return status;
}

sky_status sky__save_put(sky_sequence *q, uint32_t count, const sky_call *call) {
    sky_time patience = q->manager->patience_ns +
                        (sky_time)count * q->manager->payload.payload_bytes * PATIENCE_NS_PER_BYTE;
    sky_call own = *call;
    own.deadline_ns = sky_now() + PUT_LIMIT;
    sky_status status = sky__sequence_submit(q, SKY_OP_PUT, q->scratch.items, count, &own);
    return status == SKY_OK ? wait_patiently(q, patience) : status;
}

/* Store blocks [first_block, first_block + block_count): one extraction, or one long block.
 * Errors: also what a tier said that did not take one; those before it are counted */
static sky_status put_blocks(sky_sequence *q, uint32_t first_block, uint32_t block_count,
                             sky_saved *saved) {
    const sky_item *items = q->scratch.items;
    sky_status status = sky__save_gather(q, first_block, block_count);
    if (status != SKY_OK)
        return status;
    status = sky__save_put(q, block_count, &(sky_call){.drop = q->manager->drop});
    if (status != SKY_OK && status != SKY_E_DEADLINE)
        return status;
    for (uint32_t b = 0; b < block_count; b++) {
        if (items[b].status != SKY_OK)
            return status != SKY_OK ? status : items[b].status;
        saved->blocks++;
        saved->bytes += q->manager->payload.payload_bytes;
    }
    return SKY_OK;
}

sky_status sky__save_missing(sky_sequence *q, uint32_t block_count, uint64_t *missing) {
    sky_item *items = q->scratch.items;
    for (uint32_t b = 0; b < block_count; b++)
        items[b] = (sky_item){.key = q->scratch.keys[b]};
    const sky_call call = {.deadline_ns = sky_now() + LOOK_LIMIT};
    sky_status status = sky__sequence_run(q, SKY_OP_HAS, items, block_count, &call);
    bool spoiled = false;
    for (uint32_t b = 0; status == SKY_OK && b < block_count; b++) {
        spoiled |= q->spoiled && sky_key_equal(&items[b].key, &q->spoiled_key);
        missing[b] = spoiled || items[b].status != SKY_OK || !sky__may_be_block(q, items[b].bytes);
        if (!missing[b] && items[b].tier < SKY_TIERS_MAX)
            q->reached |= 1u << items[b].tier;
    }
    q->spoiled &= !spoiled; /* once */
    return status;
}

sky_status sky__save_range(sky_sequence *q, uint32_t first, uint32_t *end, const uint64_t *missing,
                           sky_saved *saved) {
    uint32_t tokens_max = sky__save_tokens_max(q);
    uint32_t run_max = q->manager->block_tokens > tokens_max
                           ? 1
                           : tokens_max / q->manager->block_tokens;
    sky_status status = SKY_OK;
    for (uint32_t b = first, run; status == SKY_OK && b < *end; b += run) {
        for (run = 0; run < run_max && b + run < *end && missing[b + run];)
            run++;
        if (run > 0)
            status = put_blocks(q, b, run, saved);
        else
            run = 1;
        /* A block that was there at the lookup and is not now: the engine has its rows no more, and
         * without it nothing after it can be found. */
        if (status == SKY_E_PARAM && b * q->manager->block_tokens < q->restored_tokens) {
            *end = b;
            return SKY_OK;
        }
    }
    return status;
}

/* Levels that lack are put while nothing else is on its way: what is may be just these. */
static sky_status put_levels(sky_sequence *q, uint32_t block_count, const uint64_t *missing,
                             sky_saved *saved) {
    uint32_t tiers = q->reached;
    if (tiers == 0 || !sky__cache_settle(q->manager->cache, sky_now() + QUIET_NS))
        return SKY_OK;
    q->reached = 0; /* once */
    return sky__save_levels(q, block_count, tiers, missing, saved);
}

sky_status sky_sequence_save(sky_sequence *sequence, const uint32_t *tokens, size_t token_count,
                             uint32_t *saved_blocks, uint64_t *saved_bytes) {
    sky_sequence *q = sequence;
    sky_saved saved = {0};
    sky_time traced = sky_trace_now();
    if (!sequence || (!tokens && token_count > 0) || sequence->loading || sequence->saving)
        return SKY_E_PARAM;
    size_t whole = token_count <= UINT32_MAX ? token_count / q->manager->block_tokens : 0;
    uint32_t block_count = whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
    sky_status status = token_count <= UINT32_MAX ? SKY_OK : SKY_E_PARAM;
    if (status == SKY_OK && atomic_load(&q->cancelled))
        status = SKY_E_CANCELLED;
    if (q->manager->refused)
        block_count = 0;
    if (block_count > 0)
        status = sky__sequence_keys(q, tokens, block_count);
    if (status == SKY_OK && block_count > 0)
        status = sky__save_missing(q, block_count, q->scratch.stored);
    if (status == SKY_OK && block_count > 0) {
        sky_status levels = put_levels(q, block_count, q->scratch.stored, &saved);
        uint32_t end = block_count;
        status = sky__save_range(q, 0, &end, q->scratch.stored, &saved);
        status = status == SKY_OK ? levels : status;
    }
    sky_count(&sky__cache_counts(q->manager->cache)->saved_blocks, saved.blocks);
    sky_trace_call("manager", "save", block_count > 0 ? q->scratch.keys : NULL, saved.bytes, status,
                   traced);
    if (saved_blocks)
        *saved_blocks = saved.blocks;
    if (saved_bytes)
        *saved_bytes = saved.bytes;
    return status;
}
