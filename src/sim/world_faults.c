/* What goes wrong in a sky by chance, each by its own rate and all from one generator: crashes,
 * partitions, clocks that stand still, an enemy's datagrams, satellites that lie.
 *
 * The enemy hears what is on the links and can send anything from anywhere, but has no key: he
 * sends noise, what he heard with bits turned, and what he heard as it was. The liars are
 * satellites: what they say is well formed. A liar that forges content with a checksum to match is
 * beyond this layer, whose checksums hold against accidents; sealed payloads are what stops it. */
#include <stdlib.h>
#include <string.h>

#include "sim/world_state.h"

#define PARTITION_NS SKY_SECONDS(10)
#define FREEZE_NS    SKY_SECONDS(20)
#define NOISE_BYTES  256

/* ---- clocks ---- */

sky_time sky__clock(const sky_world *w, const sky__site *s) {
    return w->now < s->frozen_until ? s->frozen_at : w->now + s->skew_ns;
}

sky_time sky__when(const sky_world *w, const sky__site *s, sky_time at) {
    if (at == SKY_TIME_NEVER)
        return at;
    if (w->now < s->frozen_until && at > s->frozen_at && at - s->skew_ns < s->frozen_until)
        return s->frozen_until;
    return at - s->skew_ns;
}

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

/* ---- an enemy ---- */

void sky__overhear(sky_world *w, const sky__flight *x) {
    sky__overheard *o = &w->overheard[w->overheard_next];
    if (!o->data)
        o->data = malloc(SKY_WIRE_BYTES_MAX);
    if (!o->data)
        return;
    o->from = x->from;
    o->to = x->to;
    o->bytes = x->bytes;
    memcpy(o->data, x->data, x->bytes);
    w->overheard_next = (w->overheard_next + 1) % SKY__OVERHEARD;
}

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

/* ---- liars ---- */

/* Chunks and answers that name another time of setting, and so another place. */
static void tell_wrong_shift(const sky_world *w, sky_datagram *d) {
    sky_message m;
    if (sky_message_decode(d->data, d->bytes, &m) != SKY_OK || m.type != SKY_WIRE_MIGRATE)
        return;
    m.facts.set_ms += w->frame.turning.rotation_ns / SKY_MS(1) + 1;
    d->bytes = sky_message_encode(&m, d->data, d->bytes_max);
}

bool sky__lie(sky_world *w, const sky__site *s, sky_datagram *d) {
    switch (s->liar) {
    case SKY_LIAR_WRONG_BYTES:
        if (d->bytes > SKY__SMALL_BYTES)
            d->data[d->bytes - 1] ^= 1;
        return true;
    case SKY_LIAR_WRONG_SHIFT:
        tell_wrong_shift(w, d);
        return true;
    case SKY_LIAR_BLACK_HOLE:
        return false;
    default:
        return true;
    }
}

static void choose_liars(sky_world *w) {
    uint32_t liars = w->scenario.faults.liar_satellites;
    sky_liar kind = w->scenario.faults.liar;
    for (uint32_t i = 0; i < liars && i < w->frame.satellite_count;) {
        uint32_t number = (uint32_t)sky_prng_below(&w->prng, w->frame.satellite_count);
        sky__site *s = &w->sites[number];
        if (s->liar != SKY_LIAR_NOT)
            continue;
        s->liar = kind == SKY_LIAR_MIXED ? (sky_liar)(SKY_LIAR_WRONG_BYTES + i % 3)
                  : kind == SKY_LIAR_NOT ? SKY_LIAR_WRONG_BYTES
                                         : kind;
        i++;
    }
}

static void skew_clocks(sky_world *w) {
    sky_time most = w->scenario.faults.skew_ns;
    for (uint32_t i = 0; most > 0 && i < w->frame.satellite_count; i++)
        w->sites[i].skew_ns = (sky_time)sky_prng_below(&w->prng, (uint64_t)(2 * most + 1)) - most;
}

/* ---- when ---- */

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
        sky__outages_fall(w);
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
    choose_liars(w);
    skew_clocks(w);
    for (int kind = 0; kind < SKY__STRIKE_OUTAGE; kind++)
        strike_later(w, (sky__strike)kind);
}

void sky__faults_deinit(sky_world *w) {
    for (uint32_t i = 0; i < SKY__OVERHEARD; i++)
        free(w->overheard[i].data);
}
