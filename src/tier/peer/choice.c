#include "tier/peer/choice.h"

#include <string.h>

#include "base/hash.h"

uint64_t sky_peer_id(const char *name) {
    return sky_checksum(name, strlen(name), 0);
}

uint32_t sky_peer_owner(const uint64_t *ids, uint32_t among, const sky_key *key) {
    uint32_t owner = SKY_PEER_NOBODY;
    uint64_t highest = 0;
    for (uint32_t n = 0; n < SKY_PEER_HOSTS_MAX; n++) {
        if (!(among >> n & 1))
            continue;
        uint64_t drawn = sky_checksum(key->bytes, sizeof key->bytes, ids[n]);
        if (owner == SKY_PEER_NOBODY || drawn > highest) {
            owner = n;
            highest = drawn;
        }
    }
    return owner;
}

uint32_t sky_peer_nearest(const uint64_t *round_trips_ns, uint32_t among) {
    uint32_t nearest = SKY_PEER_NOBODY;
    for (uint32_t n = 0; n < SKY_PEER_HOSTS_MAX; n++)
        if (among >> n & 1 &&
            (nearest == SKY_PEER_NOBODY || round_trips_ns[n] < round_trips_ns[nearest]))
            nearest = n;
    return nearest;
}

/* As TCP smooths it (RFC 6298): an eighth of what is new. */
uint64_t sky_peer_round_trip(uint64_t before_ns, uint64_t measured_ns) {
    return before_ns == 0 ? measured_ns : before_ns - before_ns / 8 + measured_ns / 8;
}
