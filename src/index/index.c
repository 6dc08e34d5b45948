/* The block index: a hash table for lookup, a tree for removal, a list for eviction, over one slab.
 *
 *   slots[1.2 n]          hot[n + 3], 32 B           cold[n], 27 B
 *   ┌─────────┐           ┌──────────────────┐       ┌──────────────────┐
 *   │tag│b + 1│──────────►│ key (16 of 32 B) │       │ siblings (a ring)│
 *   ├─────────┤  linear   │ newer, older     │       │ payload, chunks  │
 *   │    0    │  probing  │ parent, child    │       │ set, centre …    │
 *   └─────────┘           └──────────────────┘       └──────────────────┘
 *     4.8 B a block         + ends of the rings        32 + 27 + 4.8 < 64 B a block
 *
 * Surprises:
 *  - There is a ring of use for each class, soon, normal and last; the lowest that is not empty
 *    has the victim.
 *  - A use of a block is a use of all its ancestors, and these are of no lower class. So in a ring
 *    a parent always stands before its children, and the victim is found at the far end without
 *    looking at the tree.
 *  - A use would cost its depth. `run` makes the common order cheap: it is the deepest block of a
 *    root-to-block path that fills the near ends of the rings, and a child of it is placed right
 *    behind it in one step. So inserting or touching a prompt from its first block on costs O(1) a
 *    block.
 *  - Pinned blocks and ancestors of only pinned ones drift to the far end. The victim search takes
 *    them out of the ring ("parked": a ring of itself) the first time it meets them; unpinning is a
 *    use and brings them back with their ancestors. So each is met once a pin, however many there
 *    are. A parked block is pinned, or has a parked child. One whose children are in the ring of a
 *    lower class is passed over where that class is left out (sky_index_victim_of): if it were
 *    parked, nothing would bring it back when they have gone.
 *  - Removing a pinned block is a use of its parent, for the same reason.
 *  - A key's place in the table depends on a secret: a user who chooses keys cannot make them meet
 *    in one place, where each lookup would pass over all others. One thread may look up for many
 *    (host/host.h). */
#include "index/index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE_BYTES 64
#define PINS_MAX         255u
#define SET_MS_MAX       (((int64_t)1 << 48) - 1)
#define CODING_MAX       15u

enum { SOON, NORMAL, LAST, RINGS }; /* ranks: which leaves first */

typedef struct {
    uint64_t key[2];
    uint32_t newer; /* the use ring; newer == older == itself: parked */
    uint32_t older; /* also links the free blocks */
    uint32_t parent;
    uint32_t child; /* one of its children, which form a ring through `cold` */
} hot_block;

typedef struct __attribute__((packed)) {
    uint32_t sibling_next;
    uint32_t sibling_prev;
    uint32_t payload_bytes;
    uint32_t chunk_count : 24;
    uint32_t pins : 8;
    uint16_t centre_plane;
    uint16_t centre_slot;
    uint16_t set_ms[3]; /* 48 bits, low part first */
    uint8_t coding : 4;
    uint8_t in_use : 1;
    uint8_t rank : 2;
} cold_block;

_Static_assert(sizeof(hot_block) == 32 && sizeof(cold_block) == 27, "64 bytes a block hold");

struct sky_index {
    hot_block *hot; /* [blocks_max + RINGS] */
    cold_block *cold;
    uint32_t *slots; /* 0: empty; else tag above, block + 1 in the low `block_bits` */
    uint32_t blocks_max;
    uint32_t slot_count;
    uint32_t block_bits;
    uint32_t count;
    uint32_t fresh; /* blocks from here on were never used */
    uint32_t free;  /* freed blocks, linked by `older` */
    uint32_t run;   /* the near ends of the rings are the path from a root to here; or none */
    uint64_t last_bytes, last_bytes_max; /* payload of blocks of rank LAST */
    uint32_t last_count, last_count_max; /* of them */
    uint64_t secret[2];
    void *slab;
    size_t slab_bytes;
};

