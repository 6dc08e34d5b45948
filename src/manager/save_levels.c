/* A tier that keeps several levels and has a block at some of them only: a save that was cut short,
 * a tier that was used with fewer levels, a level that was evicted or lost.
 *
 *   level=8,4,2   block 0   1   2   3
 *             8         #   #   .   .     . lacks: one put for each level and run of blocks that
 *             4         #   .   #   .       lack the same, to this tier and this level alone
 *             2         #   .   .   .     block 3 is none of this: it lies elsewhere
 *
 * Surprise: rows that the engine restored may have come at a low level, and would be kept under the
 * name of a higher one. So blocks of the restored prefix are read again, at the best level there
 * is, and only what is lower is made of them; they would be gone from windows too. */
#include <stdlib.h>
#include <string.h>

#include "manager/blocks.h"

#define LOOK_LIMIT SKY_SECONDS(10)

typedef struct {
    uint8_t lacks; /* bit i: codings[i] is lacking and can be made; 0: nothing to do */
    uint8_t best;  /* number of the best level that is there; count: none */
} need;

/* A tier, and what it has. */
typedef struct {
    sky_sequence *q;
    uint32_t tiers; /* as sky_call's: it alone */
    sky_coding codings[SKY_CODINGS_MAX];
    uint32_t count;  /* of codings */
    need *needs;     /* [block_count] */
    uint8_t *copies; /* payloads of a run, read again; NULL until needed */
    sky_saved *saved;
} ladder;

/* Bits of the levels from number `i` on. */
static uint8_t from_level(const ladder *l, uint32_t i) {
    return (uint8_t)((1u << l->count) - (1u << i));
}

static bool is_restored(const ladder *l, uint32_t block) {
    return block * l->q->manager->block_tokens < l->q->restored_tokens;
}

/* What was said of level `i`, after those before it. What did not answer is not lacking. */
static void note_level(need *n, uint32_t i, sky_status status) {
    n->lacks |= (uint8_t)((status == SKY_MISS) << i);
    if (n->best == i && status != SKY_OK)
        n->best++;
}

/* Which blocks lack what, of that which can be made. */
static sky_status find_lacks(ladder *l, uint32_t block_count, const uint64_t *missing) {
    sky_item *items = l->q->scratch.items;
    sky_call call = {.tiers = l->tiers, .deadline_ns = sky_now() + LOOK_LIMIT};
    for (uint32_t i = 0; i < l->count; i++) {
        memset(items, 0, block_count * sizeof *items);
        for (uint32_t b = 0; b < block_count; b++) {
            items[b].key = l->q->scratch.keys[b];
            if (b > 0)
                items[b].parent = items[b - 1].key; /* a tier may make use of their order */
        }
        call.wanted = l->codings[i];
        sky_status status = sky__sequence_run(l->q, SKY_OP_HAS, items, block_count, &call);
        if (status != SKY_OK)
            return status;
        for (uint32_t b = 0; b < block_count; b++)
            note_level(&l->needs[b], i, items[b].status);
    }
    for (uint32_t b = 0; b < block_count; b++) {
        need *n = &l->needs[b];
        if (missing[b] || n->best == l->count)
            n->lacks = 0;
        else if (is_restored(l, b))
            n->lacks &= from_level(l, n->best);
    }
    return SKY_OK;
}

/* Read a run of blocks at a level into `copies`, as the scratch's items; returns how many leading
 * ones came, and leaves of what is lacking that which is no better than they are. */
static uint32_t read_again(ladder *l, uint32_t first, uint32_t count, uint32_t level,
                           uint8_t *lacks) {
    sky_sequence *q = l->q;
    sky_item *items = q->scratch.items;
    const sky_call call = {.tiers = l->tiers, .wanted = l->codings[level]};
    memset(items, 0, count * sizeof *items);
    for (uint32_t b = 0; b < count; b++) {
        q->scratch.spans[b] = (sky_span){l->copies + (size_t)b * q->manager->payload.payload_bytes,
                                         q->manager->payload.payload_bytes};
        items[b].key = q->scratch.keys[first + b];
        if (first + b > 0)
            items[b].parent = q->scratch.keys[first + b - 1];
        items[b].spans = &q->scratch.spans[b];
        items[b].span_count = 1;
    }
    if (sky__sequence_run(q, SKY_OP_GET, items, count, &call) != SKY_OK)
        return 0;
    uint32_t came = 0;
    for (; came < count && items[came].status == SKY_OK &&
           items[came].bytes == q->manager->payload.payload_bytes;
         came++)
        for (uint32_t i = 0; i < l->count; i++) /* a key may hold less than its level says */
            if (items[came].coding > l->codings[i])
                *lacks &= (uint8_t) ~(1u << i);
    return came;
}

