/* What goes wrong in a sky. By chance, each by its own rate and all from one generator: crashes,
 * partitions, clocks that stand still, an adversary's datagrams. At set times, by the scenario's
 * outages: a satellite that loses its memory and is silent, a laser that is down, a ground station
 * that neither sends nor hears.
 *
 * The adversary hears what is on the links and can send anything from anywhere, but has no key: it
 * sends noise, what it heard with bits turned, and what it heard as it was. */
#include <string.h>

#include "base/clock.h"

#include "sim/world_state.h"

#define PARTITION_NS SKY_SECONDS(10)
#define FREEZE_NS    SKY_SECONDS(20)
#define NOISE_BYTES  256

/* ---- crash, partition, freeze ---- */

void sky_world_crash(sky_world *w, sky_satellite satellite) {
    w->stat.crashes++;
    sky__tell(w, SKY_EVENT_CRASHED, NULL, satellite);
    sky__put_out(w, sky_frame_number(&w->frame, satellite));
    sky__station_restart(w, sky_frame_number(&w->frame, satellite));
}

void sky_world_partition(sky_world *w, sky_satellite satellite, sky_time until) {
    w->stat.partitions++;
    sky__site *s = sky__site_of(w, satellite);
    sky__tell_until(w, SKY_EVENT_PARTITIONED, satellite, SKY_GROUND, until);
    s->cut_until = until;
}

void sky_world_freeze(sky_world *w, sky_satellite satellite, sky_time until) {
    sky__site *s = sky__site_of(w, satellite);
    w->stat.freezes++;
    sky__tell_until(w, SKY_EVENT_FROZEN, satellite, SKY_GROUND, until);
    s->frozen_at = sky__clock(w, s);
    s->frozen_until = until;
}

/* ---- an adversary ---- */

static sky_satellite any_satellite(sky_world *w) {
    uint64_t number = sky_prng_below(&w->prng, w->frame.satellite_count);
    return sky_frame_satellite(&w->frame, (uint32_t)number);
}

static void send_noise(sky_world *w) {
    uint8_t noise[NOISE_BYTES];
    sky_datagram d = {.from = any_satellite(w), .to = any_satellite(w), .data = noise};
    if (sky_prng_below(&w->prng, 2) == 0)
        d.to = SKY_GROUND;
    d.bytes = sky_prng_below(&w->prng, sizeof noise + 1);
    for (size_t i = 0; i < d.bytes; i++)
        noise[i] = (uint8_t)sky_prng_u64(&w->prng);
    sky__intrude(w, &d);
}

/* What was heard, whole or with up to four bits turned or its end cut off, to where it went or to
 * another. */