/* --- the hash table --- */

static void key_words(const sky_key *key, uint64_t words[2]) {
    memcpy(words, key->bytes, 16);
}

/* Both halves of a product of 128 bits. */
static uint64_t hash_of(const sky_index *index, const uint64_t key[2]) {
    const uint64_t *secret = index->secret;
    unsigned __int128 h = (unsigned __int128)(key[0] ^ secret[0]) * (key[1] ^ secret[1]);
    return (uint64_t)h ^ (uint64_t)(h >> 64);
}

/* High half: position. Low half: tag. */
static uint32_t home_slot(const sky_index *index, uint64_t hash) {
    return (uint32_t)((hash >> 32) * index->slot_count >> 32);
}

static uint32_t slot_after(const sky_index *index, uint32_t slot) {
    return slot + 1 == index->slot_count ? 0 : slot + 1;
}

static uint32_t slot_block(const sky_index *index, uint32_t slot) {
    return (index->slots[slot] & ((1u << index->block_bits) - 1)) - 1;
}

static bool tag_matches(const sky_index *index, uint32_t slot, uint64_t hash) {
    return (index->slots[slot] ^ (uint32_t)hash << index->block_bits) >> index->block_bits == 0;
}

/* The slot that holds the key, or the empty one that ends its probe. */
static uint32_t table_probe(const sky_index *index, const uint64_t key[2], uint64_t hash) {
    uint32_t slot = home_slot(index, hash);
    for (; index->slots[slot]; slot = slot_after(index, slot)) {
        if (!tag_matches(index, slot, hash))
            continue;
        const hot_block *h = &index->hot[slot_block(index, slot)];
        if (h->key[0] == key[0] && h->key[1] == key[1])
            break;
    }
    return slot;
}

static uint32_t find_words(const sky_index *index, const uint64_t key[2], uint64_t hash) {
    uint32_t slot = table_probe(index, key, hash);
    return index->slots[slot] ? slot_block(index, slot) : SKY_BLOCK_NONE;
}

uint32_t sky_index_find(const sky_index *index, const sky_key *key) {
    uint64_t words[2];
    key_words(key, words);
    return find_words(index, words, hash_of(index, words));
}

void sky_index_set_secret(sky_index *index, const uint64_t secret[2]) {
    assert(index->count == 0);
    memcpy(index->secret, secret, sizeof index->secret);
}

uint32_t sky_index_hash(const sky_index *index, const sky_key *key) {
    uint64_t words[2];
    key_words(key, words);
    return (uint32_t)hash_of(index, words);
}

static uint32_t table_steps(const sky_index *index, uint32_t from, uint32_t to) {
    return to >= from ? to - from : to + index->slot_count - from;
}

/* Linear probing without tombstones: entries behind the hole move up unless that would take them
 * before their home. */
static void slot_clear(sky_index *index, uint32_t block) {
    const uint64_t *key = index->hot[block].key;
    uint32_t hole = table_probe(index, key, hash_of(index, key));
    for (uint32_t s = slot_after(index, hole); index->slots[s]; s = slot_after(index, s)) {
        uint32_t home = home_slot(index, hash_of(index, index->hot[slot_block(index, s)].key));
        if (table_steps(index, home, s) < table_steps(index, hole, s))
            continue;
        index->slots[hole] = index->slots[s];
        hole = s;
    }
    index->slots[hole] = 0;
}

/* --- the use rings: an end, hot[blocks_max + rank], stands between newest and oldest --- */

static uint32_t end_of(const sky_index *index, uint32_t block) {
    return index->blocks_max + index->cold[block].rank;
}

static void ring_unlink(sky_index *index, uint32_t block) {
    hot_block *h = &index->hot[block];
    index->hot[h->newer].older = h->older;
    index->hot[h->older].newer = h->newer;
    h->newer = h->older = block;
}

