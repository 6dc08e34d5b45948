/* A prompt that another program computes (push.c): its blocks are awaited one after the other, and
 * those that came are brought to memory while the next is waited for.
 *
 *   stored already   came while it waited            still to come
 *   ├────────────────┼──────┬──────┬──────┐ silence ┌─────────────┤
 *                    began  first … last ──────────► now    left
 *
 * One rule says when computing the rest is sooner: with the pace of the blocks between the first
 * and the last that came (0 before there are two), the wait goes on while
 *
 *     | left x pace - silence |  <=  left x what the engine takes for a block
 *
 * The difference is above 0 as long as the rest is expected: so much waiting is left. Below 0 the
 * rest is late: for so long nothing came that the pace explains, and who has waited in vain as long
 * as computing takes has lost no more than by computing at once. The pace leaves out the block that
 * came first, so that blocks that come in groups, as an engine computes them, do not seem slow. */
#include <skymem/manager.h>

#include "cache/cache_internal.h"
#include "io/trace.h"
#include "manager/blocks.h"

#define FETCHES_MAX  4u /* blocks on their way to memory at once */
#define FETCH_WINDOW SKY_SECONDS(10)

/* ---- is computing sooner? ---- */

static sky_time rest_expected(const sky__arrival_pace *p, uint32_t left) {
    return p->blocks > 1 ? (p->last_at - p->first_at) / (p->blocks - 1) * left : 0;
}

sky_time sky__await_until(const sky__arrival_pace *p, uint32_t left, sky_time block_ns) {
    sky_time expected = rest_expected(p, left), compute = block_ns * left;
    if (block_ns == 0)
        return SKY_TIME_NEVER;
    return expected > compute ? 0 : p->last_at + expected + compute;
}

static void pace_note(sky__arrival_pace *p, sky_time now) {
    p->first_at = p->blocks == 0 ? now : p->first_at;
    p->last_at = now;
    p->blocks++;
}

/* What the engine takes for a block; 0: not known, or it is not to count. */
static sky_time engine_block_ns(const sky_sequence *q) {
    sky_manager *m = q->manager;
    sky_mutex_lock(&m->mutex);
    sky_time block_ns = m->engine_block_ns;
    sky_mutex_unlock(&m->mutex);
    bool known = !m->load_only && (m->engine_token_ns > 0 || block_ns > 0);
    return known ? sky__engine_believe(m->engine_token_ns, block_ns, m->block_tokens, 1).block_ns
                 : 0;
}

/* ---- to memory ---- */

/* Blocks on their way to memory. */
typedef struct {
    sky_item items[FETCHES_MAX];
    sky_batch batches[FETCHES_MAX]; /* id 0: none */
    uint32_t next;
} fetches;

/* Wait for the oldest, and have its place. A cancel is waited for no longer than a block. */
static void fetch_end(const sky_sequence *q, fetches *f, uint32_t slot) {
    if (f->batches[slot].id == 0)
        return;
    if (atomic_load(&q->cancelled))
        sky_cancel(q->manager->cache, f->batches[slot]);
    else
        (void)sky_wait(q->manager->cache, f->batches[slot], SKY_TIME_NEVER);
    f->batches[slot] = (sky_batch){0};
}

/* Have a block brought to memory. What does not come so is brought by the load. */
static void fetch_begin(const sky_sequence *q, fetches *f, uint32_t block) {
    uint32_t slot = f->next++ % FETCHES_MAX;
    sky_item *item = &f->items[slot];
    fetch_end(q, f, slot);
    *item = (sky_item){.key = q->scratch.keys[block]};
    if (block > 0)
        item->parent = q->scratch.keys[block - 1];
    /* an event of its own, so that no drain takes the batch */
    const sky_call call = {.deadline_ns = sky_now() + FETCH_WINDOW, .event_fd = q->event};
    if (sky_submit(q->manager->cache, SKY_OP_PREFETCH, item, 1, &call, &f->batches[slot]) != SKY_OK)
        f->batches[slot] = (sky_batch){0};
}

/* ---- waiting ---- */

typedef struct {
    sky_sequence *q;
    uint32_t wanted; /* blocks */
    sky_time patience_ns;
    sky_time block_ns;
    sky__arrival_pace pace;
    bool fetching;
    fetches fetches;
    sky_awaited *out;
} wait;

