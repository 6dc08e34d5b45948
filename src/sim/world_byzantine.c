/* Satellites that lie. What they say is well formed. A liar that forges content with a checksum to
 * match is beyond this layer, whose checksums hold against accidents; sealed payloads are what
 * stops it. */
#include "sim/world_state.h"

/* Chunks and answers that name another time of setting, and so another place. */
static void tell_wrong_shift(const sky_world *w, sky_datagram *d) {
    sky_message m;
    if (sky_message_decode(d->data, d->bytes, &m) != SKY_OK || m.type != SKY_WIRE_MIGRATE)
        return;
    m.facts.set_ms += w->frame.turning.rotation_ns / SKY_MS(1) + 1;
    d->bytes = sky_message_encode(&m, d->data, d->bytes_max);
}

bool sky__byzantine_alter(sky_world *w, const sky__site *s, sky_datagram *d) {
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

void sky__byzantine_choose(sky_world *w) {
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
