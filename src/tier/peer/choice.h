/* Which of several hosts. Pure, so that every client that has the same file chooses alike.
 *
 * Hosts are numbered by their place in the file; a set of them is a word of bits. A key goes where
 * rendezvous hashing says: each host draws a number with it, and the highest has it. A host more or
 * less then moves only its own share of the keys. */
#ifndef SKY_TIER_PEER_CHOICE_H
#define SKY_TIER_PEER_CHOICE_H

#include <skymem/types.h>

#define SKY_PEER_HOSTS_MAX 32u
#define SKY_PEER_NOBODY    UINT32_MAX

/* What a host draws with: a hash of its name, which is HOST:PORT as its file says it. */
uint64_t sky_peer_id(const char *name);

/* Of the hosts in `among`, which has the key, or SKY_PEER_NOBODY. ids: of all hosts. */
uint32_t sky_peer_owner(const uint64_t *ids, uint32_t among, const sky_key *key);

/* Of the hosts in `among`, which answers soonest, the first of equals, or SKY_PEER_NOBODY. */
uint32_t sky_peer_nearest(const uint64_t *round_trips_ns, uint32_t among);

/* A round trip was measured: what is to be thought of the next. 0: nothing was known. */
uint64_t sky_peer_round_trip(uint64_t before_ns, uint64_t measured_ns);

#endif
