/* The tables of what the clients of a tenant published: regions, and blocks by key. See published.h
 * for the picture. They know no client. */
#ifndef SKY_HOST_PUBLISHED_TABLE_H
#define SKY_HOST_PUBLISHED_TABLE_H

#include "base/hash.h"
#include "host/host.h"
#include "tier/leases.h"

#define SKY__PUBLISHED_BUCKETS 16384u

typedef struct sky__region {
    struct sky__region *next;
    uint32_t number;
    uint64_t owner; /* the client's number */
    int fd;         /* -1: the owner is gone */
    uint8_t *at;
    uint64_t bytes;
    uint32_t users; /* its blocks, and its owner */
    sky__block *blocks;
    uint64_t shown[SKY_HOST_CLIENTS_MAX / 64]; /* the places of clients that were sent it */
} sky__region;

struct sky__block {
    sky__block *next;           /* in its bucket */
    sky__block *before, *after; /* in its region */
    sky__region *region;
    sky_key key;
    uint32_t shape[3];
    uint32_t layer_axis;
    uint32_t buffers; /* in all */
    uint32_t filled;  /* those of parts that came */
    uint64_t bytes;   /* of the payload */
    bool withdrawn;
    uint32_t leases;
    sky_shm_row rows[];
};

struct sky__published {
    sky_hash_key hash_key;
    sky_leases *leases; /* of blocks; owner: the client's number */
    sky__region *regions;
    uint64_t count, buffers;
    sky__block *buckets[SKY__PUBLISHED_BUCKETS];
};

/* Errors: SKY_E_NOMEM */
sky_status sky__published_create(sky__published **out);
/* Its clients are gone. NULL is fine. */
void sky__published_destroy(sky__published *b);

sky__block **sky__block_bucket(sky__published *b, const sky_key *key);
/* One that is not withdrawn, or of this owner (0: of any). Withdrawn ones are found of an owner
 * alone, after all others. */
sky__block *sky__block_find(sky__published *b, const sky_key *key, uint64_t owner);
/* Take a block out of the tables, and free it. */
void sky__block_drop(sky__tenant *t, sky__block *k);
sky__region *sky__region_find(const sky__published *b, uint32_t number, uint64_t owner);
/* One of its users is gone; with the last the region is. */
void sky__region_leave(sky__region *r);

#endif
