#include "lab/sim/check_sky.h"

#include "lab/sim/check_rounds.h"

#define SUMS_EVERY                                                                                 \
    8 /* samples compare all checksums; bytes in memory do not change by themselves */

void sky_check_sky_init(sky_check_sky *c, const sky_scenario *s) {
    uint64_t chunks = (s->workload.value_bytes + s->chunk_bytes - 1) / s->chunk_bytes;
    *c = (sky_check_sky){
        .copies_kept = true,
        .memory_bounded = true,
        .queues_bounded = true,
        .agrees = true,
        .redundancy = true,
        .copies = s->replicas ? s->replicas : 1,
        .repair_ns = sky_check_repair_ns(s),
        .parity = true,
        .mend_ns = sky_check_mend_ns(s),
        .column_rows = s->placement.window_planes,
        .block_chunks = chunks * (s->parity + (s->replicas ? s->replicas : 1)),
        .block_numbers = (uint32_t)(chunks * (1 + s->parity)),
        .row_chunks = (uint32_t)((chunks + s->placement.servers - 1) / s->placement.servers)};
}

static void look_at_bounds(sky_check_sky *c, const sky_world *w, const sky_world_stat *stat) {
    for (uint32_t i = 0; i < sky_world_alive(w); i++) {
        const sky_node *node = sky_world_alive_node(w, i);
        c->memory_bounded &= sky_node_chunks(node) <= sky_node_slots(node->config);
        c->queues_bounded &= node->job_count <= node->config->queue_max;
    }
    c->queues_bounded &= stat->in_flight <= stat->in_flight_max;
}

/* A message that did not arrive may have been the DROP of a row, or the word of an eviction; one
 * that was held back, the SET of a put that was given up, behind its DROP. A DROP that meets a
 * chunk on its way from one satellite to the next finds it at neither: at each turn a column of the
 * window is on its way. Of a value whose head went with a crash all chunks stay behind, until
 * others take their room. */
static void look_at_agreement(sky_check_sky *c, const sky_world_stat *stat,
                              const sky_world_check *found, const sky_check_sky_waiver *waiver) {
    uint64_t unheard = stat->lost + stat->held_back + stat->overflowed + stat->corrupted +
                       stat->cut + stat->hostile + stat->transport.undeliverable +
                       stat->transport.incomplete_dropped + stat->transport.given_up;
    uint64_t rows = unheard + stat->nodes.evictions + waiver->crashed_chunks +
                    stat->turns * c->column_rows;
    if (found->corrupt > stat->nodes.evictions + waiver->crashed_chunks)
        c->agrees = false;
    uint64_t left = rows * c->row_chunks + waiver->crashed_heads * c->block_chunks;
    if (waiver->settled && found->orphans > left)
        c->agrees = false;
}

static int64_t ms_before(const sky_world *w, sky_time ns) {
    return sky_turning_ms(&sky_world_frame(w)->turning, sky_world_now(w) - ns);
}

sky_status sky_check_sky_sample(sky_check_sky *c, const sky_world *w,
                                const sky_check_sky_waiver *waiver) {
    sky_world_stat stat;
    sky_world_check found;
    sky_world_stats(w, &stat);
    look_at_bounds(c, w, &stat);
    bool sums = c->samples++ % SUMS_EVERY == 0 || waiver->settled;
    sky_status status = sums ? sky_world_verify(w, c->repair_ns, c->mend_ns, &found)
                             : sky_world_count(w, c->repair_ns, c->mend_ns, &found);
    if (status != SKY_OK)
        return status;
    bool intact = waiver->crashed_chunks == 0 && stat.nodes.evictions == 0 && !waiver->chaos;
    if (intact && (found.corrupt > 0 || found.copies_min == 0))
        c->copies_kept = false;
    bool quiet = stat.nodes.evictions == 0 && !waiver->chaos;
    if (quiet && waiver->quiet_ns > c->repair_ns && found.thin_set_ms < ms_before(w, c->repair_ns))
        c->redundancy = false;
    if (quiet && waiver->quiet_ns > c->mend_ns && found.broken_set_ms < ms_before(w, c->mend_ns))
        c->parity = false;
    if (!waiver->chaos)
        look_at_agreement(c, &stat, &found, waiver);
    return SKY_OK;
}

/* `from` plus `steps` on a ring of places 1 … count. */
static uint32_t on_ring(uint32_t from, int64_t steps, uint32_t count) {
    int64_t place = ((int64_t)from - 1 + steps) % (int64_t)count;
    return (uint32_t)(place < 0 ? place + (int64_t)count : place) + 1;
}

/* Who stood overhead at a turn; aboard the host does for ever. */
static sky_satellite check_sky_overhead(const sky_world *w, const sky_scenario *s, uint64_t turns) {
    if (s->placement.strategy == SKY_PLACE_HOP)
        return s->centre;
    if (s->physical)
        return sky_frame_centre(sky_world_frame(w), turns);
    int64_t steps = (int64_t)(turns % s->constellation.slots);
    return (sky_satellite){s->centre.plane,
                           on_ring(s->centre.slot, -steps, s->constellation.slots)};
}

bool sky_check_placed(const sky_world *w, uint32_t ground, const sky_scenario *s,
                      const sky_key *key) {
    const sky_session *session = sky_world_session_at(w, ground);
    const sky_placement *p = &s->placement;
    uint32_t block = sky_index_find(sky_session_index(session), key), bytes;
    if (block == SKY_BLOCK_NONE || p->strategy == SKY_PLACE_PREDICTIVE)
        return true;
    sky_chunk_id id;
    sky_chunk_facts facts;
    sky_session_chunk(session, block, 1, &id, &facts, &bytes);
    uint64_t turns = sky_turns_at_ms(&sky_world_frame(w)->turning, facts.set_ms);
    sky_satellite first = check_sky_overhead(w, s, turns);
    if (!sky_satellite_equal(facts.centre, first))
        return false;
    if (p->strategy == SKY_PLACE_ROTATION) { /* row by row from the north-west corner */
        if (s->physical)
            return true;
        first.plane = on_ring(first.plane, -(int64_t)(p->window_planes / 2),
                              s->constellation.planes);
        first.slot = on_ring(first.slot, -(int64_t)(p->window_slots / 2), s->constellation.slots);
    }
    return sky_satellite_equal(facts.first, first);
}
