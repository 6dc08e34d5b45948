/* A prompt that goes to another program while it is computed: its blocks are announced, and each is
 * put as soon as the engine has it. The other side is await.c. Both know the keys from the tokens.
 *
 * What is still to come is announced again with every push: so it outlasts the time that an
 * announcement holds, and a host that was started again meanwhile knows of it. If the rows of a
 * restored block are gone, the prompt ends before it: the rest is withdrawn. */
#include <skymem/manager.h>

#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "cache/cache_internal.h"
#include "manager/blocks.h"

#define TELL_LIMIT SKY_SECONDS(2) /* of announcing and withdrawing, which are a courtesy */

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
static void tell_missing(const sky_sequence *q, sky_op op) {
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

uint32_t sky__whole_blocks(const sky_sequence *q, size_t token_count) {
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
    uint32_t block_count = sky__whole_blocks(q, token_count);
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
    tell_missing(q, SKY_OP_ANNOUNCE);
    return SKY_OK;
}

sky_status sky_sequence_push(sky_sequence *sequence, size_t computed_tokens) {
    sky_sequence *q = sequence;
    sky__push *p = q ? q->pushing : NULL;
    if (!p)
        return SKY_E_PARAM;
    uint32_t whole = sky__whole_blocks(q, computed_tokens);
    uint32_t wanted = whole < p->count ? whole : p->count, end = wanted;
    if (end <= p->pushed)
        return SKY_OK;
    if (atomic_load(&q->cancelled))
        return SKY_E_CANCELLED;
    uint32_t before = p->saved.blocks;
    memcpy(q->scratch.keys, p->keys, p->count * sizeof *p->keys);
    sky_status status = sky__save_range(q, p->pushed, &end, p->missing, &p->saved);
    sky_count(&sky__cache_counts(q->manager->cache)->saved_blocks, p->saved.blocks - before);
    if (status != SKY_OK)
        return status;
    p->pushed = end;
    tell_missing(q, end < wanted ? SKY_OP_WITHDRAW : SKY_OP_ANNOUNCE);
    if (end < wanted)
        p->count = end; /* without that block nothing after it can be found */
    return SKY_OK;
}

sky_status sky_sequence_push_end(sky_sequence *sequence, uint32_t *saved_blocks,
                                 uint64_t *saved_bytes) {
    sky_sequence *q = sequence;
    sky__push *p = q ? q->pushing : NULL;
    if (!p)
        return SKY_E_PARAM;
    tell_missing(q, SKY_OP_WITHDRAW);
    if (saved_blocks)
        *saved_blocks = p->saved.blocks;
    if (saved_bytes)
        *saved_bytes = p->saved.bytes;
    sky__push_free(p);
    q->pushing = NULL;
    return atomic_load(&q->cancelled) ? SKY_E_CANCELLED : SKY_OK;
}