static void ring_link_behind(sky_index *index, uint32_t newer, uint32_t block) {
    hot_block *h = &index->hot[block];
    h->newer = newer;
    h->older = index->hot[newer].older;
    index->hot[h->older].newer = block;
    index->hot[newer].older = block;
}

static bool is_parked(const sky_index *index, uint32_t block) {
    return index->hot[block].newer == block;
}

static void make_newest(sky_index *index, uint32_t block) {
    ring_unlink(index, block);
    ring_link_behind(index, end_of(index, block), block);
}

/* The block, then each ancestor, becomes the newest. */
static void block_use(sky_index *index, uint32_t block) {
    uint32_t parent = index->hot[block].parent;
    if (block == index->run && !is_parked(index, block))
        return;
    if (parent != SKY_BLOCK_NONE && parent == index->run && !is_parked(index, parent)) {
        bool same = end_of(index, parent) == end_of(index, block);
        ring_unlink(index, block);
        ring_link_behind(index, same ? parent : end_of(index, block), block);
    } else {
        for (uint32_t b = block; b != SKY_BLOCK_NONE; b = index->hot[b].parent)
            make_newest(index, b);
    }
    index->run = block;
}

/* --- the tree --- */

static void tree_attach(sky_index *index, uint32_t block, uint32_t parent) {
    cold_block *c = &index->cold[block];
    uint32_t first = index->hot[parent].child;
    index->hot[block].parent = parent;
    if (index->run == block) /* its path is longer now */
        index->run = SKY_BLOCK_NONE;
    if (first == SKY_BLOCK_NONE) {
        c->sibling_next = c->sibling_prev = block;
        index->hot[parent].child = block;
        return;
    }
    c->sibling_next = first;
    c->sibling_prev = index->cold[first].sibling_prev;
    index->cold[c->sibling_prev].sibling_next = block;
    index->cold[first].sibling_prev = block;
}

static void tree_detach(sky_index *index, uint32_t block) {
    const cold_block *c = &index->cold[block];
    uint32_t parent = index->hot[block].parent;
    if (parent == SKY_BLOCK_NONE)
        return;
    if (index->hot[parent].child == block)
        index->hot[parent].child = c->sibling_next == block ? SKY_BLOCK_NONE : c->sibling_next;
    index->cold[c->sibling_prev].sibling_next = c->sibling_next;
    index->cold[c->sibling_next].sibling_prev = c->sibling_prev;
}

static bool is_above(const sky_index *index, uint32_t ancestor, uint32_t block) {
    if (index->hot[ancestor].child == SKY_BLOCK_NONE)
        return ancestor == block;
    while (block != SKY_BLOCK_NONE && block != ancestor)
        block = index->hot[block].parent;
    return block == ancestor;
}

/* --- ranks --- */

/* A block comes or goes, and its payload: counted if it is of rank LAST. */
static void count_last(sky_index *index, uint32_t block, bool comes) {
    const cold_block *c = &index->cold[block];
    if (c->rank != LAST)
        return;
    index->last_bytes += comes ? c->payload_bytes : -(uint64_t)c->payload_bytes;
    index->last_count += comes ? 1 : UINT32_MAX;
}

/* It is in no ring then, until it is used. */
static void set_rank(sky_index *index, uint32_t block, uint8_t rank) {
    if (index->cold[block].rank == rank)
        return;
    ring_unlink(index, block);
    index->run = SKY_BLOCK_NONE; /* the next use goes all the way up */
    count_last(index, block, false);
    index->cold[block].rank = rank & 3u;
    count_last(index, block, true);
}

/* A block hangs below others now: they rank no lower. It is used next, or its parent is. */
static void raise_ancestors(sky_index *index, uint32_t block) {
    uint8_t rank = index->cold[block].rank;
    for (uint32_t b = index->hot[block].parent; b != SKY_BLOCK_NONE && index->cold[b].rank < rank;
         b = index->hot[b].parent)
        set_rank(index, b, rank);
}