/* Put a run, as the scratch's items, at a level. What the codec makes no smaller stays away. */
static sky_status put_level(ladder *l, uint32_t count, uint32_t level) {
    const sky_call call = {.tiers = l->tiers, .wanted = l->codings[level]};
    sky_status status = sky__save_put(l->q, count, &call);
    for (uint32_t b = 0; status == SKY_OK && b < count; b++)
        if (l->q->scratch.items[b].status != SKY_E_UNSUPPORTED)
            status = l->q->scratch.items[b].status;
    return status;
}

/* Blocks [first, first + count) lack the same, and are all restored or none is. */
static sky_status mend_run(ladder *l, uint32_t first, uint32_t count) {
    uint8_t lacks = l->needs[first].lacks;
    sky_status status = SKY_OK;
    if (is_restored(l, first))
        count = read_again(l, first, count, l->needs[first].best, &lacks);
    else
        status = sky__save_gather(l->q, first, count);
    for (uint32_t i = 0; status == SKY_OK && count > 0 && i < l->count; i++)
        if (lacks >> i & 1)
            status = put_level(l, count, i);
    if (status == SKY_OK && lacks) {
        l->saved->blocks += count;
        l->saved->bytes += (uint64_t)count * l->q->manager->payload.payload_bytes;
    }
    return status;
}

/* Blocks a and b lack the same, and are made of the same. */
static bool are_alike(const ladder *l, uint32_t a, uint32_t b) {
    return l->needs[a].lacks == l->needs[b].lacks && l->needs[a].best == l->needs[b].best &&
           is_restored(l, a) == is_restored(l, b);
}

static sky_status mend_blocks(ladder *l, uint32_t block_count) {
    const sky_sequence *q = l->q;
    uint32_t tokens_max = sky__save_tokens_max(q);
    uint32_t run_max = q->manager->block_tokens > tokens_max
                           ? 1
                           : tokens_max / q->manager->block_tokens;
    sky_status status = SKY_OK;
    for (uint32_t b = 0, run; status == SKY_OK && b < block_count; b += run) {
        for (run = 1; run < run_max && b + run < block_count && are_alike(l, b, b + run);)
            run++;
        if (l->needs[b].lacks == 0)
            continue;
        if (is_restored(l, b) && !l->copies)
            l->copies = malloc((size_t)run_max * q->manager->payload.payload_bytes);
        status = is_restored(l, b) && !l->copies ? SKY_E_NOMEM : mend_run(l, b, run);
    }
    return status;
}

sky_status sky__save_levels(sky_sequence *q, uint32_t block_count, uint32_t tiers,
                            const uint64_t *missing, sky_saved *saved) {
    sky_status status = SKY_OK;
    for (size_t t = 0; q->manager->coded.codec.self && t < sky_tier_count(q->manager->cache); t++) {
        sky_tier_stat stat = {0};
        ladder l = {.q = q, .tiers = 1u << t, .saved = saved};
        if (!(tiers >> t & 1) || sky_cache_stat(q->manager->cache, t, &stat) != SKY_OK)
            continue;
        memcpy(l.codings, stat.codings, sizeof l.codings);
        while (l.count < SKY_CODINGS_MAX && l.codings[l.count] != 0)
            l.count++;
        if (l.count < 2)
            continue;
        l.needs = calloc(block_count, sizeof *l.needs);
        sky_status own = l.needs ? find_lacks(&l, block_count, missing) : SKY_E_NOMEM;
        if (own == SKY_OK)
            own = mend_blocks(&l, block_count);
        free(l.needs);
        free(l.copies);
        status = status == SKY_OK ? own : status;
    }
    return status;
}
