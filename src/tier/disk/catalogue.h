/* What a disk tier knows of its folder without reading it: one fact an entry, in an array beside a
 * block index that gives order of use, pins, and what hangs below what.
 *
 *   index (keys → numbers, LRU, tree)      facts[number]  { key, parent, size, times, hits, … }
 *
 * Entries come in any order. A child that comes before its parent waits in a bucket of `orphans`,
 * hashed by the parent it lacks, and is hung below it when that comes.
 *
 * Caveats: a copy of the truth, never the truth: other processes change the folder too, so an entry
 * found here may be gone and one not found may be there. Not thread-safe. Facts stay put until the
 * next put, remove or rebuild. */
#ifndef SKY_TIER_DISK_CATALOGUE_H
#define SKY_TIER_DISK_CATALOGUE_H

#include "tier/disk/format.h"

typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t hits;
    int64_t set_ms;
    int64_t expire_ms; /* 0: never */
    int64_t used_ms;
    uint32_t payload_bytes;
    uint8_t level;
    uint8_t evict; /* SKY_EVICT_… */
    bool pinned;
    bool named;
    bool unrecorded; /* hits and used_ms are ahead of the file's access record */
    bool unreadable; /* when it was last verified */
    bool offered;    /* to farther tiers, since it was last used */

    /* The catalogue's own. */
    bool orphan; /* its parent is not there, and it waits for it */
    bool held;   /* it or something below it is pinned: not evicted */
    uint32_t next_orphan;
} sky_disk_fact;

sky_disk_fact sky_disk_fact_of(const sky_disk_header *header);
/* Size of the entry's file. */
uint64_t sky_disk_fact_bytes(const sky_disk_fact *fact);

typedef struct sky_disk_catalogue sky_disk_catalogue;

sky_status sky_disk_catalogue_create(uint32_t entries_max, sky_disk_catalogue **out);
/* Of SKY_EVICT_LAST there may be so many entries, with so many bytes by sky_disk_fact_bytes:
 * sky_index_last_max. */
void sky_disk_catalogue_last_max(sky_disk_catalogue *c, uint64_t bytes, uint32_t entries);
void sky_disk_catalogue_destroy(sky_disk_catalogue *c); /* NULL is fine */

/* Add or replace; it becomes the most recently used. One that is replaced keeps its pin.
 * Errors: SKY_E_FULL (remove the victim first) */
sky_status sky_disk_catalogue_put(sky_disk_catalogue *c, const sky_disk_fact *fact);
/* Forget all and take these, oldest use first whatever their order here. Returns how many there was
 * no room for, which are then the first of `facts`: the oldest that are neither pinned nor lead to
 * what is, and others only when there is no room for those. */
size_t sky_disk_catalogue_rebuild(sky_disk_catalogue *c, sky_disk_fact *facts, size_t fact_count);

sky_disk_fact *sky_disk_catalogue_find(sky_disk_catalogue *c, const sky_key *key); /* or NULL */
/* Entry number `number` or the next after it, which *number then names; NULL at the end. Start at
 * 0, go on at *number + 1. */
sky_disk_fact *sky_disk_catalogue_next(sky_disk_catalogue *c, uint32_t *number);
/* A parent is named and known. */
bool sky_disk_catalogue_reachable(sky_disk_catalogue *c, const sky_disk_fact *fact);

void sky_disk_catalogue_use(sky_disk_catalogue *c, sky_disk_fact *fact, int64_t now_ms);
void sky_disk_catalogue_pin(sky_disk_catalogue *c, sky_disk_fact *fact, bool pinned);

/* For the time of an eviction: no victim, by a pin of the index that the fact does not count. */
bool sky_disk_catalogue_keep(sky_disk_catalogue *c, sky_disk_fact *fact);
void sky_disk_catalogue_release(sky_disk_catalogue *c, sky_disk_fact *fact);

/* Remove an entry and all that hang below it; `removed` is told of each, deepest first, and must
 * not call the catalogue. Returns how many went. */
typedef void (*sky_disk_removed_fn)(void *context, const sky_disk_fact *fact);
size_t sky_disk_catalogue_remove(sky_disk_catalogue *c, sky_disk_fact *fact,
                                 sky_disk_removed_fn removed, void *context);
/* The same for all that wait for this parent. */
void sky_disk_catalogue_remove_orphans(sky_disk_catalogue *c, const sky_key *parent,
                                       sky_disk_removed_fn removed, void *context);
/* Least recently used leaf that is not pinned, or NULL. */
sky_disk_fact *sky_disk_catalogue_victim(sky_disk_catalogue *c);

/* The one that would go after `fact`; NULL: the first. Changes nothing. NULL at the end. */
sky_disk_fact *sky_disk_catalogue_victim_after(sky_disk_catalogue *c, const sky_disk_fact *fact);

/* All files that could be evicted, one after the other, while `kept` stays. */
typedef struct {
    uint64_t bytes;
    uint32_t files;
} sky_disk_amount;
sky_disk_amount sky_disk_catalogue_evictable(sky_disk_catalogue *c, const sky_key *kept);

uint32_t sky_disk_catalogue_count(const sky_disk_catalogue *c);
/* How many more it takes. */
uint32_t sky_disk_catalogue_room(const sky_disk_catalogue *c);
uint64_t sky_disk_catalogue_bytes(const sky_disk_catalogue *c); /* of all files */
/* Anything but a rebuild happened since the last one. */
bool sky_disk_catalogue_changed(const sky_disk_catalogue *c);

#endif