static void send_again(sky_world *w, const sky__overheard *heard) {
    uint8_t copy[SKY_WIRE_BYTES_MAX];
    sky_datagram d = {.from = heard->from, .to = heard->to, .data = copy, .bytes = heard->bytes};
    memcpy(copy, heard->data, heard->bytes);
    uint64_t turned = sky_prng_below(&w->prng, 5);
    for (uint64_t i = 0; i < turned; i++) {
        uint64_t bit = sky_prng_below(&w->prng, (uint64_t)heard->bytes * 8);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (turned == 4)
        d.bytes = sky_prng_below(&w->prng, heard->bytes);
    if (turned > 0 && sky_prng_below(&w->prng, 4) == 0)
        d.to = any_satellite(w);
    sky__intrude(w, &d);
}

static void send_intrusion(sky_world *w) {
    const sky__overheard *heard = &w->overheard[sky_prng_below(&w->prng, SKY__OVERHEARD)];
    w->stat.hostile++;
    if (heard->data && heard->bytes > 0 && sky_prng_below(&w->prng, 3) > 0)
        send_again(w, heard);
    else
        send_noise(w);
}

/* ---- clocks that differ ---- */

static void skew_clocks(sky_world *w) {
    sky_time most = w->scenario.faults.skew_ns;
    for (uint32_t i = 0; most > 0 && i < w->frame.satellite_count; i++)
        w->sites[i].skew_ns = (sky_time)sky_prng_below(&w->prng, (uint64_t)(2 * most + 1)) - most;
}

/* ---- outages at set times ---- */

static void begin_outage(sky_world *w, const sky_outage *o) {
    w->stat.partitions++;
    if (o->kind == SKY_OUTAGE_SATELLITE) {
        sky__site *s = sky__site_of(w, o->a);
        sky_world_crash(w, o->a);
        s->out_until = sky__later(s->out_until, o->to_ns);
        sky__tell_until(w, SKY_EVENT_PARTITIONED, o->a, SKY_GROUND, o->to_ns);
    } else if (o->kind == SKY_OUTAGE_STATION) {
        const sky_satellite address = {0, o->ground > 0 ? o->ground + 1 : 0};
        sky__ground *g = &w->grounds[o->ground];
        g->out_until = sky__later(g->out_until, o->to_ns);
        sky__tell_until(w, SKY_EVENT_PARTITIONED, address, SKY_GROUND, o->to_ns);
    } else {
        sky__tell_until(w, SKY_EVENT_LINK_DOWN, o->a, o->b, o->to_ns);
    }
}

static void outages_fall(sky_world *w) {
    sky_scenario *s = &w->scenario;
    while (w->outage_next < s->outage_count && s->outages[w->outage_next].from_ns <= w->now)
        begin_outage(w, &s->outages[w->outage_next++]);
    if (w->outage_next < s->outage_count)
        sky_schedule_set(&w->schedule, sky__strike_id(w, SKY__STRIKE_OUTAGE),
                         s->outages[w->outage_next].from_ns);
}

/* Earlier ones first; of one time in the order of the file. */
static void sort_outages(sky_outage *outages, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        sky_outage moved = outages[i];
        uint32_t k = i;
        for (; k > 0 && outages[k - 1].from_ns > moved.from_ns; k--)
            outages[k] = outages[k - 1];
        outages[k] = moved;
    }
}

/* ---- by chance ---- */

static double strikes_per_h(const sky_world *w, sky__strike kind) {
    const sky_scenario *c = &w->scenario;
    switch (kind) {
    case SKY__STRIKE_CRASH:
        return c->faults.crash_per_h;
    case SKY__STRIKE_PARTITION:
        return c->faults.partition_per_h;
    case SKY__STRIKE_FREEZE:
        return c->faults.freeze_per_h;
    default:
        return c->faults.hostile_per_s * 3600;
    }
}

/* The time between two faults is uniform around its mean: no libm, the same on every machine. */
static void strike_later(sky_world *w, sky__strike kind) {
    double per_h = strikes_per_h(w, kind);
    if (per_h <= 0)
        return;
    uint64_t span = (uint64_t)(2 * 3600e9 / per_h);
    sky_time in = 1 + (sky_time)sky_prng_below(&w->prng, span);
    sky_schedule_set(&w->schedule, sky__strike_id(w, kind), w->now + in);
}

void sky__strike_falls(sky_world *w, sky__strike kind) {
    const sky_scenario *c = &w->scenario;
    if (kind == SKY__STRIKE_OUTAGE) {
        outages_fall(w);
        return;
    }
    sky_satellite s = kind == SKY__STRIKE_HOSTILE ? SKY_GROUND : any_satellite(w);
    if (kind == SKY__STRIKE_HOSTILE)
        send_intrusion(w);
    else if (kind == SKY__STRIKE_PARTITION)
        sky_world_partition(w, s, w->now + PARTITION_NS);
    else if (kind == SKY__STRIKE_FREEZE)
        sky_world_freeze(w, s, w->now + FREEZE_NS);
    else
        sky_world_crash(w, s);
    if (kind == SKY__STRIKE_CRASH && c->faults.restart_ns > 0) /* silent until it is up again */
        sky_world_partition(w, s, w->now + c->faults.restart_ns);
    strike_later(w, kind);
}

void sky__faults_init(sky_world *w) {
    sky__byzantine_choose(w);
    skew_clocks(w);
    for (int kind = 0; kind < SKY__STRIKE_OUTAGE; kind++)
        strike_later(w, (sky__strike)kind);
    sky_scenario *s = &w->scenario;
    sort_outages(s->outages, s->outage_count);
    if (s->outage_count > 0)
        sky_schedule_set(&w->schedule, sky__strike_id(w, SKY__STRIKE_OUTAGE),
                         s->outages[0].from_ns);
}