static bool is_last(const sky_index *index, uint32_t block) {
    return index->cold[block].rank == LAST;
}

static bool has_child(const sky_index *index, uint32_t block,
                      bool (*like)(const sky_index *index, uint32_t child)) {
    uint32_t first = index->hot[block].child, b = first;
    if (first == SKY_BLOCK_NONE)
        return false;
    do {
        if (like(index, b))
            return true;
        b = index->cold[b].sibling_next;
    } while (b != first);
    return false;
}

static bool is_last_too_much(const sky_index *index) {
    return index->last_bytes > index->last_bytes_max || index->last_count > index->last_count_max;
}

/* While there are too many LAST blocks, or bytes of them, the oldest become NORMAL. */
static void trim_last(sky_index *index) {
    const uint32_t end = index->blocks_max + LAST;
    while (is_last_too_much(index) && index->hot[end].newer != end) {
        uint32_t oldest = index->hot[end].newer;
        bool stays = index->cold[oldest].pins > 0 || has_child(index, oldest, is_last);
        if (stays) {
            ring_unlink(index, oldest); /* parked */
            continue;
        }
        set_rank(index, oldest, NORMAL);
        make_newest(index, oldest);
    }
}

void sky_index_last_max(sky_index *index, uint64_t bytes, uint32_t blocks) {
    index->last_bytes_max = bytes;
    index->last_count_max = blocks;
    trim_last(index);
}

static const uint8_t rank_of[] = {
    [SKY_EVICT_NORMAL] = NORMAL, [SKY_EVICT_SOON] = SOON, [SKY_EVICT_LAST] = LAST};
static const uint8_t class_of[] = {
    [SOON] = SKY_EVICT_SOON, [NORMAL] = SKY_EVICT_NORMAL, [LAST] = SKY_EVICT_LAST};

/* --- life and death --- */

sky_status sky_index_create(uint32_t blocks_max, sky_index **out) {
    if (blocks_max == 0 || blocks_max > SKY_INDEX_BLOCKS_MAX)
        return SKY_E_PARAM;
    size_t n = blocks_max, slot_count = n + n / 5 + 8;
    size_t hot_bytes = (n + RINGS) * sizeof(hot_block), slot_bytes = slot_count * sizeof(uint32_t);
    size_t slab_bytes = CACHE_LINE_BYTES + hot_bytes + slot_bytes + n * sizeof(cold_block);
    sky_index *index = calloc(1, sizeof *index);
    void *slab = calloc(1, slab_bytes); /* zeroed pages cost nothing until they are used */
    if (!index || !slab) {
        free(index);
        free(slab);
        return SKY_E_NOMEM;
    }
    size_t skew = (uintptr_t)slab % CACHE_LINE_BYTES;
    uint8_t *at = (uint8_t *)slab + (skew ? CACHE_LINE_BYTES - skew : 0);
    *index = (sky_index){
        .hot = (hot_block *)(void *)at,
        .slots = (uint32_t *)(void *)(at + hot_bytes),
        .cold = (cold_block *)(void *)(at + hot_bytes + slot_bytes),
        .blocks_max = blocks_max,
        .slot_count = (uint32_t)slot_count,
        .free = SKY_BLOCK_NONE,
        .run = SKY_BLOCK_NONE,
        .last_bytes_max = UINT64_MAX,
        .last_count_max = UINT32_MAX,
        .secret = {0x9e3779b97f4a7c15u, 0xd6e8feb86659fd93u},
        .slab = slab,
        .slab_bytes = slab_bytes,
    };
    while (blocks_max >> index->block_bits)
        index->block_bits++;
    for (uint32_t end = index->blocks_max; end < index->blocks_max + RINGS; end++)
        index->hot[end].newer = index->hot[end].older = end;
    *out = index;
    return SKY_OK;
}

