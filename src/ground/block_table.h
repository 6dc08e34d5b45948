/* The block table: a row for each block of the index, with what is known of it, and the room that
 * all of them take in the sky.
 *
 *     put, head found ──► enter ──► row ──► remove, lost ──► DROP or PURGE (bulk.h)
 *                                    │
 *        key, set time, centre ──────┴──► counted in every place that holds its chunks
 *
 * A place turns with the sky: its plane and its slot, unwrapped, modulo the window's sides. What is
 * in one place now stays together for ever, so chunks are counted by place and no satellite is ever
 * asked how full it is. Where nothing turns a place is a server, or, where blocks wait anywhere, a
 * satellite.
 *
 * Surprise: a block that waits for a time to come is counted where it will be then; the satellites
 * it waits on hold nothing else of ours. Heads are counted in every place, for they visit all. */
#ifndef SKY_GROUND_BLOCK_TABLE_H
#define SKY_GROUND_BLOCK_TABLE_H

#include "ground/bulk.h"
#include "ground/habit.h"

/* Servers that a put went without, because they did not answer. */
#define SKY__SKIPPED_MAX 4
typedef struct {
    uint32_t servers[SKY__SKIPPED_MAX];
    uint32_t count;
} sky__skipped;

typedef struct {
    sky_key key;
    uint64_t version;
    uint64_t head_version; /* 0: no head in the sky */
    uint64_t hits;
    int64_t expires_ms; /* INT64_MAX: never */
    sky__epoch before;  /* of a block that was moved */
    uint16_t moves;     /* how often it was, modulo 65,536 */
    bool pinned;        /* by a PIN: once in the index, besides puts under way below it */
    sky_key parent;     /* zero: none */
    bool moving;        /* counted in both epochs */
    bool scattered;     /* not all chunks may have come to this epoch from the one before */
    sky__skipped skipped;
    sky_habit habit;  /* where placement foresees */
    sky_time checked; /* its parity, last; 0: never */
    bool named;       /* a name, whose value may be replaced: its head is asked for at each read */
    bool adopted;     /* known from its head; we, or others, may have dropped some of it before */
    uint32_t heads_lost; /* bits of its head's copies that were not where they should be */
    bool unverified;     /* found in the sky and not yet read: nothing is dropped on its account */
    bool being_put;      /* found while our put of it is under way: its chunks are that put's */
    bool orphan;         /* its parent is not there yet: in the list of such */
    uint32_t orphan_before, orphan_after;
} sky__block_row;

typedef struct sky__block_table {
    sky__core *core;
    sky__bulk *bulk;
    sky_index *index;
    sky__block_row *rows; /* by the index's number of the block */
    uint32_t orphans;     /* first of a list of blocks; of a batch, children may arrive first */
    uint32_t *loads;      /* chunks by place, puts under way included */
    uint32_t heads;    /* all lie on one satellite, and that changes: they count in every place */
    uint32_t *rows_of; /* by server: its row and column in the window */
    uint32_t *columns_of;  /* … */
    uint64_t head_version; /* the newest that was given or seen */
    sky_habit habit;       /* of all blocks */
} sky__block_table;

/* Errors: SKY_E_NOMEM; deinit in any case. */
sky_status sky__blocks_init(sky__block_table *t, sky__core *core, sky__bulk *bulk);
void sky__blocks_deinit(sky__block_table *t);
uint32_t sky__places_count(const sky_frame *f);
uint64_t sky__blocks_bytes_max(const sky__block_table *t);

/* The block under a key, all 32 bytes of it, or SKY_BLOCK_NONE; blocks past their time go. */
uint32_t sky__blocks_find(sky__block_table *t, int64_t wall_ms, const sky_key *key);
/* Facts, version and former epoch of a block. */
sky__subject sky__blocks_subject(const sky__block_table *t, uint32_t block);
/* Enter a block that is whole in the sky; what the key named before is dropped. */
sky_status sky__blocks_enter(sky__block_table *t, const sky_block_info *info,
                             const sky__block_row *made, uint32_t *block);
/* Out of the index, with all below it, and out of the sky. Returns how many went. */
size_t sky__blocks_remove(sky__block_table *t, uint32_t block);
/* The same, but that the block itself is the caller's to drop. */
void sky__blocks_forget(sky__block_table *t, uint32_t block);
/* The same of one that lost a chunk: out of the sky as the eviction policy says. */
size_t sky__blocks_lose(sky__block_table *t, uint32_t block);
/* Set the copies of a block's head again that were found missing, once; not answered. */
void sky__blocks_mend_heads(sky__block_table *t, uint32_t block);
/* Only one that may hold a chunk may say that it gave it up; else a liar could have us drop what
 * others keep. What is not in the index is nobody's loss. */
bool sky__blocks_may_give_up(const sky__block_table *t, sky_satellite by, const sky_chunk_id *id);
/* Versions of heads grow with time, so that of two grounds' the newer wins. Two may be alike: then
 * one of the heads is kept, whole, and with it its block. */
uint64_t sky__blocks_head_version(sky__block_table *t, int64_t set_ms);
/* For the head of the same block in another place: next to the one it replaces, so that what
 * another ground puts meanwhile, at a later time, is newer. */
uint64_t sky__blocks_head_moved(sky__block_table *t, uint64_t head_version);

/* Count a block's chunks, or no longer, in the places of its epoch; and a head. */
void sky__blocks_load(sky__block_table *t, const sky_block_info *info, bool add);
void sky__blocks_load_head(sky__block_table *t, bool add);
/* Would an empty sky hold it? */
bool sky__blocks_holdable(const sky__block_table *t, const sky_block_info *info);
/* Evict until it fits. False: what is left is pinned. */
bool sky__blocks_make_room(sky__block_table *t, const sky_block_info *info, bool new_block);

#endif
