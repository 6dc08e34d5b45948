/* What is in the memory tier: entries, their extents, their order, and who may touch what.
 *
 *   index ──► block number ──► entries[block] ──► extent ──► region  | payload | name NUL |
 *   (keys, LRU, pins, tree)    (32-byte key, …)   refs[extent]
 *
 * Ownership: an extent is free when nobody refers to it. The entry that shows it is one reference,
 * and each copy under way and each lease is one more. So removing or replacing an entry never takes
 * bytes from under a reader: the last one to let go frees them. Eviction passes over entries with
 * readers, as freeing those would make no room.
 *
 * Concurrency: the bytes of payloads are written before their entry is published and never after,
 * so that copies need no lock, only a reference. For all else there are the mutex and the stripes
 * (stripes.h):
 *
 *   holds                    may
 *   a stripe                 look keys and entries up; copy what is small; hold an extent
 *   the mutex                the same; change the order of use, leases, counters, free extents
 *   the mutex, all stripes   change keys and entries
 *
 * So gets by several threads do not meet, but when a stripe has collected uses and tells them to
 * the index.
 *
 * Surprise: blocks arrive in any order when farther tiers answer. A child that comes before its
 * parent waits in `orphans`, hashed by the parent it lacks, and is adopted when that comes. */
#ifndef SKY_TIER_MEM_MEMORY_H
#define SKY_TIER_MEM_MEMORY_H

#include <stdatomic.h>

#include "index/index.h"

#include "base/arena.h"
#include "io/sync.h"
#include "tier/leases.h"
#include "tier/mem/segments.h"
#include "tier/mem/stripes.h"
#include "tier/shared_index.h"
#include "tier/tier.h"

#define SKY__MEMORY_GETS_AT_ONCE 32u /* under one lock of a stripe */
#define SKY__MEMORY_RESERVES_MAX 256u

typedef struct {
    sky_key key;
    sky_key parent;
    uint64_t checksum;
    uint64_t hits;
    int64_t expires_ms; /* wall; 0: never */
    uint32_t extent;
    uint32_t payload_bytes;
    uint32_t orphan_before; /* in the bucket of `parent`: block + 1, 0: none */
    uint32_t orphan_after;
    uint16_t name_bytes;
    uint8_t evict; /* its class, as it was put */
    bool named;
    bool orphan;
} sky__memory_entry;

/* Room for what is put later: reserves.h. It has one reference to its extent. */
typedef struct {
    uint32_t extent;
    bool filled, claimed; /* claimed: an entry shows it, or will */
    uint64_t room;        /* 0: free */
    uint64_t payload_bytes;
    uint64_t checksum;
} sky__memory_reserve;

typedef struct {
    sky_tier tier;
    sky_tier_env env;
    sky_mutex mutex;
    sky__stripes stripes;

    uint8_t *region;
    uint64_t region_bytes;
    bool shared;           /* the region is made of `segments` */
    sky_segments segments; /* with the mutex held */
    uint32_t unit_bytes;
    uint32_t units;
    sky_arena *arena;
    _Atomic uint32_t *refs; /* [extents] */
    _Atomic uint64_t holds; /* references besides those of entries */

    sky_shared_index *shown; /* what other processes find; NULL: nothing */
    uint64_t *stamps;        /* [extents] of the block that was shown in each; 0: none */
    uint32_t *kept_after;    /* [extents] in the list of `kept`: extent + 1, 0: none */
    uint32_t kept;           /* extents that nothing refers to, and that other processes keep */
    uint32_t kept_count;
    uint64_t shown_uses; /* so far */

    sky_index *index;
    sky__memory_entry *entries; /* [blocks] */
    uint32_t *orphans; /* [buckets], by hash of the missing parent: first block + 1, 0: none */
    uint32_t orphan_mask;

    sky_leases *leases; /* of extents */

    sky__memory_reserve reserves[SKY__MEMORY_RESERVES_MAX]; /* with the mutex held */
    uint64_t reserved_bytes;

    sky_tier_stat stat;
    sky_tier_counts counts; /* but for what is filled in when asked */
    uint64_t late;          /* answers past their deadline, of no batch; nothing guards it */
} sky__memory;

