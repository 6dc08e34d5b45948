/* Satellites that come to be with their first message, and go when they hold nothing or crash. */
#include <stdlib.h>

#include "sim/world_state.h"

void sky__node_stat_add(sky_node_stat *sum, const sky_node_stat *s) {
    sum->sets += s->sets;
    sum->gets += s->gets;
    sum->misses += s->misses;
    sum->evictions += s->evictions;
    sum->refused += s->refused;
    sum->migrated += s->migrated;
    sum->migrated_bytes += s->migrated_bytes;
    sum->migrate_retries += s->migrate_retries;
    sum->malformed += s->malformed;
    sum->corrupt += s->corrupt;
    sum->overflow += s->overflow;
    sum->purged += s->purged;
    sum->swept += s->swept;
    sum->gossip += s->gossip;
    sum->gossip_bytes += s->gossip_bytes;
    sum->gossip_refused += s->gossip_refused;
    sum->sweeps += s->sweeps;
    sum->moved += s->moved;
}

/* Gossip wakes many that hold nothing. They take spare memory that is not cleared again. */
bool sky__light_up(sky_world *w, uint32_t number) {
    sky__site *s = &w->sites[number];
    sky_satellite self = sky_frame_satellite(&w->frame, number);
    sky_time clock = sky__clock(w, s);
    if (w->spare_count > 0) {
        s->memory = w->spares[--w->spare_count];
        sky_node_init_again(&s->node, &w->node_config, self, clock, s->memory, w->node_bytes);
    } else {
        s->memory = malloc(w->node_bytes);
        if (!s->memory)
            return false;
        sky_node_init(&s->node, &w->node_config, self, clock, s->memory, w->node_bytes);
    }
    s->alive_at = w->alive_count;
    w->alive[w->alive_count++] = number;
    return true;
}

void sky__put_out(sky_world *w, uint32_t number) {
    sky__site *s = &w->sites[number];
    if (!s->memory)
        return;
    sky__node_stat_add(&w->stat.nodes, &s->node.stat);
    if (sky_node_idle(&s->node) && w->spare_count < SKY__SPARES_MAX)
        w->spares[w->spare_count++] = s->memory;
    else
        free(s->memory);
    s->memory = NULL;
    uint32_t last = w->alive[--w->alive_count];
    w->alive[s->alive_at] = last;
    w->sites[last].alive_at = s->alive_at;
    sky_schedule_set(&w->schedule, number, sky__when(w, s, sky__station_wake_at(w, number)));
}

/* It may soon be spoken to again, by gossip or a lookup: only the one idle for longest goes, with
 * what it knows of gossip. */
void sky__keep_idle(sky_world *w, uint32_t number) {
    uint32_t *at = &w->idle[w->idle_next];
    sky__site *oldest = &w->sites[*at];
    if (oldest->in_idle && oldest->memory && sky_node_idle(&oldest->node))
        sky__put_out(w, *at);
    oldest->in_idle = false;
    *at = number;
    w->sites[number].in_idle = true;
    w->idle_next = (w->idle_next + 1) % SKY__IDLE_KEPT;
}