void sky_index_destroy(sky_index *index) {
    if (!index)
        return;
    free(index->slab);
    free(index);
}

static bool info_fits(const sky_block_info *info) {
    return info->chunk_count <= SKY_INDEX_CHUNKS_MAX && info->coding <= CODING_MAX &&
           info->set_ms >= 0 && info->set_ms <= SET_MS_MAX && info->evict <= SKY_EVICT_LAST;
}

static void info_store(cold_block *c, const sky_block_info *info) {
    c->payload_bytes = info->payload_bytes;
    c->chunk_count = info->chunk_count & SKY_INDEX_CHUNKS_MAX;
    c->centre_plane = info->centre_plane;
    c->centre_slot = info->centre_slot;
    c->coding = info->coding & CODING_MAX;
    for (int i = 0; i < 3; i++)
        c->set_ms[i] = (uint16_t)(info->set_ms >> 16 * i);
}

/* A free block under the key, in no ring and below no parent. */
static uint32_t block_take(sky_index *index, const uint64_t key[2], uint64_t hash, uint8_t rank) {
    uint32_t block = index->free;
    if (block != SKY_BLOCK_NONE)
        index->free = index->hot[block].older;
    else
        block = index->fresh++;
    index->hot[block] = (hot_block){.key = {key[0], key[1]},
                                    .newer = block,
                                    .older = block,
                                    .parent = SKY_BLOCK_NONE,
                                    .child = SKY_BLOCK_NONE};
    index->cold[block] = (cold_block){.in_use = 1, .rank = rank & 3u};
    index->slots[table_probe(index, key, hash)] = (uint32_t)hash << index->block_bits | (block + 1);
    index->count++;
    count_last(index, block, true);
    return block;
}

static uint32_t find_parent(const sky_index *index, const sky_key *parent) {
    static const sky_key none;
    if (!parent || memcmp(parent->bytes, none.bytes, SKY_KEY_BYTES) == 0)
        return SKY_BLOCK_NONE;
    return sky_index_find(index, parent);
}

sky_status sky_index_insert(sky_index *index, const sky_key *key, const sky_key *parent,
                            const sky_block_info *info, uint32_t *block) {
    uint64_t words[2];
    key_words(key, words);
    uint64_t hash = hash_of(index, words);
    uint32_t b = find_words(index, words, hash);
    if (!info_fits(info))
        return SKY_E_PARAM;
    if (b == SKY_BLOCK_NONE && index->count == index->blocks_max)
        return SKY_E_FULL;
    uint32_t above = find_parent(index, parent);
    const uint8_t rank = rank_of[info->evict];
    if (b == SKY_BLOCK_NONE)
        b = block_take(index, words, hash, rank);
    if (index->hot[b].parent == SKY_BLOCK_NONE && above != SKY_BLOCK_NONE &&
        !is_above(index, b, above))
        tree_attach(index, b, above);
    count_last(index, b, false);
    info_store(&index->cold[b], info);
    count_last(index, b, true);
    if (rank > index->cold[b].rank || index->hot[b].child == SKY_BLOCK_NONE)
        set_rank(index, b, rank);
    raise_ancestors(index, b);
    block_use(index, b);
    trim_last(index);
    if (block)
        *block = b;
    return SKY_OK;
}

sky_status sky_index_adopt(sky_index *index, const sky_key *key, const sky_key *parent) {
    uint32_t block = sky_index_find(index, key), above = sky_index_find(index, parent);
    if (block == SKY_BLOCK_NONE || above == SKY_BLOCK_NONE)
        return SKY_MISS;
    if (index->hot[block].parent != SKY_BLOCK_NONE)
        return index->hot[block].parent == above ? SKY_OK : SKY_E_PARAM;
    if (is_above(index, block, above))
        return SKY_E_PARAM;
    tree_attach(index, block, above);
    raise_ancestors(index, block);
    block_use(index, above);
    trim_last(index);
    return SKY_OK;
}

