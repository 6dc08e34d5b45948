/* What a satellite tells of itself, and what hosts and checkers see without asking it. */
#include "satellite/node_state.h"

uint32_t sky_node_chunks(const sky_node *n) {
    return n->chunk_count;
}

void sky__node_tell(const sky_node *n, uint64_t out[SKY_STAT_COUNT]) {
    const sky_node_stat *t = &n->stat;
    out[SKY_STAT_CHUNKS] = sky_node_chunks(n);
    out[SKY_STAT_SLOTS] = n->slot_count;
    out[SKY_STAT_SETS] = t->sets;
    out[SKY_STAT_GETS] = t->gets;
    out[SKY_STAT_MISSES] = t->misses;
    out[SKY_STAT_EVICTIONS] = t->evictions;
    out[SKY_STAT_REFUSED] = t->refused;
    out[SKY_STAT_MIGRATED] = t->migrated;
    out[SKY_STAT_PURGED] = t->purged;
    out[SKY_STAT_SWEPT] = t->swept;
    out[SKY_STAT_GOSSIP] = t->gossip;
    out[SKY_STAT_MALFORMED] = t->malformed;
    out[SKY_STAT_CORRUPT] = t->corrupt;
    out[SKY_STAT_OVERFLOW] = t->overflow;
    out[SKY_STAT_FOREIGN] = t->foreign;
    out[SKY_STAT_STALE] = t->stale;
    out[SKY_STAT_REPLAYED] = t->replayed;
    out[SKY_STAT_FORGED] = t->forged;
    out[SKY_STAT_MENDED] = t->mended;
    out[SKY_STAT_MENDING] = n->doubted.count;
}

static sky_node_chunk look_at_slot(const sky_node *n, const struct sky_node_slot *s) {
    return (sky_node_chunk){s->id, s->facts, sky__node_data(n, s), s->data_bytes};
}

bool sky_node_find(const sky_node *n, const sky_chunk_id *id, sky_node_chunk *out) {
    const struct sky_node_slot *s = sky__node_find(n, id);
    if (!s)
        return false;
    *out = look_at_slot(n, s);
    return true;
}

void sky_node_each(const sky_node *n, void (*each)(void *, const sky_node_chunk *), void *context) {
    for (uint32_t i = 0; i < n->slot_fresh; i++) {
        sky_node_chunk chunk = look_at_slot(n, &n->slots[i]);
        if (n->slots[i].used)
            each(context, &chunk);
    }
}
