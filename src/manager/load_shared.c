/* Getting blocks that other sequences may want at the same time.
 *
 *   in memory, or wanted in part ───────────────► one batch of gets ──► done
 *   in a far tier, nobody brings it: claimed ───┘        └─► released: it is in memory now
 *   in a far tier, another sequence brings it ──► wait ──► it came: get it from memory
 *                                                      └─► it did not: claim it
 *
 * The wait is for claims of sequences that are reading; who waits has released its own. Rows are
 * copied by the thread that wants them, out of memory, which takes no lock that all share. */
#include <stdlib.h>

#include "manager/blocks.h"

bool sky__load_shares(const sky_sequence *q, uint32_t block, uint32_t tiers) {
    const sky_item *item = &q->scratch.items[block];
    uint64_t tier = q->scratch.stored[block];
    return q->manager->near_keeps && tier > 0 && tier < SKY_TIERS_MAX &&
           (tiers == 0 || (tiers & 1)) && item->range.offset == 0 && item->range.bytes == 0;
}

void sky__load_release(sky_sequence *q, uint32_t block_count) {
    for (uint32_t b = 0; b < block_count; b++)
        sky__flights_release(&q->manager->flights, &q->scratch.claims[b], false);
}

/* A batch of those of the scratch's items that need not wait. */
typedef struct {
    sky_item *items;  /* [block_count] */
    uint32_t *blocks; /* [block_count] */
    uint32_t count;
    bool any_waits; /* others do */
} selection;

static void select_blocks(sky_sequence *q, uint32_t block_count, uint32_t tiers, selection *s) {
    s->count = 0;
    s->any_waits = false;
    for (uint32_t b = 0; b < block_count; b++) {
        sky_item *item = &q->scratch.items[b];
        sky__claim *claim = &q->scratch.claims[b];
        if (item->status != SKY_PENDING)
            continue;
        if (sky__load_shares(q, b, tiers) &&
            sky__flights_claim(&q->manager->flights, claim, &item->key, -1) == SKY__CLAIM_WAITING) {
            s->any_waits = true;
            continue;
        }
        s->items[s->count] = *item;
        s->blocks[s->count++] = b;
    }
}

static sky_status get_picked(sky_sequence *q, const selection *s, const sky_call *call) {
    sky_status status = sky__sequence_run(q, SKY_OP_GET, s->items, s->count, call);
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t b = s->blocks[i];
        if (status == SKY_OK)
            q->scratch.items[b] = s->items[i];
        sky__flights_release(&q->manager->flights, &q->scratch.claims[b],
                             status == SKY_OK && s->items[i].status == SKY_OK);
    }
    return status;
}

/* A call has a minute where its caller sets no deadline, and a slow link may need more for all of a
 * prompt: what did not come is asked for again as long as something did. */
static bool ask_for_the_rest(sky_sequence *q, const selection *s, const sky_call *call) {
    bool some = false, late = false;
    for (uint32_t i = 0; i < s->count; i++) {
        some |= s->items[i].status == SKY_OK;
        late |= s->items[i].status == SKY_E_DEADLINE;
    }
    bool again = some && late && call->deadline_ns == 0;
    for (uint32_t i = 0; again && i < s->count; i++)
        if (s->items[i].status == SKY_E_DEADLINE)
            q->scratch.items[s->blocks[i]].status = SKY_PENDING;
    return again;
}

sky_status sky__load_get(sky_sequence *q, uint32_t block_count, const sky_call *call) {
    selection s = {.items = malloc(block_count * sizeof *s.items),
                   .blocks = malloc(block_count * sizeof *s.blocks)};
    sky_status status = s.items && s.blocks ? SKY_OK : SKY_E_NOMEM;
    for (uint32_t b = 0; b < block_count; b++)
        q->scratch.items[b].status = SKY_PENDING;
    for (bool more = true; status == SKY_OK && more;) {
        select_blocks(q, block_count, call->tiers, &s);
        more = s.any_waits;
        if (s.count > 0)
            status = get_picked(q, &s, call);
        if (status == SKY_OK)
            more |= ask_for_the_rest(q, &s, call);
        if (status == SKY_OK && s.any_waits)
            sky__flights_wait(&q->manager->flights, q->scratch.claims, block_count, &q->cancelled);
        if (atomic_load(&q->cancelled))
            status = SKY_E_CANCELLED;
    }
    sky__load_release(q, block_count);
    free(s.items);
    free(s.blocks);
    return status;
}
