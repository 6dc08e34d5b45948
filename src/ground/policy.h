/* What a sky may be told to do one way or another. */
#ifndef SKY_GROUND_POLICY_H
#define SKY_GROUND_POLICY_H

/* How a block that is not in the ground's index is looked for. */
typedef enum {
    SKY_LOOKUP_INDEX,      /* not at all: the ground's own block index says what there is */
    SKY_LOOKUP_BINARY,     /* ask the nearest satellite for heads, by halving */
    SKY_LOOKUP_SEQUENTIAL, /* the same, block after block from the last one back */
} sky_lookup_kind;

/* How the rest of a block goes when one chunk is gone: any of these, together. */
#define SKY_EVICT_GOSSIP    1u /* the satellite tells its neighbourhood */
#define SKY_EVICT_LAZY      2u /* the client that misses a chunk purges the others */
#define SKY_EVICT_SWEEP     4u /* satellites look for incomplete blocks now and then */
#define SKY_EVICT_BROADCAST 8u /* the satellite tells the ground, which purges */

#define SKY_PARITY_SERVERS_MAX 255u /* a stripe has a piece on each */

#endif
