/* The block index: which blocks exist, what leads to what, which was used longest ago.
 *
 *        (none)
 *        /    \
 *      k0      m0           a block hangs below the block before it;
 *     /  \                  removing k1 removes k2 with it, because no
 *    k1   j1                prompt can reach k2 any more
 *    |
 *    k2
 *
 * Because keys are chained, the radix tree over prompts is this tree over keys, and one hash lookup
 * is one step down. Invariants: a block whose parent is known is always older-or-equal in use than
 * it (a match touches from the deepest block up); the victim is always a leaf. Uses of a block, and
 * so of all its ancestors: insert, match, touch, the unpin that frees it, having a block hung below
 * it, and losing a pinned one.
 *
 * Eviction: which block goes next is decided here alone, by sky_index_victim and the use rings of
 * index.c, one for each class (SKY_EVICT_SOON and the others). Memory, disk and sky evict what it
 * names. A block is of no lower class than the blocks below it: it takes theirs where that is
 * higher, as they are of no use without it.
 *
 * Caveats: not thread-safe, the owner locks. It keeps the first 16 of a key's 32 bytes: the holder
 * of the payload compares all 32 before use. At most 64 bytes a block, all taken at creation. */
#ifndef SKY_INDEX_INDEX_H
#define SKY_INDEX_INDEX_H

#include <skymem/types.h>

typedef struct sky_index sky_index;

/* Blocks are numbered 0 … blocks_max-1; a number is free again after its block's removal, so owners
 * may keep arrays of their own by number. */
#define SKY_BLOCK_NONE       UINT32_MAX
#define SKY_INDEX_BLOCKS_MAX 500000000u
#define SKY_INDEX_CHUNKS_MAX 16777215u

/* What the index keeps of a block. */
typedef struct {
    uint32_t payload_bytes; /* memory and disks: the room that it takes */
    uint32_t chunk_count;   /* at most SKY_INDEX_CHUNKS_MAX */
    int64_t set_ms;         /* when it was set: wall milliseconds, 48 bits */
    uint16_t centre_plane;  /* the satellite overhead when it was set, from 1; 0: not in a sky */
    uint16_t centre_slot;
    sky_coding coding;
    uint8_t evict; /* its class: SKY_EVICT_NORMAL and the others */
} sky_block_info;

/* Errors: SKY_E_PARAM (0 or more than SKY_INDEX_BLOCKS_MAX), SKY_E_NOMEM */
sky_status sky_index_create(uint32_t blocks_max, sky_index **out);
void sky_index_destroy(sky_index *index);

/* What the places of keys in the table depend on, before the first block; without a call it is the
 * same in all processes. */
void sky_index_set_secret(sky_index *index, const uint64_t secret[2]);
/* A number for tables of other keys, which depends on the secret too. */
uint32_t sky_index_hash(const sky_index *index, const sky_key *key);

/* So many blocks may be of SKY_EVICT_LAST, with so many payload_bytes in all; without a call, any
 * number. When there is more, those used longest ago become SKY_EVICT_NORMAL, as if they were used
 * then; pinned ones and what leads to them stay, and count. */
void sky_index_last_max(sky_index *index, uint64_t bytes, uint32_t blocks);

/* Add a block, or overwrite the facts of one that is there. It becomes the most recently used. The
 * class of one with blocks below it is only raised.
 * `parent` NULL, zero or unknown: the block stands alone until sky_index_adopt.
 * Errors: SKY_E_FULL (evict first), SKY_E_PARAM (a field of info out of range) */
sky_status sky_index_insert(sky_index *index, const sky_key *key, const sky_key *parent,
                            const sky_block_info *info, uint32_t *block);

/* Hang a block that stands alone below its parent (a scan finds children before parents).
 * Errors: SKY_MISS when either is absent, SKY_E_PARAM when it would close a circle */
sky_status sky_index_adopt(sky_index *index, const sky_key *key, const sky_key *parent);

/* One key; SKY_BLOCK_NONE when absent. Does not count as a use. */
uint32_t sky_index_find(const sky_index *index, const sky_key *key);

/* Longest prefix: how many of keys[0], keys[1], … are present before the first absent one.
 * Shape:  blocks [key_count] or NULL, filled up to the returned count
 * All matched blocks count as used, the deepest first, so that an ancestor outlives its
 * descendants.
 * Source: SkyMemory "Local Radix Block Index" */
size_t sky_index_match(sky_index *index, const sky_key *keys, size_t key_count, uint32_t *blocks);

/* What is kept of a block; `block` is in use. */
void sky_index_info(const sky_index *index, uint32_t block, sky_block_info *out);
/* Count a block, and so its ancestors, as used now. */
void sky_index_touch(sky_index *index, uint32_t block);

/* Pins are counted, up to 255, so that several owners in one process may each hold a block; a
 * pinned block and its ancestors are never the victim. (SKY_OP_PIN of a cache is one of them: there
 * a key is pinned or not.)
 * Errors: SKY_E_FULL at 255, SKY_E_PARAM when unpinning what is not pinned */
sky_status sky_index_pin(sky_index *index, uint32_t block);
sky_status sky_index_unpin(sky_index *index, uint32_t block);
bool sky_index_pinned(const sky_index *index, uint32_t block);

/* Of the lowest class that has one, the least recently used block that is a leaf and not pinned;
 * SKY_BLOCK_NONE when none is. Pinned
 * blocks met on the way are set aside, so that the next search does not meet them again. */
uint32_t sky_index_victim(sky_index *index);
/* The same of one class, by the rank in which classes go. */
#define SKY_INDEX_RANKS 3u
uint32_t sky_index_victim_of(sky_index *index, uint32_t rank);
/* What sky_index_victim would return after `block` went, if nothing is used until then;
 * SKY_BLOCK_NONE as `block`: its next result. Changes nothing. Ancestors of pinned blocks may be
 * among them. SKY_BLOCK_NONE at the end. */
uint32_t sky_index_victim_after(const sky_index *index, uint32_t block);

/* Remove a block and every block below it, pinned or not: deepest first. `removed` (may be NULL) is
 * told of each before its number becomes free; it must not call the index.
 * Returns how many went. */
typedef void (*sky_index_removed)(void *context, uint32_t block, const sky_block_info *info);
size_t sky_index_remove(sky_index *index, uint32_t block, sky_index_removed removed, void *context);

/* How many blocks are in use. */
uint32_t sky_index_count(const sky_index *index);
/* Bytes of memory the index holds, and the most blocks it can. */
size_t sky_index_bytes(const sky_index *index);
uint32_t sky_index_capacity(const sky_index *index);
/* Next block in use at or after `block`, SKY_BLOCK_NONE at the end:
 *     for (b = next(index, 0); b != SKY_BLOCK_NONE; b = next(index, b + 1)) */
uint32_t sky_index_next(const sky_index *index, uint32_t block);
/* Parent block, or SKY_BLOCK_NONE. */
uint32_t sky_index_parent(const sky_index *index, uint32_t block);

#endif
