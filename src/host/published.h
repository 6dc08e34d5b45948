/* What clients publish in memory of their own: regions, and blocks that lie in them.
 *
 *   region 7 (memfd of client 3)   | … buffer … | buffer | …       mapped for reading
 *        ▲
 *   block (key, shape, rows[])  ──► leases of clients that have it open
 *   buckets by key
 *
 * Nothing is copied when a block is published or opened. A block that its owner removes, or whose
 * owner is gone, is withdrawn: nobody opens it any more, and it goes with its last lease. Readers
 * have mapped the region themselves, so what they read stays. What an ordinary operation (lease,
 * prefetch, pin, await) asks for is copied into the arena first, and is an ordinary payload then.
 *
 * Surprise: to answer a client may end it, and so take away its blocks and leases. */
#ifndef SKY_HOST_PUBLISHED_H
#define SKY_HOST_PUBLISHED_H

#include "host/host.h"

#define SKY__HOST_REGIONS_MAX      4u         /* of a client */
#define SKY__HOST_BLOCKS_MAX       65536u     /* of a user */
#define SKY__HOST_BUFFERS_MAX      (4u << 20) /* of a user: 24 bytes each */
#define SKY__HOST_REGION_BYTES_MAX ((uint64_t)1 << 46)

/* REGISTER (`passed` stays the caller's), LAYOUT and BLOCK of a client. */
void sky__published_hear(sky__host *h, sky__client *c, const sky_shm_frame *f, int passed);
/* The client waits no longer for its opening of a block: what that was lent is returned. */
void sky__published_cancel(sky__client *c, uint32_t id);
/* A client ends: its regions, its blocks and what it was lent. */
void sky__published_leave(sky__host *h, sky__client *c);

/* Payload bytes of what is published under a key; 0: nothing is. */
uint64_t sky__published_bytes(const sky__tenant *t, const sky_key *key);
/* Copy what is published under a key into the arena, unless that has it, or an operation changes
 * the key. What its owner changed is withdrawn instead. */
void sky__published_take_in(sky__tenant *t, const sky_key *key);
/* Withdraw all that is published under a key; false: nothing was. */
bool sky__published_remove(sky__tenant *t, const sky_key *key);

#endif
