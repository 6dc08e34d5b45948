/* What a sequence runs: keys of its blocks with scratch for them, and one batch at a time.
 *
 * Surprise: a cancel may come at any time, from another thread: before a batch is submitted, while
 * it runs, or after. So the flag is set first and looked at after the batch's number is known. */
#include <stdlib.h>

#include "manager/blocks.h"

/* ---- keys, and scratch for their blocks ---- */

void sky__sequence_scratch_free(sky_block_scratch *s) {
    free(s->keys);
    free(s->items);
    free(s->stored);
    free(s->headers);
    free(s->spans);
    free(s->raw);
    free(s->beside);
    free(s->claims);
}

static sky_status scratch_reserve(sky_sequence *q, uint32_t blocks) {
    if (blocks <= q->scratch.blocks_max)
        return SKY_OK;
    sky_block_scratch s = {
        .keys = calloc(blocks, sizeof *s.keys),
        .items = calloc(blocks, sizeof *s.items),
        .stored = calloc(blocks, sizeof *s.stored),
        .headers = calloc(blocks, q->manager->payload.header_bytes),
        .spans = calloc(blocks, sizeof *s.spans),
        .raw = calloc(blocks, sizeof *s.raw),
        .beside = calloc(blocks, sizeof *s.beside),
        .claims = calloc(blocks, sizeof *s.claims),
        .blocks_max = blocks,
        .spans_max = blocks,
    };
    if (!s.keys || !s.items || !s.stored || !s.headers || !s.spans || !s.raw || !s.beside ||
        !s.claims) {
        sky__sequence_scratch_free(&s);
        return SKY_E_NOMEM;
    }
    sky__sequence_scratch_free(&q->scratch);
    q->scratch = s;
    return SKY_OK;
}

sky_status sky__sequence_keys(sky_sequence *q, const uint32_t *tokens, uint32_t block_count) {
    uint32_t block_tokens = q->manager->block_tokens;
    sky_status status = scratch_reserve(q, block_count);
    if (status == SKY_OK)
        sky_block_keys(&q->manager->ns, tokens, (size_t)block_count * block_tokens, block_tokens,
                       q->scratch.keys, block_count);
    return status;
}

/* ---- batches ---- */

static void set_batch(sky_sequence *q, sky_batch batch) {
    sky_mutex_lock(&q->mutex);
    q->batch = batch;
    sky_mutex_unlock(&q->mutex);
}

sky_status sky__sequence_submit(sky_sequence *q, sky_op op, sky_item *items, size_t item_count,
                                const sky_call *call) {
    sky_call own = *call;
    sky_batch batch;
    own.event_fd = q->event;
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    sky_status status = sky_submit(q->manager->cache, op, items, item_count, &own, &batch);
    if (status != SKY_OK)
        return status;
    set_batch(q, batch);
    if (!atomic_load(&q->cancelled))
        return SKY_OK;
    sky_cancel(q->manager->cache, batch);
    return SKY_E_CANCELLED;
}

sky_status sky__sequence_wait(sky_sequence *q, sky_time until) {
    sky_status status = sky_wait(q->manager->cache, q->batch, until);
    if (atomic_load(&q->cancelled)) {
        sky_cancel(q->manager->cache, q->batch);
        status = SKY_E_CANCELLED;
    }
    if (status != SKY_E_DEADLINE)
        set_batch(q, (sky_batch){0});
    return status;
}

sky_status sky__sequence_run(sky_sequence *q, sky_op op, sky_item *items, size_t item_count,
                             const sky_call *call) {
    sky_status status = sky__sequence_submit(q, op, items, item_count, call);
    return status == SKY_OK ? sky__sequence_wait(q, SKY_TIME_NEVER) : status;
}
