/* From one program to another while it is computed: the first announces a prompt's blocks and puts
 * each as soon as the engine has it; the second awaits them one after the other, and has those that
 * came brought to memory while it waits for the next. Both know the keys from the tokens. */
#include <skymem/manager.h>

#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "cache/cache_internal.h"
#include "io/trace.h"
#include "manager/blocks.h"

#define TELL_LIMIT   SKY_SECONDS(2) /* of announcing and withdrawing, which are a courtesy */
#define FETCHES_MAX  4u             /* blocks on their way to memory at once */
#define FETCH_WINDOW SKY_SECONDS(10)

struct sky__push {
    uint32_t count;    /* blocks of the prompt */
    uint32_t pushed;   /* of them, in order */
    sky_key *keys;     /* [count] */
    uint64_t *missing; /* [count]: no tier has it */
    sky_item *items;   /* [count] */
    sky_saved saved;
};

void sky__push_free(sky__push *p) {
    if (!p)
        return;
    free(p->keys);
    free(p->missing);
    free(p->items);
    free(p);
}

/* An owner of announcements. */
static uint64_t owner_of(const sky_sequence *q) {
    return (uint64_t)(uintptr_t)q;
}

/* Announce or withdraw what is missing and not pushed. A cancelled sequence withdraws too. */
static void tell(const sky_sequence *q, sky_op op) {
    const sky__push *p = q->pushing;
    uint32_t count = 0;
    for (uint32_t b = p->pushed; b < p->count; b++)
        if (p->missing[b])
            p->items[count++] = (sky_item){.key = p->keys[b]};
    const sky_call call = {.owner = owner_of(q), .deadline_ns = sky_now() + TELL_LIMIT};
    if (count > 0)
        (void)sky_run(q->manager->cache, op, p->items, count, &call);
}

static sky__push *make_push(uint32_t block_count) {
    sky__push *p = calloc(1, sizeof *p);
    size_t room = block_count > 0 ? block_count : 1;
    if (!p)
        return NULL;
    p->count = block_count;
    p->keys = calloc(room, sizeof *p->keys);
    p->missing = calloc(room, sizeof *p->missing);
    p->items = calloc(room, sizeof *p->items);
    if (p->keys && p->missing && p->items)
        return p;
    sky__push_free(p);
    return NULL;
}

static uint32_t whole_blocks(const sky_sequence *q, size_t token_count) {
    size_t whole = token_count / q->manager->block_tokens;
    return whole < SKY_BATCH_ITEMS_MAX ? (uint32_t)whole : SKY_BATCH_ITEMS_MAX;
}

sky_status sky_sequence_push_begin(sky_sequence *sequence, const uint32_t *tokens,
                                   size_t token_count) {
    sky_sequence *q = sequence;
    if (!q || !tokens || token_count > UINT32_MAX || q->pushing || q->loading || q->saving)
        return SKY_E_PARAM;
    if (q->manager->refused)
        return SKY_E_UNSUPPORTED;
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    uint32_t block_count = whole_blocks(q, token_count);
    sky__push *p = make_push(block_count);
    sky_status status = p ? SKY_OK : SKY_E_NOMEM;
    if (status == SKY_OK && block_count > 0)
        status = sky__sequence_keys(q, tokens, block_count);
    if (status == SKY_OK && block_count > 0)
        status = sky__save_missing(q, block_count, p->missing);
    if (status != SKY_OK) {
        sky__push_free(p);
        return status;
    }
    memcpy(p->keys, q->scratch.keys, block_count * sizeof *p->keys);
    q->pushing = p;
    tell(q, SKY_OP_ANNOUNCE);
    return SKY_OK;
}

sky_status sky_sequence_push(sky_sequence *sequence, size_t computed_tokens) {
    sky_sequence *q = sequence;
    sky__push *p = q ? q->pushing : NULL;
    if (!p)
        return SKY_E_PARAM;
    uint32_t end = whole_blocks(q, computed_tokens);
    end = end < p->count ? end : p->count;
    if (end <= p->pushed)
        return SKY_OK;
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    uint32_t before = p->saved.blocks;
    memcpy(q->scratch.keys, p->keys, p->count * sizeof *p->keys);
    sky_status status = sky__save_range(q, p->pushed, end, p->missing, &p->saved);
    sky_count(&sky__cache_counts(q->manager->cache)->saved_blocks, p->saved.blocks - before);
    if (status == SKY_OK)
        p->pushed = end;
    return status;
}

sky_status sky_sequence_push_end(sky_sequence *sequence, uint32_t *saved_blocks,
                                 uint64_t *saved_bytes) {
    sky_sequence *q = sequence;
    sky__push *p = q ? q->pushing : NULL;
    if (!p)
        return SKY_E_PARAM;
    tell(q, SKY_OP_WITHDRAW);
    if (saved_blocks)
        *saved_blocks = p->saved.blocks;
    if (saved_bytes)
        *saved_bytes = p->saved.bytes;
    sky__push_free(p);
    q->pushing = NULL;
    return atomic_load(&q->cancelled) ? SKY_E_CANCELLED : SKY_OK;
}

/* ---- the other side ---- */

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

/* Wait for one block. Errors: as sky_sequence_await */
static sky_status await_block(sky_sequence *q, uint32_t block, sky_time patience_ns,
                              uint8_t *tier) {
    sky_item *item = &q->scratch.items[block];
    *item = (sky_item){.key = q->scratch.keys[block]};
    const sky_call call = {.deadline_ns = sky_now() + patience_ns};
    sky_status status = sky__sequence_run(q, SKY_OP_AWAIT, item, 1, &call);
    *tier = item->tier;
    if (status != SKY_OK)
        return status;
    return item->status == SKY_OK || item->status == SKY_E_DEADLINE ? item->status : SKY_MISS;
}

sky_status sky_sequence_await(sky_sequence *sequence, const uint32_t *tokens, size_t token_count,
                              sky_time patience_ns, uint32_t *stored_tokens) {
    sky_sequence *q = sequence;
    fetches f = {.next = 0};
    if (!q || !tokens || !stored_tokens || token_count == 0 || token_count > UINT32_MAX ||
        patience_ns <= 0 || patience_ns > SKY_AWAIT_NS_MAX || q->loading || q->saving || q->pushing)
        return SKY_E_PARAM;
    *stored_tokens = 0;
    sky_time traced = sky_trace_now();
    uint32_t wanted = q->manager->refused ? 0 : whole_blocks(q, token_count - 1);
    sky_status status = wanted > 0 ? sky__sequence_keys(q, tokens, wanted) : SKY_OK;
    for (uint32_t b = 0; b < wanted && status == SKY_OK; b++) {
        uint8_t tier;
        status = await_block(q, b, patience_ns, &tier);
        if (status == SKY_OK)
            *stored_tokens = (b + 1) * q->manager->block_tokens;
        if (status == SKY_OK && tier > 0 && q->manager->near_keeps)
            fetch_begin(q, &f, b);
    }
    for (uint32_t slot = 0; slot < FETCHES_MAX; slot++)
        fetch_end(q, &f, slot);
    sky_trace_call("manager", "await", wanted > 0 ? q->scratch.keys : NULL, 0, status, traced);
    return status;
}