/* A block is there, as the scratch's item says. */
static void wait_note(wait *w, uint32_t block) {
    const sky_item *item = &w->q->scratch.items[block];
    w->out->stored_tokens = (block + 1) * w->q->manager->block_tokens;
    w->out->bytes += item->bytes;
    if (item->tier < SKY_TIERS_MAX)
        w->out->tier_blocks[item->tier]++;
    if (item->tier > 0 && item->tier < SKY_TIERS_MAX && w->fetching)
        fetch_begin(w->q, &w->fetches, block);
}

/* Those that are stored before the wait begins; *count: so many, if it is SKY_OK. Where all are,
 * bringing them is the load's, which may compute some meanwhile. */
static sky_status wait_look(wait *w, uint32_t *count) {
    sky_sequence *q = w->q;
    const sky_call call = {.deadline_ns = sky_now() + w->patience_ns};
    for (uint32_t b = 0; b < w->wanted; b++)
        q->scratch.items[b] = (sky_item){.key = q->scratch.keys[b]};
    sky_status status = sky__sequence_run(q, SKY_OP_HAS, q->scratch.items, w->wanted, &call);
    *count = 0;
    while (status == SKY_OK && *count < w->wanted && q->scratch.items[*count].status == SKY_OK)
        ++*count;
    w->fetching = *count < w->wanted && q->manager->near_keeps;
    return status;
}

/* Wait for one block that was not there. Errors: as sky_sequence_await */
static sky_status wait_block(wait *w, uint32_t block) {
    sky_sequence *q = w->q;
    sky_item *item = &q->scratch.items[block];
    sky_time now = sky_now(), until = now + w->patience_ns;
    sky_time sooner = sky__await_until(&w->pace, w->wanted - block, w->block_ns);
    w->out->computing_is_sooner = sooner <= now;
    if (sooner <= now)
        return SKY_E_DEADLINE;
    *item = (sky_item){.key = q->scratch.keys[block]};
    const sky_call call = {.deadline_ns = sooner < until ? sooner : until};
    sky_op op = w->pace.blocks == 0 ? SKY_OP_EXPECT : SKY_OP_AWAIT;
    sky_status status = sky__sequence_run(q, op, item, 1, &call);
    w->out->computing_is_sooner = status == SKY_OK && item->status == SKY_E_DEADLINE &&
                                  sooner < until;
    if (status != SKY_OK)
        return status;
    return item->status == SKY_OK || item->status == SKY_E_DEADLINE ? item->status : SKY_MISS;
}

static sky_status wait_all(wait *w) {
    uint32_t stored;
    sky_status status = wait_look(w, &stored);
    for (uint32_t b = 0; b < stored; b++)
        wait_note(w, b);
    w->pace.last_at = sky_now();
    for (uint32_t b = stored; b < w->wanted && status == SKY_OK; b++) {
        status = wait_block(w, b);
        if (status != SKY_OK)
            break;
        pace_note(&w->pace, sky_now());
        w->out->awaited_blocks++;
        wait_note(w, b);
    }
    for (uint32_t slot = 0; slot < FETCHES_MAX; slot++)
        fetch_end(w->q, &w->fetches, slot);
    return status;
}

sky_status sky_sequence_await(sky_sequence *sequence, const uint32_t *tokens, size_t token_count,
                              sky_time patience_ns, uint32_t *stored_tokens) {
    sky_sequence *q = sequence;
    if (!q || !tokens || !stored_tokens || token_count == 0 || token_count > UINT32_MAX ||
        patience_ns <= 0 || patience_ns > SKY_AWAIT_NS_MAX || q->loading || q->saving || q->pushing)
        return SKY_E_PARAM;
    sky_time traced = sky_trace_now(), began = sky_now();
    q->awaited = (sky_awaited){0};
    wait w = {.q = q, .patience_ns = patience_ns, .out = &q->awaited};
    w.wanted = q->manager->refused ? 0 : sky__whole_blocks(q, token_count - 1);
    w.block_ns = engine_block_ns(q);
    sky_status status = w.wanted > 0 ? sky__sequence_keys(q, tokens, w.wanted) : SKY_OK;
    if (status == SKY_OK && w.wanted > 0)
        status = wait_all(&w);
    q->awaited.waited_ns = sky_now() - began;
    *stored_tokens = q->awaited.stored_tokens;
    sky_trace_call("manager", "await", w.wanted > 0 ? q->scratch.keys : NULL, 0, status, traced);
    return status;
}

sky_status sky_sequence_awaited(const sky_sequence *sequence, sky_awaited *out) {
    if (!sequence || !out)
        return SKY_E_PARAM;
    *out = sequence->awaited;
    return SKY_OK;
}
