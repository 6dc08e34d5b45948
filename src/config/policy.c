#include "config/policy.h"

/* A round of the sweep takes half a turn, and rests for an eighth after each: long enough for
 * everything that moves to have arrived. */
#define SWEEPS_PER_TURN 2
#define GRACES_PER_TURN 8
#define SWEEP_STILL_NS  SKY_SECONDS(60) /* where the sky does not turn */
#define PUT_NS_MAX      SKY_SECONDS(60) /* and is not swept meanwhile */

/* Copies are looked after twice a turn, and once in a minute where turns are long. */
#define MENDS_PER_TURN 2
#define MEND_NS_MAX    SKY_SECONDS(60)
#define MEND_GRACE_MAX SKY_SECONDS(10)
#define MEND_GAP_LEAST 1000 /* ns, where links have no limit */

static uint32_t ring_distance(uint32_t a, uint32_t b, uint32_t count) {
    uint32_t way = a > b ? a - b : b - a;
    return way <= count - way ? way : count - way;
}

/* From any satellite that may hold a chunk of a block to any other. */
static uint32_t hops_between(const sky_frame *f) {
    const sky_constellation *c = &f->constellation;
    const sky_placement *p = &f->placement;
    uint32_t most = c->planes / 2 + c->slots / 2;
    uint32_t hops = p->window_planes - 1 + p->window_slots - 1;
    if (!sky_strategy_row_of(p->strategy)->windowed) {
        hops = 0;
        for (uint32_t i = 0; i < p->servers; i++) {
            uint32_t out = ring_distance(f->servers[i].plane, f->centre.plane, c->planes) +
                           ring_distance(f->servers[i].slot, f->centre.slot, c->slots);
            hops = 2 * out > hops ? 2 * out : hops;
        }
    }
    hops = hops < most ? hops : most;
    return hops > 0 ? hops : 1;
}

/* A scenario made by hand may leave it out: then the client clears away, as it always can. So it
 * does in place of sweeps where no laser may lead away from a satellite for long: a chunk may stay
 * there that is at none of its places, and who looks for it would take its block for lost. */
static uint32_t eviction_of(const sky_scenario *s, const sky_frame *f) {
    uint32_t eviction = s->eviction ? s->eviction : SKY_EVICT_LAZY;
    bool swept = eviction & SKY_EVICT_SWEEP;
    return swept && !sky_frame_whole(f) ? (eviction & ~SKY_EVICT_SWEEP) | SKY_EVICT_LAZY : eviction;
}

/* Their share of a link is what a chunk's time on it is divided by. */
static void set_repair(const sky_scenario *s, const sky_frame *f, sky_node_config *out) {
    sky_time turn = f->turning.rotation_ns;
    sky_time period = s->satellite.repair_ns ? s->satellite.repair_ns : turn / MENDS_PER_TURN;
    period = period < MEND_NS_MAX || s->satellite.repair_ns ? period : MEND_NS_MAX;
    sky_time gap = out->migrate_gap_ns > MEND_GAP_LEAST ? out->migrate_gap_ns : MEND_GAP_LEAST;
    out->frame = f;
    out->mend_period_ns = s->satellite.repair_share > 0 ? period > 0 ? period : 1 : 0;
    out->mend_grace_ns = turn / GRACES_PER_TURN < MEND_GRACE_MAX ? turn / GRACES_PER_TURN
                                                                 : MEND_GRACE_MAX;
    out->mend_copy_gap_ns = s->satellite.repair_share > 0
                                ? (sky_time)((double)gap / s->satellite.repair_share)
                                : gap;
}

void sky_policy_node(const sky_scenario *s, const sky_frame *f, sky_node_config *out) {
    uint32_t eviction = eviction_of(s, f);
    sky_time turn = f->turning.rotation_ns;
    out->gossip_hops = eviction & SKY_EVICT_GOSSIP ? hops_between(f) : 0;
    out->tell_ground = eviction & SKY_EVICT_BROADCAST;
    out->sweep_period_ns = 0;
    out->sweep_grace_ns = 0;
    out->sweep_ripe_ns = 0;
    set_repair(s, f, out);
    if (!(eviction & SKY_EVICT_SWEEP))
        return;
    bool still = turn == SKY_TIME_NEVER || !sky_strategy_row_of(f->placement.strategy)->migrates;
    sky_time round = still && turn > SWEEPS_PER_TURN * SWEEP_STILL_NS ? SWEEP_STILL_NS
                                                                      : turn / SWEEPS_PER_TURN;
    out->sweep_period_ns = round > 0 ? round : 1;
    out->sweep_grace_ns = out->sweep_period_ns / (GRACES_PER_TURN / SWEEPS_PER_TURN);
    out->sweep_ripe_ns = PUT_NS_MAX + 2 * s->faults.skew_ns + out->sweep_grace_ns;
}

void sky_policy_session(const sky_scenario *s, const sky_frame *f, sky_session_config *out) {
    out->lookup = s->lookup;
    out->eviction = eviction_of(s, f);
    out->gossip_hops = out->eviction & SKY_EVICT_GOSSIP ? hops_between(f) : 0;
    out->put_ns_max = out->eviction & SKY_EVICT_SWEEP ? PUT_NS_MAX : 0;
    out->replicas = (uint8_t)(s->replicas ? s->replicas : 1);
    out->parity = (uint8_t)s->parity;
}