/* NULL: it is of another kind. */
sky__memory *sky__memory_of(sky_tier *tier);
/* Is the item's payload a reserve that is filled? The extent, its checksum and one more reference
 * to it are then in *new. Without locks. */
bool sky__memory_claim(sky__memory *m, const sky_item *item, sky__memory_entry *new);

/* The mutex and all stripes, to change entries: what was used before is settled. */
void sky__memory_lock(sky__memory *m);
void sky__memory_unlock(sky__memory *m);
/* The calling thread's stripe, with room for so many uses, at most SKY__MEMORY_GETS_AT_ONCE. */
sky__stripe *sky__memory_lock_stripe(sky__memory *m, uint32_t use_count);
/* Tell the index what was used under this stripe. With it and the mutex held. */
void sky__memory_settle(sky__memory *m, sky__stripe *s);

/* The block of a key; SKY_BLOCK_NONE when it is absent or, which *late then tells, past its time.
 * With any lock. */
uint32_t sky__memory_find(const sky__memory *m, const sky_key *key, bool *late);
bool sky__memory_expired(const sky__memory *m, const sky__memory_entry *e);
/* What was found to be past its time goes. Without locks. */
void sky__memory_drop_expired(sky__memory *m, const sky_key *key);
/* Take out a block and all that it makes reachable; how many went. With all locks. */
size_t sky__memory_take_out(sky__memory *m, uint32_t block);
/* The same for all that wait for this parent. */
void sky__memory_take_out_orphans(sky__memory *m, const sky_key *parent);

/* Units of the region that so many bytes take: one at least. */
uint64_t sky__memory_units(const sky__memory *m, uint64_t bytes);
/* An extent of so many bytes with one reference; SKY_EXTENT_NONE when no eviction makes room. With
 * all locks. */
uint32_t sky__memory_make_room(sky__memory *m, uint64_t bytes);
/* Show a finished entry; it takes over the reference to its extent. With all locks.
 * Errors: SKY_E_FULL */
sky_status sky__memory_publish(sky__memory *m, const sky__memory_entry *new, sky_coding coding);

/* ---- shown.c: what other processes find and keep (tier/shared_index.h) ---- */

/* Errors: SKY_E_NOMEM, SKY_E_UNSUPPORTED */
sky_status sky__memory_show_init(sky__memory *m, uint32_t blocks, uint32_t extents);
void sky__memory_show_deinit(sky__memory *m);
/* Show an entry that may be shown; show it no longer, before its extent is let go; it is pinned now
 * or not, or what leads to it may have its class. With all locks. */
void sky__memory_show(sky__memory *m, uint32_t block);
void sky__memory_hide(sky__memory *m, uint32_t block);
void sky__memory_show_changes(sky__memory *m, uint32_t block);
/* The segments of an extent may have been made, or be gone. With the mutex held. */
void sky__memory_show_segments(sky__memory *m, uint64_t start, uint64_t bytes);
/* What other processes used counts as used. True: there is more. With the mutex held. */
bool sky__memory_take_uses(sky__memory *m);
/* True: other processes keep an extent to which nothing refers here; it is freed later. With the
 * mutex held. */
bool sky__memory_keep(sky__memory *m, uint32_t extent);

/* Bytes and name of what is held. */
static inline uint8_t *sky__memory_bytes(const sky__memory *m, uint32_t extent) {
    return m->region + (uint64_t)sky_arena_start(m->arena, extent) * m->unit_bytes;
}
const char *sky__memory_name(const sky__memory *m, const sky__memory_entry *e);
/* One reference more, with the mutex or a stripe held; one less, without locks. */
void sky__memory_hold(sky__memory *m, uint32_t extent);
void sky__memory_unhold(sky__memory *m, uint32_t extent);
/* One less, with the mutex held. */
void sky__memory_let_go(sky__memory *m, uint32_t extent);
/* Give back what other processes kept and let go. With the mutex held. */
void sky__memory_sweep(sky__memory *m);

#endif