/* Free a block without children. */
static void block_free(sky_index *index, uint32_t block) {
    slot_clear(index, block);
    count_last(index, block, false);
    ring_unlink(index, block);
    tree_detach(index, block);
    if (index->run == block)
        index->run = SKY_BLOCK_NONE;
    index->cold[block].in_use = 0;
    index->hot[block].older = index->free;
    index->free = block;
    index->count--;
}

/* A number that no block has now: what a caller may get wrong. */
static bool is_block(const sky_index *index, uint32_t block) {
    return block < index->blocks_max && index->cold[block].in_use;
}

size_t sky_index_remove(sky_index *index, uint32_t block, sky_index_removed removed,
                        void *context) {
    if (!is_block(index, block))
        return 0;
    uint32_t above = index->hot[block].parent, b = SKY_BLOCK_NONE;
    size_t gone = 0;
    bool any_pinned = false;
    for (uint32_t next = block; b != block; gone++) {
        b = next;
        while (index->hot[b].child != SKY_BLOCK_NONE)
            b = index->hot[b].child;
        next = index->hot[b].parent;
        sky_block_info info;
        sky_index_info(index, b, &info);
        any_pinned |= index->cold[b].pins > 0;
        if (removed)
            removed(context, b, &info);
        block_free(index, b);
    }
    if (any_pinned && above != SKY_BLOCK_NONE)
        block_use(index, above);
    return gone;
}

/* --- looking and using --- */

/* Where keys wait while their cache lines are on the way: far enough ahead to hide a miss. */
#define WINDOW 16

typedef struct {
    uint64_t key[2];
    uint64_t hash;
} lookup;

/* Ask for the slots of up to WINDOW keys, then for the blocks their tags point at. */
static void fetch_ahead(const sky_index *index, const sky_key *keys, size_t key_count, lookup *l) {
    for (size_t i = 0; i < key_count; i++) {
        key_words(&keys[i], l[i].key);
        l[i].hash = hash_of(index, l[i].key);
        __builtin_prefetch(&index->slots[home_slot(index, l[i].hash)]);
    }
    for (size_t i = 0; i < key_count; i++) {
        uint32_t slot = home_slot(index, l[i].hash);
        while (index->slots[slot] && !tag_matches(index, slot, l[i].hash))
            slot = slot_after(index, slot);
        if (index->slots[slot])
            __builtin_prefetch(&index->hot[slot_block(index, slot)], 1);
    }
}

/* All blocks from the deepest up, and the ancestors of each that are not its predecessor. The path
 * to the deepest is the near end of the ring unless the keys were no chain. */
static void use_matched(sky_index *index, const sky_key *keys, const uint32_t *blocks,
                        size_t count) {
    uint32_t above = SKY_BLOCK_NONE;
    for (size_t i = count; i-- > 0;) {
        uint32_t block = blocks ? blocks[i] : sky_index_find(index, &keys[i]);
        for (; above != SKY_BLOCK_NONE && above != block; above = index->hot[above].parent)
            make_newest(index, above);
        if (i + 1 == count)
            index->run = block;
        else if (above != block)
            index->run = SKY_BLOCK_NONE;
        make_newest(index, block);
        above = index->hot[block].parent;
    }
    for (; above != SKY_BLOCK_NONE; above = index->hot[above].parent)
        make_newest(index, above);
}

size_t sky_index_match(sky_index *index, const sky_key *keys, size_t key_count, uint32_t *blocks) {
    lookup window[WINDOW];
    size_t count = 0;
    for (; count < key_count; count++) {
        size_t at = count % WINDOW;
        if (at == 0) {
            size_t left = key_count - count;
            fetch_ahead(index, keys + count, left < WINDOW ? left : WINDOW, window);
        }
        uint32_t block = find_words(index, window[at].key, window[at].hash);
        if (block == SKY_BLOCK_NONE)
            break;
        __builtin_prefetch(&index->hot[index->hot[block].newer], 1);
        __builtin_prefetch(&index->hot[index->hot[block].older], 1);
        if (blocks)
            blocks[count] = block;
    }
    use_matched(index, keys, blocks, count);
    return count;
}

void sky_index_touch(sky_index *index, uint32_t block) {
    if (!is_block(index, block))
        return;
    block_use(index, block);
}

void sky_index_info(const sky_index *index, uint32_t block, sky_block_info *out) {
    if (!is_block(index, block))
        return;
    const cold_block *c = &index->cold[block];
    *out = (sky_block_info){.payload_bytes = c->payload_bytes,
                            .chunk_count = c->chunk_count,
                            .centre_plane = c->centre_plane,
                            .centre_slot = c->centre_slot,
                            .coding = c->coding,
                            .evict = class_of[c->rank]};
    for (int i = 0; i < 3; i++)
        out->set_ms |= (int64_t)c->set_ms[i] << 16 * i;
}

sky_status sky_index_pin(sky_index *index, uint32_t block) {
    if (!is_block(index, block))
        return SKY_E_PARAM;
    if (index->cold[block].pins == PINS_MAX)
        return SKY_E_FULL;
    index->cold[block].pins++;
    return SKY_OK;
}

sky_status sky_index_unpin(sky_index *index, uint32_t block) {
    if (!is_block(index, block))
        return SKY_E_PARAM;
    if (index->cold[block].pins == 0)
        return SKY_E_PARAM;
    if (--index->cold[block].pins == 0)
        block_use(index, block);
    return SKY_OK;
}

bool sky_index_pinned(const sky_index *index, uint32_t block) {
    if (!is_block(index, block))
        return false;
    return index->cold[block].pins > 0;
}

static_assert(RINGS == SKY_INDEX_RANKS, "a ring for each rank");

uint32_t sky_index_victim_of(sky_index *index, uint32_t rank) {
    const uint32_t end = index->blocks_max + rank;
    uint32_t newer;
    for (uint32_t b = index->hot[end].newer; b != end; b = newer) {
        newer = index->hot[b].newer;
        if (index->cold[b].pins > 0 || has_child(index, b, is_parked))
            ring_unlink(index, b); /* parked */
        else if (index->hot[b].child == SKY_BLOCK_NONE)
            return b;
    }
    return SKY_BLOCK_NONE;
}

uint32_t sky_index_victim(sky_index *index) {
    uint32_t victim = SKY_BLOCK_NONE;
    for (uint32_t rank = 0; rank < RINGS && victim == SKY_BLOCK_NONE; rank++)
        victim = sky_index_victim_of(index, rank);
    return victim;
}

uint32_t sky_index_victim_after(const sky_index *index, uint32_t block) {
    uint32_t end = block == SKY_BLOCK_NONE ? index->blocks_max : end_of(index, block);
    uint32_t next = index->hot[block == SKY_BLOCK_NONE ? end : block].newer;
    for (;; next = index->hot[end].newer) {
        while (next != end && index->cold[next].pins > 0)
            next = index->hot[next].newer;
        if (next != end)
            return next;
        if (++end == index->blocks_max + RINGS)
            return SKY_BLOCK_NONE;
    }
}

uint32_t sky_index_count(const sky_index *index) {
    return index->count;
}

size_t sky_index_bytes(const sky_index *index) {
    return sizeof *index + index->slab_bytes;
}

uint32_t sky_index_capacity(const sky_index *index) {
    return index->blocks_max;
}

uint32_t sky_index_next(const sky_index *index, uint32_t block) {
    for (; block < index->fresh; block++)
        if (index->cold[block].in_use)
            return block;
    return SKY_BLOCK_NONE;
}

uint32_t sky_index_parent(const sky_index *index, uint32_t block) {
    if (!is_block(index, block))
        return SKY_BLOCK_NONE;
    return index->hot[block].parent;
}
